"""What an order of nested loops costs: paper 002's per-unit-time model, and one for any graph of predicates.

A new tuple of the *origin* stream meets the other windows one after the other, without keeping what comes in between:

    order b, c, a, new tuple in b       for the new tuple       scan c                     |c| accesses
                                          for each match in c     scan a       (b o c) x   |a| accesses

A step costs composites so far x tuples accessed for each; the first loop's own scan is not counted, as in the paper.

Owns: :class:`StreamFacts` with the paper's formulas (appendix A: C, L, G and H, for any number of streams and any
order), and :class:`JoinFacts` with :func:`order_cost`, for what a running join measures about any predicates.
Invariant: how many composites a set of sides makes does not depend on the order in which they were joined. That is what
lets ``ordering`` search sets of sides instead of orders.
Cost: an order of n sides takes O(n^2) in the paper's model, and O(n^3) for a graph of predicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import inf, isfinite, prod
from typing import TypeAlias

from headrace.errors import PlanError

Order: TypeAlias = tuple[int, ...]
"""Sides by position, the outermost loop first."""
Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """Table 1 of the paper: arrival rate, time size of the window, distinct values in it, hash buckets of its index
    (1: no index, the whole window is scanned). Any unit of time, but one for all streams."""

    rate: float
    window: float
    distinct: float
    buckets: float = 1.0

    def __post_init__(self) -> None:
        if not (_sensible(self.rate) and _sensible(self.window)):
            raise PlanError(f"a stream's rate and window are not negative: {self}")
        if self.distinct < 1 or self.buckets < 1:
            raise PlanError(f"a window has at least one distinct value and one bucket: {self}")

    @property
    def size(self) -> float:
        return self.rate * self.window


def phi(streams: Sequence[StreamFacts], sides: Iterable[int], tau: float = 0.0) -> float:
    """The size of the join of these windows on a common attribute; with ``tau``, of the windows grown by it (phi-hat).

    The paper multiplies by size / max(least distinct values so far, own distinct values), one window after the other.
    In each factor the lesser count of the two lives on as the new least, so the product is that of all sizes over that
    of all distinct values but the least: the same in any order.
    """
    chosen = [streams[side] for side in sides]
    return _joined([one.rate * (one.window + tau) for one in chosen], [one.distinct for one in chosen])


def origin_cost(streams: Sequence[StreamFacts], origin: int, order: Order, tau: float = 0.0) -> float:
    """Tuple accesses per unit of time to process the new tuples of one stream, with it at any position of the order.

    ``tau`` = 0 is eager: once for each new tuple (G, and C where the order starts with the origin). Otherwise lazy:
    once every tau, for rate x tau new tuples, over windows grown by tau (H, and L). A step scans a window's bucket,
    size / buckets (section 5.3), and at the origin's position only new tuples.
    """
    check_order(order, len(streams))
    if tau < 0:
        raise PlanError(f"the time between two evaluations is not negative: {tau}")
    return sum(step_cost(streams, origin, order[:at], order[at], tau) for at in range(1, len(order)))


def step_cost(streams: Sequence[StreamFacts], origin: int, bound: Order, side: int, tau: float = 0.0) -> float:
    """One step of :func:`origin_cost`: the windows before it, in any order, and the one that is scanned."""
    runs = 1 / tau if tau else streams[origin].rate
    scanned = _looped(streams, origin, side, tau) / streams[side].buckets
    looped = [_looped(streams, origin, one, tau) for one in bound]
    return runs * _joined(looped, [streams[one].distinct for one in bound]) * scanned


def naive_cost(streams: Sequence[StreamFacts], order: Order, tau: float = 0.0) -> float:
    """The same order whatever the origin (NAIVE MULTI-WAY NLJ)."""
    return sum(origin_cost(streams, origin, order, tau) for origin in order)


def multiway_cost(streams: Sequence[StreamFacts], order: Order, tau: float = 0.0) -> float:
    """New tuples in the outermost loop, the other sides in the global order (EAGER or LAZY MULTI-WAY NLJ)."""
    return sum(origin_cost(streams, origin, moved_first(order, origin), tau) for origin in order)


def general_cost(streams: Sequence[StreamFacts], orders: Sequence[Order], tau: float = 0.0) -> float:
    """``orders[i]`` for new tuples of stream i, with that stream anywhere (GENERAL LAZY MULTI-WAY NLJ)."""
    return sum(origin_cost(streams, origin, order, tau) for origin, order in enumerate(orders))


def moved_first(order: Order, side: int) -> Order:
    return (side, *(one for one in order if one != side))


@dataclass(frozen=True, slots=True)
class JoinFacts:
    """What is known of a join by any predicates.

    ``matches[i, j]`` is how many tuples of side j's window one tuple of side i joins with by the predicates between the
    two (absent: there are none, so all of them). One direction is enough; of two, which are measured apart, the mean
    counts. ``classes[i, j]`` numbers the attribute class of an equality: a = b and b = c are one class, and a = c is
    too. ``indexed`` has (i, j) if a step to j, with i bound before, can look tuples up instead of scanning j's window.
    ``buckets``, by side, where keys are put into so many: a look up of one reads all of its bucket (5.3).
    ``never_scans``: a step without an index is not to be taken, and so has no finite cost.
    ``most``, by side, where it is known: what a window has held before, or may come to hold. A step to a side that no
    predicate leads to reads so much: it is a cross product when the window fills up, before the order can change.
    """

    rates: tuple[float, ...]
    sizes: tuple[float, ...]
    matches: Mapping[Pair, float]
    classes: Mapping[Pair, int]
    indexed: frozenset[Pair]
    buckets: tuple[int, ...] = ()
    never_scans: bool = False
    most: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.rates) != len(self.sizes):
            raise PlanError(f"{len(self.rates)} rates for {len(self.sizes)} windows")
        if self.buckets and (len(self.buckets) != len(self.sizes) or min(self.buckets) < 1):
            raise PlanError(f"every one of {len(self.sizes)} windows has at least one bucket: {self.buckets}")
        if self.most and len(self.most) != len(self.sizes):
            raise PlanError(f"{len(self.most)} largest sizes for {len(self.sizes)} windows")
        if not all(map(_sensible, (*self.rates, *self.sizes, *self.most, *self.matches.values()))):
            raise PlanError("rates, sizes and matches are not negative")
        for pair in (*self.matches, *self.classes, *self.indexed):
            if pair[0] == pair[1] or not all(0 <= side < len(self.sizes) for side in pair):
                raise PlanError(f"{pair} is not a pair of the {len(self.sizes)} sides")

    @property
    def sides(self) -> range:
        return range(len(self.sizes))

    def joined(self, left: int, right: int) -> bool:
        """Whether there is a predicate between the two."""
        return (left, right) in self.matches or (right, left) in self.matches

    def selectivity(self, left: int, right: int) -> float:
        """The share of all pairs of the two windows that join, at most 1."""
        shares = [
            self.matches[one, other] / self.sizes[other]
            for one, other in ((left, right), (right, left))
            if (one, other) in self.matches and self.sizes[other]
        ]
        return min(1.0, sum(shares) / len(shares)) if shares else 1.0

    def class_of(self, left: int, right: int) -> int | None:
        return self.classes.get((left, right), self.classes.get((right, left)))


def join_facts(streams: Sequence[StreamFacts], tau: float = 0.0) -> JoinFacts:
    """The paper's setting, an equality of one common attribute, as a graph: each pair joins by the same class.

    With one bucket everywhere costs are the same as :func:`origin_cost` has. An index is taken to be exact here: a look
    up reads the matches, and not all of a bucket."""
    sides = range(len(streams))
    sizes = tuple(one.rate * (one.window + tau) for one in streams)
    pairs = [(i, j) for i in sides for j in sides if i != j]
    return JoinFacts(
        rates=tuple(one.rate for one in streams),
        sizes=sizes,
        matches={(i, j): sizes[j] / max(streams[i].distinct, streams[j].distinct) for i, j in pairs},
        classes=dict.fromkeys(pairs, 0),
        indexed=frozenset((i, j) for i, j in pairs if streams[j].buckets > 1),
    )


def order_cost(facts: JoinFacts, origin: int, order: Order) -> float:
    """Tuple accesses per unit of time for the new tuples of a stream, which its order starts with."""
    check_order(order, len(facts.sizes))
    if order[0] != origin:
        raise PlanError(f"an order for new tuples of side {origin} starts with it: {order}")
    return CostGraph(facts).order_cost(order)


@dataclass(frozen=True, slots=True)
class Edge:
    """The predicates between two sides: the share of pairs that pass, and the attribute class if it is an equality."""

    share: float
    left: int
    right: int
    group: int | None


class CostGraph:
    """Facts made ready for many questions. ``bound`` is always an origin and then other sides, these in any order."""

    def __init__(self, facts: JoinFacts) -> None:
        self.facts = facts
        pairs = [pair for pair in combinations(facts.sides, 2) if facts.joined(*pair)]
        edges = [Edge(facts.selectivity(*pair), *pair, facts.class_of(*pair)) for pair in pairs]
        self._edges = sorted(edges, key=lambda edge: -edge.share)
        self._share = {(i, j): facts.selectivity(i, j) for i, j in permutations(facts.sides, 2)}
        self._group = {(i, j): facts.class_of(i, j) for i, j in permutations(facts.sides, 2)}
        self._shares: dict[frozenset[int], tuple[float, ...]] = {}
        """By set of sides, what passes each predicate that counts among them."""

    def order_cost(self, order: Order) -> float:
        """Accesses per unit of time for new tuples of the first side."""
        return sum(self.step_cost(order[:at], order[at]) for at in range(1, len(order)))

    def step_cost(self, bound: Order, side: int) -> float:
        """Accesses per unit of time to go on from the bound sides to the next."""
        if self.facts.never_scans and not any((one, side) in self.facts.indexed for one in bound):
            return inf
        return self.facts.rates[bound[0]] * self.composites(bound) * self.accessed(bound, side)

    def composites(self, bound: Order) -> float:
        """How many composites one tuple of the origin makes with the other bound sides.

        Predicates are independent, but those of one class are not: a = b and b = c say all that a = c does. Only the
        edges of a spanning forest count, the least selective ones (Kruskal). Of the edges that lead to a new side that
        is the one with the largest fan-out, because a composite has passed the others already: it is the paper's
        max(min(v), v) exactly, and the same in any order. The smallest fan-out would be neither.
        """
        members = frozenset(bound)
        if members not in self._shares:
            self._shares[members] = self._spanning(members)
        product = prod(self.facts.sizes[side] for side in bound[1:])
        return prod(self._shares[members], start=product)

    def _spanning(self, members: frozenset[int]) -> tuple[float, ...]:
        roots: dict[tuple[int, int], int] = {}
        inside = (edge for edge in self._edges if edge.left in members and edge.right in members)
        return tuple(edge.share for edge in inside if _connects(edge, members, roots))

    def accessed(self, bound: Order, side: int) -> float:
        """How many tuples of a side's window are read for one composite: all, or by the best index that can be used."""
        usable = [one for one in bound if (one, side) in self.facts.indexed]
        # From all sides of one class the same is found.
        by_class = {(group := self._group[one, side], one if group is None else None): one for one in usable}
        found = (max(1.0, self._read(bound, one, side)) for one in by_class.values())
        return min(found, default=self._scanned(bound, side))

    def _scanned(self, bound: Order, side: int) -> float:
        size = self.facts.sizes[side]
        is_led_to = any(self.facts.joined(one, side) for one in bound)
        return size if is_led_to or not self.facts.most else max(size, self.facts.most[side])

    def _read(self, bound: Order, by: int, side: int) -> float:
        """What a look up from one bound side reads: the matches, or a key's whole bucket; ranges are not in buckets."""
        found = self._fan_out(bound, by, side)
        if not self.facts.buckets or self._group[by, side] is None:
            return found
        return max(found, self.facts.sizes[side] / self.facts.buckets[side])

    def _fan_out(self, bound: Order, by: int, side: int) -> float:
        """Matches by the edge from one bound side, or by any other bound edge of its class: they find the same."""
        group = self._group[by, side]
        alike = [one for one in bound if group is not None and self._group[one, side] == group] or [by]
        return self.facts.sizes[side] * max(self._share[one, side] for one in alike)


def _connects(edge: Edge, members: frozenset[int], roots: dict[tuple[int, int], int]) -> bool:
    """Whether an edge says something new: theta predicates always, an equality if its class did not imply it yet."""
    group = edge.group
    if group is None:
        return True
    new, old = (roots.get((group, side), side) for side in (edge.left, edge.right))
    if new == old:
        return False
    roots.update({(group, side): new for side in members if roots.get((group, side), side) == old})
    return True


def check_order(order: Order, sides: int) -> None:
    if sorted(order) != list(range(sides)):
        raise PlanError(f"{order} is not an order of {sides} sides")


def _looped(streams: Sequence[StreamFacts], origin: int, side: int, tau: float) -> float:
    """The tuples a loop goes over: a window, or the new tuples if it is the origin's."""
    if side != origin:
        return streams[side].rate * (streams[side].window + tau)
    return streams[side].rate * tau if tau else 1.0


def _joined(sizes: Sequence[float], distinct: Sequence[float]) -> float:
    return prod(sizes) * min(distinct) / prod(distinct)


def _sensible(value: float) -> bool:
    return isfinite(value) and value >= 0
