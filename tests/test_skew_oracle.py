"""Heavy keys, declared in the middle of a run: the answers stay the reference's, and no cell holds most of the tuples.

Joins of two streams and of more, windows of time and of rows, streams that are late or patient, budgets, restored
shards, any grid and any side split. Several shards give the reference's rows, micro-batch after micro-batch in order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import engine_cases as cases
import multiway_cases as multi
import outcomes
import pyarrow as pa
import pytest
import skew_cases as skew
from engine_cases import Case, Way, examples
from hypothesis import given
from hypothesis import strategies as st
from local_host import LocalHost

from headrace import reference
from headrace.model import QueryId
from headrace.plan.hypercube import grid_of
from headrace.plan.queries import Measure, Query, Source
from headrace.plan.skew import heavy_keys, seen_together
from headrace.sql import read_script

SHARDS = (2, 4, 9)


def wanted(case: Case, query: Query) -> cases.Answer:
    return outcomes.shown(reference.answer(query, case.catalog, case.arrivals))


def assert_answers(host: LocalHost, case: Case) -> None:
    for query in case.queries:
        assert outcomes.same_rows(outcomes.got(host, query), wanted(case, query))
        outcomes.assert_batches_in_order(host, query)


def skewed_host(case: Case, way: Way, data: st.DataObject) -> LocalHost:
    host = cases.host_for(case, way)
    host.grids = data.draw(skew.grids(host.plan, way.shards))
    return host


def run(case: Case, way: Way, data: st.DataObject, ends: frozenset[int] = frozenset()) -> LocalHost:
    """To the end of the input; keys become heavy between micro-batches."""
    host = skewed_host(case, way, data)
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        cases.arrive(host, chunks)
        outcomes.assert_store_holds_what_is_needed(host)
        outcomes.assert_shards_wait_alike(host)
        host.grids = data.draw(skew.more_heavy(host))
        if number in ends:
            host.end()
    host.end()
    return host


# --- answers


@pytest.mark.parametrize("shards", SHARDS)
@given(data=st.data())
@examples(60)
def test_joins_of_two_streams_give_the_answer(shards: int, data: st.DataObject) -> None:
    case = data.draw(st.one_of(cases.cases(kinds=cases.Kinds.ALL), cases.busy_cases()))
    way = data.draw(st.one_of(cases.ways(shards=(shards,)), cases.busy_ways(shards=(shards,))))
    assert_answers(run(case, way, data), case)


@pytest.mark.parametrize("shards", SHARDS)
@given(data=st.data())
@examples(60)
def test_joins_of_many_streams_give_the_answer(shards: int, data: st.DataObject) -> None:
    case = data.draw(st.one_of(multi.inputs(), multi.busy_inputs()))
    way = data.draw(st.one_of(cases.ways(shards=(shards,)), cases.busy_ways(shards=(shards,))))
    assert_answers(run(case, way, data), case)


@pytest.mark.parametrize("shards", [3, 4, 9])
@given(data=st.data())
@examples(60)
def test_a_stream_joined_with_itself_gives_the_answer(shards: int, data: st.DataObject) -> None:
    """Each pair is found in one cell, whichever it was dealt to, also with what came before the key was heavy."""
    case = data.draw(skew.self_joins())
    way = data.draw(st.one_of(cases.ways(shards=(shards,)), cases.busy_ways(shards=(shards,))))
    assert_answers(run(case, way, data), case)


@given(data=st.data(), shape=st.sampled_from((multi.Shape.CHAIN, multi.Shape.STAR, multi.Shape.CYCLE)))
@examples(40)
def test_keys_that_are_heavy_along_two_dimensions_give_the_answer(data: st.DataObject, shape: multi.Shape) -> None:
    """A tuple may be dealt along both, copied along both, or a guest here and not there."""
    case, way = data.draw(multi.inputs(shape)), data.draw(cases.ways(shards=(4, 9)))
    assert_answers(run(case, replace(way, blocks=(1, 2)), data), case)


@given(
    case=st.one_of(cases.busy_cases(), multi.busy_inputs(), skew.self_joins()),
    way=cases.ways(shards=SHARDS),
    data=st.data(),
)
@examples(40)
def test_counted_queries_count_each_result_once(case: Case, way: Way, data: st.DataObject) -> None:
    """Counts that need no rows are not taken where guests are; nor are results counted in two cells."""
    counting = [replace(one, name=QueryId(f"{one.name}_n"), into=(("connector", "count"),)) for one in case.queries]
    host = run(replace(case, queries=tuple(counting)), way, data)
    for query, counted in zip(case.queries, counting, strict=True):
        assert host.counts[counted.name] == len(wanted(case, query))


@given(case=st.one_of(cases.cases(), multi.inputs(), skew.self_joins()), way=cases.ways(shards=SHARDS), data=st.data())
@examples(40)
def test_runs_that_end_and_go_on_give_together_what_one_run_gives(case: Case, way: Way, data: st.DataObject) -> None:
    case = replace(case, queries=tuple(one for one in case.queries if not counts_rows(one)))
    host = run(case, way, data, data.draw(st.frozensets(st.integers(0, 6), min_size=1, max_size=3)))
    for query in case.queries:
        assert outcomes.same_rows(outcomes.got(host, query), wanted(case, query))


def counts_rows(query: Query) -> bool:
    return any(extent.measure is Measure.ROWS for extent in query.windows)


@given(case=st.one_of(cases.busy_cases(), multi.busy_inputs(), skew.self_joins()), data=st.data())
@examples(40)
def test_queries_that_come_and_go_change_nothing_for_the_others(case: Case, data: st.DataObject) -> None:
    """Their windows may reach further back than those of the queries that stay."""
    way = data.draw(st.one_of(cases.ways(shards=SHARDS), cases.busy_ways(shards=SHARDS)))
    host = skewed_host(case, way, data)
    for chunks in cases.micro_batches(case, way):
        if data.draw(st.booleans()):
            beside = multi.other_window(case.queries[0], "beside", data.draw(st.sampled_from((0, 2, 100))))
            host.change(case.catalog, [*case.queries, *data.draw(st.sampled_from(([], [beside])))])
        cases.arrive(host, chunks)
        host.grids = data.draw(skew.more_heavy(host))
        outcomes.assert_store_holds_what_is_needed(host)
    host.end()
    assert_answers(host, case)


# --- dead letters


@given(case=st.one_of(cases.cases(), multi.inputs(), skew.self_joins()), way=cases.ways(shards=SHARDS), data=st.data())
@examples(60)
def test_late_and_malformed_rows_are_rejected_once_each(case: Case, way: Way, data: st.DataObject) -> None:
    """However many cells a row is copied to; also where no other query reads it."""
    read = tuple(
        Query(QueryId(f"all_{one.name}"), (Source(one.name, "s"),), (), multi.plain_outputs(1))
        for one in case.catalog.streams
    )
    last = data.draw(st.booleans())
    host = run(replace(case, queries=(*case.queries, *read) if last else (*read, *case.queries)), way, data)
    expected: Counter[tuple[str, str, int]] = Counter()
    for name, intake in reference.accepted(case.catalog, case.arrivals).items():
        expected.update((name, "late", seq) for seq in intake.late)
        expected.update((name, "malformed", seq) for seq in intake.malformed)
    assert outcomes.rejected(host) == expected


# --- load

STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (connector = 'files', path = '{name}', time = 'ts');"
    for name in "abc"
)
PAIR = "CREATE QUERY q AS SELECT a.v FROM a, b WHERE a.k = b.k WINDOW 1 MILLISECOND"
COUNTED = "CREATE QUERY q AS SELECT a.v FROM a [ROWS 1000], b [ROWS 2] WHERE a.k = b.k"
ITSELF = "CREATE QUERY q AS SELECT x.v FROM a x, a y WHERE x.k = y.k WINDOW 20 MICROSECONDS"
ITSELF_COUNTED = "CREATE QUERY q AS SELECT x.v FROM a x [ROWS 1000], a y [ROWS 5] WHERE x.k = y.k AND y.v < 5"
TRIPLE = "CREATE QUERY q AS SELECT a.v FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW 1 MILLISECOND"


def rows(count: int, heavy: int, first_us: int, apart_us: int = 1) -> pa.RecordBatch:
    """Tuples so far apart; so many of ten have key 0, the others keys of their own."""
    numbers = range(count)
    keys = [0 if number % 10 < heavy else first_us + number for number in numbers]
    times = pa.array([first_us + apart_us * number for number in numbers], pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_pydict({"k": pa.array(keys), "v": pa.array(numbers, pa.int64()), "ts": times})


@pytest.mark.parametrize(
    ("text", "shards"),
    [(PAIR, 4), (COUNTED, 4), (TRIPLE, 4), (ITSELF, 7), (ITSELF_COUNTED, 7)],
    ids=["pair", "counted", "triple", "itself", "itself counted"],
)
def test_with_nine_of_ten_tuples_on_one_key_the_fullest_cell_holds_far_less_when_it_is_split(
    text: str, shards: int
) -> None:
    script = read_script(STREAMS + text)
    held = {}
    for is_split in (False, True):
        host = LocalHost(script.catalog, script.queries, shards=shards)
        for number in range(8):
            first_us = 2000 * number
            others = {name: rows(2, 10, first_us, 1999) for name in "bc" if f" {name}" in text.split("WHERE")[0]}
            host.arrive({"a": rows(2000, 9, first_us), **others})
            if is_split:
                declare(host)
        held[is_split] = sorted(shard.holdings().held_rows + shard.holdings().waiting_rows for shard in host.shards)
        assert host.grids == {} or [len(one.heavy) for one in host.grids.values()] == [1]
    assert held[True][-1] < 0.5 * held[False][-1]
    assert held[True][-1] < 1.5 * held[True][0]


def declare(host: LocalHost) -> None:
    """What a host does between micro-batches."""
    seen = seen_together(host.heavy_seen)
    for group in host.plan.groups:
        grid = host.grids.get(group.signature) or grid_of(group, len(host.stores))
        assert grid is not None
        heavy = heavy_keys(seen.get(group.signature, {}), grid, host.newest_us, grid.heavy)
        host.grids[group.signature] = replace(grid, heavy=heavy)
