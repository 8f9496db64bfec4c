"""What is known of a multi-way join before and while it runs, as the cost model wants it.

      declared    rates that a stream's options tell, windows from SQL, guesses for how many tuples match
      measured    rows held and matches found by samples of new tuples, reported by every shard

Owns: :class:`Measured`, ``declared_facts``, ``measured_facts``, and which steps can use an index. A guess is only ever
used until something was measured. Cost: quadratic in the sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from headrace.model import Catalog
from headrace.plan.costs import JoinFacts
from headrace.plan.expressions import sources_of
from headrace.plan.joingraph import JoinGraph
from headrace.plan.queries import Measure
from headrace.plan.sharing import Group

RATE = 1000.0
"""Tuples a second of a stream that tells nothing."""
EQUAL_MATCHES = 1.0
"""Partners that a tuple is taken to have by an equality."""
RANGE_SHARE = 1 / 3
"""The share of a window that a comparison is taken to leave."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One shard's account: rows held in its window by side, and (tuples tried, partners found) by pair of sides."""

    held_rows: tuple[int, ...]
    tried: Mapping[tuple[int, int], tuple[int, int]]


def joined_pairs(graph: JoinGraph) -> Iterator[tuple[int, int]]:
    """The pairs of sides, in both directions, with a predicate between the two alone."""
    for pair in permutations(graph.sides, 2):
        in_class = any(set(pair) <= set(one.sides) for one in graph.classes)
        if in_class or any(sources_of(one) == set(pair) for one in graph.others):
            yield pair


def declared_facts(group: Group, catalog: Catalog) -> JoinFacts:
    """What can be said before the first tuple."""
    assert group.graph is not None
    rates = tuple(declared_rate(catalog, group, side) for side in group.graph.sides)
    sizes = window_rows(group, rates)
    matches = {}
    for i, j in joined_pairs(group.graph):
        found = EQUAL_MATCHES if _class_of(group.graph, i, j) is not None else sizes[j]
        found *= RANGE_SHARE ** sum(sources_of(one) == {i, j} for one in group.graph.others)
        matches[i, j] = min(found, sizes[j])
    return known_facts(group.graph, rates, sizes, matches)


def declared_rate(catalog: Catalog, group: Group, side: int) -> float:
    """Tuples a second, as far as the stream's options tell."""
    return float(catalog.get(group.input_of(side).stream).option("rate") or RATE)


def window_rows(group: Group, rates: Sequence[float]) -> tuple[float, ...]:
    """About how many tuples the largest window of each side holds."""
    largest = [max(sizes[side] for sizes in group.windows) for side in range(len(group.sides))]
    return tuple(
        rate * size / 1e6 if measure is Measure.TIME else float(size)
        for rate, size, measure in zip(rates, largest, group.measures, strict=True)
    )


def measured_facts(group: Group, rates: Sequence[float], shards: Sequence[Measured]) -> JoinFacts:
    """What the shards saw, as the mean of them: an order is followed in each shard by itself. A window holds what it
    holds, whatever the rates are: of a stream that has become silent all is still there to be gone through."""
    graph = group.graph
    assert graph is not None
    sizes = tuple(sum(one.held_rows[side] for one in shards) / len(shards) for side in graph.sides)
    matches = {}
    for pair in joined_pairs(graph):
        tried = sum(one.tried.get(pair, (0, 0))[0] for one in shards)
        found = sum(one.tried.get(pair, (0, 0))[1] for one in shards)
        matches[pair] = min(found / tried, sizes[pair[1]]) if tried else min(EQUAL_MATCHES, sizes[pair[1]])
    return known_facts(graph, tuple(rates), sizes, matches)


def known_facts(
    graph: JoinGraph, rates: tuple[float, ...], sizes: tuple[float, ...], matches: Mapping[tuple[int, int], float]
) -> JoinFacts:
    """Numbers with what the predicates say: which of them are equalities, and what is found by an index."""
    classes = {pair: number for pair in matches if (number := _class_of(graph, *pair)) is not None}
    ranged = {(bound, one.side) for one in graph.ranges for bound in one.bound_sides if len(one.bound_sides) == 1}
    return JoinFacts(rates, sizes, dict(matches), classes, frozenset({*classes, *ranged} & set(matches)))


def _class_of(graph: JoinGraph, left: int, right: int) -> int | None:
    """The first class that both sides are in: one key leads from the one to the other."""
    both = (number for number, one in enumerate(graph.classes) if {left, right} <= set(one.sides))
    return next(both, None)
