"""Rows wait in time order until progress reaches them, and are stored once while they do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.events import DropSegment, Effect, KeepSegment
from headrace.engine.segments import PLACE, unpack_batch
from headrace.engine.waiting import SEAT, Counted, Released, WaitingRows
from headrace.engine.window import Collected, Serial

PLAN, OTHER_PLAN = Collected(("ts", "id"), ()), Collected(("ts", "id"), ("(k < 3)",))


@pytest.fixture
def waiting() -> WaitingRows:
    return WaitingRows("ts", Serial())


def rows(*pairs: tuple[int, int]) -> pa.RecordBatch:
    """(ts, id) pairs in order of arrival."""
    return pa.RecordBatch.from_pydict(
        {
            "ts": pa.array([ts for ts, _ in pairs], pa.timestamp("us", "UTC")),
            "id": pa.array([number for _, number in pairs], pa.int64()),
        }
    )


def ids(released: list[Released]) -> list[list[int]]:
    return [one.batch.column("id").to_pylist() for one in released]


def release(waiting: WaitingRows, upto_us: int, *, inclusive: bool = True) -> list[Released]:
    return waiting.release(upto_us, inclusive=inclusive)[0]


def told(waiting: WaitingRows) -> list[Effect]:
    return list(waiting.drain())


def test_rows_at_progress_are_released_only_if_inclusive(waiting: WaitingRows) -> None:
    waiting.add(rows((1, 0), (2, 1), (3, 2)), 0, PLAN)
    assert ids(release(waiting, 2, inclusive=False)) == [[0]]
    assert ids(release(waiting, 2)) == [[1]]
    assert waiting.rows == 1
    assert waiting.first_us == 3


def test_rows_out_of_order_are_released_in_time_order_with_ties_as_they_arrived(waiting: WaitingRows) -> None:
    waiting.add(rows((5, 0), (3, 1), (5, 2)), 10, PLAN)
    waiting.add(rows((5, 3), (3, 4), (4, 5)), 20, PLAN)
    (released,) = release(waiting, 9)
    assert ids([released]) == [[1, 4, 5, 0, 2, 3]]
    assert released.arrived_us.tolist() == [10, 20, 20, 10, 10, 20]


def test_rows_collected_differently_are_released_apart(waiting: WaitingRows) -> None:
    waiting.add(rows((1, 0)), 0, PLAN)
    waiting.add(rows((1, 1)), 0, OTHER_PLAN)
    waiting.add(rows((2, 2)), 0, OTHER_PLAN)
    released = release(waiting, 9)
    assert [one.collected for one in released] == [PLAN, OTHER_PLAN]
    assert ids(released) == [[0], [1, 2]]


def test_nothing_is_due_nothing_is_released(waiting: WaitingRows) -> None:
    waiting.add(rows(), 0, PLAN)
    assert release(waiting, 9) == []
    assert waiting.first_us is None
    assert told(waiting) == []


def test_rows_that_go_through_at_once_are_never_stored(waiting: WaitingRows) -> None:
    waiting.add(rows((1, 0)), 0, PLAN)
    release(waiting, 1)
    assert told(waiting) == []


def test_what_waits_is_stored_once_and_dropped_when_its_last_row_leaves(waiting: WaitingRows) -> None:
    waiting.add(rows((1, 0), (2, 1), (3, 2)), 0, PLAN)
    release(waiting, 1)
    (kept,) = told(waiting)
    assert isinstance(kept, KeepSegment)
    assert unpack_batch(kept.blob).column("id").to_pylist() == [1, 2]
    release(waiting, 2)
    assert told(waiting) == []
    release(waiting, 3)
    assert told(waiting) == [DropSegment(kept.name)]


def test_clearing_drops_what_was_stored(waiting: WaitingRows) -> None:
    waiting.add(rows((1, 0)), 0, PLAN)
    (kept,) = told(waiting)
    assert isinstance(kept, KeepSegment)
    waiting.clear()
    assert waiting.rows == 0
    assert told(waiting) == [DropSegment(kept.name)]


@given(
    chunks=st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=5),
    cuts=st.lists(st.tuples(st.integers(0, 10), st.booleans()), max_size=6),
)
def test_every_row_is_released_once_in_order(chunks: list[list[int]], cuts: list[tuple[int, bool]]) -> None:
    waiting = WaitingRows("ts", Serial())
    arrived: list[tuple[int, int]] = []
    for chunk in chunks:
        numbered = [(ts, len(arrived) + i) for i, ts in enumerate(chunk)]
        waiting.add(rows(*numbered), 0, PLAN)
        arrived += numbered
    got: list[int] = []
    for upto_us, inclusive in sorted(cuts):
        got += [one for part in ids(release(waiting, upto_us, inclusive=inclusive)) for one in part]
        list(waiting.drain())
        assert got == [number for ts, number in sorted(arrived) if ts < upto_us or (inclusive and ts == upto_us)]


# --- whole chunks' times: windows of rows


def seated(*rows_and_seats: tuple[int, int, int]) -> pa.RecordBatch:
    """(ts, id, seat): a shard's rows of a chunk, and their places among the chunk's times."""
    batch = rows(*((ts, number) for ts, number, _ in rows_and_seats))
    return batch.append_column(SEAT, pa.array([seat for _, _, seat in rows_and_seats], pa.int64()))


def places(released: list[Released]) -> list[tuple[int, int]]:
    return [
        pair
        for one in released
        for pair in zip(one.batch.column("id").to_pylist(), one.batch.column(PLACE).to_pylist(), strict=True)
    ]


def test_rows_get_their_places_among_all_of_their_streams_tuples(waiting: WaitingRows) -> None:
    """Times 5 3 4 in one chunk, 4 9 in the next; this shard has the 5, the first 4 and the 9."""
    waiting.add(seated((5, 0, 0), (4, 2, 2)), 0, PLAN, np.array([5, 3, 4]))
    waiting.add(seated((9, 4, 1)), 0, PLAN, np.array([4, 9]))
    released, counted = waiting.release(5, inclusive=True)
    assert places(released) == [(2, 1), (0, 3)]
    assert (counted.before, counted.ts_us.tolist(), waiting.counted) == (0, [3, 4, 4, 5], 4)
    released, counted = waiting.release(9, inclusive=True)
    assert (places(released), counted.before, waiting.counted) == ([(4, 4)], 4, 5)
    assert SEAT not in released[0].batch.schema.names


def test_tuples_of_other_shards_are_counted_without_rows_here(waiting: WaitingRows) -> None:
    waiting.add(seated(), 0, PLAN, np.array([1, 2, 3]))
    assert waiting.first_us is None
    released, counted = waiting.release(2, inclusive=False)
    assert (released, counted.ts_us.tolist()) == ([], [1])
    first, second = told(waiting)
    assert isinstance(first, KeepSegment)
    assert isinstance(second, KeepSegment)
    assert waiting.release(3, inclusive=True)[1].ts_us.tolist() == [2, 3]
    assert told(waiting) == [DropSegment(first.name), DropSegment(second.name)]


def test_tuples_seen_at_a_tie_are_those_of_a_stream_that_is_first() -> None:
    counted = Counted(10, np.array([1, 4, 4, 6]))
    assert counted.seen(np.array([0, 4, 7]), first_at_tie=True).tolist() == [10, 13, 14]
    assert counted.seen(np.array([0, 4, 7]), first_at_tie=False).tolist() == [10, 11, 14]


@given(
    chunks=st.lists(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=5), max_size=5),
    cuts=st.lists(st.integers(0, 10), max_size=6),
)
def test_places_are_the_order_of_time_then_arrival(chunks: list[list[tuple[int, bool]]], cuts: list[int]) -> None:
    """Of what was released together or before; whichever rows are on this shard."""
    waiting = WaitingRows("ts", Serial())
    arrived: list[tuple[int, int]] = []
    mine: list[int] = []
    for chunk in chunks:
        here = [(ts, len(arrived) + seat, seat) for seat, (ts, is_mine) in enumerate(chunk) if is_mine]
        waiting.add(seated(*here), 0, PLAN, np.array([ts for ts, _ in chunk], dtype=np.int64))
        mine += [number for _, number, _ in here]
        arrived += [(ts, len(arrived) + seat) for seat, (ts, _) in enumerate(chunk)]
    got: list[tuple[int, int]] = []
    for upto_us in [*sorted(cuts), 10]:
        got += places(waiting.release(upto_us, inclusive=True)[0])
        told(waiting)
    place_of = {number: place for place, (_, number) in enumerate(sorted(arrived))}
    assert got == sorted(((number, place_of[number]) for number in mine), key=lambda pair: pair[1])
    assert waiting.pieces == []
