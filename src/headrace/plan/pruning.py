"""Which probes to leave out where states in between are as full as what is probed makes them.

    state of a b     #########.....................     a share of the tuples that it has with unlimited CPU, its
    *fill*: <- fill ->                         of a's and b's probes, those that were allowed
    c probes it      finds that share of its results

The paper's states keep a number of tuples, however old: starving a join makes them stale, not empty, and the most
productive path may take everything (GrePP). Where composites leave with their windows (``Retention.WINDOW``) the path
of c above is worth nothing once a and b are starved: results are a product of what different paths are given, and the
greedy choice from nothing upward is no good. From everything downward it is: all probes are made, and those are left
out first that cost the most for the results they lead to, by way of their own path and by way of the states they fill.

A half-way join that most results need is worth the more the less of it is left: of its share only PART is left out at a
time, so that it never goes as a whole and takes with it all that others were kept for.

Owns ``pruned``. With shares of what comes as variables, results and cost are linear in each one: a backward pass over
the tree tells both for all half-way joins at once. Cost: steps of STEP, each linear in the sides; quadratic together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.plan.allocating import NEARLY, AllocationProblem, allowed_shares
from headrace.plan.trees import Sides

STEP = 0.25
"""The share of a half-way join's tuples that is left out at a time."""
PART = 0.25
"""Of the share that is left, what is left out at a time where most results need it."""
MOST = 0.5
"""Of all results, those that need a half-way join which is left out in parts."""
LEAST_SHARE = 1e-4
"""What is left in the end may go at once."""


@dataclass(frozen=True, slots=True)
class Slopes:
    """By half-way join: how much results and cost a second would change with the share of its tuples that probe."""

    results: tuple[float, ...]
    cost: tuple[float, ...]
    spent: float
    throughput: float


def pruned(problem: AllocationProblem) -> tuple[float, ...]:
    """Probe allowances that the service rate is enough for."""
    shares = [1.0] * len(problem.probes)
    while (slopes := slopes_of(problem, shares)).spent > problem.mu * (1 + NEARLY):
        live = [number for number, share in enumerate(shares) if share and slopes.cost[number]]
        least = min(live, key=lambda number: (slopes.results[number] / slopes.cost[number], number))
        too_much = (slopes.spent - problem.mu) / slopes.cost[least]
        shares[least] = max(0.0, shares[least] - min(_step(slopes, least, shares[least]), too_much))
    return allowed_shares(problem, shares).probing


def _step(slopes: Slopes, number: int, share: float) -> float:
    is_needed = share * slopes.results[number] > MOST * slopes.throughput and share > LEAST_SHARE
    return min(STEP, PART * share) if is_needed else STEP


def slopes_of(problem: AllocationProblem, shares: Sequence[float]) -> Slopes:
    flows = allowed_shares(problem, shares)
    of_results: dict[Sides, float] = defaultdict(float, {tuple(problem.tree.sides): 1.0})
    of_cost: dict[Sides, float] = defaultdict(float)
    results, costs = [0.0] * len(shares), [0.0] * len(shares)
    for number in reversed(range(len(shares))):
        half, facts, coming = problem.tree.half_ways[number], problem.probes[number], flows.offered[number]
        fill = flows.fills[number]
        makes = facts.productivity * fill
        results[number] = coming * makes * of_results[half.result]
        costs[number] = coming * (facts.cost + makes * of_cost[half.result])
        of_results[half.own] += shares[number] * makes * of_results[half.result]
        of_cost[half.own] += shares[number] * (facts.cost + makes * of_cost[half.result])
        full = problem.full_of[half.partner]
        if len(half.partner) > 1 and full:
            filled = flows.probing[number] * facts.productivity / full
            of_results[half.partner] += filled * of_results[half.result]
            of_cost[half.partner] += filled * of_cost[half.result]
    return Slopes(tuple(results), tuple(costs), flows.spent, flows.throughput)
