"""The hold buffer: spills, merges, and rows of queries that do not want to wait."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import engine_cases as cases
from engine_cases import Case, Way, examples
from hypothesis import given

from headrace import reference
from headrace.engine.shard import ShardOptions
from headrace.model import BOOLEAN, Catalog, QueryId, Stream, StreamId
from headrace.plan.expressions import Literal
from headrace.plan.functions import call
from headrace.plan.queries import EARLY, Measure, Output, Query, Source, within_us

A, B = StreamId("a"), StreamId("b")
CATALOG = Catalog((Stream(A, cases.WIDE, "ts"), Stream(B, cases.WIDE, "ts")))
QUERY = Query(
    QueryId("q"),
    (Source(A, "s"), Source(B, "t")),
    (call("=", cases.column(0, "k"), cases.column(1, "k")),),
    tuple(Output(f"{name}{i}", cases.column(i, name)) for name in ("ts", "id") for i in (0, 1)),
    within_us(60 * cases.SECOND_US),
)


def early(query: Query) -> Query:
    """The same with EMIT EARLY."""
    outputs = (*query.outputs, Output(EARLY, Literal(False, BOOLEAN)))
    return replace(query, name=QueryId(f"{query.name}_early"), outputs=outputs, emits_early=True)


def paused(way: Way, seconds: int = 40) -> tuple[Case, Way]:
    """a goes on for as long while b has stopped after its first rows, then b resumes."""
    rows = {A: [cases.row(s, s) for s in range(seconds)], B: [cases.row(s, s) for s in range(seconds)]}
    return Case(CATALOG, rows, (QUERY,)), replace(way, blocks=(1,), lags=(0, seconds))


def test_a_long_pause_keeps_few_runs_and_gives_the_answer() -> None:
    case, way = paused(Way(restoring=True, filter_order=(True,)))
    host = cases.host_for(case, way)
    most = 0
    for chunks in cases.micro_batches(case, way):
        cases.arrive(host, chunks)
        operator = next(iter(host.shards[0]._operators.values()))
        most = max(most, len(operator.hold.runs))
        cases.assert_store_holds_what_is_needed(host)
    host.end()
    assert most < 20
    assert cases.got(host, QUERY) == cases.shown(reference.answer(QUERY, CATALOG, case.arrivals))


def test_results_beyond_the_limit_are_in_the_store_at_once_and_not_in_memory() -> None:
    rows = {A: [cases.row(s, s) for s in range(30)], B: [cases.row(s, s) for s in range(30)]}
    case = Case(CATALOG, rows, (QUERY,))
    for restoring in (False, True):
        options = ShardOptions(cases.ONE_SHARD.cut, hold_bytes=1)
        host = cases.host_for(case, Way(options=options, restoring=restoring, filter_order=(True,)))
        cases.arrive(host, {B: rows[B][:1]})
        for second in range(0, 30, 3):
            cases.arrive(host, {A: rows[A][second : second + 3]})
        operator = next(iter(host.shards[0]._operators.values()))
        assert host.shards[0].held_results > 0
        assert not restoring or all(run.batch is None for run in operator.hold.runs if run.name in host.stores[0].blobs)
        cases.arrive(host, {B: rows[B][1:]})
        host.end()
        assert cases.got(host, QUERY) == cases.shown(reference.answer(QUERY, CATALOG, rows))


@given(case=cases.busy_cases(), way=cases.ways())
@examples(60)
def test_rows_of_emit_early_are_the_same_rows_beside_others_in_order(case: Case, way: Way) -> None:
    both = replace(case, queries=(*case.queries, *map(early, case.queries)))
    host = cases.run(both, replace(way, filter_order=(True,)))
    for query in case.queries:
        wanted = cases.shown(reference.answer(query, case.catalog, case.arrivals))
        assert cases.same_rows(cases.got(host, query), wanted)
        assert way.shards > 1 or cases.got(host, query) == wanted
        cases.assert_batches_in_order(host, query)
        rows = cases.got(host, early(query))
        assert Counter(row[:-1] for row in rows) == Counter(wanted)
        assert {row[-1] for row in rows} <= {True, False}


def test_a_row_of_emit_early_says_whether_a_stream_was_behind_it() -> None:
    soon = early(QUERY)
    host = cases.host_for(Case(CATALOG, {}, (QUERY, soon)), Way(filter_order=(True,)))
    cases.arrive(host, {A: [cases.row(1, 1)], B: [cases.row(1, 1)]})
    cases.arrive(host, {A: [cases.row(5, 2)]})
    assert [row[-3:] for row in cases.got(host, soon)] == [(1, 1, True), (2, 1, True)]
    assert [row[-2:] for row in cases.got(host, QUERY)] == [(1, 1)]
    cases.arrive(host, {B: [cases.row(9, 2, k=2)]})
    cases.arrive(host, {A: [cases.row(9, 3, k=3)]})
    assert [row[-2:] for row in cases.got(host, QUERY)] == [(1, 1), (2, 1)]


def test_a_join_that_counts_rows_takes_tuples_in_order_whatever_it_is_told() -> None:
    counting = replace(QUERY, windows=tuple(replace(one, measure=Measure.ROWS, size=3) for one in QUERY.windows))
    case = Case(CATALOG, {A: [cases.row(s, s) for s in range(5)], B: [cases.row(s, s) for s in range(5)]}, (counting,))
    host = cases.run(case, Way(blocks=(1, 2), lags=(0, 3), filter_order=(True,)))
    assert cases.got(host, counting) == cases.shown(reference.answer(counting, CATALOG, case.arrivals))
