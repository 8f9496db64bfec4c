"""How old the tuples in results are, by allocation: the model behind figure 13 of paper 001.

      a result of a new d with S(a b c)      |---- since a b c was made ----|---- since its a was read ----|
                                             0 to size / rate of S(a b c)     by how a b c came to be

A state that keeps a number of tuples holds those that came in the last size / rate: one that is met by chance is as old
as any part of that, and its parts were as old as chance had it when it was made. A state that nothing comes to keeps
what it has for ever. A result is stale if a tuple of any stream in it is older than the stream's freshness.

Owns ``stale_share``: results drawn one by one. The same chance gives the same ages. Cost: samples x sides.
"""

from __future__ import annotations

import random
from math import inf

from headrace.plan.allocating import Allocation, AllocationProblem, Flows
from headrace.plan.trees import HalfWayJoin, Sides


def stale_share(found: Allocation, chance: random.Random, samples: int = 200) -> float:
    """The share of an allocation's results that violate a predicate; 0 where it makes none."""
    problem, flows = found.problem, found.flows
    root = tuple(problem.tree.sides)
    if not flows.throughput:
        return 0.0
    stale = sum(_is_stale(problem, _new_ages(problem, flows, root, chance)) for _ in range(samples))
    return stale / samples


def _is_stale(problem: AllocationProblem, ages_s: dict[int, float]) -> bool:
    return any(age_s > problem.loads[side].freshness_s * (1 + 1e-9) for side, age_s in ages_s.items())


def _new_ages(problem: AllocationProblem, flows: Flows, sides: Sides, chance: random.Random) -> dict[int, float]:
    """By side: how old the parts of a new tuple are, at the time it is made."""
    if len(sides) == 1:
        return {sides[0]: 0.0}
    half = _drawn(problem, flows, sides, chance)
    mine = _new_ages(problem, flows, half.own, chance)
    return mine | _kept_ages(problem, flows, half.partner, chance)


def _kept_ages(problem: AllocationProblem, flows: Flows, state: Sides, chance: random.Random) -> dict[int, float]:
    """By side: how old the parts of a tuple are that is met in a state."""
    coming = next(flows.offered[number] for half, number in problem.number_of.items() if half.own == state)
    if not coming:
        return dict.fromkeys(state, inf)
    since_s = chance.uniform(0, problem.held_of[state] / coming)
    return {side: age_s + since_s for side, age_s in _new_ages(problem, flows, state, chance).items()}


def _drawn(problem: AllocationProblem, flows: Flows, sides: Sides, chance: random.Random) -> HalfWayJoin:
    """The half-way join that made a tuple, by how many each makes."""
    halves = next(join.halves for join in problem.tree.joins if join.sides == sides)
    numbers = [problem.number_of[half] for half in halves]
    made = [flows.probing[number] * problem.probes[number].productivity for number in numbers]
    return chance.choices(halves, made)[0] if sum(made) else halves[0]
