"""What a shard tells of its trees with each micro-batch: what half-way joins did, what states hold, how fresh it is.

Owns :class:`TreeTold`, in JSON a part of the shard's report, and ``tree_events``, which turns the orders of a
micro-batch into what the shard is told. Cost: a few numbers a half-way join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from headrace.engine.events import Event, ProbesAllowed, TimeTold
from headrace.engine.shard import Shard
from headrace.engine.tree_join import HalfTally
from headrace.plan.spare import Spare
from headrace.plan.trees import JoinTree, Sides


@dataclass(frozen=True, slots=True)
class TreeTold:
    """One shard's tree in one micro-batch: by half-way join what it did, by state what it holds. ``spent_us``: of all
    its work; ``stepped_us``: when its step began, by the clock."""

    tallies: tuple[HalfTally, ...]
    held: tuple[int, ...]
    purged: int
    spent_us: float
    stepped_us: int

    def to_json(self) -> list[Any]:
        halves = [list(astuple(one)) for one in self.tallies]
        return [halves, self.held, self.purged, self.spent_us, self.stepped_us]

    @staticmethod
    def from_json(told: Sequence[Any]) -> TreeTold:
        halves, held, *numbers = told
        return TreeTold(tuple(HalfTally(*one) for one in halves), tuple(held), *numbers)

    def held_of(self, tree: JoinTree) -> dict[Sides, int]:
        return dict(zip(tree.states, self.held, strict=True))


def trees_told(shard: Shard, stepped_us: int) -> dict[str, list[Any]]:
    """A shard's trees after the step that began at this time, by group."""
    found = {}
    for signature, one in shard.trees().items():
        held = one.state_rows()
        found[signature] = TreeTold(
            tuple(one.tallies[half] for half in one.tree.half_ways),
            tuple(held[state] for state in one.tree.states),
            one.lost,
            (one.spent_s if one.group.adapts else one.joined_s) * 1e6,
            stepped_us,
        ).to_json()
    return found


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the trees of a micro-batch may do: by group and shard, probes of each half-way join, and what there is to
    spare; and how long after a step its results are taken to be released."""

    probes: Mapping[str, Mapping[int, tuple[float, ...]]] = field(default_factory=dict)
    ahead_us: int = 0
    spare: Mapping[str, Mapping[int, Spare]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        probes = {group: {str(shard): some for shard, some in one.items()} for group, one in self.probes.items()}
        spare = {
            group: {str(shard): some.to_json() for shard, some in one.items()} for group, one in self.spare.items()
        }
        return {"probes": probes, "ahead_us": self.ahead_us, "spare": spare}

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Allowed:
        probes = {
            group: {int(shard): tuple(some) for shard, some in one.items()} for group, one in told["probes"].items()
        }
        spare = {
            group: {int(shard): Spare.from_json(some) for shard, some in one.items()}
            for group, one in told.get("spare", {}).items()
        }
        return Allowed(probes, told["ahead_us"], spare)


def tree_events(allowed: Allowed, groups: Mapping[str, int], shard: int, now_us: int) -> list[Event]:
    """What a shard is told of the time and of its probes. ``groups``: by those that adapt, how many half-way joins
    their trees have: an allowance for another tree, of a plan before this one, counts for nothing."""
    if not groups:
        return []
    found: list[Event] = [TimeTold(now_us + allowed.ahead_us)]
    for group, halves in groups.items():
        probes = allowed.probes.get(group, {}).get(shard)
        if probes is not None and len(probes) == halves:
            found.append(ProbesAllowed(group, probes, allowed.spare.get(group, {}).get(shard)))
    return found
