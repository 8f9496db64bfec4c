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
import strategies as some
from engine_cases import examples
from hypothesis import given
from hypothesis import strategies as st

from headrace import reference
from headrace.engine.output import Cut
from headrace.engine.shard import ShardOptions
from headrace.model import Catalog, QueryId, Stream, StreamId
from headrace.plan.functions import call
from headrace.plan.queries import Output, Query, Source

Case, Way = cases.Case, cases.Way
A, B = StreamId("a"), StreamId("b")
TWO = Catalog((Stream(A, cases.WIDE, "ts"), Stream(B, cases.WIDE, "ts")))


def wanted(case: Case, query: Query) -> cases.Answer:
    return cases.shown(reference.answer(query, case.catalog, case.arrivals))


# --- answers


@given(case=cases.cases(), way=cases.ways(shards=(1,)))
@examples(150)
def test_one_shard_gives_the_answer_row_for_row(case: Case, way: Way) -> None:
    host = cases.run(case, way)
    for query in case.queries:
        assert cases.got(host, query) == wanted(case, query)


@given(case=cases.cases(), way=cases.ways(shards=(2, 3)))
@examples(99)
def test_many_shards_give_the_same_rows_and_batches_in_order(case: Case, way: Way) -> None:
    host = cases.run(case, way)
    for query in case.queries:
        assert cases.same_rows(cases.got(host, query), wanted(case, query))
        cases.assert_batches_in_order(host, query)


@given(case=cases.cases(), way=cases.ways(shards=(1,)))
@examples(40)
def test_bands_of_one_shard_are_the_same_rows_in_batches_in_order(case: Case, way: Way) -> None:
    host = cases.run(case, replace(way, options=replace(way.options, cut=Cut.BANDS)))
    for query in case.queries:
        assert cases.same_rows(cases.got(host, query), wanted(case, query))
        cases.assert_batches_in_order(host, query)


@given(case=cases.cases(most_queries=1, max_rows=10), way=cases.ways())
@examples(40)
def test_engine_reference_and_duckdb_agree(case: Case, way: Way) -> None:
    (query,) = case.queries
    answer = reference.answer(query, case.catalog, case.arrivals)
    independent = duck.answer(query, case.catalog, case.arrivals)
    assert len(answer) == len(independent)
    assert all(some.all_agree(*pair) for pair in zip(answer, independent, strict=True))
    assert cases.same_rows(cases.got(cases.run(case, way), query), independent)


@given(case=cases.cases(), way=cases.ways(shards=(1,)))
@examples(40)
def test_a_query_runs_alone_as_it_runs_with_others(case: Case, way: Way) -> None:
    together = cases.run(case, way)
    for query in case.queries:
        alone = cases.run(replace(case, queries=(query,)), way)
        assert cases.got(alone, query) == cases.got(together, query)


@given(case=cases.cases(), way=cases.ways())
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


@given(case=cases.cases(), way=cases.ways(shards=(1,)))
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
        assert cases.got(host, query) == wanted(replace(case, arrivals=told), query)


@given(case=cases.cases(), way=cases.ways(shards=(1,)), together=st.integers(2, 4), data=st.data())
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
        assert cases.got(host, query) == wanted(case, query)


def test_a_later_chunk_that_is_delivered_first_still_comes_later() -> None:
    """Ties are in the order of the chunks, and what is late is decided in that order too."""
    case = Case(TWO, {A: [cases.row(5, 0), cases.row(5, 1), cases.row(4, 2)], B: []}, (everything(A),))
    host = cases.host_for(case, Way())
    chunks = [cases.packed(host, A, [row], order) for order, row in enumerate(case.arrivals[A])]
    host.deliver([envelope for chunk in chunks[::-1] for envelope in chunk])
    assert [row["id"] for row in host.rows("all_a")] == [0, 1]
    assert cases.rejected(host) == Counter({("a", "late", 2): 1})


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
        window_us,
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


@given(case=cases.cases(most_queries=3), way=cases.ways())
@examples(60)
def test_late_and_malformed_rows_are_rejected_once_each(case: Case, way: Way) -> None:
    """Every stream is read whole by one query, as a row that no query reads is nobody's."""
    readers = tuple(everything(stream.name) for stream in case.catalog.streams)
    host = cases.run(replace(case, queries=(*case.queries, *readers)), way)
    expected: Counter[tuple[str, str, int]] = Counter()
    for name, intake in reference.accepted(case.catalog, case.arrivals).items():
        expected.update((name, "late", seq) for seq in intake.late)
        expected.update((name, "malformed", seq) for seq in intake.malformed)
    assert cases.rejected(host) == expected


# --- ends and goings-on


@given(case=cases.cases(), way=cases.ways(), ends=st.sets(st.integers(0, 6), max_size=3))
@examples(79)
def test_runs_that_end_and_go_on_give_together_what_one_run_gives(case: Case, way: Way, ends: set[int]) -> None:
    host = cases.host_for(case, way)
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        cases.arrive(host, chunks)
        if number in ends:
            host.end()
    host.end()
    for query in case.queries:
        assert cases.same_rows(cases.got(host, query), wanted(case, query))


@given(case=cases.cases(), way=cases.ways())
@examples(40)
def test_an_end_without_waiting_rows_gives_nothing(case: Case, way: Way) -> None:
    host = cases.run(case, way)
    before = {query.name: cases.got(host, query) for query in case.queries}
    host.end()
    assert before == {query.name: cases.got(host, query) for query in case.queries}


# --- restoring


@given(case=cases.cases(), way=cases.ways())
@examples(40)
def test_a_restored_shard_goes_on_as_the_one_that_was_kept(case: Case, way: Way) -> None:
    """Not only the answers: every micro-batch, row for row."""
    kept = cases.run(case, replace(way, restoring=False))
    restored = cases.run(case, replace(way, restoring=True))
    for query in case.queries:
        assert cases.got_by_batch(kept, query) == cases.got_by_batch(restored, query)
    assert [sorted(store.blobs) for store in kept.stores] == [sorted(store.blobs) for store in restored.stores]
