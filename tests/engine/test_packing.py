"""Packing: dead letters, chunks, and who gets which rows."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence

import engine_cases as cases
import pyarrow as pa
import pytest
from engine_cases import Row

from headrace.engine.events import UNORDERED, Arrival, BlockArrived, ProgressMade, StreamsEnded
from headrace.engine.packing import CORRUPT, ORDER, ORDER_SHIFT, Envelope, Kind, Packer, dead_letters_from
from headrace.engine.segments import KEY, NUMBER, unpack_batch
from headrace.engine.waiting import SEAT
from headrace.errors import InvariantError
from headrace.model import Catalog, Stream, StreamId
from headrace.plan.graph_building import leaf_operator
from headrace.plan.sharing import SharedPlan, share
from headrace.sql import read_script

A = StreamId("a")
CATALOG = Catalog((Stream(A, cases.WIDE, "ts", 2 * cases.SECOND_US), Stream(StreamId("b"), cases.WIDE, "ts")))


def plan(*selects: str) -> SharedPlan:
    texts = [f"CREATE QUERY q{i} AS {select}" for i, select in enumerate(selects)]
    return share(CATALOG, read_script(";".join(texts), CATALOG).queries)


JOIN = plan("SELECT s.id FROM a s, b t WHERE s.k = t.k AND s.x > 0 WINDOW 5 SECONDS")
SCAN = plan("SELECT id FROM a")


def pack(plan: SharedPlan, rows: Sequence[Row], orders: Sequence[int] | None = None, shards: int = 1) -> list[Envelope]:
    batch = cases.batch_of(rows)
    if orders is not None:
        batch = batch.append_column(ORDER, pa.array([one << ORDER_SHIFT for one in orders], pa.int64()))
    return list(Packer(plan, CATALOG.get(A), shards).pack(batch, 42))


def of(kind: Kind, envelopes: Sequence[Envelope]) -> list[Envelope]:
    return [one for one in envelopes if one.kind is kind]


def ids(envelope: Envelope) -> list[int]:
    return unpack_batch(envelope.payload).column("id").to_pylist()


def letters(envelopes: Sequence[Envelope]) -> list[tuple[str, int]]:
    lines = [
        json.loads(line) for one in of(Kind.DEAD, envelopes) for line in dead_letters_from(unpack_batch(one.payload))
    ]
    return [(line["reason"], line["row"]["id"]) for line in lines]


# --- dead letters


def test_a_row_without_a_time_is_malformed_and_counted() -> None:
    packed = pack(SCAN, [cases.row(1, 0), cases.row(None, 1)])
    assert letters(packed) == [("malformed", 1)]
    assert [(one.rows, one.malformed) for one in of(Kind.TALLY, packed)] == [(2, 1)]
    assert [ids(one) for one in of(Kind.ROWS, packed)] == [[0]]


def test_a_row_that_could_not_be_read_is_kept_as_it_came() -> None:
    batch = cases.batch_of([cases.row(1, 0), cases.row(2, 1)]).append_column(
        CORRUPT, pa.array([None, '{"oops'], pa.string())
    )
    packed = list(Packer(SCAN, CATALOG.get(A), 1).pack(batch, 0))
    (dead,) = of(Kind.DEAD, packed)
    assert [json.loads(line)["row"] for line in dead_letters_from(unpack_batch(dead.payload))] == ['{"oops']
    assert [ids(one) for one in of(Kind.ROWS, packed)] == [[0]]


def test_a_row_later_than_its_stream_allows_within_its_chunk_is_a_dead_letter() -> None:
    packed = pack(SCAN, [cases.row(5, 0), cases.row(3, 1), cases.row(2.999999, 2)], orders=[1, 1, 1])
    assert letters(packed) == [("late", 2)]
    assert [ids(one) for one in of(Kind.ROWS, packed)] == [[0, 1]]


def test_lateness_begins_anew_in_the_next_chunk() -> None:
    """What came before a chunk only the shard knows."""
    packed = pack(SCAN, [cases.row(9, 0), cases.row(1, 1)], orders=[1, 2])
    assert letters(packed) == []
    assert [(one.order, ids(one)) for one in of(Kind.ROWS, packed)] == [(1, [0]), (2, [1])]


def test_rows_without_an_order_are_never_late_in_their_chunk() -> None:
    packed = pack(SCAN, [cases.row(9, 0), cases.row(1, 1)])
    assert letters(packed) == []
    assert [(one.order, ids(one)) for one in of(Kind.ROWS, packed)] == [(UNORDERED, [0, 1])]


def test_dead_letters_do_not_show_what_packing_added() -> None:
    packed = pack(SCAN, [cases.row(None, 1)], orders=[1])
    (dead,) = of(Kind.DEAD, packed)
    (line,) = dead_letters_from(unpack_batch(dead.payload))
    assert set(json.loads(line)["row"]) == set(cases.WIDE.names)


# --- heartbeats


def test_every_shard_hears_of_every_chunk() -> None:
    packed = pack(JOIN, [cases.row(1, 0), cases.row(4, 1), cases.row(6, 2)], orders=[1, 1, 2], shards=3)
    beats = of(Kind.HEARTBEAT, packed)
    assert Counter((one.shard, one.order, one.newest_us - beats[0].first_us) for one in beats) == Counter(
        (shard, order, newest * cases.SECOND_US) for shard in range(3) for order, newest in ((1, 3), (2, 5))
    )


def test_a_chunk_that_no_query_keeps_a_row_of_still_moves_time() -> None:
    packed = pack(JOIN, [cases.row(1, 0, x=-1.0), cases.row(2, 1, k=None)])
    assert [one.kind for one in packed] == [Kind.TALLY, Kind.HEARTBEAT]


def test_nothing_gives_only_a_tally() -> None:
    assert [one.kind for one in pack(JOIN, [])] == [Kind.TALLY]


# --- rows


def test_filters_that_all_queries_have_and_null_keys_drop_rows_before_they_are_sent() -> None:
    rows = [cases.row(1, 0, k=1, x=1.0), cases.row(1, 1, k=1, x=-1.0), cases.row(1, 2, k=None, x=1.0)]
    assert [ids(one) for one in of(Kind.ROWS, pack(JOIN, rows))] == [[0]]


def test_only_the_columns_that_are_read_are_sent() -> None:
    (sent,) = of(Kind.ROWS, pack(JOIN, [cases.row(1, 0)]))
    assert unpack_batch(sent.payload).schema.names == ["ts", "id", KEY]


def test_a_bigint_key_that_is_carried_is_sent_once() -> None:
    (sent,) = of(Kind.ROWS, pack(plan("SELECT s.n FROM a s, b t WHERE s.n = t.n WINDOW 1 SECOND"), [cases.row(1, 0)]))
    assert unpack_batch(sent.payload).schema.names == ["ts", "n"]


def test_rows_are_numbered_only_where_one_stream_is_joined_on_two_keys() -> None:
    two_keys = plan("SELECT s.id FROM a s, a t WHERE s.k = t.n WINDOW 1 SECOND", "SELECT id FROM a")
    packer = Packer(two_keys, CATALOG.get(A), 1)
    sent = [
        unpack_batch(one.payload)
        for start in (0, 2)
        for one in of(Kind.ROWS, list(packer.pack(cases.batch_of([cases.row(1, start), cases.row(2, start + 1)]), 0)))
    ]
    numbers = [batch.column(NUMBER).to_pylist() for batch in sent if NUMBER in batch.schema.names]
    assert numbers == [[0, 1], [0, 1], [2, 3], [2, 3]]
    assert sum(NUMBER not in batch.schema.names for batch in sent) == 2


def test_where_rows_are_counted_every_shard_gets_the_whole_chunks_times_and_its_rows_seats() -> None:
    """A window of rows is over the whole stream: also over what is filtered out, or has no key, or goes elsewhere."""
    counted = plan("SELECT s.id FROM a s, b t WHERE s.k = t.k AND s.x > 0 WINDOW 3 ROWS", "SELECT id FROM a")
    rows = [cases.row(3, 0, x=1.0), cases.row(2, 1, x=-1.0), cases.row(4, 2, k=None, x=1.0), cases.row(4, 3, x=1.0)]
    sent = of(Kind.ROWS, pack(counted, rows, orders=[1] * 4, shards=3))
    joined, scanned = [one for one in sent if one.group == 0], [one for one in sent if one.group == 1]
    assert sorted(one.shard for one in joined) == [0, 1, 2]
    assert [one.times for one in scanned] == [b""] * len(scanned)
    seats = []
    for one in joined:
        event = one.event(counted)
        assert isinstance(event, BlockArrived)
        assert event.chunk_us is not None
        assert (event.chunk_us - one.first_us).tolist() == [second * cases.SECOND_US for second in (1, 0, 2, 2)]
        seats += list(zip(ids(one), event.batch.column(SEAT).to_pylist(), strict=True))
    assert sorted(seats) == [(0, 0), (3, 3)]


def test_a_row_late_in_its_chunk_has_no_seat() -> None:
    counted = plan("SELECT s.id FROM a s, b t WHERE s.k = t.k WINDOW 3 ROWS")
    (sent,) = of(Kind.ROWS, pack(counted, [cases.row(5, 0), cases.row(1, 1), cases.row(6, 2)], orders=[1] * 3))
    event = sent.event(counted)
    assert isinstance(event, BlockArrived)
    assert event.chunk_us is not None
    assert len(event.chunk_us) == 2
    assert event.batch.column(SEAT).to_pylist() == [0, 1]


def test_a_join_without_an_equality_is_on_a_grid() -> None:
    """Two by two cells: a row of the first stream is in the two cells of its row of the grid."""
    theta = plan("SELECT s.id FROM a s, b t WHERE s.x < t.x WINDOW 1 SECOND")
    sent = of(Kind.ROWS, pack(theta, [cases.row(1, i, i) for i in range(9)], shards=4))
    assert [(one.shard, ids(one)) for one in sent] == [
        (0, [0, 2, 4, 6, 8]),
        (1, [0, 2, 4, 6, 8]),
        (2, [1, 3, 5, 7]),
        (3, [1, 3, 5, 7]),
    ]


def test_a_scans_rows_are_dealt_round() -> None:
    packer = Packer(SCAN, CATALOG.get(A), 3)
    shares: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for start in (0, 4):
        for one in of(Kind.ROWS, list(packer.pack(cases.batch_of([cases.row(1, start + i) for i in range(4)]), 0))):
            shares[one.shard] += ids(one)
    assert shares == {0: [0, 3, 6], 1: [1, 4, 7], 2: [2, 5]}


def test_equal_keys_of_both_streams_go_to_one_shard_and_no_row_to_two() -> None:
    rows = [cases.row(1, i, k=i % 7, x=1.0) for i in range(50)]
    shard_of_key: dict[int, set[int]] = {}
    sent: list[int] = []
    for stream in CATALOG.streams:
        for one in Packer(JOIN, stream, 3).pack(cases.batch_of(rows), 0):
            if one.kind is Kind.ROWS:
                for key in unpack_batch(one.payload).column(KEY).to_pylist():
                    shard_of_key.setdefault(key, set()).add(one.shard)
                sent.append(one.rows)
    assert sum(sent) == 100
    assert {len(shards) for shards in shard_of_key.values()} == {1}
    assert len({shard for shards in shard_of_key.values() for shard in shards}) > 1


# --- envelopes


def test_an_envelope_says_what_a_shard_is_told() -> None:
    packed = pack(SCAN, [cases.row(0, 0)], orders=[7])
    (beat,) = of(Kind.HEARTBEAT, packed)
    assert beat.event(SCAN) == ProgressMade(A, Arrival(7, beat.first_us), beat.newest_us, beat.oldest_us, rows=1)
    assert Envelope(0, Kind.END).event(SCAN) == StreamsEnded()
    for kind in (Kind.DEAD, Kind.TALLY):
        with pytest.raises(InvariantError):
            Envelope(0, kind).event(SCAN)


# --- measuring


def test_the_operators_that_run_in_packing_are_measured() -> None:
    """Rows, bytes and time of each selection and projection, by its name in the operator graph."""
    two = plan(
        "SELECT s.id FROM a s, b t WHERE s.k = t.k AND s.x > 0 WINDOW 5 SECONDS",
        "SELECT id, k FROM a WHERE x > 0",
    )
    ticks = itertools.count()
    packer = Packer(two, CATALOG.get(A), 1, clock=lambda: float(next(ticks)))
    rows = [cases.row(number, number, x=1.0 if number == 2 else -1.0) for number in range(4)]
    for _ in range(2):
        list(packer.pack(cases.batch_of(rows), 0))
    facts = packer.leaves().facts()
    leaves = [leaf_operator(CATALOG, one) for group in two.groups for one in group.inputs if one.stream == A]
    assert set(facts) == {leaf.name for leaf in leaves if leaf is not None}
    assert len(facts) == 2
    for one in facts.values():
        assert (one.selectivity, one.service_s) == (1 / 4, 2.0 / 8)
        assert 8 <= one.output_bytes < one.input_bytes


def test_a_selection_that_joins_have_in_common_is_made_and_measured_once() -> None:
    """A join cannot use rows without its key, but that is its own affair."""
    asked = ("s.x > 0 AND s.n < 9", "s.n < 9 AND s.x > 0")
    keys = ("k", "n")
    two = plan(
        *(
            f"SELECT s.id, s.k FROM a s, b t WHERE s.{key} = t.{key} AND {some} WINDOW 5 SECONDS"
            for key, some in zip(keys, asked, strict=True)
        )
    )
    packer = Packer(two, CATALOG.get(A), 1, clock=itertools.count().__next__)
    rows = [cases.row(number, number, k=None if number == 3 else 1, n=1, x=number - 1.5) for number in range(4)]
    packed = list(packer.pack(cases.batch_of(rows), 0))
    (meter,) = packer.leaves().by_name.values()
    assert (meter.tuples_in, meter.tuples_out) == (4, 2)
    assert [ids(one) for one in of(Kind.ROWS, packed)] == [[2], [2, 3]]


def test_without_a_clock_nothing_is_measured() -> None:
    packer = Packer(JOIN, CATALOG.get(A), 1)
    list(packer.pack(cases.batch_of([cases.row(1, 0)]), 0))
    assert packer.leaves().facts() == {}
