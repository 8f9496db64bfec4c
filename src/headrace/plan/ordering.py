"""Which order of loops to use: the heuristics of paper 002, section 5, and the order for each origin of a running join.

    ascending        S2 S3 S4 S1     smallest intermediate result first               (5.1)
    augmented        S2 S1 S3 S4     fast streams at every place, n^f orders           (5.1)
    improved         ...             any one side to any place, while it gets cheaper  (not in the paper)

The first two are the paper's; by its own cost model they miss the best order by more than a tenth on many parameters
(`python -m benchmarks.orders` counts how often). The third goes beyond it: what the paper does for fast streams, for
all of them: from the ascending and from the augmented order, (n - 1)^2 orders in a round, until no move makes the order
cheaper. Nothing here looks at all n! orders; ``searching`` does the like of it, and is what this is checked by.

Owns: a global order, or one for an origin, for streams on a common attribute; :func:`choose` for any graph of
predicates. All of it is deterministic: among equals the order that comes first as a tuple.
Cost: a few n^2 orders are worked out. ``choose`` searches up to EXACT_SIDES sides exactly, 2^n sets for each origin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf
from statistics import fmean
from typing import TypeAlias

from headrace.plan.costs import (
    CostGraph,
    JoinFacts,
    Order,
    StreamFacts,
    multiway_cost,
    naive_cost,
    origin_cost,
    phi,
)
from headrace.plan.searching import Found, exact_order

EXACT_SIDES = 7
"""Up to here ``choose`` looks at all orders: 64 sets for each of 7 origins."""
MOST_FAST = 2
"""How many streams are tried at all places together: n^2 orders. More would come near all n!."""

Price: TypeAlias = Callable[[Order], float]


@dataclass(frozen=True, slots=True)
class Choice:
    """The order for new tuples of one side, its cost in tuple accesses per unit of time, and the next best order.

    A join of two has no other order: no runner-up, at infinite cost."""

    origin: int
    order: Order
    cost: float
    runner_up: Order | None
    runner_up_cost: float


# The paper's heuristics, on a common attribute.


def ascending_order(streams: Sequence[StreamFacts]) -> Order:
    """5.1: the pair with the smallest join first, then always the window that keeps the intermediate result smallest.

    Within the first pair and among equals: the faster stream, then the one with more distinct values, then position.
    """
    ranked = by_speed(streams)
    order: Order = min(combinations(ranked, 2), key=lambda pair: phi(streams, pair), default=ranked)
    while len(order) < len(streams):
        longer = [(*order, side) for side in ranked if side not in order]
        order = min(longer, key=lambda sides: phi(streams, sides))
    return order


def by_speed(streams: Sequence[StreamFacts]) -> Order:
    """The fastest first; among equals the one with more distinct values."""
    return tuple(sorted(range(len(streams)), key=lambda side: (-streams[side].rate, -streams[side].distinct, side)))


def fast_streams(streams: Sequence[StreamFacts]) -> Order:
    """Streams faster than the average one, the fastest first, but no more than MOST_FAST."""
    average = fmean(one.rate for one in streams)
    return tuple(side for side in by_speed(streams) if streams[side].rate > average)[:MOST_FAST]


def with_moved(order: Order, sides: Sequence[int]) -> Iterator[Order]:
    """The order with each of these sides at each place: n^f orders, some of them twice."""
    if not sides:
        yield order
        return
    for moved in with_moved(order, sides[1:]):
        rest = tuple(one for one in moved if one != sides[0])
        yield from ((*rest[:at], sides[0], *rest[at:]) for at in range(len(order)))


def augmented_order(streams: Sequence[StreamFacts], price: Price) -> Found:
    """5.1: the ascending order, with fast streams moved to other places; the cheapest of n^f."""
    tried = _Tried(price)
    tried.cheapest(with_moved(ascending_order(streams), fast_streams(streams)))
    return tried.found()


def discounted(streams: Sequence[StreamFacts]) -> tuple[StreamFacts, ...]:
    """5.3: windows as small as the part that is scanned, one bucket."""
    return tuple(replace(one, window=one.window / one.buckets, buckets=1.0) for one in streams)


def indexed_last(streams: Sequence[StreamFacts], order: Order) -> Order:
    """5.4, hybrid: windows with an index innermost, where loops repeat the most; otherwise as they were."""
    return tuple(sorted(order, key=lambda side: streams[side].buckets > 1))


# Beyond the paper.


def global_order(streams: Sequence[StreamFacts], tau: float = 0.0) -> Found:
    """A good global order for new tuples in the outermost loop: eager, or lazy with ``tau``."""
    return _developed(_grown(streams, tau), lambda order: multiway_cost(streams, order, tau))


def naive_order(streams: Sequence[StreamFacts], tau: float = 0.0) -> Found:
    """A good order to use for new tuples of all streams alike."""
    return _developed(_grown(streams, tau), lambda order: naive_cost(streams, order, tau))


def general_order(streams: Sequence[StreamFacts], origin: int, tau: float) -> Found:
    """5.2: a good order for the new tuples of one stream, with it at any place. It is the same problem again, with
    what arrives in ``tau`` as the window of that stream."""
    windows = list(_grown(streams, tau))
    windows[origin] = replace(streams[origin], window=tau)
    return _developed(windows, lambda order: origin_cost(streams, origin, order, tau))


def _developed(streams: Sequence[StreamFacts], price: Price) -> Found:
    tried, fast = _Tried(price), fast_streams(streams)
    for start in _starts(streams):
        tried.improved(start)
        tried.improved(tried.cheapest(with_moved(start, fast)))
    return tried.found()


def _starts(streams: Sequence[StreamFacts]) -> list[Order]:
    """The paper's first orders; with indexes also those of 5.3 and 5.4."""
    plain = ascending_order(streams)
    if all(one.buckets == 1 for one in streams):
        return [plain]
    by_bucket = ascending_order(discounted(streams))
    return list(dict.fromkeys((plain, by_bucket, indexed_last(streams, by_bucket))))


def _grown(streams: Sequence[StreamFacts], tau: float) -> tuple[StreamFacts, ...]:
    return tuple(replace(one, window=one.window + tau) for one in streams)


class _Tried:
    """The orders whose cost was worked out, each once."""

    def __init__(self, price: Price) -> None:
        self._price = price
        self._costs: dict[Order, float] = {}

    def cheapest(self, orders: Iterable[Order]) -> Order:
        return min((self._cost(order), order) for order in orders)[1]

    def improved(self, start: Order, fixed: int = 0) -> Order:
        """Moves one side at a time to where it helps the most, while it helps; the first ``fixed`` sides stay."""
        head, order = start[:fixed], start
        while True:
            moves = (moved for side in order[fixed:] for moved in with_moved(order[fixed:], [side]))
            best = self.cheapest([order, *((*head, *moved) for moved in moves)])
            if not self._cost(best) < self._cost(order):
                return order
            order = best

    def found(self) -> Found:
        ranked = sorted((cost, order) for order, cost in self._costs.items())
        cost, order = ranked[0]
        next_cost, runner_up = ranked[1] if len(ranked) > 1 else (inf, None)
        return Found(order, cost, runner_up, next_cost, len(ranked))

    def _cost(self, order: Order) -> float:
        if order not in self._costs:
            self._costs[order] = self._price(order)
        return self._costs[order]


# Any graph of predicates.


def greedy_order(graph: CostGraph, origin: int) -> Order:
    """5.4, different attributes: the origin first, then always the most selective predicate the join graph allows:
    the fewest matches for a composite. A cross product only where no bound side has a predicate with any other."""
    return _greedy_from(graph, (origin,))


def _greedy_from(graph: CostGraph, order: Order) -> Order:
    while len(order) < len(graph.facts.sizes):
        order = (*order, _most_selective(graph, order))
    return order


def _most_selective(graph: CostGraph, bound: Order) -> int:
    rest = [side for side in graph.facts.sides if side not in bound]
    joined = [side for side in rest if any(graph.facts.joined(one, side) for one in bound)]
    return min(joined or rest, key=lambda side: (graph.composites((*bound, side)), graph.accessed(bound, side), side))


def heuristic_order(graph: CostGraph, origin: int) -> Found:
    """For joins of too many sides to search: the greedy order, and the greedy orders after each other first step (what
    is most selective now may lead nowhere good), all improved."""
    others = [side for side in graph.facts.sides if side != origin]
    steps: dict[tuple[int, int], float] = {}
    """By the sides that are bound, as bits, and the next one."""

    def step(bound: int, side: int) -> float:
        return graph.step_cost((origin, *(one for one in others if bound >> one & 1)), side)

    def price(order: Order) -> float:
        found, bound = [], 1 << origin
        for side in order[1:]:
            paid = steps.get((bound, side))
            if paid is None:
                paid = steps[bound, side] = step(bound, side)
            found.append(paid)
            bound |= 1 << side
        return sum(found)

    tried = _Tried(price)
    tried.improved(greedy_order(graph, origin), fixed=1)
    for second in others:
        tried.improved(_greedy_from(graph, (origin, second)), fixed=1)
    return tried.found()


def choose(facts: JoinFacts, exact_up_to: int = EXACT_SIDES) -> tuple[Choice, ...]:
    """The order for new tuples of each side: the cheapest of all up to so many sides, a good one above."""
    search = exact_order if len(facts.sizes) <= exact_up_to else heuristic_order
    graph = CostGraph(facts)
    return tuple(_as_choice(origin, search(graph, origin)) for origin in facts.sides)


def _as_choice(origin: int, found: Found) -> Choice:
    return Choice(origin, found.order, found.cost, found.runner_up, found.runner_up_cost)
