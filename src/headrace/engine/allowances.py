"""What half-way joins of a tree may probe in a step, and what is left of it.

      a step's tuples      | block 1 |   block 2   |  ...      each block its part of a half-way join's allowance: by
      of a                    a a a        a                   the tuples that may come to it, those of its own streams
      of b                    b          b b b b b

Owns :class:`Allowances`. Invariant: a step makes no more probes than it is allowed and the one before it left, of which
there are CARRIED of a step's at most. Cost: a few numbers a half-way join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.engine.spaces import Block
from headrace.plan.trees import HalfWayJoin

CARRIED = 0.5
"""Of a step's allowance, what the next one may use of it."""


@dataclass(slots=True)
class Allowances:
    """The probes of a step, by half-way join (None: all), and what is left from one to the next: fractions, and of what
    was not used a part, because tuples do not come evenly."""

    probes: Mapping[HalfWayJoin, float] | None = None
    credit: dict[HalfWayJoin, float] = field(default_factory=dict)
    _coming: Sequence[int] = ()
    """By side, the tuples of the step, and of the block at hand."""
    _here: Sequence[int] = ()
    _blocks: int = 1

    def begin(self, blocks: Sequence[Block]) -> None:
        """The blocks that a step has."""
        self._coming = [sum(some) for some in zip(*map(_tuples, blocks), strict=True)]
        self._blocks = len(blocks)

    def next_block(self, block: Block) -> None:
        self._here = _tuples(block)

    def allowed(self, half: HalfWayJoin, offered: int) -> int:
        if self.probes is None:
            return offered
        given = self.probes.get(half, 0.0)
        credit = self.credit.get(half, 0.0) + given * self._part(half)
        allowed = min(offered, int(credit + 1e-9))
        self.credit[half] = min(credit - allowed, max(1.0, CARRIED * given))
        return allowed

    def _part(self, half: HalfWayJoin) -> float:
        coming = sum(self._coming[side] for side in half.own)
        return sum(self._here[side] for side in half.own) / coming if coming else 1 / self._blocks


def _tuples(block: Block) -> list[int]:
    return [0 if new is None else new.segment.rows for new in block.inputs]
