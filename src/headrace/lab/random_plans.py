"""Plans for the experiments of paper 001: any tree, with the parameters of its figure 10.

      rates 300 to 1,200 tuples a second      states of 200 to 5,000 tuples, also those in between (by count)
      selectivities 0.01 to 0.1               freshness as a multiple of the window: 1.5 to 5

Owns ``random_tree``, ``random_problem`` and ``by_streams``, the paper's other way to count the service rate. The same
chance gives the same plan. *Odd* plans have what the paper's do not: streams of which nothing comes, probes that find
nothing, and half-way joins whose probes cost more than others'.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from math import inf

from headrace.plan.allocating import AllocationProblem, Retention, problem_of
from headrace.plan.trees import Fork, HalfWayJoin, JoinTree, Leaf, Node

RATES = (300.0, 1200.0)
SIZES = (200.0, 5000.0)
SELECTIVITIES = (0.01, 0.1)
FREE = 1e-9
"""What a probe costs that is to cost nothing."""


def random_tree(chance: random.Random, sides: int) -> JoinTree:
    """Two of the nodes that are left become one, until one is left."""
    nodes: list[Node] = [Leaf(side) for side in range(sides)]
    root = Fork(nodes[0], nodes[1])
    while len(nodes) > 1:
        left, right = (nodes.pop(chance.randrange(len(nodes))) for _ in range(2))
        root = Fork(left, right)
        nodes.append(root)
    return JoinTree(root)


def random_problem(
    chance: random.Random, tree: JoinTree, mu_share: float, freshness: float = inf, is_odd: bool = False
) -> AllocationProblem:
    """A plan with a share of its saturation as service rate. ``freshness``: as a multiple of each stream's window."""
    rates = [chance.uniform(*RATES) for _ in tree.sides]
    held = {state: chance.uniform(*SIZES) for state in tree.states}
    selectivities = [chance.uniform(*SELECTIVITIES) for _ in tree.half_ways]
    costs = [1.0] * len(tree.half_ways)
    if is_odd:
        rates = [0.0 if chance.random() < 0.15 else rate for rate in rates]
        selectivities = [0.0 if chance.random() < 0.1 else one / 100 for one in selectivities]
        costs = [chance.uniform(0.2, 5) for _ in costs]
    fresh = [freshness * held[(side,)] / rate if rate else inf for side, rate in enumerate(rates)]
    return _with_share(tree, mu_share, rates, held, fresh, selectivities, costs)


def _with_share(
    tree: JoinTree,
    mu_share: float,
    rates: Sequence[float],
    held: dict[tuple[int, ...], float],
    fresh: Sequence[float],
    selectivities: Sequence[float],
    costs: Sequence[float],
) -> AllocationProblem:
    number_of = {half: number for number, half in enumerate(tree.half_ways)}

    def selectivity(half: HalfWayJoin) -> float:
        return selectivities[number_of[half]]

    def cost(half: HalfWayJoin) -> float:
        return costs[number_of[half]]

    saturated = problem_of(tree, inf, rates, held, selectivity, fresh, cost, Retention.COUNT)
    return saturated.with_mu(mu_share * saturated.saturation.spent)


def by_streams(problem: AllocationProblem) -> AllocationProblem:
    """Equation 3 as printed: of all probes, only those by tuples of streams take anything. With all that they take."""
    probes = tuple(
        replace(one, cost=1.0 if len(half.own) == 1 else FREE)
        for one, half in zip(problem.probes, problem.tree.half_ways, strict=True)
    )
    free = replace(problem, probes=probes)
    return free.with_mu(free.saturation.spent)
