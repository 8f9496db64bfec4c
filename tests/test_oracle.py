"""The engine gives the reference's answers, whatever the input, the queries and the way of running.

Streams are tied, duplicate, skewed, empty, late and asynchronous; queries select, join and self-join on every type of
key, alone and together; arrivals are cut in every size, over one shard or several, with and without restoring each
step from the kept state. One shard gives the reference's rows in the reference's order; several give the same rows,
micro-batch after micro-batch in order. The reference itself is held against DuckDB in ``test_reference.py``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import duck
import engine_cases as cases
import outcomes
import pytest
import strategies as some
from engine_cases import examples
from hypothesis import given
from hypothesis import strategies as st
from local_host import LocalHost

from headrace import reference
from headrace.engine.cutting import BlockCut
from headrace.engine.output import Cut
from headrace.engine.policy import POLICIES
from headrace.engine.shard import ShardOptions
from headrace.model import Catalog, QueryId, Stream, StreamId
from headrace.plan.functions import call
from headrace.plan.queries import Extent, Measure, Output, Query, Source, within_us

Case, Way = cases.Case, cases.Way
A, B = StreamId("a"), StreamId("b")
TWO = Catalog((Stream(A, cases.WIDE, "ts"), Stream(B, cases.WIDE, "ts")))


def wanted(case: Case, query: Query) -> cases.Answer:
    return outcomes.shown(reference.answer(query, case.catalog, case.arrivals))


# --- answers


@given(case=cases.cases(kinds="all"), way=cases.ways(shards=(1,)))
@examples(150)
def test_one_shard_gives_the_answer_row_for_row(case: Case, way: Way) -> None:
    host = cases.run(case, way)
    for query in case.queries:
        assert outcomes.got(host, query) == wanted(case, query)


@given(case=cases.cases(kinds="all"), way=cases.ways(shards=(2, 3)))
@examples(99)
def test_many_shards_give_the_same_rows_and_batches_in_order(case: Case, way: Way) -> None:
    host = cases.run(case, way)
    for query in case.queries:
        assert outcomes.same_rows(outcomes.got(host, query), wanted(case, query))
        outcomes.assert_batches_in_order(host, query)


@given(case=cases.cases(kinds="all"), way=cases.ways(shards=(1,)))
@examples(40)
def test_bands_of_one_shard_are_the_same_rows_in_batches_in_order(case: Case, way: Way) -> None:
    host = cases.run(case, replace(way, options=replace(way.options, cut=Cut.BANDS)))
    for query in case.queries:
        assert outcomes.same_rows(outcomes.got(host, query), wanted(case, query))
        outcomes.assert_batches_in_order(host, query)


@given(case=cases.cases(most_queries=1, max_rows=10, kinds="all"), way=cases.ways())
@examples(40)
def test_engine_reference_and_duckdb_agree(case: Case, way: Way) -> None:
    (query,) = case.queries
    answer = reference.answer(query, case.catalog, case.arrivals)
    independent = duck.answer(query, case.catalog, case.arrivals)
    assert len(answer) == len(independent)
    assert all(some.all_agree(*pair) for pair in zip(answer, independent, strict=True))
    assert outcomes.same_rows(outcomes.got(cases.run(case, way), query), independent)


@given(case=cases.cases(kinds="all"), way=cases.ways(shards=(1,)))
@examples(40)
def test_a_query_runs_alone_as_it_runs_with_others(case: Case, way: Way) -> None:
    together = cases.run(case, way)
    for query in case.queries:
        alone = cases.run(replace(case, queries=(query,)), way)
        assert outcomes.got(alone, query) == outcomes.got(together, query)


@given(case=cases.cases(kinds="all"), way=cases.ways())
@examples(60)
def test_counted_queries_count_what_the_rows_would_be(case: Case, way: Way) -> None:
    """Counted alone (where lengths of ranges may do) and beside a query that gives its rows."""
    counting = tuple(
        replace(query, name=QueryId(f"{query.name}_counted"), into=(("connector", "count"),)) for query in case.queries
    )
    beside = cases.run(replace(case, queries=(*case.queries, *counting)), way)
    alone = cases.run(replace(case, queries=counting), way)
    for query, counted in zip(case.queries, counting, strict=True):
        expected = len(wanted(case, query))
        assert (beside.counts[counted.name], alone.counts[counted.name]) == (expected, expected)
        assert beside.rows(counted.name) == []


@given(case=cases.cases(kinds="all"), way=cases.ways(shards=(1,)))
@examples(40)
def test_rows_without_an_order_arrive_as_if_sorted_within_their_micro_batch(case: Case, way: Way) -> None:
    host = cases.host_for(case, way)
    told: dict[str, list[cases.Row]] = {name: [] for name in case.arrivals}
    for chunks in cases.micro_batches(case, way):
        cases.arrive(host, chunks, ordered=False)
        for name, rows in chunks.items():
            told[name] += sorted((row for row in rows if row["ts"] is not None), key=lambda row: row["ts"])  # type: ignore[arg-type,return-value]
    host.end()
    for query in case.queries:
        assert outcomes.got(host, query) == wanted(replace(case, arrivals=told), query)


@given(case=cases.cases(kinds="all"), way=cases.ways(shards=(1,)), together=st.integers(2, 4), data=st.data())
@examples(60)
def test_chunks_of_one_micro_batch_count_in_their_order_however_they_come(
    case: Case, way: Way, together: int, data: st.DataObject
) -> None:
    """Source tasks run side by side: a shard gets their envelopes in any order."""
    host = cases.host_for(case, way)
    orders = dict.fromkeys(case.arrivals, 0)
    chunks = [one for batch in cases.micro_batches(case, way) for one in batch.items()]
    for begin in range(0, len(chunks), together):
        envelopes = []
        for name, rows in chunks[begin : begin + together]:
            orders[name] += 1
            envelopes += cases.packed(host, name, rows, orders[name])
        host.deliver(data.draw(st.permutations(envelopes)))
    host.end()
    for query in case.queries:
        assert outcomes.got(host, query) == wanted(case, query)


def test_a_later_chunk_that_is_delivered_first_still_comes_later() -> None:
    """Ties are in the order of the chunks, and what is late is decided in that order too."""
    case = Case(TWO, {A: [cases.row(5, 0), cases.row(5, 1), cases.row(4, 2)], B: []}, (everything(A),))
    host = cases.host_for(case, Way())
    chunks = [cases.packed(host, A, [row], order) for order, row in enumerate(case.arrivals[A])]
    host.deliver([envelope for chunk in chunks[::-1] for envelope in chunk])
    assert [row["id"] for row in host.rows("all_a")] == [0, 1]
    assert outcomes.rejected(host) == Counter({("a", "late", 2): 1})


def everything(stream: StreamId) -> Query:
    """A stream's ids, none left out."""
    return Query(QueryId(f"all_{stream}"), (Source(stream, "s"),), (), (Output("id", cases.column(0, "id")),))


def test_a_tie_waits_for_the_stream_that_is_before_it_in_the_catalog() -> None:
    """At one time all of a's tuples are older than b's, also one of a's that comes a micro-batch later."""
    case = Case(TWO, {A: [cases.row(5, i) for i in range(2)], B: [cases.row(5, i) for i in range(2)]}, (pairs(5),))
    host = cases.run(case, Way(blocks=(1, 2)))
    assert [(row["id0"], row["id1"]) for row in host.rows("q")] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def pairs(window_us: int) -> Query:
    """Streams a and b joined on k."""
    return Query(
        QueryId("q"),
        (Source(A, "s"), Source(B, "t")),
        (call("=", cases.column(0, "k"), cases.column(1, "k")),),
        tuple(Output(f"{name}{i}", cases.column(i, name)) for name in ("ts", "id") for i in (0, 1)),
        within_us(window_us),
    )


def test_more_windows_than_a_byte_counts_are_told_apart() -> None:
    """A class of 300 windows, each a microsecond larger than the one before."""
    queries = tuple(replace(pairs(i), name=QueryId(f"q{i}")) for i in range(300))
    arrivals = {A: [cases.row(0, 0)], B: [cases.row(i * 1e-6, i) for i in range(0, 310, 7)]}
    case = Case(TWO, arrivals, queries)
    for cut in Cut:
        host = cases.run(case, Way(options=ShardOptions(cut=cut)))
        assert [len(host.rows(query.name)) for query in queries] == [i // 7 + 1 for i in range(300)]


# --- dead letters


@given(case=cases.cases(most_queries=3, kinds="all"), way=cases.ways())
@examples(60)
def test_late_and_malformed_rows_are_rejected_once_each(case: Case, way: Way) -> None:
    """Every stream is read whole by one query, as a row that no query reads is nobody's."""
    readers = tuple(everything(stream.name) for stream in case.catalog.streams)
    host = cases.run(replace(case, queries=(*case.queries, *readers)), way)
    expected: Counter[tuple[str, str, int]] = Counter()
    for name, intake in reference.accepted(case.catalog, case.arrivals).items():
        expected.update((name, "late", seq) for seq in intake.late)
        expected.update((name, "malformed", seq) for seq in intake.malformed)
    assert outcomes.rejected(host) == expected


# --- ends and goings-on


def counts_rows(query: Query) -> bool:
    """Whether an end in between changes what a window holds: later tuples come after those that it released."""
    return any(extent.measure is Measure.ROWS for extent in query.windows)


@given(
    case=st.one_of(cases.cases(kinds="all"), cases.cases(kinds="mixed")),
    way=cases.ways(),
    ends=st.sets(st.integers(0, 6), min_size=1, max_size=3),
)
@examples(149)
def test_runs_that_end_and_go_on_give_together_what_one_run_gives(case: Case, way: Way, ends: set[int]) -> None:
    """Where rows are counted, the reference is told of the ends: each releases all that had come."""
    host, told = cases.run_with_ends(case, way, ends)
    for query in case.queries:
        answer = outcomes.shown(reference.answer(query, case.catalog, case.arrivals, told))
        assert outcomes.same_rows(outcomes.got(host, query), answer)
        assert counts_rows(query) or answer == wanted(case, query)


@given(case=cases.cases(kinds="all"), way=cases.ways())
@examples(40)
def test_an_end_without_waiting_rows_gives_nothing(case: Case, way: Way) -> None:
    host = cases.run(case, way)
    before = {query.name: outcomes.got(host, query) for query in case.queries}
    host.end()
    assert before == {query.name: outcomes.got(host, query) for query in case.queries}


# --- budgets


@given(case=cases.cases(kinds="all"), way=cases.ways())
@examples(80)
def test_micro_batches_without_input_finish_what_a_budget_left(case: Case, way: Way) -> None:
    """Then all has come out that would have without a budget, in the same order; nothing waits for an end."""
    budgeted, unlimited = cases.host_for(case, way), cases.host_for(case, replace(way, probes=None))
    for chunks in cases.micro_batches(case, way):
        cases.arrive(budgeted, chunks)
        cases.arrive(unlimited, chunks)
        assert not unlimited.is_behind
    cases.go_on_to_the_end(budgeted)
    for query in case.queries:
        assert outcomes.same_rows(outcomes.got(budgeted, query), outcomes.got(unlimited, query))
        assert way.shards > 1 or outcomes.got(budgeted, query) == outcomes.got(unlimited, query)
        outcomes.assert_batches_in_order(budgeted, query)
    before = outcomes.all_rows(budgeted)
    budgeted.go_on()
    assert outcomes.all_rows(budgeted) == before


@given(case=cases.cases(kinds="all"), way=cases.ways(), pauses=st.lists(st.integers(0, 2), min_size=1, max_size=4))
@examples(60)
def test_in_the_middle_of_a_backlog_all_is_as_it_should_be(case: Case, way: Way, pauses: list[int]) -> None:
    """The store holds what is needed, shards wait alike, and no more waits than the limit allows."""
    way = replace(way, probes=way.probes or 1)
    host = cases.host_for(case, way)
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        cases.arrive(host, chunks)
        for step in range(pauses[number % len(pauses)] + 1):
            if step:
                host.go_on()
            outcomes.assert_store_holds_what_is_needed(host)
            outcomes.assert_shards_wait_alike(host)
            assert way.backlog_rows is None or outcomes.backlog(host) <= way.backlog_rows
    host.end()
    assert not host.is_behind
    assert outcomes.backlog(host) == 0
    for query in case.queries:
        assert outcomes.same_rows(outcomes.got(host, query), wanted(case, query))


@given(case=cases.cases(kinds="all"), way=cases.ways())
@examples(40)
def test_every_step_of_a_backlog_takes_at_least_one_turn_and_adds_nothing(case: Case, way: Way) -> None:
    """However small the budget: a backlog ends after as many steps as its blocks have windows to scan."""
    host = cases.host_for(case, replace(way, probes=1, backlog_rows=None))
    for chunks in cases.micro_batches(case, way):
        cases.arrive(host, chunks)
    before = sum(len(blocks) for blocks in outcomes.pending(host.shards[0]).values())
    most = max((len(group.windows) for group in host.plan.groups), default=0)
    for _ in range(before * most):
        host.go_on()
    assert outcomes.backlog(host) == 0


@given(case=cases.busy_cases(), way=cases.busy_ways())
@examples(60)
def test_a_backlog_of_one_join_gives_every_query_its_answer_without_an_end(case: Case, way: Way) -> None:
    """Rows far ahead, one of each source, bring progress past all others."""
    host = cases.host_for(case, way)
    for chunks in cases.micro_batches(case, way):
        cases.arrive(host, chunks)
    ahead = [cases.row(1000, 999, flag=flag) for flag in (True, False, None)]
    cases.arrive(host, {stream.name: ahead for stream in case.catalog.streams})
    cases.go_on_to_the_end(host)
    for query in case.queries:
        rows = [row for row in outcomes.got(host, query) if 999 not in row]
        assert outcomes.same_rows(rows, wanted(case, query))
        assert way.shards > 1 or rows == wanted(case, query)
        outcomes.assert_batches_in_order(host, query)


@given(case=st.one_of(cases.busy_cases(), cases.cases(most_queries=3, kinds="all")), data=st.data())
@examples(150)
def test_queries_are_isolated_whatever_else_runs_comes_and_goes(case: Case, data: st.DataObject) -> None:
    """Policy, size of blocks, budget, shards, and others added and dropped in the middle of a backlog: a query gets
    what it gets alone, without any of these."""
    way = data.draw(st.one_of(cases.ways(), cases.busy_ways()))
    beside = st.one_of(st.just([]), cases.query_lists(case.catalog, 2, "beside", kinds="all"), _variants_of(case))
    host = cases.host_for(replace(case, queries=(*case.queries, *data.draw(beside))), way)
    for chunks in cases.micro_batches(case, way):
        if data.draw(st.integers(0, 2)) == 0:
            host.change(case.catalog, data.draw(st.permutations([*case.queries, *data.draw(beside)])))
        cases.arrive(host, chunks)
        if data.draw(st.integers(0, 2)) == 0:
            host.go_on()
        outcomes.assert_shards_wait_alike(host)
    host.end()
    for query in case.queries:
        alone = outcomes.got(cases.run(replace(case, queries=(query,))), query)
        assert outcomes.same_rows(outcomes.got(host, query), alone)
        assert way.shards > 1 or outcomes.got(host, query) == alone
        outcomes.assert_batches_in_order(host, query)


def _variants_of(case: Case) -> st.SearchStrategy[list[Query]]:
    """Queries that share their join with the first, smaller or larger, with its filters and columns or without."""
    variants = st.lists(cases.variants(case.queries[0], "all"), min_size=1, max_size=2)
    return variants.map(lambda found: [replace(one, name=QueryId(f"like{i}")) for i, one in enumerate(found)])


# --- restoring


@given(case=cases.cases(kinds="all"), way=cases.ways(), pauses=st.lists(st.integers(0, 2), min_size=1, max_size=4))
@examples(60)
def test_a_restored_shard_goes_on_as_the_one_that_was_kept(case: Case, way: Way, pauses: list[int]) -> None:
    """Not only the answers: every micro-batch, row for row, in the middle of a backlog and after it."""
    hosts = [cases.host_for(case, replace(way, restoring=restoring)) for restoring in (False, True)]
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        for host in hosts:
            cases.arrive(host, chunks)
            for _ in range(pauses[number % len(pauses)]):
                host.go_on()
        assert [one.is_behind for one in hosts] in ([False, False], [True, True])
    for host in hosts:
        host.end()
    kept, restored = hosts
    for query in case.queries:
        assert outcomes.got_by_batch(kept, query) == outcomes.got_by_batch(restored, query)
    assert [sorted(store.blobs) for store in kept.stores] == [sorted(store.blobs) for store in restored.stores]


# --- examples that once went wrong


def backlog_of(*queries: Query, policy: str) -> LocalHost:
    """Six tuples of each stream, a second apart and of one key, each a block, of which one has had one turn."""
    options = ShardOptions(Cut.WINDOWS, policy=policy, block=BlockCut(rows=1))
    host = cases.host_for(Case(TWO, {}, queries), Way(options=options, probes=1))
    cases.arrive(host, {name: [cases.row(second, second) for second in range(3)] for name in (A, B)})
    return host


def sized(name: str, left_s: int, right_s: int) -> Query:
    extents = tuple(Extent(Measure.TIME, seconds * cases.SECOND_US) for seconds in (left_s, right_s))
    return replace(pairs(0), name=QueryId(name), windows=extents)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_window_that_is_done_with_two_smaller_ones_gets_its_rows(policy: str) -> None:
    """When [5, 1] and [1, 5] are done, so is [5, 5], though no turn was taken for it."""
    queries = (sized("left", 5, 1), sized("right", 1, 5), sized("both", 5, 5))
    host = backlog_of(*queries, policy=policy)
    cases.go_on_to_the_end(host)
    host.end()
    arrived = {name: [cases.row(second, second) for second in range(3)] for name in (A, B)}
    for query in queries:
        assert outcomes.got(host, query) == wanted(Case(TWO, arrived, ()), query)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("window_s", [1, 3, 9])
def test_a_query_that_comes_in_the_middle_of_a_backlog_does_not_disturb_another(policy: str, window_s: int) -> None:
    """Also where its window is smaller: blocks that do not serve it are not passed over by those that do."""
    stays = sized("stays", 5, 5)
    host = backlog_of(stays, policy=policy)
    host.change(TWO, (stays, sized("comes", window_s, window_s)))
    cases.arrive(host, {name: [cases.row(second, second) for second in range(3, 6)] for name in (A, B)})
    cases.go_on_to_the_end(host)
    host.end()
    arrived = {name: [cases.row(second, second) for second in range(6)] for name in (A, B)}
    assert outcomes.got(host, stays) == wanted(Case(TWO, arrived, ()), stays)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("key", ["k", "n"], ids=["by windows", "whole"])
def test_a_smaller_query_that_goes_in_the_middle_of_a_backlog_does_not_disturb_another(policy: str, key: str) -> None:
    """What was scanned for it is not scanned again for those that stay; one stream with two keys is scanned whole."""
    sources = (Source(A, "s"), Source(A if key == "n" else B, "t"))
    same = call("=", cases.column(0, "k"), cases.column(1, key))
    outputs = tuple(Output(f"{name}{i}", cases.column(i, name)) for name in ("ts", "id") for i in (0, 1))
    stays, goes = (
        Query(QueryId(name), sources, (same,), outputs, within_us(seconds * cases.SECOND_US))
        for name, seconds in (("stays", 9), ("goes", 2))
    )
    arrived = {name: [cases.row(second, second) for second in range(6)] for name in (A, B)}
    way = Way(options=ShardOptions(Cut.WINDOWS, policy=policy, block=BlockCut(rows=2)), probes=2)
    host = cases.host_for(Case(TWO, {}, (stays, goes)), way)
    cases.arrive(host, arrived)
    host.change(TWO, (stays,))
    cases.go_on_to_the_end(host)
    host.end()
    assert outcomes.got(host, stays) == wanted(Case(TWO, arrived, ()), stays)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_budget_is_shared_by_the_groups(policy: str) -> None:
    """However little it is: none of them waits for another to have nothing left to do."""
    queries = [replace(pairs(9), name=QueryId(f"q{i}")) for i in range(3)]
    others = [replace(one, conditions=(call("=", cases.column(0, f), cases.column(1, f)),)) for one, f in
              zip(queries, ("k", "n", "id"), strict=True)]  # fmt: skip
    way = Way(options=ShardOptions(Cut.WINDOWS, policy=policy), probes=1, restoring=True)
    host = cases.host_for(Case(TWO, {}, tuple(others)), way)
    for second in range(30):
        cases.arrive(host, {name: [cases.row(second, second)] for name in (A, B)})
    assert all(host.rows(query.name) for query in others)


def test_what_was_heard_is_not_kept_where_nothing_is_weighed() -> None:
    host = cases.host_for(Case(TWO, {}, (everything(A), pairs(5))), Way())
    sizes = []
    for second in range(50):
        cases.arrive(host, {name: [cases.row(second, second)] for name in (A, B)})
        sizes.append(len(host.shards[0].manifest()))
    assert sizes[-1] < 2 * sizes[20]


@pytest.mark.parametrize("policy", POLICIES)
def test_rows_that_wait_for_another_stream_are_no_backlog(policy: str) -> None:
    """While b is silent, a's rows wait; micro-batches without input then finish the blocks before them."""
    host = cases.host_for(
        Case(TWO, {}, (sized("small", 1, 1), sized("middle", 5, 5), sized("large", 9, 9))),
        Way(options=ShardOptions(Cut.WINDOWS, policy=policy), probes=1),
    )
    cases.arrive(host, {A: [cases.row(0, 0)], B: [cases.row(0, 0)]})
    for second in (1, 2, 3):
        cases.arrive(host, {A: [cases.row(second, second)]})
    for _ in range(20):
        host.go_on()
    assert (host.is_behind, outcomes.backlog(host)) == (False, 0)
    assert [len(host.rows(name)) for name in ("small", "middle", "large")] == [1, 1, 1]


def test_results_held_when_a_restored_block_has_scanned_all_are_a_backlog_still() -> None:
    """One stream joined with itself on two keys is scanned whole, and what it finds is given window by window."""
    queries = [
        Query(
            QueryId(f"q{seconds}"),
            (Source(A, "s"), Source(A, "t")),
            (call("=", cases.column(0, "k"), cases.column(1, "n")),),
            tuple(Output(f"{name}{i}", cases.column(i, name)) for name in ("ts", "id") for i in (0, 1)),
            within_us(seconds * cases.SECOND_US),
        )
        for seconds in (1, 5)
    ]
    way = Way(options=ShardOptions(Cut.WINDOWS, policy="swf"), probes=1)
    host = cases.host_for(Case(TWO, {}, tuple(queries)), way)
    rows = [cases.row(second, number) for number, second in enumerate((0, 1, 3))]
    cases.arrive(host, {A: rows})
    host.change(TWO, queries)
    assert host.is_behind
    cases.go_on_to_the_end(host)
    for query in queries:
        assert outcomes.got(host, query) == wanted(Case(TWO, {A: rows}, ()), query)
