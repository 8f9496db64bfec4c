"""What waits before the operators after a join: aggregates that share what they read, and other queries that come or go
in the middle of a backlog."""

from __future__ import annotations

import json
from dataclasses import replace

import engine_cases as cases
import outcomes
import pytest
from engine_cases import Case, Row, Way
from local_host import LocalHost

from headrace import reference
from headrace.engine.cutting import BlockCut
from headrace.engine.dispatching import Scheduling
from headrace.engine.shard import ShardOptions
from headrace.model import Catalog, Stream, StreamId
from headrace.plan import deferring
from headrace.plan.queries import Query
from headrace.plan.shard_graph import class_paths
from headrace.plan.sharing import SharedPlan
from headrace.reference_aggregates import evaluation_times, grouped_answer
from headrace.sql import read_script

A, B = StreamId("a"), StreamId("b")
CATALOG = Catalog(tuple(Stream(name, cases.WIDE, "ts") for name in (A, B)))
STREAMS = "".join(
    f"CREATE STREAM {name} ({', '.join(f'{one.name} {one.type}' for one in cases.WIDE)})"
    " WITH (connector = 'generator', time = 'ts');"
    for name in (A, B)
)
ROWS: list[Row] = [cases.row(number / 2, number, k=1, n=number % 5) for number in range(24)]
CASE = Case(CATALOG, {A: ROWS, B: ROWS}, ())


def queries_of(*texts: str) -> tuple[Query, ...]:
    """Queries over a and b, joined by k: what is selected, and all else from WHERE's further conditions on."""
    joined = "FROM a, b WHERE a.k = b.k"
    parts = [text.partition(" | ") for text in texts]
    told = [f"CREATE QUERY {selected.replace(': ', ' AS SELECT ', 1)} {joined} {more};" for selected, _, more in parts]
    return tuple(read_script(STREAMS + "".join(told)).queries)


def way_of(strategy: str, shards: int, *, restoring: bool, ahead: bool = False) -> Way:
    """Micro-batches of four tuples, of which the budget does a part."""
    options = ShardOptions(
        block=BlockCut(span_us=cases.SECOND_US),
        scheduling=Scheduling(strategy, "static"),
        reevaluate_us=cases.SECOND_US,
    )
    return Way((4,), shards=shards, options=options, probes=8, restoring=restoring, filter_order=(ahead,))


@pytest.mark.parametrize("shards", [1, 2])
def test_aggregates_that_read_the_same_get_it_as_far_as_each_ones_window_reaches(shards: int) -> None:
    case = Case(
        CATALOG,
        CASE.arrivals,
        queries_of(
            "small: a.k, AVG(b.n) AS v | GROUP BY a.k WINDOW 1 SECOND",
            "large: a.k, SUM(b.n) AS v | GROUP BY a.k WINDOW 5 SECONDS",
        ),
    )
    host = cases.run(case, way_of("chain", shards, restoring=False))
    for query in case.queries:
        times = evaluation_times(query, CATALOG, case.arrivals, host.evaluated[query.name][-1], cases.SECOND_US)
        assert outcomes.got(host, query) == outcomes.shown(grouped_answer(query, CATALOG, case.arrivals, times))


@pytest.mark.parametrize("is_eager", [False, True])
@pytest.mark.parametrize("shards", [1, 2])
def test_aggregates_wait_for_the_stream_that_is_behind_however_far_ahead_blocks_of_another_are_left(
    shards: int, is_eager: bool
) -> None:
    """Tuples of a are taken in before those of b come that they meet, and the budget leaves some of their blocks."""
    queries = queries_of("total: a.k, COUNT(*) AS c, SUM(b.n) AS v | GROUP BY a.k WINDOW 5 SECONDS")
    case = Case(CATALOG, CASE.arrivals, queries)
    options = ShardOptions(block=BlockCut(span_us=cases.SECOND_US), is_eager=is_eager)
    host = cases.run(case, Way((8, 2), shards=shards, options=options, probes=8, filter_order=(True,)))
    (query,) = queries
    times = host.evaluated[query.name]
    if is_eager:
        times = evaluation_times(query, CATALOG, case.arrivals, times[-1])
    assert outcomes.got(host, query) == outcomes.shown(grouped_answer(query, CATALOG, case.arrivals, times))


@pytest.mark.parametrize("shards", [1, 2])
def test_late_tuples_do_not_make_aggregates_look_back_however_far_ahead_others_are_taken_in(shards: int) -> None:
    """Each micro-batch has one: what is heard of it does not tell how far things were before."""
    queries = queries_of("total: a.k, COUNT(*) AS c, SUM(b.n) AS v | GROUP BY a.k WINDOW 5 SECONDS")
    late = [one for i in range(0, 24, 4) for one in (cases.row(i / 2 - 1.2, 100 + i, k=1), *ROWS[i : i + 4])]
    case = Case(CATALOG, {A: late, B: late}, queries)
    options = ShardOptions(block=BlockCut(span_us=cases.SECOND_US))
    host = cases.run(case, Way((5,), shards=shards, options=options, probes=4, filter_order=(True,)))
    (query,) = queries
    times = host.evaluated[query.name]
    assert outcomes.got(host, query) == outcomes.shown(grouped_answer(query, CATALOG, case.arrivals, times))


def test_of_what_came_at_once_the_oldest_is_done_first_whichever_query_it_is_for() -> None:
    """A burst in one micro-batch, in blocks of a second: nobody gets the next while another waits for the last."""
    selects = (f"q{number}: a.ts AS a, b.ts AS b | AND a.id <= b.id + {number} WINDOW 1 SECOND" for number in range(4))
    queries = queries_of(*selects)
    options = ShardOptions(block=BlockCut(span_us=cases.SECOND_US), scheduling=Scheduling("fifo", "static"))
    host = cases.host_for(Case(CATALOG, CASE.arrivals, queries), Way(options=options, probes=20))
    cases.arrive(host, CASE.arrivals)
    assert host.is_behind
    reached = [max(cases.seconds_of(max(row.values())) for row in host.rows(query.name)) for query in queries]
    assert max(reached) - min(reached) <= 1


# --- other queries that come or go


PAIRS = "a.ts AS ta, b.ts AS tb, a.id AS ia, b.id AS ib"
LOW, HIGH = f"low: {PAIRS} | AND a.n < 2 WINDOW 5 SECONDS", f"high: {PAIRS} | AND a.k <> 7 WINDOW 5 SECONDS"


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize(
    "texts",
    [
        (
            "p: a.id | AND a.n < b.id AND a.id <= b.id + 3 WINDOW 5 SECONDS",
            "r: a.id | AND a.id <= b.id + 3 AND a.n < b.id WINDOW 5 SECONDS",
        ),
        (
            "p: a.id | AND a.n < b.id WINDOW 5 SECONDS INTO (connector = 'count')",
            "r: b.id, a.n | AND a.n < b.id WINDOW 5 SECONDS INTO (connector = 'count')",
        ),
    ],
    ids=["other order of conditions", "other select list, counted"],
)
def test_queries_that_ask_the_same_in_other_words_get_all_they_ask_for(texts: tuple[str, ...], shards: int) -> None:
    case = Case(CATALOG, CASE.arrivals, queries_of(*texts))
    host = cases.run(case, way_of("path", shards, restoring=False))
    for one in case.queries:
        expected = reference.answer(one, CATALOG, case.arrivals)
        assert expected
        if "count" in texts[0]:
            assert host.counts[one.name] == len(expected)
        else:
            assert outcomes.same_rows(outcomes.got(host, one), expected)


def changed(case: Case, way: Way, later: tuple[Query, ...]) -> LocalHost:
    """The case with other queries from the sixth micro-batch on, when something waits."""
    host = cases.host_for(case, way)
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        if number == 5:
            host.change(CATALOG, later)
        cases.arrive(host, chunks)
    host.end()
    return host


@pytest.mark.parametrize(("strategy", "ahead"), [("chain", False), ("path", False), ("chain", True)])
@pytest.mark.parametrize(("before", "after"), [((LOW,), (LOW, HIGH)), ((LOW, HIGH), (LOW,))])
def test_a_condition_that_moves_before_the_join_or_behind_it_is_asked_of_all_that_waits(
    before: tuple[str, ...], after: tuple[str, ...], strategy: str, ahead: bool
) -> None:
    """Alone, `low` has its condition asked before the join, and what waits for it lacks a.n; not so beside `high`."""
    case = Case(CATALOG, CASE.arrivals, queries_of(*before))
    host = changed(case, way_of(strategy, 1, restoring=False, ahead=ahead), queries_of(*after))
    (stays,) = queries_of(LOW)
    assert outcomes.same_rows(outcomes.got(host, stays), reference.answer(stays, CATALOG, case.arrivals))


@pytest.mark.parametrize("restoring", [False, True])
@pytest.mark.parametrize("comes", [False, True])
def test_queries_without_columns_go_on_when_they_get_or_lose_operators_of_their_own(
    comes: bool, restoring: bool
) -> None:
    """With no condition left behind the join nothing is left to wait for: results are finished where they are found."""
    stay = (
        "total: COUNT(*) AS v | AND a.n < 2 WINDOW 5 SECONDS",
        "counted: a.id | AND a.n < 2 WINDOW 5 SECONDS INTO (connector = 'count')",
        "one: 1 AS one | AND a.n < 2 WINDOW 5 SECONDS",
    )
    first, later = (stay, (*stay, HIGH)) if comes else ((*stay, HIGH), stay)
    case = Case(CATALOG, CASE.arrivals, queries_of(*first))
    host = changed(case, way_of("chain", 1, restoring=restoring), queries_of(*later))
    total, counted, one = queries_of(*stay)
    times = evaluation_times(total, CATALOG, case.arrivals, host.evaluated[total.name][-1], cases.SECOND_US)
    assert outcomes.got(host, total) == outcomes.shown(grouped_answer(total, CATALOG, case.arrivals, times))
    assert host.counts[counted.name] == len(reference.answer(counted, CATALOG, case.arrivals))
    assert len(host.rows(one.name)) == len(reference.answer(one, CATALOG, case.arrivals))


SCANS = (
    "CREATE QUERY total AS SELECT k, SUM(n) AS v FROM a WHERE n < 2 GROUP BY k WINDOW 5 SECONDS;",
    "CREATE QUERY other AS SELECT k, n FROM a;",
)


@pytest.mark.parametrize("restoring", [False, True])
@pytest.mark.parametrize("comes", [False, True])
def test_an_aggregate_of_a_stream_goes_on_when_it_gets_or_loses_a_filter_of_its_own(
    comes: bool, restoring: bool
) -> None:
    """Alone, its condition is asked before the shuffle, and it reads the stream itself."""
    alone, both = (tuple(read_script(STREAMS + "".join(some)).queries) for some in (SCANS[:1], SCANS))
    way = way_of("chain", 1, restoring=restoring)
    case = Case(CATALOG, {A: ROWS, B: []}, alone if comes else both)
    host = changed(case, replace(way, probes=1), both if comes else alone)
    (total,) = alone
    times = evaluation_times(total, CATALOG, case.arrivals, host.evaluated[total.name][-1], cases.SECOND_US)
    assert outcomes.got(host, total) == outcomes.shown(grouped_answer(total, CATALOG, case.arrivals, times))


def as_kept_before(manifest: bytes, plan: SharedPlan) -> bytes:
    """What waits for aggregates as earlier versions kept it: before select-projects that ask nothing."""
    told = json.loads(manifest)
    for group in plan.groups:
        queues = told["groups"][group.signature]["queues"]
        assert queues
        for first, last in class_paths(group):
            queues[first] = [item[:5] for item in queues.pop(last, [])]
    return json.dumps(told).encode()


@pytest.mark.parametrize("shards", [1, 2])
def test_aggregates_go_on_with_what_waited_before_a_select_project_that_is_no_more(shards: int) -> None:
    queries = queries_of(
        "total: a.k, SUM(b.n) AS v | AND a.n < 3 GROUP BY a.k WINDOW 5 SECONDS",
        "best: a.k, MAX(b.id) AS v | AND a.n < 4 GROUP BY a.k WINDOW 5 SECONDS",
    )
    case, way = Case(CATALOG, CASE.arrivals, queries), way_of("path", shards, restoring=False)
    host = cases.host_for(case, way)
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        if number == 5:
            manifests, combined = host._manifests
            host._manifests = [as_kept_before(one, host.plan) for one in manifests], combined
            host.change(CATALOG, queries)
        cases.arrive(host, chunks)
    host.end()
    for query in queries:
        times = evaluation_times(query, CATALOG, case.arrivals, host.evaluated[query.name][-1], cases.SECOND_US)
        assert outcomes.got(host, query) == outcomes.shown(grouped_answer(query, CATALOG, case.arrivals, times))


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("restoring", [False, True])
@pytest.mark.parametrize(
    "stays", [f"low: {PAIRS} | AND a.n < b.id WINDOW 5 SECONDS", "total: a.k, SUM(b.n) AS v | GROUP BY a.k WINDOW 5 S"]
)
def test_nothing_that_waits_is_lost_when_there_are_too_many_select_lists_for_operators_of_their_own(
    stays: str, restoring: bool, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for operators goes through them; then there are none."""
    monkeypatch.setattr(deferring, "MOST_CLASSES", 1)
    case = Case(CATALOG, CASE.arrivals, queries_of(stays))
    later = queries_of(stays, f"other: {PAIRS}, a.n AS an | WINDOW 3 SECONDS")
    host = changed(case, way_of("chain", shards, restoring=restoring), later)
    (query,) = case.queries
    if query.grouping is None:
        assert outcomes.same_rows(outcomes.got(host, query), reference.answer(query, CATALOG, case.arrivals))
        return
    times = evaluation_times(query, CATALOG, case.arrivals, host.evaluated[query.name][-1], cases.SECOND_US)
    assert outcomes.got(host, query) == outcomes.shown(grouped_answer(query, CATALOG, case.arrivals, times))
