"""Hypercube partitioning: each attribute class of a join is a dimension, each shard a cell.

      a(x)  b(x, y)  c(y)       6 shards as 3 x 2          y0     y1
                                                     x0    a b c  a b c      a tuple of b has one cell; one of a goes to
                                                     x1    a b c  a b c      the 2 cells of its x, one of c to the 3 of
                                                     x2    a b c  a b c      its y: each result is found in one cell

A tuple goes to every cell that agrees with the coordinates it has; along a dimension it lacks it is copied. Where
attributes do not cut a side, its tuples can be dealt out along a dimension of the side's own: of two sides without a
common attribute, a grid in which each pair meets in exactly one cell. Keys that too many tuples have are spread over
a whole dimension (``skew``).

Owns: :class:`Grid`, ``choose_grid``, ``grid_of``. Shares are chosen so that a cell holds as little as possible, then so
that little is copied, over a few dimensions (``shares``). Invariants: shares multiply to at most the shards; a key is
heavy once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from headrace.errors import PlanError
from headrace.plan.joingraph import JoinGraph
from headrace.plan.planes import plane_for
from headrace.plan.shares import best_shares
from headrace.plan.sharing import Group
from headrace.plan.skew import HeavyKey

MOST_ATTRIBUTES = 4
"""Attribute classes that shares are tried for: those whose sides hold most."""
MOST_DEALT = 4
"""Sides that are tried to be dealt out: those that hold most."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """``share`` coordinates, by the hash of an attribute class, or (``attribute`` None) dealt out to one side."""

    sides: tuple[int, ...]
    attribute: int | None
    share: int


@dataclass(frozen=True, slots=True)
class Grid:
    """The dimensions with more than one coordinate; cells are numbered with the last one running fastest. ``heavy``:
    the keys that are not at one coordinate."""

    dimensions: tuple[Dimension, ...] = ()
    heavy: tuple[HeavyKey, ...] = ()

    def __post_init__(self) -> None:
        if len({(one.attribute, one.number) for one in self.heavy}) < len(self.heavy):
            raise PlanError("a key is heavy twice in one dimension")
        sides = {one.attribute: one.sides for one in self.dimensions}
        if any(one.split_side not in sides.get(one.attribute, (one.split_side,)) for one in self.heavy):
            raise PlanError("a heavy key's split side is not in its class")

    @property
    def cells(self) -> int:
        return math.prod(one.share for one in self.dimensions)

    def copies(self, side: int) -> int:
        """How many cells a tuple of a side goes to, if it has no heavy key."""
        return math.prod(one.share for one in self.dimensions if side not in one.sides)

    def part(self, side: int) -> float:
        """The part of a side's tuples that is in one cell."""
        return self.copies(side) / self.cells

    def to_json(self) -> dict[str, Any]:
        dimensions = [[list(one.sides), one.attribute, one.share] for one in self.dimensions]
        return {"dimensions": dimensions, "heavy": [list(astuple(one)) for one in self.heavy]}

    @staticmethod
    def from_json(told: dict[str, Any]) -> Grid:
        dimensions = (Dimension(tuple(sides), attribute, share) for sides, attribute, share in told["dimensions"])
        return Grid(tuple(dimensions), tuple(HeavyKey(*one) for one in told["heavy"]))

    def coordinates(self) -> Iterator[tuple[int, ...]]:
        """Each cell's place, in the order of their numbers."""
        for cell in range(self.cells):
            place = []
            for one in reversed(self.dimensions):
                cell, coordinate = divmod(cell, one.share)
                place.append(coordinate)
            yield tuple(reversed(place))


def pair_grid(shards: int) -> Grid:
    """The grid of two sides with one key: all shards along it."""
    return Grid((Dimension((0, 1), 0, shards),)) if shards > 1 else Grid()


def grid_of(group: Group, shards: int) -> Grid | None:
    """A group's grid while nothing is known of its tuples; None where it has none, and no key is ever split: a scan, a
    stream joined with itself on one key where there are few shards."""
    if group.graph is not None:
        return choose_grid(group.graph, (1.0,) * len(group.sides), shards)
    is_grid = group.sides == (0, 1) or (group.sides == (0, 0) and plane_for(shards) is not None)
    return pair_grid(shards) if is_grid else None


def choose_grid(graph: JoinGraph, held_rows: Sequence[float], shards: int) -> Grid:
    """The grid for sides that hold about so many tuples each.

    >>> graph = JoinGraph(("a", "b"), (), (), (), ((), ()), ())
    >>> [one.share for one in choose_grid(graph, (1, 1), 4).dimensions], choose_grid(graph, (50, 1), 4).copies(0)
    ([2, 2], 1)
    """
    attributes = [Dimension(one.sides, number, 1) for number, one in enumerate(graph.classes)]
    largest = sorted(graph.sides, key=lambda side: (-held_rows[side], side))
    dealt = [Dimension((side,), None, 1) for side in sorted(largest[:MOST_DEALT])]
    attributes.sort(key=lambda one: -sum(held_rows[side] for side in one.sides))
    attributes[MOST_ATTRIBUTES:] = []
    dimensions = [*sorted(attributes, key=lambda one: one.attribute or 0), *dealt]
    return _grid(dimensions, best_shares([one.sides for one in dimensions], held_rows, shards))


def _grid(dimensions: Sequence[Dimension], shares: Sequence[int]) -> Grid:
    pairs = zip(dimensions, shares, strict=True)
    return Grid(tuple(Dimension(one.sides, one.attribute, share) for one, share in pairs if share > 1))
