"""Planes: any two deals share exactly one cell, and no cell has many more of them than another."""

from __future__ import annotations

from itertools import combinations

import pytest

from headrace.plan.planes import plane_for

CELLS = (3, 4, 5, 6, 7, 9, 12, 13, 16, 31, 57, 133, 4096)


@pytest.mark.parametrize("cells", CELLS)
def test_any_two_deals_share_exactly_one_cell(cells: int) -> None:
    plane = plane_for(cells)
    assert plane is not None
    assert len(plane.lines) <= cells
    shared = [pair for line in plane.lines for pair in combinations(sorted(line), 2)]
    assert sorted(shared) == list(combinations(range(len(plane.cells)), 2))


@pytest.mark.parametrize("cells", CELLS)
def test_cells_have_as_many_deals_and_deals_as_many_cells(cells: int) -> None:
    plane = plane_for(cells)
    assert plane is not None
    assert len({len(line) for line in plane.lines}) == 1
    assert len({len(some) for some in plane.cells}) == 1
    for deal, some in enumerate(plane.cells):
        assert sorted(some) == [number for number, line in enumerate(plane.lines) if deal in line]
    assert max([some[0] for some in plane.cells].count(cell) for cell in range(len(plane.lines))) <= 2


def test_two_cells_cannot_share_the_tuples_of_one_stream() -> None:
    assert plane_for(1) is None
    assert plane_for(2) is None


def test_more_cells_never_hold_more() -> None:
    parts = [plane.part for cells in range(3, 200) if (plane := plane_for(cells)) is not None]
    assert parts == sorted(parts, reverse=True)
