"""Joins of many streams whose rows can be checked by hand: from SQL, by the reference, by DuckDB and by the engine.

One shard must give the rows in order; on several only the rows count here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import permutations

import duck
import engine_cases as cases
import outcomes
import pytest
from engine_cases import Case, Row, Way
from local_host import LocalHost
from strategies import EPOCH, SECOND_US, at

from headrace import reference
from headrace.engine.output import Cut
from headrace.engine.segments import unpack_batch
from headrace.engine.shard import ShardOptions
from headrace.model import Catalog, StreamId
from headrace.plan.expressions import Value
from headrace.sql import read_script

STREAMS = "".join(
    f"CREATE STREAM {name} (id BIGINT, k INT, n BIGINT, x DOUBLE, name STRING, ts TIMESTAMP)"
    " WITH (connector = 'generator');\n"
    for name in "abcdef"
)
Answer = list[tuple[Value, ...]]


def event(number: int, seconds: float, k: int | None = 1, **values: Value) -> Row:
    return {"id": number, "k": k, "n": None, "x": None, "name": None, "ts": at(seconds), **values}


def events(*rows: tuple[float, int | None]) -> list[Row]:
    """(seconds, key) pairs as rows whose id is their arrival position."""
    return [event(number, seconds, key) for number, (seconds, key) in enumerate(rows)]


def case_of(query: str, **arrivals: list[Row]) -> Case:
    """One query over streams a to f; those without rows are empty."""
    script = read_script(STREAMS + query)
    used = {source.stream for one in script.queries for source in one.sources}
    catalog = Catalog(tuple(stream for stream in script.catalog.streams if stream.name in used))
    return Case(catalog, {one.name: arrivals.get(one.name, []) for one in catalog.streams}, tuple(script.queries))


def by_reference(case: Case) -> Answer:
    return reference.answer(case.queries[0], case.catalog, case.arrivals)


def by_duckdb(case: Case) -> Answer:
    return duck.answer(case.queries[0], case.catalog, case.arrivals)


def on_shards(shards: int, way: Way = Way(blocks=(1,))) -> Callable[[Case], Answer]:  # noqa: B008
    def run(case: Case) -> Answer:
        host = cases.run(case, Way(way.blocks, way.lags, shards))
        rows = outcomes.got(host, case.queries[0])
        return rows if shards == 1 else sorted(rows, key=by_reference(case).index)

    return run


EVALUATORS = {
    "reference": by_reference,
    "duckdb": by_duckdb,
    **{f"{shards} shards": on_shards(shards) for shards in (1, 2, 4, 9)},
}
every_evaluator = pytest.mark.parametrize("evaluate", EVALUATORS.values(), ids=EVALUATORS)
Evaluate = Callable[[Case], Answer]

COMMON = "SELECT a.id, b.id AS b, c.id AS c FROM a, b, c WHERE a.k = b.k AND b.k = c.k"


# --- the papers


@every_evaluator
def test_multi_way_joins_table_3(evaluate: Evaluate) -> None:
    """Paper 002, 3.1: the naive algorithm also gives six rows with tuples of S1 that had expired."""
    case = case_of(
        "SELECT a.ts, a.k, b.ts AS ts2, b.k AS k2, c.ts AS ts3, c.k AS k3 FROM a, b, c"
        " WHERE a.k = b.k AND b.k = c.k WINDOW 100 SECONDS",
        a=events((90, 1), (100, 1)),
        b=events((150, 1), (180, 1)),
        c=events((195, 1), (205, 1)),
    )
    seconds = [[int((one - EPOCH).total_seconds()) for one in row[::2]] for row in evaluate(case)]  # type: ignore[operator]
    assert seconds == [[100, 150, 195], [100, 180, 195]]
    assert all(row[1::2] == (1, 1, 1) for row in evaluate(case))


# --- windows


@every_evaluator
def test_three_tuples_exactly_w_apart_join(evaluate: Evaluate) -> None:
    case = case_of(f"{COMMON} WINDOW 5 s", a=events((0, 1)), b=events((2, 1)), c=events((5, 1), (5.000001, 1)))
    assert evaluate(case) == [(0, 0, 0)]


@every_evaluator
def test_being_near_each_neighbour_is_not_enough(evaluate: Evaluate) -> None:
    """b is near both, but a and c are too far apart."""
    case = case_of(f"{COMMON} WINDOW 5 s", a=events((0, 1), (1, 1)), b=events((3, 1)), c=events((6, 1)))
    assert evaluate(case) == [(1, 0, 0)]


@pytest.mark.parametrize("block", [1, 1000])
def test_the_last_rows_are_counted_as_they_came_whichever_key_finds_them(block: int) -> None:
    """Tuples of a at one time are held by k: found by n, they are still those of their places in the stream."""
    case = case_of(
        "SELECT a.id, b.id AS b, c.id AS c FROM a [ROWS 3], b [ROWS 1], c [ROWS 1] WHERE a.k = b.k AND a.n = c.n",
        a=[event(number, 6, k, n=n) for number, (k, n) in enumerate(((3, 6), (1, 0), (0, 7), (2, 6)))],
        b=[event(0, 6, 2)],
        c=[event(0, 6, n=6)],
    )
    assert by_duckdb(case) == by_reference(case) == [(3, 0, 0)]
    for shards in (1, 2, 4, 9):
        assert on_shards(shards, Way(blocks=(block,)))(case) == [(3, 0, 0)]


@every_evaluator
def test_each_stream_is_looked_back_at_by_its_own_window(evaluate: Evaluate) -> None:
    """From the newest tuple a is seen 1 s back, b 3 s and c 10 s, whichever stream the newest is of."""
    case = case_of(
        "SELECT a.id, b.id AS b, c.id AS c FROM a [RANGE 1 s], b [RANGE 3 s], c [RANGE 10 s]"
        " WHERE a.k = b.k AND b.k = c.k",
        a=events((0, 1), (10, 1)),
        b=events((1, 1), (7, 1)),
        c=events((0, 1), (11, 1)),
    )
    assert evaluate(case) == [(0, 0, 0), (1, 1, 0)]


@every_evaluator
def test_rows_are_counted_over_all_keys_from_the_newest_tuple(evaluate: Evaluate) -> None:
    """When c comes, the last of a before it has key 2; the last two of b have keys 2 and 1."""
    case = case_of(
        "SELECT a.id, b.id AS b, c.id AS c FROM a [ROWS 1], b [ROWS 2], c [RANGE 1 s] WHERE a.k = b.k AND b.k = c.k",
        a=events((0, 1), (1, 2)),
        b=events((0, 2), (0, 2), (1, 1)),
        c=events((0, 1), (2, 2), (3, 1)),
    )
    assert evaluate(case) == [(1, 1, 1)]


# --- ties


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
@pytest.mark.parametrize("shards", [1, 2, 4, 9])
def test_a_tie_is_reported_once_whatever_comes_first(order: tuple[int, int, int], shards: int) -> None:
    case = case_of(f"{COMMON} WINDOW 0 s", **{name: events((1, 1), (1, 1)) for name in "abc"})
    answer = [(a, b, c) for c in range(2) for a in range(2) for b in range(2)]
    assert by_reference(case) == by_duckdb(case) == answer
    assert on_shards(shards, Way(blocks=(1,), lags=order))(case) == answer
    assert on_shards(shards, Way(blocks=(2,), lags=order))(case) == answer


@every_evaluator
def test_at_one_time_the_last_stream_of_the_catalog_is_the_newest(evaluate: Evaluate) -> None:
    """So with windows of one row, c finds the last of a and of b, and nothing else is a result."""
    case = case_of(f"{COMMON} WINDOW 1 ROWS", **{name: events((1, 1), (1, 1)) for name in "abc"})
    assert evaluate(case) == [(1, 1, 0), (1, 1, 1)]


@every_evaluator
def test_from_order_decides_only_after_the_newest(evaluate: Evaluate) -> None:
    case = case_of(
        "SELECT c.id, b.id AS b, a.id AS a FROM c, b, a WHERE a.k = b.k AND b.k = c.k WINDOW 1 s",
        **{name: events((1, 1), (1, 1)) for name in "abc"},
    )
    assert evaluate(case) == [(c, b, a) for c in range(2) for b in range(2) for a in range(2)]


# --- keys


@every_evaluator
def test_null_keys_match_nothing(evaluate: Evaluate) -> None:
    case = case_of(f"{COMMON} WINDOW 9 s", **{name: events((0, None), (1, None), (2, 7)) for name in "abc"})
    assert evaluate(case) == [(2, 2, 2)]


@every_evaluator
def test_a_null_in_the_middle_of_a_chain_ends_it(evaluate: Evaluate) -> None:
    case = case_of(
        "SELECT a.id, b.id AS b, c.id AS c FROM a, b, c WHERE a.k = b.k AND b.n = c.n WINDOW 9 s",
        a=[event(0, 0)],
        b=[event(0, 1), event(1, 2, n=5), event(2, 3, None, n=5)],
        c=[event(0, 4, None, n=5), event(1, 5)],
    )
    assert evaluate(case) == [(0, 1, 0)]


@every_evaluator
def test_equality_does_not_carry_over_through_another_type(evaluate: Evaluate) -> None:
    """Both BIGINTs are the DOUBLE 2^53, and so each is equal to b's; with each other they are not compared."""
    most = 2**53
    case = case_of(
        "SELECT a.id, b.id AS b, c.id AS c FROM a, b, c WHERE a.n = b.x AND b.x = c.n WINDOW 9 s",
        a=[event(0, 0, n=most), event(1, 0, n=most + 1)],
        b=[event(0, 1, x=float(most))],
        c=[event(0, 2, n=most), event(1, 3, n=most + 1), event(2, 3, n=most + 2)],
    )
    assert evaluate(case) == [(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1)]


@every_evaluator
def test_a_cycle_closes(evaluate: Evaluate) -> None:
    """a.k = b.k and b.n = c.n hold for both of a's tuples, c.x = a.x for one."""
    case = case_of(
        "SELECT a.id, b.id AS b, c.id AS c FROM a, b, c WHERE a.k = b.k AND b.n = c.n AND c.x = a.x WINDOW 9 s",
        a=[event(0, 0, x=1.5), event(1, 0, x=2.5)],
        b=[event(0, 1, n=8)],
        c=[event(0, 2, n=8, x=2.5), event(1, 3, n=8, x=3.5)],
    )
    assert evaluate(case) == [(1, 0, 0)]


@every_evaluator
def test_strings_join_strings(evaluate: Evaluate) -> None:
    names = ("é漢", "", "a", None)
    rows = [event(number, number, name=name) for number, name in enumerate(names)]
    query = "SELECT a.id, b.id AS b, c.id AS c FROM a, b, c WHERE a.name = b.name AND a.name = c.name WINDOW 9 s"
    case = case_of(query, a=rows, b=rows, c=rows)
    assert evaluate(case) == [(0, 0, 0), (1, 1, 1), (2, 2, 2)]


SIX = (
    "SELECT a.id, b.id AS b, c.id AS c, d.id AS d, e.id AS e, f.id AS f FROM a, b, c JOIN d ON c.k = d.k, e, f"
    " WHERE a.k = b.k AND c.k = b.k AND e.k = a.k AND d.k = f.k WINDOW 5 s"
)


@every_evaluator
def test_six_streams_join_on_one_key(evaluate: Evaluate) -> None:
    """Key 2 is missing in f, key 3 comes there too late."""
    rows = events((0, 1), (0, 2), (0, 3), (1, None))
    arrivals = dict.fromkeys("abcde", rows) | {"f": events((5, 1), (5.5, 3))}
    assert evaluate(case_of(SIX, **arrivals)) == [(0,) * 6]


@every_evaluator
def test_six_streams_with_two_tuples_each_have_64_results(evaluate: Evaluate) -> None:
    answer = evaluate(case_of(SIX, **{name: events((0, 1), (0, 1)) for name in "abcdef"}))
    assert len(answer) == len(set(answer)) == 64
    assert answer == sorted(answer, key=lambda row: (row[5], *row[:5]))


@pytest.mark.parametrize("method", ["hybrid", "eager"])
def test_a_block_larger_than_a_slice_is_scanned_once(method: str) -> None:
    """More new tuples than are first tried together, and few results: the rest is one slice, and not all of them."""
    rows = [event(number, number / 1000, number, n=number) for number in range(600)]
    query = "SELECT a.id, b.id AS b, c.id AS c FROM a, b, c WHERE a.k = b.k AND b.n = c.n WINDOW 9 s"
    case = case_of(query, a=rows, b=rows, c=rows)
    host = cases.run(case, Way(options=replace(cases.ONE_SHARD, method=method)))
    assert outcomes.got(host, case.queries[0]) == [(number,) * 3 for number in range(600)]


# --- no equality


@every_evaluator
def test_between_over_three_streams(evaluate: Evaluate) -> None:
    case = case_of(
        "SELECT a.id, b.id AS b, c.id AS c FROM a, b, c WHERE c.k BETWEEN a.k + b.k AND a.k * b.k AND a.k < b.k"
        " WINDOW 9 s",
        a=events((0, 2), (0, 9), (1, None)),
        b=events((1, 4), (2, 3)),
        c=events((3, 5), (4, 6), (5, 8), (6, 9)),
    )
    assert evaluate(case) == [(0, 1, 0), (0, 0, 1), (0, 1, 1), (0, 0, 2)]


@every_evaluator
def test_cross_join_is_every_combination_in_the_window(evaluate: Evaluate) -> None:
    case = case_of(
        "SELECT a.id, b.id AS b, c.id AS c FROM a CROSS JOIN b CROSS JOIN c WINDOW 2 s",
        a=events((0, 1), (1, None)),
        b=events((1, 2), (3, 1)),
        c=events((2, 3)),
    )
    assert evaluate(case) == [(0, 0, 0), (1, 0, 0), (1, 1, 0)]


@pytest.mark.parametrize("shards", [1, 2, 4, 9])
@pytest.mark.parametrize(
    "joined", ["a.k = b.k AND b.k = c.k", "a.k = b.k AND b.id <= c.id", "a.id + b.id < c.id", "TRUE"]
)
def test_a_heavy_key_gives_each_combination_once_on_any_number_of_shards(joined: str, shards: int) -> None:
    """Eleven of twelve tuples have one key, so wherever it is joined there is most of the work."""
    query = f"SELECT a.id, b.id AS b, c.id AS c FROM a, b, c WHERE {joined} WINDOW 20 s"
    rows = events(*((second, 2 if second == 5 else 1) for second in range(12)))
    case = case_of(query, a=rows, b=rows, c=rows)
    answer = by_reference(case)
    assert len(answer) > 200
    assert on_shards(shards, Way(blocks=(5, 3, 7), lags=(0, 2, 1)))(case) == answer


# --- a stream with itself


@every_evaluator
def test_a_tuple_meets_itself_three_times_in_one_result(evaluate: Evaluate) -> None:
    query = "SELECT p.id, q.id AS q, r.id AS r FROM a p, a q, a r WHERE p.k = q.k AND q.k = r.k WINDOW 1 s"
    assert evaluate(case_of(query, a=events((0, 1)))) == [(0, 0, 0)]
    answer = evaluate(case_of(query, a=events((0, 1), (1, 1))))
    assert sorted(answer) == [(p, q, r) for p in range(2) for q in range(2) for r in range(2)]


@every_evaluator
def test_a_stream_three_times_in_a_row_and_another_beside_it(evaluate: Evaluate) -> None:
    case = case_of(
        "SELECT p.id, q.id AS q, r.id AS r, b.id AS b FROM a p, a q, b, a r"
        " WHERE p.k = q.k AND q.k = r.k AND p.ts < q.ts AND q.ts < r.ts AND b.k = r.k WINDOW 4 s",
        a=events((0, 1), (1, 1), (2, 2), (3, 1), (5, 1)),
        b=events((4, 1), (6, 1)),
    )
    assert evaluate(case) == [(0, 1, 3, 0), (1, 3, 4, 0)]


# --- turns


@pytest.mark.parametrize("restoring", [False, True])
def test_a_block_on_one_shard_scans_a_larger_window_when_its_turn_comes(restoring: bool) -> None:
    """The small window's rows are out before the larger band is looked at; its rows then come between them."""
    case = case_of(
        three_way("small", "WINDOW 1 s")
        + three_way("large", "WINDOW 5 s")
        + three_way("turned", "WINDOW 5 s", "c, b, a"),
        a=events((0, 1), (4, 1), (4, 1), (8, 2)),
        b=events((0, 1), (4, 1), (8, 2)),
        c=events((4, 1), (8, 2)),
    )
    small, large, turned = case.queries
    way = Way(options=ShardOptions(Cut.WINDOWS, policy="swf"), probes=1, restoring=restoring)
    host = cases.host_for(case, way)
    cases.arrive(host, case.arrivals)
    near = [(1, 1, 0), (2, 1, 0)]
    assert (outcomes.got(host, small), outcomes.got(host, large)) == (near, [])
    (blocks,) = outcomes.pending(host.shards[0]).values()
    assert [done for _, done in blocks] == [(SECOND_US,) * 3]
    assert held_rows(host) == 2 * len(near)
    host.go_on()
    assert outcomes.got(host, small) == near
    assert outcomes.got(host, large) == [(a, b, 0) for a in range(3) for b in range(2)]
    assert outcomes.got(host, turned) == [(a, b, 0) for b in range(2) for a in range(3)]


def held_rows(host: LocalHost) -> int:
    """Results that wait for a larger window."""
    groups = json.loads(host.shards[0].manifest())["groups"].values()
    names = [held["name"] for group in groups for block in group["pending"] for held in block["held"]]
    return sum(unpack_batch(host.stores[0].blobs[name]).num_rows for name in names)


# --- queries that come


def three_way(name: str, window: str, from_: str = "a, b, c") -> str:
    return f"CREATE QUERY {name} AS {COMMON.replace('a, b, c', from_)} {window};"


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("restoring", [False, True])
def test_a_new_query_with_another_window_uses_the_tuples_held(shards: int, restoring: bool) -> None:
    """The 3 s of the first are held when the second comes; it gives nothing that was complete before it."""
    case = case_of(three_way("stays", "WINDOW 3 s") + three_way("comes", "WINDOW 2 s"))
    stays, comes = case.queries
    host = cases.host_for(Case(case.catalog, {}, (stays,)), Way(shards=shards, restoring=restoring))
    a, b, c = (StreamId(name) for name in "abc")
    cases.arrive(host, {a: [event(0, 0)], b: [event(0, 1)], c: [event(0, 1)]})
    host.change(case.catalog, (stays, comes))
    cases.arrive(host, {a: [event(1, 2)], b: [event(1, 2)], c: [event(1, 2)]})
    host.end()
    at_two = {(x, y, z) for x in range(2) for y in range(2) for z in range(2)} - {(0, 0, 0)}
    assert sorted(outcomes.got(host, stays)) == [(0, 0, 0), *sorted(at_two)]
    assert at_two <= set(outcomes.got(host, comes)) <= at_two | {(0, 0, 0)}
    assert len(outcomes.got(host, comes)) == len(set(outcomes.got(host, comes)))


@pytest.mark.parametrize("shards", [1, 4])
def test_rows_after_an_end_join_those_still_in_the_windows(shards: int) -> None:
    case = case_of(f"{COMMON} WINDOW 5 s")
    a, b, c = (StreamId(name) for name in "abc")
    host = cases.host_for(case, Way(shards=shards))
    cases.arrive(host, {a: [event(0, 1)], b: [event(0, 4)]})
    host.end()
    cases.arrive(host, {c: [event(0, 2), event(1, 7)]})
    host.end()
    assert outcomes.got(host, case.queries[0]) == [(0, 0, 0)]


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("apart_s", [0.000003, 3])
def test_newer_tuples_have_counted_their_rows_when_one_comes_after_an_end(apart_s: float, *, counted: bool) -> None:
    """However near they are in time: the size of a window of rows is no time."""
    into = "INTO (connector = 'count') " if counted else ""
    text = "CREATE QUERY q AS SELECT a.id, b.id AS b FROM a [RANGE 10 s], b [ROWS 5] WHERE a.k = b.k"
    case = case_of(f"{text} {into};")
    a, b = (StreamId(name) for name in "ab")
    host = cases.host_for(case, Way())
    cases.arrive(host, {a: [event(0, 1), event(1, 1 + apart_s)], b: [event(0, 0)]})
    host.end()
    cases.arrive(host, {b: [event(1, 1)]})
    host.end()
    rows = [(0, 0), (1, 0), (0, 1)]
    assert host.counts["q"] == len(rows) if counted else outcomes.got(host, case.queries[0]) == rows


CHAIN = "a.k = b.k AND b.k = c.k"
IN_TIME_AND_ROWS = f"SELECT a.id, b.id AS b, c.id AS c FROM a [RANGE 10 s], b [ROWS %d], c [RANGE 10 s] WHERE {CHAIN}"
TWO_IN_TIME_AND_ROWS = "SELECT a.id, b.id AS b FROM a [RANGE 10 s], b [ROWS %d] WHERE a.k = b.k"


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("together", [1, 4])
@pytest.mark.parametrize(
    ("query", "rows", "before", "after", "wanted"),
    [
        (IN_TIME_AND_ROWS, 5, {"a": [5], "b": [1]}, {"c": [3]}, [(0, 0, 0)]),
        (IN_TIME_AND_ROWS, 2, {"b": [4, 5, 6, 7], "c": [2]}, {"a": [3]}, [(0, b, 0) for b in range(4)]),
        (IN_TIME_AND_ROWS, 1, {"a": [5], "b": [1, 6, 7]}, {"c": [3]}, [(0, b, 0) for b in range(3)]),
        (IN_TIME_AND_ROWS, 2, {"a": [5], "c": [5]}, {"b": [3, 5, 6]}, [(0, 2, 0)]),
        (TWO_IN_TIME_AND_ROWS, 2, {"b": [4, 5, 6, 20]}, {"a": [3]}, [(0, 0), (0, 1), (0, 2)]),
        (TWO_IN_TIME_AND_ROWS, 2, {"b": [1, 2, 4]}, {"a": [3]}, [(0, 1), (0, 2)]),
        (TWO_IN_TIME_AND_ROWS, 2, {"b": [1, 4, 5]}, {"a": [3]}, [(0, 1), (0, 2)]),
        (TWO_IN_TIME_AND_ROWS, 2, {"a": [3]}, {"b": [2, 3, 4]}, [(0, 1), (0, 2)]),
        (TWO_IN_TIME_AND_ROWS, 1, {"b": [3, 4]}, {"a": [3]}, [(0, 0), (0, 1)]),
    ],
)
def test_after_an_end_newer_tuples_look_back_in_time_and_rows_count_as_they_were_released(
    query: str, rows: int, before: Mapping[str, list[int]], after: Mapping[str, list[int]], wanted: Answer,
    together: int, shards: int,
) -> None:  # fmt: skip
    first, then = (
        {StreamId(name): [event(number, ts) for number, ts in enumerate(some)] for name, some in times.items()}
        for times in (before, after)
    )
    case = case_of(query % rows)
    host = cases.host_for(case, Way(shards=shards))
    for part in (first, then):
        for begin in range(0, 4, together):
            cases.arrive(host, {name: some[begin : begin + together] for name, some in part.items()})
        host.end()
    assert sorted(outcomes.got(host, case.queries[0])) == wanted
    arrived = {stream.name: len(first.get(stream.name, ())) for stream in case.catalog.streams}
    assert sorted(reference.answer(case.queries[0], case.catalog, {**first, **then}, [arrived])) == wanted


def test_after_an_end_the_last_rows_are_those_that_were_released_last() -> None:
    """However held rows were put together meanwhile."""
    case = case_of("SELECT a.id, b.id AS b FROM a, b WHERE a.k = b.k WINDOW 2 ROWS")
    patient = Catalog(tuple(replace(one, max_delay_us=10 * SECOND_US) for one in case.catalog.streams))
    a, b = (StreamId(name) for name in "ab")
    host = cases.host_for(replace(case, catalog=patient), Way(options=ShardOptions(merge_fanout=2)))
    cases.arrive(host, {b: [event(0, 5), event(1, 6)]})
    host.end()
    cases.arrive(host, {b: [event(2, 1), event(3, 2)]})
    host.end()
    cases.arrive(host, {a: [event(0, 9)]})
    host.end()
    assert outcomes.got(host, case.queries[0]) == [(0, 2), (0, 3)]


# --- numbers at their ends

LARGEST = 2**63 - 1


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize(
    ("condition", "a", "b"),
    [
        ("a.n - 10 <= b.n", {"n": 1}, {"n": LARGEST}),
        ("a.n BETWEEN b.n - 1 AND b.n + 1", {"n": LARGEST}, {"n": LARGEST - 1}),
        ("a.n - 1 >= b.n", {"n": -LARGEST - 1}, {"n": 5}),
        ("a.x + 1e308 >= b.x", {"x": 1e308}, {"x": float("inf")}),
        ("b.x <= a.x + 1e308", {"x": 1e308}, {"x": float("inf")}),
        ("a.x - 1e308 <= b.x", {"x": -1e308}, {"x": float("-inf")}),
        ("a.x - 0.1 <= b.x", {"x": 0.3}, {"x": 0.3 - 0.1}),
        ("a.x + 0.1 >= b.x", {"x": 0.2}, {"x": 0.2 + 0.1}),
        ("a.ts - INTERVAL '1' SECOND <= b.ts", {}, {}),
        ("a.ts - b.ts BETWEEN INTERVAL '-1' SECOND AND INTERVAL '-1' SECOND", {}, {}),
        ("a.n - b.n <= 5", {"n": LARGEST}, {"n": -2}),
        ("ABS(a.n - b.n) <= 1", {"n": LARGEST}, {"n": -LARGEST - 1}),
        ("ABS(a.n - b.n) <= -5", {"n": -LARGEST - 1}, {"n": 0}),
        ("a.x - b.x >= 5e0", {"x": 1.0}, {"x": float("nan")}),
        ("b.x - a.x >= 5e0", {"x": float("nan")}, {"x": 1.0}),
        ("ABS(a.x - b.x) <= c.x + 1e0", {"x": 0.3}, {"x": 1.3}),
        ("a.x - b.x = 0.1e0", {"x": 0.1}, {"x": 1e-18}),
        ("a.x - b.x <= 1e0", {"x": float("-inf")}, {"x": 1e308}),
        ("a.n - b.x BETWEEN 0 AND 0", {"n": 2**53 + 1}, {"x": 2.0**53}),
        ("a.name > b.name", {"name": "abcdefghij"}, {"name": "abcdefghi"}),
        ("NOT (a.x < b.x OR a.k <> b.k)", {"x": float("nan")}, {"x": 1.0}),
        ("a.k IN (b.n, b.k + 1)", {"k": 2}, {"k": 1}),
    ],
)
def test_a_number_moved_to_the_other_side_loses_no_result(
    condition: str, a: dict[str, Value], b: dict[str, Value], shards: int
) -> None:
    """An index of the bare column serves ``column - 10 <= other``: sums that wrap or overflow must not mislead it."""
    query = f"CREATE QUERY q AS SELECT a.id, b.id AS b, c.id AS c FROM a, b, c WHERE {condition} WINDOW 5 s;"
    case = case_of(query, a=[event(0, 0, **a)], b=[event(0, 1, **b)], c=[event(0, 2, x=0.0)])
    assert by_reference(case) == [(0, 0, 0)]
    assert on_shards(shards)(case) == [(0, 0, 0)]
