"""Rows wait in time order until progress reaches them, and are stored once while they do."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.events import DropSegment, Effect, KeepSegment
from headrace.engine.segments import unpack_batch
from headrace.engine.waiting import Released, WaitingRows
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


def told(waiting: WaitingRows) -> list[Effect]:
    return list(waiting.drain())


def test_rows_at_progress_are_released_only_if_inclusive(waiting: WaitingRows) -> None:
    waiting.add(rows((1, 0), (2, 1), (3, 2)), 0, PLAN)
    assert ids(waiting.release(2, inclusive=False)) == [[0]]
    assert ids(waiting.release(2, inclusive=True)) == [[1]]
    assert waiting.rows == 1
    assert waiting.first_us == 3


def test_rows_out_of_order_are_released_in_time_order_with_ties_as_they_arrived(waiting: WaitingRows) -> None:
    waiting.add(rows((5, 0), (3, 1), (5, 2)), 10, PLAN)
    waiting.add(rows((5, 3), (3, 4), (4, 5)), 20, PLAN)
    (released,) = waiting.release(9, inclusive=True)
    assert ids([released]) == [[1, 4, 5, 0, 2, 3]]
    assert released.arrived_us.tolist() == [10, 20, 20, 10, 10, 20]


def test_rows_collected_differently_are_released_apart(waiting: WaitingRows) -> None:
    waiting.add(rows((1, 0)), 0, PLAN)
    waiting.add(rows((1, 1)), 0, OTHER_PLAN)
    waiting.add(rows((2, 2)), 0, OTHER_PLAN)
    released = waiting.release(9, inclusive=True)
    assert [one.collected for one in released] == [PLAN, OTHER_PLAN]
    assert ids(released) == [[0], [1, 2]]


def test_nothing_is_due_nothing_is_released(waiting: WaitingRows) -> None:
    waiting.add(rows(), 0, PLAN)
    assert waiting.release(9, inclusive=True) == []
    assert waiting.first_us is None
    assert told(waiting) == []


def test_rows_that_go_through_at_once_are_never_stored(waiting: WaitingRows) -> None:
    waiting.add(rows((1, 0)), 0, PLAN)
    waiting.release(1, inclusive=True)
    assert told(waiting) == []


def test_what_waits_is_stored_once_and_dropped_when_its_last_row_leaves(waiting: WaitingRows) -> None:
    waiting.add(rows((1, 0), (2, 1), (3, 2)), 0, PLAN)
    waiting.release(1, inclusive=True)
    (kept,) = told(waiting)
    assert isinstance(kept, KeepSegment)
    assert unpack_batch(kept.blob).column("id").to_pylist() == [1, 2]
    waiting.release(2, inclusive=True)
    assert told(waiting) == []
    waiting.release(3, inclusive=True)
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
        got += [one for part in ids(waiting.release(upto_us, inclusive=inclusive)) for one in part]
        list(waiting.drain())
        assert got == [number for ts, number in sorted(arrived) if ts < upto_us or (inclusive and ts == upto_us)]
