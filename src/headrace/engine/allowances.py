"""What half-way joins of a tree may probe in a step, and what is left of it.

      a step's tuples      | block 1 |   block 2   |  ...      each block its part of a half-way join's allowance: by
      of a                    a a a        a                   the tuples that may come to it, those of its own streams
      of b                    b          b b b b b

What all together leave of the service rate (``plan/spare.py``) is taken by whoever is offered more than its part, for
the whole path: the half-way joins further up are allowed what that makes.

Owns :class:`Allowances`. Invariant: a step makes no more probes than it is allowed, the one before it left (CARRIED of
its own at most), and there is to spare. Cost: a few numbers a half-way join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.engine.spaces import Block
from headrace.plan.spare import Spare
from headrace.plan.trees import HalfWayJoin, JoinTree

CARRIED = 0.5
"""Of a step's allowance, what the next one may use of it."""


@dataclass(slots=True)
class Allowances:
    """The probes of a step, by half-way join (None: all), and what is left from one to the next: fractions, and of what
    was not used a part, because tuples do not come evenly."""

    tree: JoinTree
    probes: Mapping[HalfWayJoin, float] | None = None
    spare: Spare | None = None
    credit: dict[HalfWayJoin, float] = field(default_factory=dict)
    _coming: Sequence[int] = ()
    """By side, the tuples of the step, and of the block at hand."""
    _here: Sequence[int] = ()
    _blocks: int = 1

    def tell(self, probes: Sequence[float] | None, spare: Spare | None) -> None:
        """What a step is allowed (None: everything)."""
        self.probes = None if probes is None else dict(zip(self.tree.half_ways, probes, strict=True))
        self.spare = spare

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
        credit += self._spared(half, offered - int(credit + 1e-9))
        allowed = min(offered, int(credit + 1e-9))
        self.credit[half] = min(credit - allowed, max(1.0, CARRIED * given))
        return allowed

    def _spared(self, half: HalfWayJoin, missing: int) -> int:
        """Tuples more that go up from here, of what there is to spare."""
        if self.spare is None or missing <= 0:
            return 0
        halves = self.tree.half_ways
        at = halves.index(half)
        more = min(missing, int(self.spare.units / self.spare.upward[at]))
        self.spare = self.spare.less(more * self.spare.upward[at])
        made = float(more)
        for further in range(at + 1, len(halves)):
            if halves[further].own == halves[at].result:
                made *= self.spare.finds[at]
                self.credit[halves[further]] = self.credit.get(halves[further], 0.0) + made
                at = further
        return more

    def _part(self, half: HalfWayJoin) -> float:
        coming = sum(self._coming[side] for side in half.own)
        return sum(self._here[side] for side in half.own) / coming if coming else 1 / self._blocks


def _tuples(block: Block) -> list[int]:
    return [0 if new is None else new.segment.rows for new in block.inputs]
