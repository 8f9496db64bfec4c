"""Scans of the shared window join: bounds, order, each pair once, and windows taken in one turn or in several."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine import join
from headrace.engine.join import Matches, Reach, Space, count_pairs, make_block, scan
from headrace.engine.segments import KEY, Layout
from headrace.engine.waiting import Released
from headrace.engine.window import Collected, Serial, WindowStore

LAYOUT = Layout("ts")
PLAN = Collected(("ts", "id"), ())

Rows = list[tuple[int, int]]
"""(ts, key) pairs in time order; a row's id is its position in its side."""
Pair = tuple[int, int]


class Sides:
    """Two inputs, or one that is both sides of a self-join, whose tuples come block by block."""

    def __init__(self, *, is_self: bool = False) -> None:
        self.stores = [WindowStore(LAYOUT, 2, Serial()) for _ in range(1 if is_self else 2)]
        self.taken = [0] * len(self.stores)

    def spaces(self, *blocks: Rows) -> tuple[Space, Space]:
        """The new block as the sides see it; it is held from then on."""
        released = [self._released(side, rows) if rows else None for side, rows in enumerate(blocks)]
        block = make_block(released, [LAYOUT] * len(blocks))
        shared = [Space(store.runs, new, "ts") for store, new in zip(self.stores, block.inputs, strict=True)]
        for store, new in zip(self.stores, block.inputs, strict=True):
            if new is not None:
                store.insert(new.segment, new.collected)
                store.compact()
        return shared[0], shared[-1]

    def _released(self, side: int, rows: Rows) -> Released:
        first = self.taken[side]
        self.taken[side] += len(rows)
        ts_us = np.array([ts for ts, _ in rows], dtype=np.int64)
        columns = {
            "ts": pa.array(ts_us, pa.timestamp("us", "UTC")),
            "id": pa.array(range(first, first + len(rows)), pa.int64()),
            KEY: pa.array([key for _, key in rows], pa.int64()),
        }
        return Released(pa.RecordBatch.from_pydict(columns), ts_us, np.zeros(len(rows), dtype=np.int64), PLAN)


def pairs(spaces: tuple[Space, Space], found: Matches) -> list[Pair]:
    left = spaces[0].column("id", pa.int64(), found.left).to_pylist()
    right = spaces[1].column("id", pa.int64(), found.right).to_pylist()
    return list(zip(left, right, strict=True))


def scanned(spaces: tuple[Space, Space], reach: Reach) -> list[Pair]:
    return [pair for found in scan(spaces, reach) for pair in pairs(spaces, found)]


def naive(left: Rows, right: Rows, window_us: int) -> list[Pair]:
    """In the order of the newest tuple; at one time a left tuple is before a right one."""
    found = [
        (max((lt, 0, i), (rt, 1, j)), min((lt, 0, i), (rt, 1, j)), (i, j))
        for i, (lt, lk) in enumerate(left)
        for j, (rt, rk) in enumerate(right)
        if lk == rk and abs(lt - rt) <= window_us
    ]
    return [pair for _, _, pair in sorted(found)]


def test_tuples_exactly_w_apart_join() -> None:
    sides = Sides()
    assert scanned(sides.spaces([(0, 7)], []), Reach(5)) == []
    assert scanned(sides.spaces([], [(5, 7), (6, 7), (6, 8)]), Reach(5)) == [(0, 0)]


def test_tuples_of_one_block_join_once_whatever_their_ties() -> None:
    spaces = Sides().spaces([(1, 7), (1, 7)], [(1, 7), (1, 7)])
    assert scanned(spaces, Reach(0)) == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_a_self_joined_tuple_meets_itself_once() -> None:
    spaces = Sides(is_self=True).spaces([(1, 7), (1, 7), (2, 8)])
    assert scanned(spaces, Reach(5)) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]


def test_a_tuple_older_than_held_ones_finds_them_too() -> None:
    sides = Sides()
    sides.spaces([(3, 7), (10, 7), (16, 7)], [])
    spaces = sides.spaces([], [(9, 7)])
    assert scanned(spaces, Reach(6)) == [(0, 0), (1, 0)]
    assert scanned(spaces, Reach(6, after_us=1)) == [(0, 0)]
    assert [found.tolist() for found in count_pairs(spaces, [1, 6, 7])] == [[1], [2], [3]]


def test_a_block_that_begins_before_held_tuples_and_ends_after_them_finds_only_those_within_reach() -> None:
    sides = Sides()
    sides.spaces([(10, 7)], [])
    spaces = sides.spaces([], [(1, 7), (8, 7), (14, 7), (20, 7)])
    assert scanned(spaces, Reach(4)) == [(0, 1), (0, 2)]
    assert [found.tolist() for found in count_pairs(spaces, [4])] == [[0, 1, 1, 0]]


def test_a_scan_in_slices_is_the_same_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(ts, ts % 2) for ts in range(20)]
    whole = scanned(Sides().spaces(rows, rows), Reach(7))
    monkeypatch.setattr(join, "SLICE_MATCHES", 5)
    spaces = Sides().spaces(rows, rows)
    assert len(list(scan(spaces, Reach(7)))) > 5
    assert scanned(spaces, Reach(7)) == whole == naive(rows, rows, 7)


# --- any blocks


@st.composite
def blocks_in_time(draw: st.DrawFn) -> list[tuple[Rows, Rows]]:
    """Blocks of two sides, each after the one before."""
    now, blocks = 0, []
    for _ in range(draw(st.integers(1, 4))):
        sides: list[Rows] = []
        start = now
        for _ in range(2):
            at, rows = start, []
            for step, key in draw(st.lists(st.tuples(st.sampled_from((0, 0, 1, 4)), st.integers(0, 1)), max_size=6)):
                at += step
                rows.append((at, key))
            now = max(now, at)
            sides.append(rows)
        now += 1
        blocks.append((sides[0], sides[1]))
    return blocks


@given(blocks=blocks_in_time(), window_us=st.integers(0, 12))
def test_blocks_give_every_pair_once_in_order(blocks: list[tuple[Rows, Rows]], window_us: int) -> None:
    sides, got = Sides(), []
    for block in blocks:
        if any(block):
            got += scanned(sides.spaces(*block), Reach(window_us))
    left, right = ([row for block in blocks for row in block[side]] for side in (0, 1))
    assert got == naive(left, right, window_us)


@given(
    blocks=blocks_in_time(), small=st.integers(0, 5), more=st.integers(1, 7), is_self=st.booleans(), late=st.booleans()
)
def test_windows_in_turns_find_what_the_largest_finds_at_once(
    blocks: list[tuple[Rows, Rows]], small: int, more: int, is_self: bool, late: bool
) -> None:
    """(0, w1] and then (w1, w2] are w2, each in order; also where blocks come late, newest first."""
    sides = Sides(is_self=is_self)
    for block in blocks[::-1] if late else blocks:
        if not any(block[: 1 + (not is_self)]):
            continue
        spaces = sides.spaces(*block[: 1 if is_self else 2])
        whole = scanned(spaces, Reach(small + more))
        first, second = scanned(spaces, Reach(small)), scanned(spaces, Reach(small + more, after_us=small))
        assert sorted(first + second) == sorted(whole)
        assert [pair for pair in whole if pair in set(first)] == first
        assert [pair for pair in whole if pair in set(second)] == second


@given(blocks=blocks_in_time(), windows_us=st.sets(st.integers(0, 12), min_size=1), is_self=st.booleans())
def test_pairs_are_counted_as_they_are_listed(
    blocks: list[tuple[Rows, Rows]], windows_us: set[int], is_self: bool
) -> None:
    sides = Sides(is_self=is_self)
    for block in blocks:
        if not any(block[: 1 + (not is_self)]):
            continue
        spaces = sides.spaces(*block[: 1 if is_self else 2])
        for window_us, found in zip(sorted(windows_us), count_pairs(spaces, sorted(windows_us)), strict=True):
            probes = np.concatenate([one.probe for one in scan(spaces, Reach(window_us))])
            assert found.tolist() == np.bincount(probes, minlength=len(found)).tolist()
