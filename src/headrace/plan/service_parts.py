"""How joins that leave probes out share a service rate: max-min fair.

    service rate 300     need  30, 200, 500     parts  30, 135, 135     the first needs no more, others share the rest
                         need  30,  50, 500     parts  30,  50, 220
                         need  30,  50, 100     parts  30,  50, 100     120 are left: each may have them

A join is never given more than it needs for every probe; what it leaves goes in equal parts to those that need more.

Owns ``fair_parts``. Cost: quadratic in the joins, of which there are few.
"""

from __future__ import annotations

from collections.abc import Sequence


def fair_parts(total: float, needs: Sequence[float]) -> list[float]:
    """What each may have beside the others with their needs: of those that need more, their part; of the others, as
    much as they could have if they needed more. What all take, their need or this, is not more than the total.

    >>> fair_parts(300, [30, 200, 500]), fair_parts(300, [30, 50, 100])
    ([100.0, 135.0, 135.0], [150.0, 170.0, 220.0])
    """
    return [_beside(total, [*needs[:number], *needs[number + 1 :]]) for number in range(len(needs))]


def _beside(total: float, others: Sequence[float]) -> float:
    """What one may have that could use everything."""
    left, sharing = total, len(others) + 1
    for need in sorted(others):
        if need >= left / sharing:
            break
        left, sharing = left - need, sharing - 1
    return left / sharing
