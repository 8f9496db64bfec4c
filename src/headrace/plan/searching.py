"""The cheapest order of all, for joins of few sides: what the heuristics of ``ordering`` are checked by.

A step costs the same in whatever order the sides before it were joined (``costs``). So orders of one set of sides
differ only in what was paid so far, and of each set only the two cheapest can become the two cheapest of all:

    {b}    {b,a}   {b,a,c}            2^n sets instead of n! orders
       \\  {b,c} /        \\
           {b,d}   ...     {a,b,c,d}

The same holds for a global order with new tuples in the outermost loop: the step to side j after the sides P is made
once for each origin i other than j, with P and i bound.

Owns: one search, and what a step costs in each of the paper's algorithms. Cost: n 2^n steps; seconds at n = 15.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from headrace.plan.costs import CostGraph, Order, StreamFacts, step_cost

StepPrice: TypeAlias = Callable[[Order, int], float]
"""What it costs to go on to a side after those bound, in whatever order these are."""
Plans: TypeAlias = list[tuple[float, Order]]


@dataclass(frozen=True, slots=True)
class Found:
    """The cheapest order of a search, the next one (none: infinite cost), and for how many a cost was worked out."""

    order: Order
    cost: float
    runner_up: Order | None
    runner_up_cost: float
    tried: int


def exact_order(graph: CostGraph, origin: int) -> Found:
    """The cheapest order for new tuples of one side, by any predicates."""
    return two_cheapest(len(graph.facts.sizes), (origin,), graph.step_cost)


def exact_global(streams: Sequence[StreamFacts], tau: float = 0.0) -> Found:
    """The cheapest global order for new tuples in the outermost loop (``costs.multiway_cost``)."""

    def price(bound: Order, side: int) -> float:
        others = (origin for origin in range(len(streams)) if origin != side)
        return sum(step_cost(streams, one, tuple({*bound, one}), side, tau) for one in others)

    return two_cheapest(len(streams), (), price)


def exact_naive(streams: Sequence[StreamFacts], tau: float = 0.0) -> Found:
    """The cheapest order for new tuples of all streams alike (``costs.naive_cost``)."""

    def price(bound: Order, side: int) -> float:
        return sum(step_cost(streams, one, bound, side, tau) for one in range(len(streams))) if bound else 0.0

    return two_cheapest(len(streams), (), price)


def exact_general(streams: Sequence[StreamFacts], origin: int, tau: float = 0.0) -> Found:
    """The cheapest order for new tuples of one stream, with it at any place (``costs.origin_cost``)."""

    def price(bound: Order, side: int) -> float:
        return step_cost(streams, origin, bound, side, tau) if bound else 0.0

    return two_cheapest(len(streams), (), price)


def two_cheapest(sides: int, start: Order, price: StepPrice) -> Found:
    """The two cheapest orders that begin with ``start``. ``tried`` counts steps."""
    layer: dict[frozenset[int], Plans] = {frozenset(start): [(0.0, start)]}
    tried = 0
    for _ in range(len(start), sides):
        longer: dict[frozenset[int], Plans] = {}
        for bound, plans in layer.items():
            for side in set(range(sides)) - bound:
                paid = price(plans[0][1], side)
                tried += 1
                longer.setdefault(bound | {side}, []).extend((cost + paid, (*order, side)) for cost, order in plans)
        layer = {bound: sorted(plans)[:2] for bound, plans in longer.items()}
    ((cost, order), *others) = layer[frozenset(range(sides))]
    next_cost, runner_up = others[0] if others else (inf, None)
    return Found(order, cost, runner_up, next_cost, tried)
