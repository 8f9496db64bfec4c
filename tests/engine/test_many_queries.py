"""Many queries with filters of their own, over one join: each gets exactly what it would get alone."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import engine_cases as cases
import numpy as np
import outcomes
import pyarrow as pa
import pytest
from engine_cases import examples
from hypothesis import given
from hypothesis import strategies as st
from local_host import LocalHost
from strategies import SECOND_US, at

from headrace import reference
from headrace.engine import checking, output
from headrace.engine.arrow_types import arrow_type
from headrace.engine.evaluate import filter_mask
from headrace.engine.output import Cut
from headrace.engine.shard import ShardOptions
from headrace.engine.slices import Comparison, Hull, SortedIndex
from headrace.model import Catalog, Options, QueryId, Stream, StreamId
from headrace.plan.expressions import ColumnRef, Expression, Literal, Value
from headrace.plan.functions import call
from headrace.plan.queries import Output, Query, Source, within_us
from headrace.plan.sharing import Delivery, share

KNOWN = Catalog(tuple(Stream(StreamId(name), cases.WIDE, "ts") for name in "ab"))
FUNCTIONS = ("<", "<=", ">", ">=", "=")
BOUNDS: dict[str, tuple[Value, ...]] = {
    "k": (0, 1, 2, 3),
    "n": (-(2**63), 0, 1, 2, 2**63 - 1),
    "name": ("", "a", "aa", "b", "é", "é漢", "￿"),
    "x": (-1.0, -0.0, 0.0, 0.5, 1.0, math.inf, -math.inf, math.nan),
    "price": (Decimal("-2.50"), Decimal("0.00"), Decimal("0.01"), Decimal("1.00")),
    "day": (dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 1, 1)),
    "moment": (dt.datetime(1, 1, 1, tzinfo=dt.UTC), at(0), at(0.5), at(1)),
}


def shared_into(sink: str) -> Options:
    return (("connector", "parquet"), ("shared", sink))


@st.composite
def thresholds(draw: st.DrawFn, names: tuple[str, ...] = tuple(BOUNDS)) -> Expression:
    """A column of either side against a constant, on either side of the sign."""
    column = cases.column(draw(st.integers(0, 1)), draw(st.sampled_from(names)))
    literal = Literal(draw(st.sampled_from((*BOUNDS[column.name], None))), column.type)
    pair = (column, literal) if draw(st.booleans()) else (literal, column)
    return call(draw(st.sampled_from(FUNCTIONS)), *pair)


def sums() -> st.SearchStrategy[Expression]:
    """What both sides make together, against a constant."""
    total = call("+", cases.column(0, "x"), cases.column(1, "x"))
    bounds = st.sampled_from(BOUNDS["x"]).map(lambda bound: Literal(bound, total.type))
    return st.builds(lambda function, bound: call(function, total, bound), st.sampled_from(FUNCTIONS), bounds)


@st.composite
def many_queries(draw: st.DrawFn) -> tuple[Query, ...]:
    """Alerts over one join: windows, filters, select lists and ways out differ."""
    some = st.one_of(thresholds(("x",)), thresholds(), sums())
    found = []
    for number in range(draw(st.integers(2, 12))):
        outputs = [Output(f"{name}{i}", cases.column(i, name)) for name in ("ts", "id") for i in (0, 1)]
        if draw(st.booleans()):
            outputs.append(Output("more", call("+", cases.column(0, "k"), cases.column(1, "id"))))
        found.append(
            Query(
                QueryId(f"q{number}"),
                (Source(StreamId("a"), "a"), Source(StreamId("b"), "b")),
                (call("=", cases.column(0, "k"), cases.column(1, "k")), *draw(st.lists(some, max_size=3))),
                tuple(outputs),
                within_us(draw(st.sampled_from((0, 1, 3, 10))) * SECOND_US),
            )
        )
    return tuple(found)


@st.composite
def many_cases(draw: st.DrawFn) -> cases.Case:
    catalog = draw(cases.catalogs(least=2, most=2))
    return cases.Case(catalog, draw(cases.arrivals(catalog, 20)), draw(many_queries()))


@pytest.fixture(params=[1, 3, 1000], ids=["all_indexed", "some_indexed", "none_indexed"])
def _indexed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "INDEXED_FROM", request.param)
    monkeypatch.setattr(output, "MADE_TOGETHER", 5)


@pytest.mark.usefixtures("_indexed")
@given(case=many_cases(), way=cases.ways(shards=(1, 2)))
@examples(40)
def test_each_query_gets_what_it_gets_alone(case: cases.Case, way: cases.Way) -> None:
    host = cases.run(case, way)
    for query in case.queries:
        alone = outcomes.got(cases.run(replace(case, queries=(query,)), way), query)
        together = outcomes.got(host, query)
        answer = outcomes.shown(reference.answer(query, case.catalog, case.arrivals))
        if way.shards == 1:
            assert together == alone == answer
        else:
            assert outcomes.same_rows(together, alone)
            assert outcomes.same_rows(together, answer)


@pytest.mark.usefixtures("_indexed")
@given(case=many_cases(), way=cases.ways(shards=(2,)))
@examples(40)
def test_rows_for_a_shared_sink_are_in_order_on_every_shard(case: cases.Case, way: cases.Way) -> None:
    """Whatever the others' cut: in each step of a shard, a query's rows are one ordered stream for each part."""
    shared = tuple(replace(query, into=shared_into(f"of_{len(query.outputs)}")) for query in case.queries)
    host = _Listening(case.catalog, shared, shards=2, options=replace(way.options, cut=Cut.BANDS), probes=way.probes)
    for chunks in cases.micro_batches(case, way):
        cases.arrive(host, chunks)
    host.end()
    for query in case.queries:
        answer = reference.answer(query, case.catalog, case.arrivals)
        assert outcomes.same_rows(outcomes.got(host, query), outcomes.shown(answer))
    for rows in host.streams:
        newest = [max(row["ts0"], row["ts1"]) for row in rows]
        assert newest == sorted(newest)


class _Listening(LocalHost):
    """Also keeps what each query gets of each shard in a step, part by part."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.streams: list[list[Any]] = []
        super().__init__(*args, **options)

    def deliver(self, envelopes: list[Any]) -> None:
        self._now: dict[tuple[int, str, int], list[Any]] = {}
        super().deliver(envelopes)
        self.streams += self._now.values()

    def _apply(self, effect: Any, store: Any, emitted: Any) -> None:
        if hasattr(effect, "part"):
            for query in effect.queries:
                self._now.setdefault((id(store), query, effect.part), []).extend(effect.batch.to_pylist())
        super()._apply(effect, store, emitted)


@given(
    values=st.data(),
    name=st.sampled_from(tuple(BOUNDS)),
    compared=st.lists(st.tuples(st.sampled_from(FUNCTIONS), st.integers(0, 9)), min_size=1, max_size=3),
)
@examples(200)
def test_index_gives_what_the_mask_gives(values: st.DataObject, name: str, compared: list[tuple[str, int]]) -> None:
    ref = cases.column(0, name)
    rows = values.draw(st.lists(st.sampled_from((*BOUNDS[name], None)), max_size=30))
    column = pa.array(rows, arrow_type(ref.type))
    bounds = BOUNDS[name]
    conditions = [call(function, ref, Literal(bounds[at % len(bounds)], ref.type)) for function, at in compared]
    comparisons = [Comparison.of(one) for one in conditions]
    assert None not in comparisons
    told = [one for one in comparisons if one is not None]
    hull = Hull()
    hull.tell(told)
    index = SortedIndex.over(column, ref.type.kind, hull)
    begin, end = index.span(told)
    mask = filter_mask(conditions, _always(column), len(rows))
    wanted = range(len(rows)) if mask is None else np.flatnonzero(mask)
    assert sorted(index.order[begin:end].tolist()) == list(wanted)


def _always(column: pa.Array) -> Callable[[ColumnRef], pa.Array]:
    return lambda _ref: column


@pytest.mark.parametrize(
    "condition",
    [
        call("<>", cases.column(0, "x"), Literal(1.0, cases.column(0, "x").type)),
        call("<", cases.column(0, "x"), cases.column(1, "x")),
        call("=", cases.column(0, "x"), Literal(None, cases.column(0, "x").type)),
        call("=", cases.column(0, "flag"), Literal(True, cases.column(0, "flag").type)),
    ],
)
def test_what_no_index_answers_is_no_comparison(condition: Expression) -> None:
    assert Comparison.of(condition) is None


def test_a_query_that_comes_later_is_served_by_older_tuples() -> None:
    """Tuples kept under another plan passed other filters: they are checked by themselves."""

    def query(number: int, bound: float) -> Query:
        return Query(
            QueryId(f"q{number}"),
            (Source(StreamId("a"), "a"), Source(StreamId("b"), "b")),
            (
                call("=", cases.column(0, "k"), cases.column(1, "k")),
                call(">", cases.column(0, "x"), Literal(bound, cases.column(0, "x").type)),
            ),
            tuple(Output(f"id{i}", cases.column(i, "id")) for i in (0, 1)),
            within_us(100 * SECOND_US),
        )

    first = [query(0, 5.0)]
    many = [*first, *(query(number, number / 10) for number in range(1, 40))]
    host = LocalHost(KNOWN, first, options=ShardOptions(Cut.WINDOWS))
    rows = [cases.row(number, number, k=1, x=number / 4) for number in range(40)]
    host.arrive({"a": cases.batch_of(rows[:20]), "b": cases.batch_of([cases.row(19.5, 100, k=1)])})
    host.change(KNOWN, many)
    host.arrive({"a": cases.batch_of(rows[20:]), "b": cases.batch_of([cases.row(39.5, 101, k=1)])})
    host.end()
    for number, one in enumerate(many):
        bound = 5.0 if number == 0 else number / 10
        later = {row["id0"] for row in host.rows(one.name) if row["id1"] == 101}
        newer = {row["id"] for row in rows[20:] if row["x"] > bound}
        older = {row["id"] for row in rows[:20] if row["x"] > bound}
        assert newer <= later <= newer | older, one.name
        if bound >= 5.0:
            assert later == newer | older, one.name


def test_queries_of_a_shared_sink_are_classes_of_their_own() -> None:
    outputs = (Output("id", cases.column(0, "id")),)
    own = Query(QueryId("own"), (Source(StreamId("a"), "a"),), (), outputs)
    plan = share(KNOWN, [own, replace(own, name=QueryId("shared"), into=shared_into("alerts"))])
    assert [cls.delivery for group in plan.groups for cls in group.classes] == [Delivery.ROWS, Delivery.SHARED]
