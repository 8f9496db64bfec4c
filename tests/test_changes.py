"""Restarts with another set of queries, and what is kept in the store.

Queries that stay get what they would have got undisturbed, micro-batch by micro-batch (with a budget: on the whole, as
others take their turns too); a new query uses what is held when it comes and all that arrives from then on; and nothing
is kept that no query can need.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import engine_cases as cases
import outcomes
import pytest
from engine_cases import Case, Way, examples
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import at as at_second

from headrace import reference
from headrace.engine.cutting import BlockCut
from headrace.engine.dispatching import Scheduling
from headrace.engine.output import Cut
from headrace.engine.shard import ShardOptions
from headrace.model import BIGINT, INT, Catalog, QueryId, Stream, StreamId
from headrace.plan.expressions import Expression, Literal
from headrace.plan.functions import call
from headrace.plan.queries import Extent, Measure, Output, Query, Source, within_us
from headrace.sql import read_script

A, B = StreamId("a"), StreamId("b")
TWO = Catalog((Stream(A, cases.WIDE, "ts"), Stream(B, cases.WIDE, "ts")))


def join(name: str, key: str = "k", *more: Expression, window_s: int = 5, extra: str = "id") -> Query:
    """Streams a and b joined on one column; gives both ids and one more column of a."""
    named = (("ts0", 0, "ts"), ("ts1", 1, "ts"), ("id0", 0, "id"), ("id1", 1, "id"), ("extra", 0, extra))
    return Query(
        QueryId(name),
        (Source(A, "a"), Source(B, "b")),
        (call("=", cases.column(0, key), cases.column(1, key)), *more),
        tuple(Output(label, cases.column(source, column)) for label, source, column in named),
        within_us(window_s * cases.SECOND_US),
    )


def below(most: int) -> Expression:
    return call("<", cases.column(0, "n"), Literal(most, BIGINT))


K_IS_ONE = call("=", cases.column(0, "k"), Literal(1, INT))
ROWS = [cases.row(second, second, code) for second, code in enumerate((0, 2, 0, 4, 1, 7))]
SMALL = Case(TWO, {A: ROWS, B: ROWS}, (join("stays"),))


@st.composite
def changes(draw: st.DrawFn) -> tuple[Case, tuple[Query, ...], tuple[Query, ...]]:
    """A case whose queries stay, those beside them at first, and those beside them later."""
    case = draw(cases.cases(most_queries=2, kinds="all"))
    beside = [tuple(draw(cases.query_lists(case.catalog, 2, prefix, "all"))) for prefix in ("old", "new")]
    variants = [replace(case.queries[0], conditions=_fewer(case.queries[0]), name=QueryId(name)) for name in ("v", "w")]
    more = [draw(st.sampled_from(((), (variant,)))) for variant in variants]
    return case, (*beside[0], *more[0]), (*beside[1], *more[1])


def _fewer(query: Query) -> tuple[Expression, ...]:
    return tuple(one for one in query.conditions if getattr(one, "function", None) == "=")


# --- another query of the same name


@pytest.mark.parametrize("restoring", [False, True])
def test_what_waits_before_an_operator_is_not_for_a_later_query_of_the_same_name(restoring: bool) -> None:
    rows = [cases.row(number / 2, number, k=1) for number in range(24)]
    stays, wide, narrow = join("stays"), join("other"), join("other", window_s=1)
    case = Case(TWO, {A: rows, B: rows}, (stays, wide))
    options = ShardOptions(block=BlockCut(span_us=cases.SECOND_US), scheduling=Scheduling("chain", "static"))
    way = Way((4,), options=options, probes=8, restoring=restoring)
    host, queued, before = cases.host_for(case, way), 0, 0
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        if number == 4:
            queued, before = sum(shard.queued_items for shard in host.shards), len(host.rows("other"))
            host.change(case.catalog, (stays, narrow))
        cases.arrive(host, chunks)
    host.end()
    later = host.rows("other")[before:]
    assert queued
    assert later
    assert all(abs(row["ts0"] - row["ts1"]).total_seconds() <= 1 for row in later)  # type: ignore[operator]
    assert outcomes.same_rows(outcomes.got(host, stays), reference.answer(stays, case.catalog, case.arrivals))


# --- queries that stay


@given(change=changes(), way=cases.ways(budgets=False), at=st.integers(0, 6))
@example(change=(replace(SMALL, queries=(join("s", "k", K_IS_ONE),)), (), (join("w"),)), way=Way((1,)), at=3)
@example(change=(replace(SMALL, queries=(join("s", "k", K_IS_ONE),)), (join("w"),), ()), way=Way((1,)), at=3)
@example(change=(replace(SMALL, queries=(join("s", "n"),)), (join("w", "n", extra="n"),), ()), way=Way((1,)), at=3)
@example(change=(replace(SMALL, queries=(join("s", "n"),)), (), (join("w", "n", extra="n"),)), way=Way((1,)), at=3)
@examples(80)
def test_queries_that_stay_get_what_they_would_have_got_undisturbed(
    change: tuple[Case, tuple[Query, ...], tuple[Query, ...]], way: Way, at: int
) -> None:
    case, before, after = change
    changed = cases.host_for(replace(case, queries=(*case.queries, *before)), way)
    undisturbed = cases.host_for(case, way)
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        if number == at:
            changed.change(case.catalog, (*after, *case.queries))
        cases.arrive(changed, chunks)
        cases.arrive(undisturbed, chunks)
        outcomes.assert_store_holds_what_is_needed(changed)
    changed.end()
    undisturbed.end()
    for query in case.queries:
        pairs = zip(outcomes.got_by_batch(changed, query), outcomes.got_by_batch(undisturbed, query), strict=True)
        assert all(outcomes.same_rows(*pair) for pair in pairs)


THREE = "".join(
    f"CREATE STREAM {name} (k BIGINT, j TIMESTAMP, id BIGINT, ts TIMESTAMP)"
    " WITH (connector = 'generator', time = 'ts');"
    for name in "abc"
)
"""Streams whose keys are numbers already: a column that queries read is searched by as it is."""


@pytest.mark.parametrize("probes", [None, 3])
@pytest.mark.parametrize("is_added", [True, False])
@pytest.mark.parametrize("column", ["a.k", "b.k", "b.j", "c.j"])
@pytest.mark.parametrize(
    ("conditions", "tree"),
    [("a.k = b.k AND b.j = c.j", None), ("a.k = b.k AND b.k = c.k", None), ("a.k = b.k AND b.j = c.j", "((a b) c)")],
)
def test_a_key_column_that_begins_or_ceases_to_be_read_stays_a_key(
    conditions: str, tree: str | None, column: str, is_added: bool, probes: int | None
) -> None:
    """Rows that were kept with the column, and others without it, are searched together."""
    script = read_script(
        THREE + f"CREATE QUERY stays AS SELECT a.id FROM a, b, c WHERE {conditions} WINDOW 10 s;"
        f"CREATE QUERY other AS SELECT a.id, {column} AS read FROM a, b, c WHERE {conditions} WINDOW 10 s;"
    )
    stays, other = script.queries
    names = [stream.name for stream in script.catalog.streams]
    rows = [{"k": one % 2, "j": at_second(one % 3), "id": one, "ts": at_second(one / 2)} for one in range(18)]
    case = Case(script.catalog, dict.fromkeys(names, rows), (stays,) if is_added else (stays, other))
    options = ShardOptions(Cut.WINDOWS, scheduling=Scheduling())
    way = Way((3,), options=options, restoring=True, probes=probes, seed=3, tree=tree)
    host = cases.host_for(case, way)
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        if number == 3:
            host.change(case.catalog, (stays, other) if is_added else (stays,))
        cases.arrive(host, chunks)
        assert all(shard.measured() or tree for shard in host.shards)
    host.end()
    answers = {query.name: reference.answer(query, case.catalog, case.arrivals) for query in (stays, other)}
    assert outcomes.got(host, stays) == answers[stays.name]
    found = Counter(outcomes.got(host, other))
    assert found
    assert found <= Counter(answers[other.name])


@given(change=changes(), way=cases.ways(), at=st.integers(0, 6))
@examples(60)
def test_queries_that_stay_get_all_they_would_have_got_whatever_the_budget(
    change: tuple[Case, tuple[Query, ...], tuple[Query, ...]], way: Way, at: int
) -> None:
    case, before, after = change
    way = replace(way, probes=way.probes or 2)
    host = cases.host_for(replace(case, queries=(*case.queries, *before)), way)
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        if number == at:
            host.change(case.catalog, (*after, *case.queries))
        cases.arrive(host, chunks)
        outcomes.assert_store_holds_what_is_needed(host)
    host.end()
    outcomes.assert_store_holds_what_is_needed(host)
    for query in case.queries:
        answer = reference.answer(query, case.catalog, case.arrivals)
        assert outcomes.same_rows(outcomes.got(host, query), outcomes.shown(answer))
        outcomes.assert_batches_in_order(host, query)


@given(case=cases.cases(most_queries=2, kinds="all"), way=cases.ways(shards=(1,)), at=st.integers(0, 6))
@examples(30)
def test_a_restart_with_the_same_queries_changes_no_row_and_no_order(case: Case, way: Way, at: int) -> None:
    host = cases.host_for(case, way)
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        if number == at:
            host.change(case.catalog, case.queries[::-1])
        cases.arrive(host, chunks)
    host.end()
    for query in case.queries:
        assert outcomes.got(host, query) == outcomes.shown(reference.answer(query, case.catalog, case.arrivals))


@pytest.mark.parametrize("windows", [within_us(5 * cases.SECOND_US), (Extent(Measure.ROWS, 1),) * 2])
def test_rows_kept_under_two_plans_and_due_together_are_one_stream(windows: tuple[Extent, ...]) -> None:
    """All at one time, where a's tuples are before b's: a0 and a1 came before the change and a2 after it, and b0, which
    waited for them all, has a2 as the last of a before it."""
    patient = Catalog((Stream(A, cases.WIDE, "ts"), Stream(B, cases.WIDE, "ts", 2 * cases.SECOND_US)))
    stays = replace(join("stays"), windows=windows)
    rows = [cases.row(0, number) for number in range(3)]
    case = Case(patient, {A: rows, B: rows[:2]}, (stays,))
    host = cases.host_for(case, Way())
    for number in (0, 1):
        cases.arrive(host, {name: [rows[number]] for name in (A, B)})
    host.change(patient, (stays, replace(join("new", extra="n"), windows=windows)))
    cases.arrive(host, {A: [rows[2]]})
    host.end()
    assert outcomes.got(host, stays) == outcomes.shown(reference.answer(stays, patient, case.arrivals))


# --- queries that come


@given(change=changes(), way=cases.ways(), at=st.integers(0, 6))
@examples(60)
def test_a_new_query_gives_no_wrong_row_and_all_rows_of_what_arrives_after_it(
    change: tuple[Case, tuple[Query, ...], tuple[Query, ...]], way: Way, at: int
) -> None:
    case, before, after = change
    host = cases.host_for(replace(case, queries=(*case.queries, *before)), way)
    seen = dict.fromkeys(case.arrivals, 0)
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        if number == at:
            host.change(case.catalog, (*case.queries, *after))
        if number < at:
            seen.update({name: seen[name] + len(rows) for name, rows in chunks.items()})
        cases.arrive(host, chunks)
    if not set(host.plan.queries) >= {query.name for query in after}:
        return
    host.end()
    for query in after:
        if any(extent.measure is Measure.ROWS for extent in query.windows):
            continue  # a count window counts from the tuples held when its query came
        answer = outcomes.shown(reference.answer(query, case.catalog, case.arrivals))
        sources = len(query.sources)
        ids = slice(sources, 2 * sources)
        fresh = [
            row
            for row in answer
            if all(number >= seen[one.stream] for number, one in zip(row[ids], query.sources, strict=True))  # type: ignore[operator]
        ]
        rows = Counter(outcomes.got(host, query))
        assert Counter(fresh) <= rows <= Counter(answer)


def test_a_new_query_joins_new_tuples_with_held_ones() -> None:
    host = cases.host_for(SMALL, Way())
    cases.arrive(host, {A: [cases.row(0, 0)], B: [cases.row(1, 0)]})
    host.change(TWO, (*SMALL.queries, join("new", window_s=3)))
    cases.arrive(host, {A: [cases.row(2, 1)], B: [cases.row(9, 1)]})
    assert [row["id0"] for row in host.rows("new")] == [0, 1]


def test_a_new_query_does_not_use_tuples_kept_without_a_column_it_reads() -> None:
    host = cases.host_for(SMALL, Way())
    cases.arrive(host, {A: [cases.row(0, 0)], B: [cases.row(0, 0)]})
    host.change(TWO, (*SMALL.queries, join("new", extra="name")))
    cases.arrive(host, {A: [cases.row(1, 1)], B: [cases.row(9, 1)]})
    assert [(row["id0"], row["extra"]) for row in host.rows("new")] == [(1, "a")]
    assert [(row["id0"], row["id1"]) for row in host.rows("stays")] == [(0, 0), (1, 0)]


def test_a_new_query_is_not_served_by_tuples_whose_turn_was_waiting_when_it_came() -> None:
    """It begins with the tuples that are released after it (b2 had waited for a), and finds older ones held; what was
    waiting for its turn goes on for the queries that were there."""
    options = ShardOptions(Cut.WINDOWS, policy="swf", block=BlockCut(rows=1))
    host = cases.host_for(SMALL, Way(options=options, probes=1))
    cases.arrive(host, {name: [cases.row(second, second) for second in range(3)] for name in (A, B)})
    host.change(TWO, (*SMALL.queries, join("new")))
    cases.go_on_to_the_end(host)
    assert host.rows("new") == []
    assert len(host.rows("stays")) == 6
    cases.arrive(host, {A: [cases.row(9, 9)], B: [cases.row(5, 5)]})
    cases.go_on_to_the_end(host)
    assert [(row["id0"], row["id1"]) for row in host.rows("new")] == [
        (0, 2),
        (1, 2),
        (2, 2),
        (0, 5),
        (1, 5),
        (2, 5),
    ]


def test_a_query_that_goes_in_the_middle_of_a_backlog_leaves_nothing_behind() -> None:
    """Its window is done for all blocks, what was held for it is dropped. The same query begins anew: with b5, which
    had waited for a, and what the smaller window held by then."""
    options = ShardOptions(Cut.WINDOWS, policy="swf", block=BlockCut(rows=1))
    large = join("goes", window_s=100)
    host = cases.host_for(replace(SMALL, queries=(join("stays", window_s=1), large)), Way(options=options, probes=1))
    cases.arrive(host, {name: [cases.row(second, second) for second in range(6)] for name in (A, B)})
    for _ in range(11):
        host.go_on()
    before = len(host.rows("goes"))
    host.change(TWO, (join("stays", window_s=1),))
    host.go_on()
    assert not host.is_behind
    outcomes.assert_store_holds_what_is_needed(host)
    host.change(TWO, (join("stays", window_s=1), large))
    cases.arrive(host, {name: [cases.row(200, 200)] for name in (A, B)})
    host.end()
    assert [(row["id0"], row["id1"]) for row in host.rows("goes")[before:]] == [(4, 5), (5, 5), (200, 200)]


def test_a_hundred_changes_leave_the_store_as_it_was() -> None:
    """Queries that come and go, always in the middle of a backlog."""
    host = cases.host_for(SMALL, Way(options=ShardOptions(policy="mqt"), probes=3))
    for number in range(100):
        beside = [join(f"q{number}", window_s=number % 7, extra=("id", "n", "name")[number % 3])]
        host.change(TWO, (*SMALL.queries, *beside))
        cases.arrive(host, {name: [cases.row(number, number)] for name in (A, B)})
        outcomes.assert_store_holds_what_is_needed(host)
        assert len(host.stores[0].blobs) <= 60
    host.change(TWO, SMALL.queries)
    host.end()
    arrived = {name: [cases.row(number, number) for number in range(100)] for name in (A, B)}
    assert outcomes.same_rows(outcomes.got(host, SMALL.queries[0]), reference.answer(SMALL.queries[0], TWO, arrived))


# --- the store


def test_dropped_groups_leave_nothing_in_the_store() -> None:
    for restoring in (False, True):
        case = replace(SMALL, queries=(join("stays"), join("goes", "name")))
        host = cases.host_for(case, Way(restoring=restoring))
        cases.arrive(host, case.arrivals)
        kept_for_both = len(host.stores[0].blobs)
        host.change(TWO, SMALL.queries)
        cases.arrive(host, {A: [], B: []})
        assert 0 < len(host.stores[0].blobs) < kept_for_both
        outcomes.assert_store_holds_what_is_needed(host)
        host.change(TWO, (join("other", "name"),))
        host.end()
        assert host.stores[0].blobs == {}


@given(case=cases.cases(), way=cases.ways())
@examples(40)
def test_the_store_empties_when_all_streams_have_moved_beyond_every_window(case: Case, way: Way) -> None:
    host = cases.run(case, way)
    most = sum(len(group.inputs) for group in host.plan.groups) + len(host.plan.groups)
    for second in (10_000, 20_000, 30_000):
        ahead = [cases.row(second, 99, flag=flag) for flag in (True, False, None)]
        rows = {one.name: ahead if one.partition else ahead[:1] for one in case.catalog.streams}
        cases.arrive(host, rows)
        cases.go_on_to_the_end(host)
        outcomes.assert_store_holds_what_is_needed(host)
    for store in host.stores:  # a run of each input, and what is on hold at the very last time
        assert len(store.blobs) <= most * (3 if any(one.partition for one in case.catalog.streams) else 1)


def test_many_micro_batches_keep_few_blobs_and_about_a_window_of_rows() -> None:
    """A window of 50 rows, one row a micro-batch; what is merged is let go when its newest row is out of reach."""
    host = cases.host_for(replace(SMALL, queries=(join("q", window_s=1),)), Way(options=ShardOptions(merge_fanout=4)))
    for number in range(200):
        cases.arrive(host, {name: [cases.row(number / 50, number)] for name in (A, B)})
        assert host.shards[0].holdings().held_rows <= 2 * 2 * 55
        assert len(host.stores[0].blobs) <= 2 * 2 * 55
    outcomes.assert_store_holds_what_is_needed(host)


BOUNDED = {most: join(f"below_{most}", "k", below(most), extra="n") for most in (1, 2, 3)}
NUMBERS = [cases.row(number / 2, number, k=1, n=number % 5) for number in range(24)]
CHANGES = [
    ((1, 2), (1, 3)),
    ((1, 2), (1,)),
    ((1, 3), (1, 2)),
    ((1,), (1, 2)),
    ((1, 2), (1, 2, 3)),
    ((3,), (3, 2)),
    ((3,), (1, 2)),
]


@pytest.mark.parametrize(("before", "after"), CHANGES)
@pytest.mark.parametrize("shards", [1, 2])
def test_tuples_kept_within_a_wider_bound_serve_a_query_with_a_narrower_one(
    before: tuple[int, ...], after: tuple[int, ...], shards: int
) -> None:
    """What all queries imply is asked before the join: it changes when they do. Who comes gets what it asks
    for, of what is held then: the last tuples wait for those of the other stream."""
    case = Case(TWO, {A: NUMBERS, B: NUMBERS}, tuple(BOUNDED[most] for most in before))
    host = cases.host_for(case, Way((4,), shards=shards))
    for number, chunks in enumerate(cases.micro_batches(case, Way((4,)))):
        if number == 3:
            host.change(TWO, [BOUNDED[most] for most in after])
        cases.arrive(host, chunks)
    host.end()
    for most in after:
        got, expected = outcomes.got(host, BOUNDED[most]), reference.answer(BOUNDED[most], TWO, case.arrivals)
        if most in before:
            assert outcomes.same_rows(got, expected)
        elif most < max(before):
            later = [row for row in expected if row[1] >= cases.at(5.5) or row[0] >= cases.at(6)]
            assert outcomes.same_rows(got, later)
        else:
            assert got
            assert all(row[0] >= cases.at(6) for row in got)
