"""Planes: how a stream that is joined with itself is spread over cells, so that each pair of tuples meets in one.

      3 cells, 3 deals    cell 0   cell 1   cell 2       a tuple is dealt a number, its *deal*, and goes to every cell
                          0 1      1 2      2 0          that has it. Two deals share exactly one cell; two of one deal
                          ^        ^        ^            meet in the deal's own cell (^)

Any two points of a finite plane are on one line: with q prime, a projective plane has q^2 + q + 1 lines of q + 1 points
each, an affine one q^2 + q of q. A cell is a line, and holds about 1/q of the tuples. With two cells, one would have to
hold all.

Owns: :class:`Plane`, ``plane_for``. Cost: of making one, its lines times its points, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

_PRIMES = (2, 3, 5, 7, 11, 13)
"""Orders of the planes used; the largest has 183 lines, each with 8% of the points."""


@dataclass(frozen=True, slots=True)
class Plane:
    """``lines``: the deals that each cell has. ``cells``: the cells of each deal, its own first."""

    lines: tuple[tuple[int, ...], ...]
    cells: tuple[tuple[int, ...], ...]

    @property
    def part(self) -> float:
        """The part of all tuples that is in the fullest cell."""
        return max(map(len, self.lines)) / len(self.cells)


@cache
def plane_for(cells: int) -> Plane | None:
    """The plane of at most so many cells that hold least; None where there is none that helps.

    >>> plane_for(4).lines, plane_for(2)
    (((0, 1), (1, 2), (2, 0)), None)
    >>> [round(plane_for(cells).part, 2) for cells in (3, 6, 7, 12, 13, 200)]
    [0.67, 0.5, 0.43, 0.33, 0.31, 0.08]
    """
    fitting = [one for one in _planes(cells) if len(one.lines) <= cells]
    return min(fitting, key=lambda one: one.part, default=None)


def _planes(cells: int) -> Iterator[Plane]:
    """Those of about so many cells, and smaller ones."""
    yield _plane(((0, 1), (1, 2), (2, 0)))
    for order in _PRIMES:
        if order * order + order <= cells:
            yield from _of_order(order)


@cache
def _of_order(order: int) -> tuple[Plane, Plane]:
    """The projective and the affine plane: that without a line and its points."""
    lines = _projective(order)
    return _plane(lines), _plane(_without(lines[0], lines[1:]))


def _projective(order: int) -> list[tuple[int, ...]]:
    """Points and lines are triples up to a factor; a point is on a line where their product is 0."""
    triples = [(1, y, z) for y, z in product(range(order), repeat=2)]
    triples += [*((0, 1, z) for z in range(order)), (0, 0, 1)]
    return [
        tuple(
            number
            for number, point in enumerate(triples)
            if sum(a * b for a, b in zip(line, point, strict=True)) % order == 0
        )
        for line in triples
    ]


def _without(gone: Sequence[int], lines: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The lines without some points, the others numbered from 0 on."""
    left = sorted({point for line in lines for point in line if point not in gone})
    return [tuple(left.index(point) for point in line if point not in gone) for line in lines]


def _plane(lines: Sequence[tuple[int, ...]]) -> Plane:
    """The lines as a plane; own cells are chosen so that none is the own of many."""
    owned = [0] * len(lines)
    cells = []
    for deal in range(max(max(line) for line in lines) + 1):
        mine = [number for number, line in enumerate(lines) if deal in line]
        own = min(mine, key=lambda number: owned[number])
        owned[own] += 1
        cells.append((own, *(number for number in mine if number != own)))
    return Plane(tuple(lines), tuple(cells))
