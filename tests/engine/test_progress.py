"""How far streams have come: partitions that lag each other, and sources that are passed over when they are idle."""

from __future__ import annotations

from dataclasses import replace

import engine_cases as cases
import outcomes
import pytest
from local_host import LocalHost

from headrace import reference
from headrace.engine.packing import Envelope, Kind
from headrace.model import Catalog, QueryId, Stream, StreamId
from headrace.plan.functions import call
from headrace.plan.queries import Output, Query, Source, within_us

A, B, C = StreamId("a"), StreamId("b"), StreamId("c")
CATALOG = Catalog(tuple(Stream(name, cases.WIDE, "ts") for name in (A, B, C)))
PARTED = Catalog((replace(CATALOG.streams[0], partition="name", partitions=2), CATALOG.streams[1]))


def join(*streams: StreamId, name: str = "q") -> Query:
    same = (call("=", cases.column(0, "k"), cases.column(i, "k")) for i in range(1, len(streams)))
    outputs = (Output(f"id{i}", cases.column(i, "id")) for i in range(len(streams)))
    sources = tuple(Source(stream, f"s{i}") for i, stream in enumerate(streams))
    return Query(QueryId(name), sources, tuple(same), tuple(outputs), within_us(5 * cases.SECOND_US, len(streams)))


@pytest.fixture(params=[False, True], ids=["sync-filter", "filter-order"])
def early(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def ids(host: LocalHost, query: str = "q") -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in host.rows(query)]


def test_output_waits_for_a_silent_stream_until_it_is_idle(early: bool) -> None:
    host = LocalHost(CATALOG, [join(A, B, C), join(A, B, name="two")], filter_order=(early,))
    cases.arrive(host, {name: [cases.row(1, 1)] for name in (A, B, C)})
    cases.arrive(host, {name: [cases.row(3, 2), cases.row(9, 3)] for name in (A, B)})
    assert len(ids(host)) == 1
    assert (host.shards[0].held_results > 0) == early
    host.idle = frozenset({(C, "")})
    host.go_on()
    assert ids(host) == [(1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1)]


def test_what_an_idle_stream_brings_from_before_is_late_and_what_is_after_takes_part(early: bool) -> None:
    host = LocalHost(CATALOG, [join(A, B)], filter_order=(early,))
    cases.arrive(host, {name: [cases.row(1, 1)] for name in (A, B)})
    cases.arrive(host, {A: [cases.row(6, 2)]})
    host.idle = frozenset({(B, "")})
    host.go_on()
    host.idle = frozenset()
    cases.arrive(host, {B: [cases.row(5, 2), cases.row(6, 3), cases.row(7, 4)]})
    cases.arrive(host, {A: [cases.row(9, 3)]})
    host.end()
    assert outcomes.rejected(host) == {("b", "late", 2): 1}
    assert ids(host) == [(1, 1), (2, 1), (1, 3), (2, 3), (2, 4), (3, 3), (3, 4)]


@pytest.mark.parametrize("newest", [A, B])
def test_if_all_streams_are_idle_all_is_released(newest: StreamId, early: bool) -> None:
    """Whichever stream has the newest tuple; what comes at its time or before is late then."""
    host = LocalHost(CATALOG, [join(A, B)], filter_order=(early,))
    other = B if newest == A else A
    cases.arrive(host, {newest: [cases.row(1, 1), cases.row(4, 2)], other: [cases.row(2, 1)]})
    host.idle = frozenset({(A, ""), (B, "")})
    host.go_on()
    assert ids(host) == ([(1, 1), (2, 1)] if newest == A else [(1, 1), (1, 2)])
    host.idle = frozenset()
    cases.arrive(host, {other: [cases.row(4, 2), cases.row(5, 3)]})
    cases.arrive(host, {newest: [cases.row(6, 3)]})
    host.end()
    assert outcomes.rejected(host) == {(str(other), "late", 2): 1}
    assert len(ids(host)) == 6


def test_if_a_stream_that_is_scanned_is_idle_rows_at_its_newest_time_are_in_time() -> None:
    scan = Query(QueryId("q"), (Source(A, "s0"),), (), (Output("id0", cases.column(0, "id")),))
    host = LocalHost(CATALOG, [scan])
    cases.arrive(host, {A: [cases.row(1, 1), cases.row(4, 2)]})
    host.idle = frozenset({(A, "")})
    host.go_on()
    host.idle = frozenset()
    cases.arrive(host, {A: [cases.row(4, 3)]})
    assert outcomes.rejected(host) == {}
    assert ids(host) == [(1,), (2,), (3,)]


def test_a_stream_that_becomes_idle_stays_as_far_as_it_has_come(early: bool) -> None:
    """The other one is far behind, and has more to bring at the time that it is at."""
    host = LocalHost(CATALOG, [join(A, B)], filter_order=(early,))
    cases.arrive(host, {A: [cases.row(6, 1)], B: [cases.row(1, 1)]})
    host.idle = frozenset({(A, "")})
    cases.arrive(host, {B: [cases.row(1, 2)]})
    (shard,) = host.shards
    assert shard.reached()["a"] == (shard.progress.newest(A), True)
    assert ids(host) == []
    cases.arrive(host, {B: [cases.row(7, 3)]})
    assert ids(host) == [(1, 1), (1, 2)]


def test_a_stream_that_was_never_heard_of_can_be_idle(early: bool) -> None:
    host = LocalHost(CATALOG, [join(A, B, C)], filter_order=(early,))
    cases.arrive(host, {name: [cases.row(2, 1)] for name in (A, B)})
    host.idle = frozenset({(C, None)})
    host.go_on()
    cases.arrive(host, {C: [cases.row(1, 1), cases.row(3, 2)]})
    assert outcomes.rejected(host) == {("c", "late", 1): 1}
    host.idle = frozenset()
    cases.arrive(host, {name: [cases.row(4, 9, k=2)] for name in (A, B, C)})
    assert ids(host) == [(1, 1, 2)]


def test_partitions_that_lag_each_other_are_put_in_order_and_nothing_is_late(early: bool) -> None:
    host = LocalHost(PARTED, [join(A, B)], filter_order=(early,))
    rows: dict[StreamId, list[cases.Row]] = {A: [], B: []}
    for second in range(30):
        fast, slow = cases.row(20 + second, second, name="a"), cases.row(second, 100 + second, name="b")
        chunks = {A: [fast, slow], B: [cases.row(second, second)]}
        cases.arrive(host, chunks)
        rows = {name: [*rows[name], *chunks[name]] for name in rows}
    assert outcomes.rejected(host) == {}
    answer = reference.answer(join(A, B), PARTED, rows)
    assert len(ids(host)) > 200
    assert ids(host) == answer[: len(ids(host))]
    host.end()
    assert ids(host) == answer


def test_a_partition_that_was_not_heard_of_is_waited_for(early: bool) -> None:
    host = LocalHost(PARTED, [join(A, B)], filter_order=(early,))
    cases.arrive(host, {A: [cases.row(1, 1, name="a")], B: [cases.row(1, 1)]})
    assert ids(host) == []
    cases.arrive(host, {A: [cases.row(0, 2, name="b"), cases.row(2, 3, name="b")], B: [cases.row(2, 2)]})
    cases.arrive(host, {A: [cases.row(2, 4, name="a")]})
    assert outcomes.rejected(host) == {}
    assert ids(host) == [(2, 1), (1, 1), (3, 1), (4, 1)]


def test_a_step_without_input_is_told_of_idle_sources_only() -> None:
    host = LocalHost(CATALOG, [join(A, B)])
    host.deliver([Envelope(0, Kind.TALLY)])
    assert ids(host) == []
