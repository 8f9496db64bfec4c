"""Which tree of joins to use: the cheapest by what is known of the streams, and its problem of allocation.

    S, T two sets of sides            a composite of S that is new probes T's state, and the other way round:
    join of S and T                   cost  =  new(S) x accessed(S, T)  +  new(T) x accessed(T, S)

How many composites a set of sides has, and how many new ones a second, does not depend on the tree below it (as in
``costs``). So a join costs the same wherever it stands, and the cheapest tree of a set is a cheapest tree of each part.

Owns: :class:`TreeFacts`, sizes and rates of states in between; ``choose_tree``; ``problem_for``. A join without a
predicate between its two children is a cross product, and is chosen only where the predicates leave no other tree.
Cost: up to EXACT_SIDES all ways to cut each set in two, 3^n; beyond that joining the cheapest two nodes and exchanging
subtrees while it helps, n^3 a round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, product
from math import prod
from typing import TypeAlias

from headrace.plan.allocating import AllocationProblem, Retention, problem_of
from headrace.plan.costs import CostGraph, JoinFacts
from headrace.plan.trees import Fork, HalfWayJoin, JoinTree, Leaf, Node, Sides, linear_tree

EXACT_SIDES = 8
"""Up to here all trees are looked at: 6,000 joins of two sets."""
MOST_ROUNDS = 8
"""Of exchanging subtrees."""

Price: TypeAlias = tuple[int, float]
"""Cross products first, then accesses a second."""


@dataclass(frozen=True, slots=True)
class TreeChoice:
    """The tree to use and its cost in tuple accesses a second; and the cheapest linear one, to compare with."""

    tree: JoinTree
    cost: float
    linear: JoinTree
    linear_cost: float


class TreeFacts:
    """States in between, by the sides they are made of, with unlimited CPU."""

    def __init__(self, facts: JoinFacts) -> None:
        self.facts = facts
        matches = {pair: facts.selectivity(*pair) for pair in facts.matches}
        self._shares = CostGraph(replace(facts, sizes=(1.0,) * len(facts.sizes), matches=matches))
        self.join_price = cache(self._join_price)
        self.share = cache(self._share)

    def _share(self, sides: Sides) -> float:
        """The share of all combinations of these sides' tuples that pass the predicates between them."""
        return self._shares.composites(sides)

    def size(self, sides: Sides) -> float:
        """Composites that are kept at a time."""
        return prod(self.facts.sizes[side] for side in sides) * self.share(sides)

    def arriving(self, sides: Sides) -> float:
        """New composites a second: each with a new tuple of one side and kept ones of the others."""
        sizes = self.facts.sizes
        with_new = (self.facts.rates[new] * prod(sizes[side] for side in sides if side != new) for new in sides)
        return sum(with_new) * self.share(sides)

    def selectivity(self, own: Sides, partner: Sides) -> float:
        """The share of pairs of two states' tuples that join."""
        apart = self.share(own) * self.share(partner)
        return self.share(tuple(sorted((*own, *partner)))) / apart if apart else 0.0

    def accessed(self, own: Sides, partner: Sides) -> float:
        """Tuples of the partner's state that one probe looks at: by an index what it finds, otherwise all."""
        size = self.size(partner)
        if any(pair in self.facts.indexed for pair in product(own, partner)):
            return max(1.0, size * self.selectivity(own, partner))
        return size

    def _join_price(self, left: Sides, right: Sides) -> Price:
        cost = self.arriving(left) * self.accessed(left, right) + self.arriving(right) * self.accessed(right, left)
        return int(not any(self.facts.joined(*pair) for pair in product(left, right))), cost

    def price(self, node: Node) -> Price:
        if isinstance(node, Leaf):
            return 0, 0.0
        return _sum(self.join_price(node.left.sides, node.right.sides), self.price(node.left), self.price(node.right))


def tree_cost(facts: JoinFacts, tree: JoinTree) -> float:
    """Tuple accesses a second of all half-way joins, with unlimited CPU."""
    return TreeFacts(facts).price(tree.root)[1]


def choose_tree(facts: JoinFacts, exact_up_to: int = EXACT_SIDES) -> TreeChoice:
    """The cheapest tree of all up to so many sides, a good one above."""
    known = TreeFacts(facts)
    if len(facts.sizes) <= exact_up_to:
        best, linear = _cheapest(known, _cuts), _cheapest(known, _linear_cuts)
    else:
        linear = _improved(known, _grown(known, is_linear=True), _exchanged_leaves)
        best = min(
            (_improved(known, start, _exchanged) for start in (_grown(known, is_linear=False), linear)),
            key=known.price,
        )
    return TreeChoice(JoinTree(best), known.price(best)[1], JoinTree(linear), known.price(linear)[1])


def all_trees(sides: int) -> Iterator[JoinTree]:
    """Every tree once, the child with the lowest side on the left: 3, 15, 105, ... of 3, 4, 5 sides."""
    for node in _all_nodes(tuple(range(sides))):
        if isinstance(node, Fork):
            yield JoinTree(node)


def problem_for(
    tree: JoinTree,
    facts: JoinFacts,
    mu: float,
    freshness_s: Sequence[float] | None = None,
    cost: Callable[[HalfWayJoin], float] = lambda _: 1.0,
    retention: Retention = Retention.WINDOW,
) -> AllocationProblem:
    """The problem of allocation with what is known of the streams: states in between as large as with unlimited CPU."""
    known = TreeFacts(facts)
    held = {state: known.size(state) for state in tree.states}

    def selectivity(half: HalfWayJoin) -> float:
        return known.selectivity(half.own, half.partner)

    return problem_of(tree, mu, facts.rates, held, selectivity, freshness_s, cost, retention)


# --- few sides: all of them

Cuts: TypeAlias = Callable[[Sides], Iterator[tuple[Sides, Sides]]]


def _cheapest(known: TreeFacts, cuts: Cuts) -> Fork:
    found: dict[Sides, tuple[Price, Node]] = {(side,): ((0, 0.0), Leaf(side)) for side in known.facts.sides}
    every = tuple(known.facts.sides)
    for count in range(2, len(every) + 1):
        for sides in combinations(every, count):
            found[sides] = min((_cut(known, found, *cut) for cut in cuts(sides)), key=lambda one: one[0])
    root = found[every][1]
    assert isinstance(root, Fork)
    return root


def _cut(known: TreeFacts, found: dict[Sides, tuple[Price, Node]], left: Sides, right: Sides) -> tuple[Price, Node]:
    (left_price, left_node), (right_price, right_node) = found[left], found[right]
    return _sum(known.join_price(left, right), left_price, right_price), Fork(left_node, right_node)


def _cuts(sides: Sides) -> Iterator[tuple[Sides, Sides]]:
    """All ways to cut in two, the lowest side on the left."""
    first, rest = sides[0], sides[1:]
    for count in range(len(rest)):
        for others in combinations(rest, count):
            left = (first, *others)
            yield left, tuple(side for side in rest if side not in others)


def _linear_cuts(sides: Sides) -> Iterator[tuple[Sides, Sides]]:
    """All ways to cut one side off. Of two sides the lower is on the left."""
    for side in sides[len(sides) == 2 :]:
        yield tuple(one for one in sides if one != side), (side,)


def _all_nodes(sides: Sides) -> Iterator[Node]:
    if len(sides) == 1:
        yield Leaf(sides[0])
        return
    for left, right in _cuts(sides):
        for pair in product(_all_nodes(left), _all_nodes(right)):
            yield Fork(*pair)


# --- many sides: a good one


def _grown(known: TreeFacts, is_linear: bool) -> Fork:
    """The cheapest two nodes joined, again and again; a linear tree goes on with what was joined last."""
    nodes: list[Node] = [Leaf(side) for side in known.facts.sides]
    joined: Fork | None = None
    while len(nodes) > 1:
        pairs = [pair for pair in combinations(nodes, 2) if joined is None or not is_linear or joined in pair]
        left, right = min(pairs, key=lambda pair: known.join_price(pair[0].sides, pair[1].sides))
        joined = Fork(right, left) if isinstance(left, Leaf) and isinstance(right, Fork) else Fork(left, right)
        nodes = [node for node in nodes if node not in (left, right)] + [joined]
    assert joined is not None
    return joined


def _improved(known: TreeFacts, start: Fork, moves: Callable[[Fork], Iterator[Fork]]) -> Fork:
    """The best move after the other, while it helps."""
    best = start
    for _ in range(MOST_ROUNDS):
        found = min(moves(best), key=known.price, default=best)
        if not known.price(found) < known.price(best):
            break
        best = found
    return best


def _exchanged(root: Fork) -> Iterator[Fork]:
    """The tree with any two of its subtrees in each other's place, where neither is within the other."""
    for one, other in combinations(_nodes(root), 2):
        if not set(one.sides) & set(other.sides):
            yield _replaced(root, one, other)


def _exchanged_leaves(root: Fork) -> Iterator[Fork]:
    order = _order(root)
    for one, other in combinations(range(len(order)), 2):
        moved = list(order)
        moved[one], moved[other] = moved[other], moved[one]
        yield linear_tree(moved).root


def _replaced(root: Fork, one: Node, other: Node) -> Fork:
    def within(node: Node) -> Node:
        if node == one:
            return other
        if node == other:
            return one
        return node if isinstance(node, Leaf) else Fork(within(node.left), within(node.right))

    return Fork(within(root.left), within(root.right))


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, Fork):
        yield from _nodes(node.left)
        yield from _nodes(node.right)


def _order(node: Node) -> list[int]:
    return [node.side] if isinstance(node, Leaf) else [*_order(node.left), *_order(node.right)]


def _sum(*prices: Price) -> Price:
    return sum(cross for cross, _ in prices), sum(cost for _, cost in prices)
