"""The reference against DuckDB, and its rules one by one."""

from __future__ import annotations

from itertools import pairwise

import duck
import pytest
import strategies as some
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import reference
from headrace.model import BIGINT, INT, TIMESTAMP, Catalog, QueryId, Stream, StreamId
from headrace.plan.expressions import ColumnRef, Expression, Value
from headrace.plan.functions import call
from headrace.plan.queries import Extent, Measure, Output, Query, Source

A, B, C = (StreamId(name) for name in "abc")
K, ID, TS = ("k", INT), ("id", BIGINT), ("ts", TIMESTAMP)


@pytest.fixture(scope="module")
def database() -> duck.duckdb.DuckDBPyConnection:
    return duck.connect()


def catalog(*names: StreamId, max_delay_s: int = 0) -> Catalog:
    return Catalog(tuple(Stream(name, some.EVENT, "ts", max_delay_s * some.SECOND_US) for name in names))


def arrive(*rows: tuple[float | None, int | None]) -> list[dict[str, Value]]:
    """(seconds, key) pairs as rows whose id is their arrival position."""
    return [
        {"ts": None if seconds is None else some.at(seconds), "id": i, "k": key, "name": None, "x": None}
        for i, (seconds, key) in enumerate(rows)
    ]


def seconds(size: float) -> Extent:
    return Extent(Measure.TIME, round(size * some.SECOND_US))


def rows(size: int) -> Extent:
    return Extent(Measure.ROWS, size)


def join(*streams: StreamId, window_s: float | None = None, windows: tuple[Extent, ...] = (), on: str = "=") -> Query:
    """A chain of joins on k, equal or otherwise, that gives every source's id; one window for all or one for each."""
    keys = [ColumnRef(i, *K) for i in range(len(streams))]
    conditions: list[Expression] = [call(on, *pair) for pair in pairwise(keys)]
    return Query(
        QueryId("q"),
        tuple(Source(stream, f"s{i}") for i, stream in enumerate(streams)),
        tuple(conditions),
        tuple(Output(f"id{i}", ColumnRef(i, *ID)) for i in range(len(streams))),
        windows if window_s is None else (seconds(window_s),) * len(streams),
    )


# --- against DuckDB


@pytest.mark.parametrize("sources", [1, 2, 3])
@given(data=st.data())
@settings(max_examples=120)
def test_answer_is_duckdbs_row_for_row(
    sources: int, data: st.DataObject, database: duck.duckdb.DuckDBPyConnection
) -> None:
    streams = data.draw(some.catalogs())
    arrivals = data.draw(some.arrivals(streams, max_rows=14 if sources < 3 else 6))
    query = data.draw(some.queries(streams, sources))
    got = reference.answer(query, streams, arrivals)
    wanted = duck.answer(query, streams, arrivals, database)
    assert len(got) == len(wanted)
    assert all(some.all_agree(*pair) for pair in zip(got, wanted, strict=True)), f"{got}\n{wanted}"


# --- streams and time


def test_tuple_behind_the_newest_is_late() -> None:
    taken = reference.accepted(catalog(A), {A: arrive((5, 1), (4, 1), (5, 1), (6, 1))})[A]
    assert [one.place.seq for one in taken.tuples] == [0, 2, 3]
    assert taken.late == (1,)


def test_tuple_exactly_max_delay_behind_is_not_late() -> None:
    taken = reference.accepted(catalog(A, max_delay_s=2), {A: arrive((5, 1), (3, 1), (2.999999, 1))})[A]
    assert [one.place.seq for one in taken.tuples] == [0, 1]
    assert taken.late == (2,)


def test_row_without_a_time_is_malformed_and_keeps_its_place_in_the_numbering() -> None:
    taken = reference.accepted(catalog(A), {A: arrive((None, 1), (1, 1))})[A]
    assert taken.malformed == (0,)
    assert [one.place for one in taken.tuples] == [(int(some.at(1).timestamp()) * some.SECOND_US, 0, 1)]


def test_stream_without_arrivals_is_empty() -> None:
    assert reference.accepted(catalog(A), {})[A] == reference.Intake((), (), ())


# --- joins


def test_tuples_exactly_w_apart_join() -> None:
    arrivals = {A: arrive((0, 1)), B: arrive((5, 1), (5.000001, 1))}
    assert reference.answer(join(A, B, window_s=5), catalog(A, B), arrivals) == [(0, 0)]


def test_null_keys_match_nothing() -> None:
    arrivals = {A: arrive((0, None)), B: arrive((0, None))}
    assert reference.answer(join(A, B, window_s=5), catalog(A, B), arrivals) == []


def test_late_tuples_take_part_in_nothing() -> None:
    arrivals = {A: arrive((9, 2), (1, 1)), B: arrive((1, 1))}
    assert reference.answer(join(A, B, window_s=5), catalog(A, B), arrivals) == []


def test_self_join_pairs_a_tuple_with_itself() -> None:
    arrivals = {A: arrive((0, 1), (1, 1))}
    assert reference.answer(join(A, A, window_s=5), catalog(A), arrivals) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_window_spans_all_streams() -> None:
    """b is near both, but a and c are too far apart."""
    arrivals = {A: arrive((0, 1)), B: arrive((3, 1)), C: arrive((6, 1), (5, 1))}
    streams = catalog(A, B, C, max_delay_s=1)
    assert reference.answer(join(A, B, C, window_s=5), streams, arrivals) == [(0, 0, 1)]


def test_single_stream_needs_no_window() -> None:
    arrivals = {A: arrive((0, 1), (100, 2))}
    assert reference.answer(join(A), catalog(A), arrivals) == [(0,), (1,)]


# --- windows of each stream, and of rows


def test_each_stream_is_looked_back_at_by_its_own_window() -> None:
    """a0 is 3 s older than b0, a1 is 3 s newer: a is looked at 3 s back, b only 2 s."""
    arrivals = {A: arrive((0, 1), (6, 1)), B: arrive((3, 1))}
    assert reference.answer(join(A, B, windows=(seconds(3), seconds(2))), catalog(A, B), arrivals) == [(0, 0)]
    assert reference.answer(join(A, B, windows=(seconds(2), seconds(3))), catalog(A, B), arrivals) == [(1, 0)]


def test_rows_are_counted_over_all_keys() -> None:
    arrivals = {A: arrive((0, 1), (1, 2)), B: arrive((9, 1))}
    assert reference.answer(join(A, B, windows=(rows(1), rows(1))), catalog(A, B), arrivals) == []
    assert reference.answer(join(A, B, windows=(rows(2), rows(1))), catalog(A, B), arrivals) == [(0, 0)]


def test_rows_that_are_late_or_malformed_do_not_count() -> None:
    arrivals = {A: arrive((1, 1), (None, 1), (0, 1)), B: arrive((9, 1))}
    assert reference.answer(join(A, B, windows=(rows(1), rows(1))), catalog(A, B), arrivals) == [(0, 0)]


def test_rows_count_by_time_not_by_arrival() -> None:
    arrivals = {A: arrive((2, 1), (1, 1)), B: arrive((9, 1))}
    query = join(A, B, windows=(rows(1), rows(1)))
    assert reference.answer(query, catalog(A, B, max_delay_s=1), arrivals) == [(0, 0)]


def test_rows_of_one_time_are_before_each_other_as_the_catalog_has_their_streams() -> None:
    """At one instant both of a's tuples are before b's, so only the second is b's last; and nothing is before a's."""
    arrivals = {A: arrive((1, 1), (1, 1)), B: arrive((1, 1), (1, 1))}
    query = join(A, B, windows=(rows(1), rows(1)))
    assert reference.answer(query, catalog(A, B), arrivals) == [(1, 0), (1, 1)]
    assert reference.answer(query, catalog(B, A), arrivals) == [(0, 1), (1, 1)]


def test_window_of_rows_and_of_time_in_one_join() -> None:
    arrivals = {A: arrive((0, 1), (5, 1)), B: arrive((1, 1), (4, 1), (6, 1))}
    query = join(A, B, windows=(rows(1), seconds(1)))
    assert reference.answer(query, catalog(A, B), arrivals) == [(0, 0), (0, 1), (1, 1), (1, 2)]


@pytest.mark.parametrize(
    ("windows", "itself"),
    [
        ((rows(1), rows(1)), False),
        ((seconds(0), seconds(0)), True),
        ((rows(1), seconds(0)), True),
        ((seconds(0), rows(1)), False),
    ],
)
def test_self_join_pairs_a_tuple_with_itself_if_the_second_window_is_of_time(
    windows: tuple[Extent, ...], itself: bool
) -> None:
    answer = reference.answer(join(A, A, windows=windows), catalog(A), {A: arrive((0, 1))})
    assert answer == ([(0, 0)] if itself else [])


def test_self_join_of_rows_pairs_each_tuple_with_those_before_it_in_both_roles() -> None:
    arrivals = {A: arrive((0, 1), (0, 1), (1, 1))}
    answer = reference.answer(join(A, A, windows=(rows(1), rows(2))), catalog(A), arrivals)
    assert sorted(answer) == [(0, 1), (1, 0), (1, 2), (2, 0), (2, 1)]


def test_theta_join_needs_no_equality() -> None:
    arrivals = {A: arrive((0, 1), (0, 3)), B: arrive((1, 2), (2, None))}
    assert reference.answer(join(A, B, window_s=5, on="<"), catalog(A, B), arrivals) == [(0, 0)]


# --- order


def test_results_are_in_order_of_their_newest_tuple() -> None:
    arrivals = {A: arrive((0, 1), (4, 1)), B: arrive((1, 1), (3, 1))}
    assert reference.answer(join(A, B, window_s=5), catalog(A, B), arrivals) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_stream_position_breaks_ties_of_time() -> None:
    """At one instant b's tuples are newer than a's, so b's decides first, wherever FROM names it."""
    arrivals = {A: arrive((1, 1), (1, 1)), B: arrive((1, 1), (1, 1))}
    assert reference.answer(join(A, B, window_s=0), catalog(A, B), arrivals) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert reference.answer(join(A, B, window_s=0), catalog(B, A), arrivals) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_tuples_put_in_order_count_by_time_not_by_arrival() -> None:
    arrivals = {A: arrive((2, 1), (1, 1))}
    assert reference.answer(join(A), catalog(A, max_delay_s=1), arrivals) == [(1,), (0,)]


def test_self_joined_twins_are_told_apart_by_from_order() -> None:
    """(0, 1) and (1, 0) have the same newest tuple and the same other."""
    arrivals = {A: arrive((0, 1), (1, 1))}
    answer = reference.answer(join(A, A, window_s=1), catalog(A), arrivals)
    assert answer.index((0, 1)) < answer.index((1, 0))


def test_reading_a_null_time_gives_null() -> None:
    row: dict[str, Value] = {"ts": None}
    expression = call("year", ColumnRef(0, *TS))
    assert reference.value(expression, lambda column: row[column.name]) is None
