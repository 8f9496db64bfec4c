"""What a tree's half-way joins did lately, all shards together: sums that fade with each micro-batch.

Owns :class:`TreeMeter`. Cost: a few numbers a half-way join and shard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.engine.tree_join import HalfTally
from headrace.plan.tree_plans import FIRST_PROBE_US
from headrace.spark.tree_told import TreeTold

FADING = 0.5
"""What of a sum is left after each micro-batch."""
TELLING_PROBES = 100.0
"""Probes that say something about what a probe finds and costs."""


@dataclass(slots=True)
class TreeMeter:
    """A tree's numbers over the last micro-batches, all shards together: sums that fade."""

    halves: list[HalfTally]
    seconds: float = 0.0
    loads: dict[int, list[float]] = field(default_factory=dict)
    """By shard, tuples offered to each half-way join."""
    other_us: float = 0.0
    """What the slowest shard took for all but probing, in a micro-batch."""
    held: tuple[int, ...] = ()

    def add(self, told: Mapping[int, TreeTold], period_s: float) -> None:
        self.seconds = FADING * self.seconds + period_s
        for number, half in enumerate(self.halves):
            for name in ("offered", "probed", "found", "spent_s"):
                came = sum(getattr(one.tallies[number], name) for one in told.values())
                setattr(half, name, FADING * getattr(half, name) + came)
        for shard, one in told.items():
            before = self.loads.get(shard, [0.0] * len(self.halves))
            self.loads[shard] = [FADING * old + new.offered for old, new in zip(before, one.tallies, strict=True)]
        others = [one.spent_us - 1e6 * sum(half.spent_s for half in one.tallies) for one in told.values()]
        self.other_us += 0.5 * (max(others, default=0.0) - self.other_us)
        self.held = tuple(map(sum, zip(*(one.held for one in told.values()), strict=True)))

    def rate(self, number: int) -> float:
        return self.halves[number].offered / self.seconds if self.seconds else 0.0

    def cost_us(self, number: int) -> float:
        """What a probe of a half-way join took; of one that made few, the mean of all."""
        one = self.halves[number]
        if one.probed >= TELLING_PROBES:
            return max(1e6 * one.spent_s / one.probed, 1e-3)
        probed, spent_s = sum(half.probed for half in self.halves), sum(half.spent_s for half in self.halves)
        return max(1e6 * spent_s / probed, 1e-3) if probed >= TELLING_PROBES else FIRST_PROBE_US

    def share(self, shard: int, number: int, shards: int) -> float:
        """A shard's part of what is offered to a half-way join; an even one before anything was."""
        total = sum(some[number] for some in self.loads.values())
        return self.loads[shard][number] / total if total and shard in self.loads else 1 / shards

    @property
    def largest_share(self) -> float:
        """Of all that is offered, the part of the shard that has the most."""
        loads = [sum(some) for some in self.loads.values()]
        return max(loads) / sum(loads) if loads and sum(loads) else 1 / max(len(loads), 1)
