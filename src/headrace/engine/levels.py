"""The windows of a join as levels of a scan: which are done once a block has scanned so far back, and what that costs.

Owns ``is_done``, ``scan_levels`` and ``turn_cost``. Cost: a comparison a side, or an operation a window.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.engine.output import reach_of
from headrace.engine.policy import ScanLevel
from headrace.plan.canonical import Sizes
from headrace.plan.sharing import Member


def is_done(sizes: Sizes, done: Sizes | None) -> bool:
    """Whether a window is within what has been scanned (None: nothing)."""
    return done is not None and all(size <= reached for size, reached in zip(sizes, done, strict=True))


def scan_levels(windows: Sequence[Sizes], members: Sequence[Member]) -> list[ScanLevel]:
    """The windows as a policy sees them: how far has been scanned when each is done, and by how many it is wanted."""
    return [
        ScanLevel(sum(reach_of(windows[: number + 1])), sum(member.sizes == sizes for member in members))
        for number, sizes in enumerate(windows)
    ]


def turn_cost(levels: Sequence[ScanLevel], weight: int, done: int, upto: int) -> int:
    """In probes, what it costs to take so many tuples from one level to another: time goes with how far back is scanned
    (paper 000, section 3.3).

    >>> turn_cost([ScanLevel(10, 1), ScanLevel(40, 1)], weight=100, done=0, upto=1)
    50
    """
    ends = [0, *(level.size for level in levels)]
    return max(1, round(weight * len(levels) * (ends[upto] - ends[done]) / max(ends[-1], 1)))
