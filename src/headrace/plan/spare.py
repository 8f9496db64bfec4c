"""What a service rate leaves when it is enough for every probe: for tuples that come all at once.

    service rate 5,000      a needs 1,000 a second        on the average, all is allowed
                            it comes as 0, 0, 0, 4,000    the last micro-batch has 4,000 probes to make, and may

Allowances are of mean rates. Where all of them together take less than there is, the rest belongs to no half-way join:
whoever is offered more than it is allowed takes of it, for whole paths (equation 6), so that what a tuple makes further
down is probed further up. Where probes are left out on the average, nothing is left over.

Owns :class:`Spare` and ``spare_of``. Cost: linear in the sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.plan.allocating import Allocation
from headrace.plan.trees import Sides


@dataclass(frozen=True, slots=True)
class Spare:
    """Units of cost that any half-way join may take, with what each takes for a tuple, from there to the root, and what
    it finds for it (in the order of ``JoinTree.half_ways``)."""

    units: float
    upward: tuple[float, ...]
    finds: tuple[float, ...]

    def less(self, units: float) -> Spare:
        return replace(self, units=max(0.0, self.units - units))

    def times(self, factor: float) -> Spare:
        return replace(self, units=factor * self.units)

    def to_json(self) -> list[Any]:
        return [self.units, self.upward, self.finds]

    @staticmethod
    def from_json(told: Sequence[Any]) -> Spare:
        units, upward, finds = told
        return Spare(units, tuple(upward), tuple(finds))


def spare_of(allocation: Allocation, mu: float) -> Spare | None:
    """What an allocation leaves in a second of a service rate; none where it leaves probes out."""
    problem = allocation.problem
    units = mu - allocation.flows.spent
    if not allocation.is_unlimited or units <= 0:
        return None
    further: dict[Sides, float] = {}
    upward = [0.0] * len(problem.probes)
    for number in reversed(range(len(upward))):
        half, facts = problem.tree.half_ways[number], problem.probes[number]
        upward[number] = facts.cost + facts.productivity * further.get(half.result, 0.0)
        further[half.own] = upward[number]
    return Spare(units, tuple(upward), tuple(one.productivity for one in problem.probes))
