"""The reference's groups against DuckDB, and their rules one by one."""

from __future__ import annotations

import math
from decimal import Decimal

import aggregate_cases as some
import duck
import duck_aggregates
import engine_cases as cases
import outcomes
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SECOND_US, all_agree, at

from headrace.model import BIGINT, BOOLEAN, DOUBLE, INT, Catalog, QueryId, Stream, StreamId, decimal
from headrace.plan.aggregates import Aggregate, Fold, Grouping, aggregate_ref, key_ref
from headrace.plan.expressions import ColumnRef, Expression, Literal, Value
from headrace.plan.functions import call
from headrace.plan.queries import Extent, Measure, Output, Query, Source
from headrace.reference_aggregates import evaluation_times, fold, grouped_answer

A, B = StreamId("a"), StreamId("b")
COUNT = Aggregate(Fold.COUNT)
K = cases.column(0, "k")


@pytest.fixture(scope="module")
def database() -> duck.duckdb.DuckDBPyConnection:
    return duck.connect()


# --- against DuckDB


@pytest.mark.parametrize("sources", [1, 2, 3])
@given(data=st.data())
@cases.examples(60)
def test_rows_are_duckdbs_at_every_time(
    sources: int, data: st.DataObject, database: duck.duckdb.DuckDBPyConnection
) -> None:
    case = data.draw(some.grouped_cases(2, sources))
    every_us = data.draw(st.sampled_from((None, None, SECOND_US, 3 * SECOND_US)))
    beyond_us = data.draw(st.sampled_from((0, 1, 3 * SECOND_US, 101 * SECOND_US)))
    last_us = some.newest_us(case.arrivals) + beyond_us
    for query in case.queries:
        times = evaluation_times(query, case.catalog, case.arrivals, last_us, every_us)
        got = grouped_answer(query, case.catalog, case.arrivals, times)
        wanted = duck_aggregates.grouped_answer(query, case.catalog, case.arrivals, times, database)
        assert len(got) == len(wanted), f"{got}\n{wanted}"
        assert all(all_agree(*pair) for pair in zip(got, wanted, strict=True)), f"{got}\n{wanted}"


@given(data=st.data())
@cases.examples(60)
def test_value_changes_only_at_the_eager_times(data: st.DataObject) -> None:
    """More times give no more rows, as each row is given at the first time it could be."""
    case = data.draw(some.grouped_cases(1))
    (query,) = case.queries
    last_us = some.newest_us(case.arrivals) + 101 * SECOND_US
    eager = evaluation_times(query, case.catalog, case.arrivals, last_us)
    more = sorted({*eager, *(time + step for time in eager for step in (-1, 1, SECOND_US // 2))})
    rows = grouped_answer(query, case.catalog, case.arrivals, eager)
    assert outcomes.shown(grouped_answer(query, case.catalog, case.arrivals, more)) == outcomes.shown(rows)


# --- groups in time


CATALOG = Catalog((Stream(A, cases.WIDE, "ts"), Stream(B, cases.WIDE, "ts")))


def us(seconds: float) -> int:
    return some.EPOCH_US + round(seconds * SECOND_US)


def query_of(
    streams: tuple[StreamId, ...],
    windows_s: tuple[float, ...],
    keys: tuple[Expression, ...] = (),
    aggregates: tuple[Aggregate, ...] = (COUNT,),
    having: Expression | None = None,
) -> Query:
    """Equal k, and as outputs the keys and aggregates."""
    grouping = Grouping(keys, aggregates, having)
    on = [call("=", cases.column(0, "k"), cases.column(i, "k")) for i in range(1, len(streams))]
    return Query(
        QueryId("q"),
        tuple(Source(stream, f"s{i}") for i, stream in enumerate(streams)),
        tuple(on),
        tuple(Output(one.name, one) for one in some.refs(grouping)),
        tuple(Extent(Measure.TIME, round(size * SECOND_US)) for size in windows_s),
        grouping=grouping,
    )


def arrive(*rows: tuple[float, int | None], **columns: Value) -> list[cases.Row]:
    return [cases.row(seconds, number, k=key, **columns) for number, (seconds, key) in enumerate(rows)]


def rows_of(query: Query, arrivals: cases.Arrivals, times_s: list[float] | None = None) -> list[tuple[Value, ...]]:
    """The rows, their times in seconds into the test."""
    times = [us(one) for one in times_s or ()] or evaluation_times(query, CATALOG, arrivals, us(1000))
    answer = grouped_answer(query, CATALOG, arrivals, times)
    return [(*row[:-1], (row[-1] - at(0)).total_seconds()) for row in answer]  # type: ignore[operator, union-attr]


def test_result_counts_from_its_newest_tuple_until_its_oldest_leaves() -> None:
    arrivals = {A: arrive((1, 1)), B: arrive((2, 1))}
    assert rows_of(query_of((A, B), (2, 3)), arrivals) == [(1, 2.0), (0, 3.000001)]


def test_tuple_is_in_its_window_to_the_last_microsecond() -> None:
    arrivals = {A: arrive((0, 1))}
    query = query_of((A,), (5,))
    assert rows_of(query, arrivals, [5]) == [(1, 5.0)]
    assert rows_of(query, arrivals, [5, 5.000001]) == [(1, 5.0), (0, 5.000001)]
    assert rows_of(query, arrivals, [5.000001]) == []


def test_value_that_is_back_by_the_next_time_gives_no_row() -> None:
    arrivals = {A: arrive((0, 1), (2, 1), (8, 1))}
    assert rows_of(query_of((A,), (1,)), arrivals, [0, 2, 5, 8]) == [(1, 0.0), (0, 5.0), (1, 8.0)]


def test_emptied_group_has_count_0_and_nulls() -> None:
    aggregates = tuple(Aggregate(one, cases.column(0, "n")) for one in Fold)
    arrivals = {A: arrive((0, 1), n=4)}
    rows = rows_of(query_of((A,), (1,), (K,), aggregates), arrivals)
    assert rows == [(1, 1, 1, 4, 4.0, 4, 4, 0.0), (1, 0, 0, None, None, None, None, 1.000001)]


def test_group_that_appears_gives_a_row_though_its_outputs_are_those_of_an_empty_one() -> None:
    none = Aggregate(Fold.COUNT, None, Literal(False, BOOLEAN))
    arrivals = {A: arrive((0, 1))}
    assert rows_of(query_of((A,), (1,), (), (none,)), arrivals) == [(0, 0.0), (0, 1.000001)]


def test_groups_without_aggregates_give_rows_when_they_appear_and_are_emptied() -> None:
    arrivals = {A: arrive((0, 1), (0, 2), (1, 1))}
    assert rows_of(query_of((A,), (1,), (K,), ()), arrivals) == [(1, 0.0), (2, 0.0), (2, 1.000001), (1, 2.000001)]


def test_rows_of_one_time_are_in_the_order_of_their_keys_nulls_first() -> None:
    arrivals = {A: arrive((0, 3), (0, 1), (0, None), (0, 2))}
    assert [row[0] for row in rows_of(query_of((A,), (1,), (K,)), arrivals, [0])] == [None, 1, 2, 3]


def test_nan_is_one_group_after_all_others_and_so_is_zero_whatever_its_sign() -> None:
    values = (math.nan, -0.0, 1.0, 0.0, math.nan, math.inf)
    arrivals = {A: [cases.row(0, i, x=one) for i, one in enumerate(values)]}
    rows = outcomes.shown(rows_of(query_of((A,), (1,), (cases.column(0, "x"),)), arrivals, [0]))
    assert rows == [(0.0, 2, 0.0), (1.0, 1, 0.0), (math.inf, 1, 0.0), ("NaN", 2, 0.0)]
    assert math.copysign(1.0, rows[0][0]) == 1.0  # type: ignore[arg-type]


# --- HAVING


def test_having_chooses_among_the_rows_that_changed() -> None:
    """3 is given each time it is reached, and what falls below is not."""
    above = call(">", aggregate_ref(0, COUNT), Literal(1, INT))
    arrivals = {A: arrive((0, 1), (1, 1), (2, 1), (2.5, 1))}
    assert rows_of(query_of((A,), (2,), (), (COUNT,), above), arrivals) == [
        (2, 1.0), (3, 2.0), (2, 2.000001), (3, 2.5), (2, 3.000001),
    ]  # fmt: skip


def test_having_may_ask_for_emptied_groups() -> None:
    empty = call("=", aggregate_ref(0, COUNT), Literal(0, INT))
    arrivals = {A: arrive((0, 1), (1, 2))}
    query = query_of((A,), (2,), (K,), (COUNT,), empty)
    assert rows_of(query, arrivals) == [(1, 0, 2.000001), (2, 0, 3.000001)]


def test_group_gives_a_row_whenever_having_begins_to_hold_though_no_output_changed() -> None:
    """And none when it ceases to: what is given always passes."""
    grouping = Grouping((K,), (COUNT,), call(">", aggregate_ref(0, COUNT), Literal(1, INT)))
    query = query_of((A,), (2,), (K,))
    shown = Query(query.name, query.sources, (), (Output("k", key_ref(0, K)),), query.windows, grouping=grouping)
    assert rows_of(shown, {A: arrive((0, 1), (1, 1), (1.5, 1), (4, 1), (5, 1))}) == [(1, 1.0), (1, 5.0)]


# --- times


def test_eager_times_are_those_of_results_and_just_after_them() -> None:
    query = query_of((A, B), (2, 3))
    arrivals = {A: arrive((1, 1), (1, 2)), B: arrive((2, 1))}
    assert evaluation_times(query, CATALOG, arrivals, us(10)) == [us(2), us(3) + 1]
    assert evaluation_times(query, CATALOG, arrivals, us(3)) == [us(2)]


def test_lazy_times_are_multiples() -> None:
    arrivals = {A: arrive((1.5, 1))}
    times = evaluation_times(query_of((A,), (2,)), CATALOG, arrivals, us(4.5), SECOND_US)
    assert times == [us(2), us(3), us(4)]
    assert evaluation_times(query_of((A,), (2,)), CATALOG, {}, us(4.5), SECOND_US) == []


# --- folds


X = ColumnRef(0, "x", DOUBLE)
N = ColumnRef(0, "n", BIGINT)
P = ColumnRef(0, "p", decimal(38, 2))


@pytest.mark.parametrize(
    ("kind", "argument", "values", "expected"),
    [
        (Fold.SUM, X, [1e16, 1.0, -1e16], 1.0),
        (Fold.SUM, X, [1e308, 1e308, -1e308], 1e308),
        (Fold.SUM, X, [1e308, 1e308], math.inf),
        (Fold.SUM, X, [math.inf, 1.0], math.inf),
        (Fold.SUM, X, [math.inf, -math.inf], "NaN"),
        (Fold.SUM, X, [math.nan, math.inf], "NaN"),
        (Fold.SUM, X, [None], None),
        (Fold.AVG, X, [1.0, None, 2.0], 1.5),
        (Fold.SUM, N, [2**62, 2**62], -(2**63)),
        (Fold.AVG, N, [2**62, 2**62], 2.0**62),
        (Fold.SUM, P, [Decimal("1.10"), Decimal("-3.10")], Decimal("-2.00")),
        (Fold.SUM, P, [Decimal("9" * 36), Decimal("1.00")], None),
        (Fold.AVG, P, [Decimal("1.10"), Decimal("1.20")], 1.15),
        (Fold.MIN, X, [math.nan, 3.0], 3.0),
        (Fold.MAX, X, [math.nan, math.inf], "NaN"),
        (Fold.DISTINCT, X, [math.nan, math.nan, 0.0, -0.0, None], 2),
        (Fold.COUNT, X, [math.nan, None], 1),
    ],
)
def test_fold(kind: Fold, argument: Expression, values: list[Value], expected: Value) -> None:
    assert outcomes.shown([(fold(Aggregate(kind, argument), values),)]) == [(expected,)]


@pytest.mark.parametrize("kind", [Fold.MIN, Fold.MAX, Fold.SUM])
def test_no_aggregate_is_a_negative_zero(kind: Fold) -> None:
    assert repr(fold(Aggregate(kind, X), [-0.0])) == "0.0"
