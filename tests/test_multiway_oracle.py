"""Joins of three to six streams: the reference is DuckDB's answer, and the engine's is the reference's.

Every shape of conditions, every kind of window, one shard and several, every policy, with and without a budget, however
arrivals are cut, restored at each step or not, with queries that come and go. One shard gives the reference's rows in
the reference's order; several give the same rows, micro-batch after micro-batch in order. Inputs and queries are in
``multiway_cases.py``; examples with fixed rows in ``test_multiway_examples.py``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import duck
import engine_cases as cases
import multiway_cases as multi
import outcomes
import pytest
import strategies as some
from engine_cases import Case, Way, examples
from hypothesis import given
from hypothesis import strategies as st
from local_host import LocalHost
from multiway_cases import Shape

from headrace import reference
from headrace.engine.output import Cut
from headrace.engine.policy import POLICIES
from headrace.model import QueryId, StreamId
from headrace.plan.queries import Measure, Query, Source

SHARDS = (1, 2, 4, 9)


@pytest.fixture(scope="module")
def database() -> duck.duckdb.DuckDBPyConnection:
    return duck.connect()


def wanted(case: Case, query: Query) -> cases.Answer:
    return outcomes.shown(reference.answer(query, case.catalog, case.arrivals))


def assert_answers(host: LocalHost, case: Case, way: Way) -> None:
    """Row for row on one shard; on several the same rows, and no micro-batch goes back in time."""
    for query in case.queries:
        answer, rows = wanted(case, query), outcomes.got(host, query)
        assert outcomes.same_rows(rows, answer)
        outcomes.assert_batches_in_order(host, query)
        assert way.shards > 1 or rows == answer


# --- the reference


@pytest.mark.parametrize("shape", Shape, ids=lambda shape: shape.name.lower())
@given(data=st.data())
@examples(25)
def test_reference_gives_duckdbs_answer_row_for_row(
    shape: Shape, data: st.DataObject, database: duck.duckdb.DuckDBPyConnection
) -> None:
    case = data.draw(multi.inputs(shape, most_queries=1))
    (query,) = case.queries
    answer = reference.answer(query, case.catalog, case.arrivals)
    independent = duck.answer(query, case.catalog, case.arrivals, database)
    assert len(answer) == len(independent)
    assert all(some.all_agree(*pair) for pair in zip(answer, independent, strict=True))


@given(case=multi.inputs(most_queries=1), data=st.data())
@examples(30)
def test_another_order_of_from_gives_the_same_combinations(case: Case, data: st.DataObject) -> None:
    """Except where one tuple is there twice, as the first one of FROM is then the newest."""
    (query,) = case.queries
    order = data.draw(st.permutations(range(len(query.sources))))
    other = multi.reordered(query, order)
    rows = [_tuples(query, row, range(len(order))) for row in wanted(case, query)]
    again = [_tuples(other, row, [order.index(i) for i in range(len(order))]) for row in wanted(case, other)]
    assert Counter(filter(None, rows)) == Counter(filter(None, again))


def _tuples(query: Query, row: tuple[object, ...], order: range | list[int]) -> tuple[object, ...] | None:
    """The ids of a result in that order; nothing if two are the same tuple."""
    ids = row[len(order) : 2 * len(order)]
    named = [(query.sources[i].stream, ids[i]) for i in order]
    return tuple(named) if len(set(named)) == len(named) else None


# --- the engine's answers


@pytest.mark.parametrize("shape", Shape, ids=lambda shape: shape.name.lower())
@given(data=st.data())
@examples(20)
def test_one_shard_gives_the_answer_row_for_row(shape: Shape, data: st.DataObject) -> None:
    case, way = data.draw(multi.inputs(shape)), data.draw(cases.ways(shards=(1,)))
    assert_answers(cases.run(case, way), case, way)


@pytest.mark.parametrize("shards", SHARDS[1:])
@given(data=st.data())
@examples(40)
def test_many_shards_give_the_same_rows_and_batches_in_order(shards: int, data: st.DataObject) -> None:
    case, way = data.draw(multi.inputs()), data.draw(cases.ways(shards=(shards,)))
    assert_answers(cases.run(case, way), case, way)


@pytest.mark.parametrize("shards", [1, 4])
@given(data=st.data())
@examples(40)
def test_longer_streams_of_independent_columns_give_the_answer(shards: int, data: st.DataObject) -> None:
    case, way = data.draw(multi.longer_inputs()), data.draw(cases.ways(shards=(shards,)))
    assert_answers(cases.run(case, way), case, way)


@pytest.mark.parametrize("shards", SHARDS)
@given(data=st.data(), shape=st.sampled_from((Shape.THETA, Shape.THETA, Shape.MIXTURE)))
@examples(12)
def test_what_is_searched_by_comparisons_is_the_answer(shards: int, shape: Shape, data: st.DataObject) -> None:
    case, way = data.draw(multi.inputs(shape, most_queries=1)), data.draw(cases.ways(shards=(shards,)))
    way = replace(way, options=replace(way.options, method="hybrid"))
    assert_answers(cases.run(case, way), case, way)


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data())
@examples(8)
def test_every_policy_gives_the_answer_in_a_backlog(policy: str, shards: int, data: st.DataObject) -> None:
    case, way = data.draw(multi.busy_inputs()), data.draw(cases.busy_ways(shards=(shards,)))
    way = replace(way, options=replace(way.options, policy=policy))
    assert_answers(cases.run(case, way), case, way)


@pytest.mark.parametrize("policy", ["swf", "mqt"])
@given(case=multi.tied_inputs(), way=cases.busy_ways(shards=(1,)))
@examples(40)
def test_one_shard_gives_the_answer_row_for_row_window_by_window(policy: str, case: Case, way: Way) -> None:
    """Results of a larger window, found when newer tuples are held and runs are merged, come between the smaller's."""
    options = replace(way.options, policy=policy, merge_fanout=2)
    way = replace(way, lags=(0,), silent=(frozenset(),), options=options)
    host = cases.host_for(case, way)
    for chunks in cases.micro_batches(case, way):
        cases.arrive(host, chunks)
    cases.go_on_to_the_end(host)
    host.end()
    assert_answers(host, case, way)


@given(case=st.one_of(multi.busy_inputs(), multi.tied_inputs()), way=cases.busy_ways(shards=(1,)))
@examples(40)
def test_rows_for_a_shared_sink_are_in_order_beside_bands(case: Case, way: Way) -> None:
    shared = tuple(
        replace(one, name=QueryId(f"{one.name}_s"), into=(("connector", "parquet"), ("shared", f"of_{one.name}")))
        for one in case.queries
    )
    way = replace(way, options=replace(way.options, cut=Cut.BANDS))
    host = cases.run(replace(case, queries=(*case.queries, *shared)), way)
    for query, one in zip(case.queries, shared, strict=True):
        assert outcomes.got(host, one) == wanted(case, query)
        assert outcomes.same_rows(outcomes.got(host, query), wanted(case, query))


@given(case=multi.inputs(), way=cases.ways(shards=(1,)))
@examples(20)
def test_bands_of_one_shard_are_the_same_rows_in_batches_in_order(case: Case, way: Way) -> None:
    host = cases.run(case, replace(way, options=replace(way.options, cut=Cut.BANDS)))
    for query in case.queries:
        assert outcomes.same_rows(outcomes.got(host, query), wanted(case, query))
        outcomes.assert_batches_in_order(host, query)


@given(case=multi.inputs(), way=cases.ways(shards=(1,)))
@examples(25)
def test_a_query_runs_alone_as_it_runs_with_others(case: Case, way: Way) -> None:
    together = cases.run(case, way)
    for query in case.queries:
        alone = cases.run(replace(case, queries=(query,)), way)
        assert outcomes.got(alone, query) == outcomes.got(together, query)


@given(case=multi.inputs(most_queries=2), way=cases.ways(shards=SHARDS), data=st.data())
@examples(25)
def test_a_join_of_many_streams_runs_beside_joins_of_two_and_filters(case: Case, way: Way, data: st.DataObject) -> None:
    beside = data.draw(cases.query_lists(case.catalog, 2, "beside", cases.Kinds.ALL))
    case = replace(case, queries=(*case.queries, *beside))
    assert_answers(cases.run(case, way), case, way)


@given(case=multi.inputs(most_queries=2), way=cases.ways(shards=SHARDS))
@examples(25)
def test_counted_queries_count_what_the_rows_would_be(case: Case, way: Way) -> None:
    """Counted alone, and beside a query that gives its rows."""
    counting = tuple(
        replace(query, name=QueryId(f"{query.name}_counted"), into=(("connector", "count"),)) for query in case.queries
    )
    beside = cases.run(replace(case, queries=(*case.queries, *counting)), way)
    alone = cases.run(replace(case, queries=counting), way)
    for query, counted in zip(case.queries, counting, strict=True):
        expected = len(wanted(case, query))
        assert (beside.counts[counted.name], alone.counts[counted.name]) == (expected, expected)


# --- budgets and restoring


@given(case=st.one_of(multi.inputs(), multi.busy_inputs()), way=cases.ways(shards=SHARDS))
@examples(30)
def test_micro_batches_without_input_finish_what_a_budget_left(case: Case, way: Way) -> None:
    """Then all has come out that would have without a budget; nothing waits for an end."""
    budgeted = cases.host_for(case, replace(way, probes=way.probes or 1))
    unlimited = cases.host_for(case, replace(way, probes=None))
    for chunks in cases.micro_batches(case, way):
        cases.arrive(budgeted, chunks)
        cases.arrive(unlimited, chunks)
        assert not unlimited.is_behind
    cases.go_on_to_the_end(budgeted)
    for query in case.queries:
        assert outcomes.same_rows(outcomes.got(budgeted, query), outcomes.got(unlimited, query))
        assert way.shards > 1 or outcomes.got(budgeted, query) == outcomes.got(unlimited, query)
        outcomes.assert_batches_in_order(budgeted, query)


@given(
    case=st.one_of(multi.inputs(), multi.busy_inputs()),
    way=st.one_of(cases.ways(shards=SHARDS), cases.busy_ways(shards=SHARDS)),
    pauses=st.lists(st.integers(0, 2), min_size=1, max_size=4),
)
@examples(30)
def test_a_restored_shard_goes_on_as_the_one_that_was_kept(case: Case, way: Way, pauses: list[int]) -> None:
    """Not only the answers: every micro-batch, row for row, in the middle of a backlog and after it."""
    hosts = [cases.host_for(case, replace(way, restoring=restoring)) for restoring in (False, True)]
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        for host in hosts:
            cases.arrive(host, chunks)
            for _ in range(pauses[number % len(pauses)]):
                host.go_on()
            outcomes.assert_store_holds_what_is_needed(host)
        assert hosts[0].is_behind == hosts[1].is_behind
    for host in hosts:
        host.end()
        assert not host.is_behind
    kept, restored = hosts
    for query in case.queries:
        assert outcomes.got_by_batch(kept, query) == outcomes.got_by_batch(restored, query)
    assert_answers(restored, case, way)


# --- ends


def counts_rows(query: Query) -> bool:
    return any(extent.measure is Measure.ROWS for extent in query.windows)


@given(case=multi.inputs(), way=cases.ways(shards=SHARDS), ends=st.sets(st.integers(0, 6), min_size=1, max_size=3))
@examples(60)
def test_runs_that_end_and_go_on_give_together_what_one_run_gives(case: Case, way: Way, ends: set[int]) -> None:
    """Where rows are counted, the reference is told of the ends: each releases all that had come."""
    host, told = cases.run_with_ends(case, way, ends)
    for query in case.queries:
        answer = outcomes.shown(reference.answer(query, case.catalog, case.arrivals, told))
        assert outcomes.same_rows(outcomes.got(host, query), answer)
        assert counts_rows(query) or answer == wanted(case, query)


@given(case=multi.inputs(), way=cases.ways(shards=SHARDS))
@examples(15)
def test_an_end_without_waiting_rows_gives_nothing(case: Case, way: Way) -> None:
    host = cases.run(case, way)
    before = outcomes.all_rows(host)
    host.end()
    assert outcomes.all_rows(host) == before


# --- queries that come and go


def variants_of(case: Case, prefix: str) -> st.SearchStrategy[list[Query]]:
    """None to two queries that share the first one's join."""
    names = st.sampled_from(([], [f"{prefix}0"], [f"{prefix}0", f"{prefix}1"]))
    return names.flatmap(lambda some: st.tuples(*(multi.variants(case.queries[0], one) for one in some)).map(list))


@given(case=st.one_of(multi.inputs(most_queries=2), multi.busy_inputs(most_queries=2)), data=st.data())
@examples(60)
def test_queries_are_isolated_whatever_else_comes_and_goes(case: Case, data: st.DataObject) -> None:
    """Variants of the first and queries of their own, added and dropped between micro-batches and in a backlog."""
    way = data.draw(st.one_of(cases.ways(shards=SHARDS), cases.busy_ways(shards=SHARDS)))
    beside = st.one_of(variants_of(case, "like"), multi.query_lists(case.catalog, 2, "beside"))
    host = cases.host_for(replace(case, queries=(*case.queries, *data.draw(beside))), way)
    for chunks in cases.micro_batches(case, way):
        if data.draw(st.integers(0, 2)) == 0:
            host.change(case.catalog, data.draw(st.permutations([*case.queries, *data.draw(beside)])))
        cases.arrive(host, chunks)
        if data.draw(st.integers(0, 2)) == 0:
            host.go_on()
        outcomes.assert_store_holds_what_is_needed(host)
    host.end()
    assert_answers(host, case, way)


@given(
    case=st.one_of(multi.inputs(most_queries=2), multi.busy_inputs(most_queries=2)),
    way=cases.ways(shards=SHARDS),
    at=st.integers(0, 4),
    data=st.data(),
)
@examples(40)
def test_a_new_query_gives_no_wrong_row_and_all_rows_of_what_arrives_after_it(
    case: Case, way: Way, at: int, data: st.DataObject
) -> None:
    """It may also find tuples that were held when it came."""
    coming = [one for one in data.draw(variants_of(case, "new")) if not counts_rows(one)]
    coming.append(multi.other_window(case.queries[0], "wider", data.draw(st.sampled_from(some.WINDOWS_S))))
    host = cases.host_for(case, way)
    seen: dict[StreamId, int] = dict.fromkeys(case.arrivals, 0)
    batches = list(cases.micro_batches(case, way))
    for chunks in batches[:at]:
        cases.arrive(host, chunks)
        seen.update({name: seen[name] + len(rows) for name, rows in chunks.items()})
    host.change(case.catalog, (*case.queries, *coming))
    for chunks in batches[at:]:
        cases.arrive(host, chunks)
    host.end()
    assert_answers(host, case, way)
    for query in coming:
        answer, rows = wanted(case, query), Counter(outcomes.got(host, query))
        fresh = Counter(row for row in answer if _all_arrived_later(query, row, seen))
        assert fresh <= rows <= Counter(answer)


def _all_arrived_later(query: Query, row: tuple[object, ...], seen: dict[StreamId, int]) -> bool:
    sources = len(query.sources)
    ids = zip(row[sources : 2 * sources], query.sources, strict=True)
    return all(isinstance(number, int) and number >= seen[one.stream] for number, one in ids)


@given(case=multi.inputs(most_queries=2), way=cases.ways(shards=SHARDS), at=st.integers(0, 4))
@examples(20)
def test_a_restart_with_the_same_queries_changes_nothing(case: Case, way: Way, at: int) -> None:
    host = cases.host_for(case, way)
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        if number == at:
            host.change(case.catalog, case.queries[::-1])
        cases.arrive(host, chunks)
    host.end()
    assert_answers(host, case, way)


@given(case=multi.inputs(most_queries=2), way=cases.ways(shards=SHARDS), at=st.integers(0, 4))
@examples(20)
def test_queries_that_go_leave_nothing_in_the_store(case: Case, way: Way, at: int) -> None:
    """The same queries then begin anew, and give only results whose tuples all came later."""
    host = cases.host_for(case, way)
    batches = list(cases.micro_batches(case, way))
    seen: dict[StreamId, int] = dict.fromkeys(case.arrivals, 0)
    for chunks in batches[:at]:
        cases.arrive(host, chunks)
        seen.update({name: seen[name] + len(rows) for name, rows in chunks.items()})
    host.change(case.catalog, ())
    host.end()
    assert all(not store.blobs for store in host.stores)
    before = {query.name: len(host.rows(query.name)) for query in case.queries}
    host.change(case.catalog, case.queries)
    for chunks in batches[at:]:
        cases.arrive(host, chunks)
    host.end()
    for query in case.queries:
        rows = outcomes.got(host, query)[before[query.name] :]
        assert all(_all_arrived_later(query, row, seen) for row in rows)
        assert counts_rows(query) or Counter(rows) <= Counter(wanted(case, query))


# --- dead letters


@given(case=multi.inputs(most_queries=2), way=cases.ways(shards=SHARDS))
@examples(20)
def test_late_and_malformed_rows_are_rejected_once_each(case: Case, way: Way) -> None:
    """However many sources read a stream. Every stream is read whole too, as a row that no query reads is nobody's."""
    host = cases.run(replace(case, queries=(*case.queries, *(whole(one.name) for one in case.catalog.streams))), way)
    expected: Counter[tuple[str, str, int]] = Counter()
    for name, intake in reference.accepted(case.catalog, case.arrivals).items():
        expected.update((name, "late", seq) for seq in intake.late)
        expected.update((name, "malformed", seq) for seq in intake.malformed)
    assert outcomes.rejected(host) == expected


def whole(stream: StreamId) -> Query:
    return Query(QueryId(f"whole_{stream}"), (Source(stream, "s"),), (), multi.plain_outputs(1))
