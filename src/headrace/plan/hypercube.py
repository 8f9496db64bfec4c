"""Hypercube partitioning: each attribute class of a join is a dimension, each shard a cell.

      a(x)  b(x, y)  c(y)       6 shards as 3 x 2          y0     y1
                                                     x0    a b c  a b c      a tuple of b has one cell; one of a goes to
                                                     x1    a b c  a b c      the 2 cells of its x, one of c to the 3 of
                                                     x2    a b c  a b c      its y: each result is found in one cell

A tuple goes to every cell that agrees with the coordinates it has; along a dimension it lacks it is copied. Where
attributes do not cut a side, its tuples can be dealt out along a dimension of the side's own: of two sides without a
common attribute, a grid in which each pair meets in exactly one cell.

Owns: :class:`Grid`, ``choose_grid``. Shares are chosen so that a cell holds as little as possible, then so that little
is copied; the search looks at every way to share out the shards. Invariant: shares multiply to at most the shards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.plan.joingraph import JoinGraph


@dataclass(frozen=True, slots=True)
class Dimension:
    """``share`` coordinates, by the hash of an attribute class, or (``attribute`` None) dealt out to one side."""

    sides: tuple[int, ...]
    attribute: int | None
    share: int


@dataclass(frozen=True, slots=True)
class Grid:
    """The dimensions with more than one coordinate; cells are numbered with the last one running fastest."""

    dimensions: tuple[Dimension, ...] = ()

    @property
    def cells(self) -> int:
        return math.prod(one.share for one in self.dimensions)

    def copies(self, side: int) -> int:
        """How many cells a tuple of a side goes to."""
        return math.prod(one.share for one in self.dimensions if side not in one.sides)

    def part(self, side: int) -> float:
        """The part of a side's tuples that is in one cell."""
        return self.copies(side) / self.cells

    def to_json(self) -> list[Any]:
        return [[list(one.sides), one.attribute, one.share] for one in self.dimensions]

    @staticmethod
    def from_json(told: list[Any]) -> Grid:
        return Grid(tuple(Dimension(tuple(sides), attribute, share) for sides, attribute, share in told))

    def coordinates(self) -> Iterator[tuple[int, ...]]:
        """Each cell's place, in the order of their numbers."""
        for cell in range(self.cells):
            place = []
            for one in reversed(self.dimensions):
                cell, coordinate = divmod(cell, one.share)
                place.append(coordinate)
            yield tuple(reversed(place))


def choose_grid(graph: JoinGraph, held_rows: Sequence[float], shards: int) -> Grid:
    """The grid for sides that hold about so many tuples each.

    >>> graph = JoinGraph(("a", "b"), (), (), (), ((), ()), ())
    >>> [one.share for one in choose_grid(graph, (1, 1), 4).dimensions], choose_grid(graph, (50, 1), 4).copies(0)
    ([2, 2], 1)
    """
    attributes = [Dimension(one.sides, number, 1) for number, one in enumerate(graph.classes)]
    dealt = [Dimension((side,), None, 1) for side in graph.sides]
    dimensions = [*attributes, *dealt]
    best = min(_shares(len(dimensions), shards), key=lambda shares: _cost(_grid(dimensions, shares), held_rows))
    return _grid(dimensions, best)


def _grid(dimensions: Sequence[Dimension], shares: Sequence[int]) -> Grid:
    pairs = zip(dimensions, shares, strict=True)
    return Grid(tuple(Dimension(one.sides, one.attribute, share) for one, share in pairs if share > 1))


def _cost(grid: Grid, held_rows: Sequence[float]) -> tuple[float, float, int]:
    """What a cell holds, what is copied in all, and how many dimensions it takes."""
    in_cell = sum(rows * grid.part(side) for side, rows in enumerate(held_rows))
    copied = sum(rows * grid.copies(side) for side, rows in enumerate(held_rows))
    return round(in_cell, 6), copied, len(grid.dimensions)


def _shares(dimensions: int, shards: int) -> Iterator[tuple[int, ...]]:
    """All ways to give each dimension a share, together at most the shards."""
    if dimensions == 0:
        yield ()
        return
    for first in range(1, shards + 1):
        for rest in _shares(dimensions - 1, shards // first):
            yield (first, *rest)
