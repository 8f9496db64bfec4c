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
from headrace.plan.queries import Output, Query, Source

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


def join(*streams: StreamId, window_s: float | None = None) -> Query:
    """A chain of equi-joins on k that gives every source's id."""
    keys = [ColumnRef(i, *K) for i in range(len(streams))]
    conditions: list[Expression] = [call("=", *pair) for pair in pairwise(keys)]
    return Query(
        QueryId("q"),
        tuple(Source(stream, f"s{i}") for i, stream in enumerate(streams)),
        tuple(conditions),
        tuple(Output(f"id{i}", ColumnRef(i, *ID)) for i in range(len(streams))),
        None if window_s is None else round(window_s * some.SECOND_US),
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
    assert [one.seq for one in taken.tuples] == [0, 2, 3]
    assert taken.late == (1,)


def test_tuple_exactly_max_delay_behind_is_not_late() -> None:
    taken = reference.accepted(catalog(A, max_delay_s=2), {A: arrive((5, 1), (3, 1), (2.999999, 1))})[A]
    assert [one.seq for one in taken.tuples] == [0, 1]
    assert taken.late == (2,)


def test_row_without_a_time_is_malformed_and_keeps_its_place_in_the_numbering() -> None:
    taken = reference.accepted(catalog(A), {A: arrive((None, 1), (1, 1))})[A]
    assert taken.malformed == (0,)
    assert [(one.seq, one.ts_us) for one in taken.tuples] == [(1, int(some.at(1).timestamp()) * some.SECOND_US)]


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
