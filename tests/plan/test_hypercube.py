"""Grids: shares multiply to at most the shards, cells hold little, every combination of tuples meets in one cell."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model import BIGINT, StreamId
from headrace.plan.expressions import ColumnRef, Expression
from headrace.plan.functions import call
from headrace.plan.hypercube import Dimension, Grid, choose_grid, pair_grid
from headrace.plan.joingraph import JoinGraph, join_graph


def column(side: int, name: str) -> ColumnRef:
    return ColumnRef(side, name, BIGINT)


def graph(sides: int, *edges: tuple[int, str, int, str]) -> JoinGraph:
    conditions: list[Expression] = [call("=", column(i, left), column(j, right)) for i, left, j, right in edges]
    return join_graph([StreamId(f"s{side}") for side in range(sides)], conditions)


COMMON = graph(3, (0, "x", 1, "x"), (1, "x", 2, "x"))
CHAIN = graph(3, (0, "x", 1, "x"), (1, "y", 2, "y"))
CROSS = graph(2)


def shares(grid: Grid) -> dict[tuple[int, ...], int]:
    return {one.sides: one.share for one in grid.dimensions}


# --- examples


def test_a_common_key_takes_all_shards_and_copies_nothing() -> None:
    grid = choose_grid(COMMON, (1, 1, 1), 6)
    assert shares(grid) == {(0, 1, 2): 6}
    assert [grid.copies(side) for side in range(3)] == [1, 1, 1]


def test_a_chain_is_cut_along_both_keys_when_its_ends_are_equal() -> None:
    grid = choose_grid(CHAIN, (1, 1, 1), 4)
    assert shares(grid) == {(0, 1): 2, (1, 2): 2}
    assert [grid.copies(side) for side in range(3)] == [2, 1, 2]
    assert [grid.part(side) for side in range(3)] == [0.5, 0.25, 0.5]


def test_a_small_stream_is_copied_rather_than_a_large_one() -> None:
    grid = choose_grid(CHAIN, (1000, 1000, 1), 4)
    assert shares(grid) == {(0, 1): 4}
    assert grid.copies(2) == 4


def test_of_many_keys_those_of_the_largest_streams_are_cut() -> None:
    chain = graph(7, *((side, "y", side + 1, "x") for side in range(6)))
    assert shares(choose_grid(chain, (1, 1, 1, 1, 1, 1000, 1000), 4)) == {(5, 6): 4}


def test_two_streams_without_a_key_are_a_square_or_a_line() -> None:
    assert sorted(shares(choose_grid(CROSS, (1, 1), 9)).items()) == [((0,), 3), ((1,), 3)]
    assert shares(choose_grid(CROSS, (1000, 1), 9)) == {(0,): 9}


@pytest.mark.parametrize("shards", [1, 2, 9])
def test_two_streams_with_a_key_are_cut_along_it(shards: int) -> None:
    grid = pair_grid(shards)
    assert (grid.cells, grid.copies(0), grid.copies(1)) == (shards, 1, 1)


def test_cells_are_numbered_with_the_last_dimension_running_fastest() -> None:
    grid = Grid((Dimension((0,), 0, 2), Dimension((1,), 1, 3)))
    assert list(grid.coordinates()) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


# --- any graph


@st.composite
def graphs(draw: st.DrawFn) -> JoinGraph:
    sides = draw(st.integers(2, 5))
    names = st.sampled_from(("x", "y"))
    side = st.integers(0, sides - 1)
    edges = draw(st.lists(st.tuples(side, names, side, names), max_size=5))
    return graph(sides, *(one for one in edges if one[0] != one[2]))


sizes = st.lists(st.sampled_from((1.0, 2.0, 50.0, 1e6)), min_size=5, max_size=5)


@given(graph=graphs(), held=sizes, shards=st.integers(1, 12))
def test_shares_multiply_to_at_most_the_shards_and_no_other_grid_holds_less_in_a_cell(
    graph: JoinGraph, held: list[float], shards: int
) -> None:
    held = held[: len(graph.streams)]
    grid = choose_grid(graph, held, shards)
    assert grid.cells <= shards
    assert all(one.share > 1 for one in grid.dimensions)
    assert all(grid.copies(side) * part(grid, side) == grid.cells for side in graph.sides)
    loads = [in_cell(other, held) for other in some_grids(graph, shards)]
    assert in_cell(grid, held) <= min(loads) * (1 + 1e-9) + 1e-6


def part(grid: Grid, side: int) -> int:
    """Into how many parts a side is cut."""
    parts = 1
    for one in grid.dimensions:
        parts *= one.share if side in one.sides else 1
    return parts


def in_cell(grid: Grid, held: list[float]) -> float:
    return sum(rows * grid.part(side) for side, rows in enumerate(held))


def some_grids(graph: JoinGraph, shards: int) -> list[Grid]:
    """All on one dimension, and nothing cut at all."""
    keyed = [Grid((Dimension(one.sides, number, shards),)) for number, one in enumerate(graph.classes)]
    return [Grid(), *(keyed if shards > 1 else [])]


@given(graph=graphs(), held=sizes, shards=st.integers(1, 12), seed=st.integers(0, 2**32))
def test_every_combination_of_tuples_with_equal_keys_meets_in_exactly_one_cell(
    graph: JoinGraph, held: list[float], shards: int, seed: int
) -> None:
    grid = choose_grid(graph, held[: len(graph.streams)], shards)
    chance = random.Random(seed)
    for _ in range(5):
        keys = [chance.randrange(1000) for _ in graph.classes]
        places = [[at(one, side, keys, chance) for one in grid.dimensions] for side in graph.sides]
        cells = [
            number for number, cell in enumerate(grid.coordinates()) if all(is_in(place, cell) for place in places)
        ]
        assert len(cells) == 1


def at(dimension: Dimension, side: int, keys: list[int], chance: random.Random) -> int | None:
    """A tuple's coordinate: by its key, dealt out, or (None) all."""
    if side not in dimension.sides:
        return None
    return (
        chance.randrange(dimension.share)
        if dimension.attribute is None
        else keys[dimension.attribute] % dimension.share
    )


def is_in(place: list[int | None], cell: tuple[int, ...]) -> bool:
    return all(mine is None or mine == coordinate for mine, coordinate in zip(place, cell, strict=True))
