"""Who gets how many probes: the allocators of paper 001, by name.

    jda        one join: the more productive half-way join first                                     section 3
    jda_m      the same within each join, each with an equal part of mu                               section 3
    exact      whole numbers of whole paths, the most results of all: a knapsack                      problem 1
    grepp      the most productive path first, in fractions: optimal for rates                        section 4.2
    gh_wmscp   only what keeps the states in between fresh, for as little as a greedy cover finds     section 4.3
    jaqpot     gh_wmscp, then grepp with what is left (the default)                                   section 4.4
    pruned     everything, without the probes that cost the most for their results                    ``pruning``

With states by window nothing has to be refreshed, and what fills states is worth more than paths can tell: there jaqpot
does as pruned does. The others take states to be full, as the paper does.

Owns the allocators and ``ALLOCATORS``. An allocator only chooses: who probes what is the operator's business. What
needs more than ``mu`` is never given; a cover that would need more is given as far as it goes, and the states that are
left out are named.
Cost: for k sides jda, jda_m k; grepp k log k; the cover, jaqpot and pruned k^2. The knapsack takes as many steps as
there are units in ``mu`` (at most MOST_UNITS), for each path: for checks and small plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor
from typing import Protocol

from headrace.errors import PlanError, setting_parts
from headrace.plan.allocating import NEARLY, Allocation, AllocationProblem, Retention, allowances_of
from headrace.plan.covering import Cover, cover_states
from headrace.plan.knapsack import fill_whole, step_unit, whole_unit
from headrace.plan.pruning import pruned
from headrace.plan.trees import HalfWayJoin

MOST_UNITS = 1024
"""Units that the knapsack divides a service rate into: larger ones, and any where a stream is slower than a tuple a
second."""


class Allocator(Protocol):
    """Probe allowances for a problem."""

    @property
    def name(self) -> str: ...

    def allocate(self, problem: AllocationProblem) -> Allocation: ...


class Jda:
    """Half-way join productivity within a single join (section 3)."""

    name = "jda"

    def allocate(self, problem: AllocationProblem) -> Allocation:
        if len(problem.tree.joins) > 1:
            raise PlanError(
                f"allocator jda is for a single join, and this plan has {len(problem.tree.joins)}",
                "use jda_m or jaqpot",
                setting_parts("allocator"),
            )
        return Allocation(self.name, problem, by_join(problem))


class JdaM:
    """An equal part of mu for each join, and JDA in each, whatever the others do (section 3)."""

    name = "jda_m"

    def allocate(self, problem: AllocationProblem) -> Allocation:
        return Allocation(self.name, problem, by_join(problem))


class Exact:
    """Whole paths a whole number of times, by dynamic programming (section 4.2, the discrete model)."""

    name = "exact"

    def allocate(self, problem: AllocationProblem) -> Allocation:
        return Allocation(self.name, problem, allowances_of(problem, whole_paths(problem)))


class GrePP:
    """The most productive path first (section 4.2). Optimal for the continuous problem, a knapsack that can be filled
    with parts. Paths that make nothing come last, but they come: what is known of them may be wrong."""

    name = "grepp"

    def allocate(self, problem: AllocationProblem) -> Allocation:
        given = most_productive(problem, problem.mu, [0.0] * len(problem.paths))
        return Allocation(self.name, problem, allowances_of(problem, given))


class GhWmscp:
    """Only the refresh rates (section 4.3)."""

    name = "gh_wmscp"

    def allocate(self, problem: AllocationProblem) -> Allocation:
        cover = cover_states(problem)
        return _with_cover(self.name, problem, cover, cover.given)


class Jaqpot:
    """Algorithm 1: the refresh rates first, then the most productive paths with what is left. By window nothing goes
    stale, but states run empty: there those probes are left out that do the least, in whatever way."""

    name = "jaqpot"

    def allocate(self, problem: AllocationProblem) -> Allocation:
        if problem.retention is Retention.WINDOW:
            return Allocation(self.name, problem, pruned(problem))
        cover = cover_states(problem)
        given = most_productive(problem, problem.mu - cover.spent, cover.given)
        return _with_cover(self.name, problem, cover, given)


class Pruned:
    """From everything downward, with states as full as what is probed makes them (not in the paper)."""

    name = "pruned"

    def allocate(self, problem: AllocationProblem) -> Allocation:
        return Allocation(self.name, problem, pruned(problem))


DEFAULT_ALLOCATOR = Jaqpot.name
ALLOCATORS: Mapping[str, type[Allocator]] = {
    one.name: one for one in (Jda, JdaM, Exact, GrePP, GhWmscp, Jaqpot, Pruned)
}


def allocate(problem: AllocationProblem, name: str = DEFAULT_ALLOCATOR) -> Allocation:
    """The allocation of an allocator by its name."""
    if name not in ALLOCATORS:
        raise PlanError(f"there is no allocator '{name}': use {', '.join(ALLOCATORS)}")
    return ALLOCATORS[name]().allocate(problem)


def by_join(problem: AllocationProblem) -> tuple[float, ...]:
    """An equal part of mu for each join; in it the more productive half-way join first, up to what it is offered."""
    part = problem.mu / len(problem.tree.joins)
    made: dict[tuple[int, ...], float] = {}
    allowed = [0.0] * len(problem.probes)
    for join in problem.tree.joins:
        left = part
        for half in sorted(join.halves, key=lambda one: -_worth(problem, one)):
            number = problem.number_of[half]
            facts = problem.probes[number]
            coming = problem.loads[half.own[0]].rate if len(half.own) == 1 else made[half.own]
            allowed[number] = max(0.0, min(coming, left / facts.cost))
            left -= allowed[number] * facts.cost
            made[half.result] = made.get(half.result, 0.0) + allowed[number] * facts.productivity
    return tuple(allowed)


def _worth(problem: AllocationProblem, half: HalfWayJoin) -> float:
    facts = problem.probes[problem.number_of[half]]
    return facts.productivity / facts.cost


def most_productive(problem: AllocationProblem, mu: float, given: Sequence[float]) -> list[float]:
    """Tuples a second of each side that go up their paths: those that are given already, and more on the most
    productive paths for ``mu``."""
    more = list(given)
    for path in sorted(problem.paths, key=lambda one: (-one.productivity, one.side)):
        extra = max(0.0, min(problem.loads[path.side].rate - more[path.side], mu / path.cost))
        more[path.side] += extra
        mu -= extra * path.cost
    return more


def whole_paths(problem: AllocationProblem) -> list[float]:
    """Tuples a second of each side that go up their paths, by dynamic programming: in parts of mu where no second has a
    whole tuple of a stream, and where mu is large."""
    rates = [load.rate for load in problem.loads]
    if problem.mu >= problem.saturation.spent:
        return rates
    if not problem.mu:
        return [0.0] * len(rates)
    pairs = list(zip(problem.paths, rates, strict=True))
    if problem.mu <= MOST_UNITS and not any(0 < rate < 1 for rate in rates):
        units, room = [whole_unit(path, rate, problem.mu) for path, rate in pairs], floor(problem.mu + NEARLY)
    else:
        units, room = [step_unit(path, rate, problem.mu / MOST_UNITS) for path, rate in pairs], MOST_UNITS
    times = fill_whole(units, room)
    return [count * unit.tuples for count, unit in zip(times, units, strict=True)]


def _with_cover(name: str, problem: AllocationProblem, cover: Cover, given: Sequence[float]) -> Allocation:
    return Allocation(name, problem, allowances_of(problem, given), cover.spent, cover.unfresh)
