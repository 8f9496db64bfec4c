"""The hold buffer: spills, merges, and rows of queries that do not want to wait."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from unittest.mock import patch

import engine_cases as cases
import numpy as np
import outcomes
import pyarrow as pa
import pytest
from engine_cases import Case, Way, examples
from hypothesis import given
from hypothesis import strategies as st

from headrace import reference
from headrace.engine import holding, join, multiway, walking
from headrace.engine.blocks import CELL, RANK, THEN, HeldResults
from headrace.engine.dispatching import Scheduling
from headrace.engine.events import Effect, EmitRows, KeepSegment
from headrace.engine.holding import HoldBuffer
from headrace.engine.inputs import Place
from headrace.engine.shard import ShardOptions
from headrace.engine.spaces import Space
from headrace.engine.window import Serial
from headrace.model import BOOLEAN, DOUBLE, Catalog, QueryId, Stream, StreamId
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
        outcomes.assert_store_holds_what_is_needed(host)
    host.end()
    assert most < 20
    assert outcomes.got(host, QUERY) == outcomes.shown(reference.answer(QUERY, CATALOG, case.arrivals))


def test_going_there_and_back_without_input_makes_no_work() -> None:
    """A join that changes its approach with every micro-batch: only what came is ever scanned."""
    windows = [replace(QUERY, name=QueryId(f"q{s}"), windows=within_us(s * cases.SECOND_US)) for s in range(1, 6)]
    rows = {A: [cases.row(0, 1), cases.row(5, 2)], B: [cases.row(0, 3), cases.row(5, 4)]}
    options = replace(cases.ONE_SHARD, reevaluate_us=cases.SECOND_US, policy="swf")
    way = Way(options=options, probes=1, filter_order=(True, False))
    host = cases.host_for(Case(CATALOG, rows, tuple(windows)), way)
    cases.arrive(host, rows)
    for _ in range(50):
        host.go_on()
    assert not host.is_behind


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
        assert outcomes.got(host, QUERY) == outcomes.shown(reference.answer(QUERY, CATALOG, rows))


@pytest.mark.parametrize("streams", [2, 3])
def test_a_stream_that_resumes_finds_its_results_a_slice_at_a_time(
    streams: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are ahead of it, so each of its tuples is late: what it finds is not in memory all at once."""
    most, limit = [0], 40
    monkeypatch.setattr(join, "SLICE_MATCHES", limit)
    monkeypatch.setattr(multiway, "SLICE_MATCHES", limit)
    monkeypatch.setattr(walking, "EXPANDED_TOGETHER", limit)
    add = HoldBuffer.add

    def noted(buffer: HoldBuffer, found: HeldResults, epoch: int) -> Iterator[Effect]:
        most[0] = max(most[0], found.batch.num_rows)
        return add(buffer, found, epoch)

    monkeypatch.setattr(HoldBuffer, "add", noted)
    names = [StreamId(name) for name in "abc"[:streams]]
    same = tuple(call("=", cases.column(0, "k"), cases.column(side, "k")) for side in range(1, streams))
    outputs = tuple(Output(f"{name}{i}", cases.column(i, name)) for name in ("ts", "id") for i in range(streams))
    sources = tuple(Source(name, f"s{name}") for name in names)
    query = Query(QueryId("q"), sources, same, outputs, within_us(60 * cases.SECOND_US, streams))
    catalog = Catalog(tuple(Stream(name, cases.WIDE, "ts") for name in names))
    rows = {name: [cases.row(second, second) for second in range(8)] for name in names}
    host = cases.host_for(Case(catalog, rows, (query,)), Way(filter_order=(True,)))
    for name in names:
        cases.arrive(host, {name: rows[name]})
    host.end()
    assert 0 < most[0] <= limit
    assert outcomes.got(host, query) == outcomes.shown(reference.answer(query, catalog, rows))


@given(case=cases.busy_cases(), way=cases.ways())
@examples(60)
def test_rows_of_emit_early_are_the_same_rows_beside_others_in_order(case: Case, way: Way) -> None:
    both = replace(case, queries=(*case.queries, *map(early, case.queries)))
    host = cases.run(both, replace(way, filter_order=(True,)))
    for query in case.queries:
        wanted = outcomes.shown(reference.answer(query, case.catalog, case.arrivals))
        assert outcomes.same_rows(outcomes.got(host, query), wanted)
        assert way.shards > 1 or outcomes.got(host, query) == wanted
        outcomes.assert_batches_in_order(host, query)
        rows = outcomes.got(host, early(query))
        assert Counter(row[:-1] for row in rows) == Counter(wanted)
        assert {row[-1] for row in rows} <= {True, False}


def test_a_row_of_emit_early_says_whether_a_stream_was_behind_it() -> None:
    soon = early(QUERY)
    host = cases.host_for(Case(CATALOG, {}, (QUERY, soon)), Way(filter_order=(True,)))
    cases.arrive(host, {A: [cases.row(1, 1)], B: [cases.row(1, 1)]})
    cases.arrive(host, {A: [cases.row(5, 2)]})
    assert [row[-3:] for row in outcomes.got(host, soon)] == [(1, 1, True), (2, 1, True)]
    assert [row[-2:] for row in outcomes.got(host, QUERY)] == [(1, 1)]
    cases.arrive(host, {B: [cases.row(9, 2, k=2)]})
    cases.arrive(host, {A: [cases.row(9, 3, k=3)]})
    assert [row[-2:] for row in outcomes.got(host, QUERY)] == [(1, 1), (2, 1)]


@pytest.mark.parametrize("filter_order", [False, True])
def test_queries_that_differ_in_emit_early_alone_have_operators_of_their_own(filter_order: bool) -> None:
    """Under a strategy: those that are only counted, and one that has written the column by itself."""
    soon = early(QUERY)
    written = replace(soon, name=QueryId("written"), emits_early=False)
    counted = [
        replace(one, name=QueryId(f"{one.name}_counted"), into=(("connector", "count"),)) for one in (soon, QUERY)
    ]
    rows = {A: [cases.row(s, s) for s in range(4)], B: [cases.row(s, s) for s in range(3)]}
    options = ShardOptions(cases.ONE_SHARD.cut, scheduling=Scheduling("fifo"))
    case = Case(CATALOG, rows, (soon, written, QUERY, *counted))
    host = cases.run(case, Way(blocks=(1,), lags=(0, 1), options=options, filter_order=(filter_order,)))
    assert {len(host.rows(one.name)) for one in (soon, written, QUERY)} == {12}
    assert [host.counts[one.name] for one in counted] == [12, 12]


def test_ties_stay_as_they_arrived_through_switches_of_the_approach() -> None:
    """a brings two tuples of one time: one is joined ahead, the other after the switch back, at a time that was reached
    before. What finds both of them is joined ahead again."""
    rows = {A: [cases.row(1, 1), cases.row(1, 2), cases.row(6, 3)], B: [cases.row(5, 1)]}
    case = Case(CATALOG, rows, (QUERY,))
    host = cases.host_for(case, Way(filter_order=(True, False, False, True, True)))
    cases.arrive(host, {A: rows[A][:1]})
    cases.arrive(host, {B: rows[B]})
    cases.arrive(host, {A: rows[A][1:2]})
    host.go_on()
    cases.arrive(host, {A: rows[A][2:]})
    host.end()
    assert [row[-2:] for row in outcomes.got(host, QUERY)] == [(1, 1), (2, 1), (3, 1)]


def test_a_response_is_measured_from_the_tuple_that_completed_it() -> None:
    """After an end, what is joined ahead may find a newer tuple that was joined in order."""
    host = cases.host_for(Case(CATALOG, {}, (QUERY,)), Way(filter_order=(False, False, True)))
    host.arrive({A: cases.batch_of([cases.row(10, 1)])}, at_us=1000)
    host.end()
    with patch.object(host, "_apply", side_effect=host._apply) as applied:
        host.arrive({B: cases.batch_of([cases.row(5, 2)])}, at_us=2000)
        host.end()
    told = [call_of.args[0] for call_of in applied.call_args_list]
    assert [one.arrived for one in told if isinstance(one, EmitRows)] == [((2000, 1),)]


def test_a_join_that_has_switched_looks_at_as_much_as_one_that_began_so() -> None:
    """Tuples of before and after the switch are in runs of their own; columns are gathered no more often for that."""
    near = call("<", cases.column(0, "x"), call("+", cases.column(1, "x"), Literal(1.0, DOUBLE)))
    query = replace(QUERY, conditions=(*QUERY.conditions, near))
    rows = {A: [cases.row(s, s) for s in range(21)], B: [cases.row(s, s) for s in range(21)]}

    def looks(*approaches: bool) -> int:
        host = cases.host_for(Case(CATALOG, rows, (query,)), Way(filter_order=approaches))
        for begin in (0, 10):
            cases.arrive(host, {A: rows[A][begin : begin + 10], B: rows[B][begin : begin + 10]})
        with patch.object(Space, "column", autospec=True, side_effect=Space.column) as column:
            cases.arrive(host, {A: rows[A][20:], B: rows[B][20:]})
        assert host.shards[0].held_results > 0
        return sum(call_of.args[1] == "x" for call_of in column.call_args_list)

    assert looks(False, True, True) == looks(True, True, True) > 0


def test_a_join_that_counts_rows_takes_tuples_in_order_whatever_it_is_told() -> None:
    counting = replace(QUERY, windows=tuple(replace(one, measure=Measure.ROWS, size=3) for one in QUERY.windows))
    case = Case(CATALOG, {A: [cases.row(s, s) for s in range(5)], B: [cases.row(s, s) for s in range(5)]}, (counting,))
    host = cases.run(case, Way(blocks=(1, 2), lags=(0, 3), filter_order=(True,)))
    assert outcomes.got(host, counting) == outcomes.shown(reference.answer(counting, CATALOG, case.arrivals))


# --- what is open at a time


class CountingSource:
    """Segments by name, and how often each was asked for."""

    def __init__(self) -> None:
        self.blobs: dict[str, pa.Buffer] = {}
        self.asked: Counter[str] = Counter()

    def stored(self, name: str) -> pa.Buffer:
        self.asked[name] += 1
        return self.blobs[name]

    def derived(self, name: str, rebuild: Callable[[], pa.Buffer]) -> pa.Buffer:
        raise NotImplementedError

    def keep(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, KeepSegment):
                self.blobs[effect.name] = effect.blob


def held(begin: int, rows: int, step: int = 1) -> HeldResults:
    """Results of one reader, one each ``step`` microseconds."""
    times = begin + step * np.arange(rows)
    zeros = np.zeros(rows, dtype=np.int64)
    return HeldResults((("q",),), pa.record_batch({RANK: times, f"{THEN}0": zeros, CELL: zeros, "v": times}), False)


def restored(runs: Iterable[HeldResults], limit_bytes: int) -> tuple[HoldBuffer, CountingSource]:
    """A hold buffer as it is when a step begins, each of these in a run of its own."""
    source = CountingSource()
    buffer = HoldBuffer(Serial(), source)
    for one in runs:
        source.keep(buffer.add(one, 0))
        source.keep(buffer._stored(run) for run in buffer.runs if run.name is None)
    again = HoldBuffer(Serial(), source, limit_bytes)
    again.from_json(json.loads(json.dumps(buffer.to_json())))
    return again, source


@pytest.mark.parametrize(
    "runs",
    [
        [held(1000 * number, 1000) for number in range(20)],
        [held(number, 1000, 20) for number in range(20)],
        [held(0, 20_000)],
        [held(500 * number, 1000) for number in range(20)],
        [held(7, 1000, 0), *(held(number, 100) for number in range(8))],
    ],
    ids=["one after the other", "side by side", "a long one", "overlapping", "at one time"],
)
def test_what_is_due_after_a_long_pause_is_released_in_stretches(
    runs: list[HeldResults], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, each result once, and never much more than the limit at a time."""
    monkeypatch.setattr(holding, "LEAST_ROWS", 10)
    limit_bytes = 32 * 200
    buffer, source = restored(runs, limit_bytes)
    times: list[int] = []
    ties = max(Counter(value for one in runs for value in one.batch["v"].to_pylist()).values())
    for found, _ in buffer.release({(1, 1): Place(10**9, 0)}, lambda _: {"q"}):
        (batch,) = (one.batch for one in found)
        assert batch.num_rows <= 201 + ties
        assert not times or min(batch["v"].to_pylist()) > times[-1]
        times += sorted(batch["v"].to_pylist())
        assert max(source.asked.values()) == 1
    assert times == sorted(value for one in runs for value in one.batch["v"].to_pylist())
    assert buffer.runs == []


def test_runs_that_were_released_are_not_kept_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "LEAST_ROWS", 10)
    runs = [held(1000 * number, 1000) for number in range(20)]
    buffer, _ = restored(runs, 32 * 200)
    most = max(
        sum(run.batch is not None for run in buffer.runs)
        for _ in buffer.release({(1, 1): Place(10**9, 0)}, lambda _: {"q"})
    )
    assert most <= 2


def test_runs_that_are_too_large_to_be_merged_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "LEAST_MERGED_BYTES", 1000)
    buffer, source = restored([held(1000 * number, 1000) for number in range(holding.FANOUT)], 10)
    list(buffer.settle())
    assert source.asked == {}
    assert len(buffer.runs) == holding.FANOUT
    monkeypatch.setattr(holding, "LEAST_MERGED_BYTES", 10**6)
    list(buffer.settle())
    assert len(buffer.runs) == 1


def test_what_is_in_memory_at_once_does_not_grow_with_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """While results are held, merged and released: a few times the limit, whatever the pause."""
    monkeypatch.setattr(holding, "LEAST_MERGED_BYTES", 1000)
    monkeypatch.setattr(holding, "LEAST_ROWS", 10)
    source, limit_bytes, peaks, kept = CountingSource(), 10_000, [], {"runs": []}
    for number in range(60):
        buffer = HoldBuffer(Serial(1000 * number), source, limit_bytes)
        buffer.from_json(json.loads(json.dumps(kept)))
        source.keep(buffer.add(held(100 * number, 100), 0))
        source.keep(buffer.settle())
        peaks.append(buffer.peak_bytes)
        kept = buffer.to_json()
    assert buffer.size_bytes > 15 * limit_bytes
    assert 0 < max(peaks) < 3 * limit_bytes
    buffer = HoldBuffer(Serial(10**6), source, limit_bytes)
    buffer.from_json(json.loads(json.dumps(kept)))
    released = sum(
        one.batch.num_rows for some, _ in buffer.release({(1, 1): Place(10**9, 0)}, lambda _: {"q"}) for one in some
    )
    assert released == 6000
    assert buffer.peak_bytes < 3 * limit_bytes


@given(case=cases.busy_cases(), way=cases.ways(), hold_bytes=st.sampled_from([1, 300, 3000]))
@examples(25)
def test_stretches_of_any_size_give_the_answer(case: Case, way: Way, hold_bytes: int) -> None:
    with patch.object(holding, "LEAST_ROWS", 1):
        options = replace(way.options, hold_bytes=hold_bytes)
        host = cases.run(case, replace(way, options=options, filter_order=(True,)))
    for query in case.queries:
        wanted = outcomes.shown(reference.answer(query, case.catalog, case.arrivals))
        assert outcomes.same_rows(outcomes.got(host, query), wanted)
        assert way.shards > 1 or outcomes.got(host, query) == wanted
        outcomes.assert_batches_in_order(host, query)
