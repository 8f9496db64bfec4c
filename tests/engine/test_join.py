"""Scans of the shared window join: bounds, order, each pair once, and windows taken in one turn or in several."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine import join
from headrace.engine.join import Sides, count_pairs, scan
from headrace.engine.matching import compared_ranges, key_ranges
from headrace.engine.segments import KEY, PLACE, Layout, Segment, seen_column
from headrace.engine.spaces import Block, Matches, Reach, Space, make_block
from headrace.engine.waiting import Released
from headrace.engine.window import Collected, Serial, WindowStore
from headrace.plan.queries import Measure

LAYOUT = Layout("ts")
PLAN = Collected(("ts", "id"), ())
IN_ROWS = (Measure.ROWS, Measure.ROWS)

Rows = list[tuple[int, int]]
"""(ts, key) pairs in time order; a row's id is its position in its side."""
Pair = tuple[int, int]


def within(window_us: int, after_us: int | None = None) -> Reach:
    """One window for both sides; what a block has scanned of it already."""
    return Reach((window_us, window_us), None if after_us is None else (after_us, after_us))


class Inputs:
    """Two inputs, or one that is both sides of a self-join, whose tuples come block by block."""

    def __init__(self, *, is_self: bool = False) -> None:
        self.stores = [WindowStore(LAYOUT, 2, Serial()) for _ in range(1 if is_self else 2)]
        self.taken = [0] * len(self.stores)

    def sides(self, *blocks: Rows) -> Sides:
        """The new block as the sides see it at first; it is held from then on."""
        block = self.block(*blocks)
        sides = self.seen_by(block)
        self.hold(block)
        return sides

    def block(self, *blocks: Rows) -> Block:
        released = [self._released(side, rows) if rows else None for side, rows in enumerate(blocks)]
        return make_block(released, [LAYOUT] * len(blocks), range(len(blocks)))

    def seen_by(self, block: Block, *, is_resumed: bool = False) -> Sides:
        pairs = zip(self.stores, block.inputs, strict=True)
        shared = [Space(store.runs, new, LAYOUT, index) for index, (store, new) in enumerate(pairs)]
        return Sides((shared[0], shared[-1]), is_resumed=is_resumed)

    def hold(self, block: Block) -> None:
        for store, new in zip(self.stores, block.inputs, strict=True):
            if new is not None:
                store.insert(new.segment, new.collected)
                store.compact()

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


def pairs(sides: Sides, found: Matches) -> list[Pair]:
    left = sides.spaces[0].column("id", pa.int64(), found.sides[0]).to_pylist()
    right = sides.spaces[1].column("id", pa.int64(), found.sides[1]).to_pylist()
    return list(zip(left, right, strict=True))


def scanned(sides: Sides, reach: Reach) -> list[Pair]:
    return [pair for found in scan(sides, reach) for pair in pairs(sides, found)]


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
    inputs = Inputs()
    assert scanned(inputs.sides([(0, 7)], []), within(5)) == []
    assert scanned(inputs.sides([], [(5, 7), (6, 7), (6, 8)]), within(5)) == [(0, 0)]


def test_each_side_is_looked_back_into_as_far_as_its_own_window() -> None:
    inputs = Inputs()
    inputs.sides([(0, 7)], [(0, 7)])
    sides = inputs.sides([(4, 7)], [(4, 7)])
    assert scanned(sides, Reach((4, 3))) == [(0, 1), (1, 1)]
    assert scanned(sides, Reach((3, 4))) == [(1, 0), (1, 1)]


def test_tuples_of_one_block_join_once_whatever_their_ties() -> None:
    sides = Inputs().sides([(1, 7), (1, 7)], [(1, 7), (1, 7)])
    assert scanned(sides, within(0)) == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_a_self_joined_tuple_meets_itself_once() -> None:
    sides = Inputs(is_self=True).sides([(1, 7), (1, 7), (2, 8)])
    assert scanned(sides, within(5)) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]


def test_a_tuple_older_than_held_ones_finds_them_too() -> None:
    inputs = Inputs()
    inputs.sides([(3, 7), (10, 7), (16, 7)], [])
    sides = inputs.sides([], [(9, 7)])
    assert scanned(sides, within(6)) == [(0, 0), (1, 0)]
    assert [found.tolist() for found in count_pairs(sides, [(1, 1), (6, 6), (7, 7)])] == [[1], [2], [3]]


def test_a_block_that_begins_before_held_tuples_and_ends_after_them_finds_only_those_within_reach() -> None:
    inputs = Inputs()
    inputs.sides([(10, 7)], [])
    sides = inputs.sides([], [(1, 7), (8, 7), (14, 7), (20, 7)])
    assert scanned(sides, within(4)) == [(0, 1), (0, 2)]
    assert [found.tolist() for found in count_pairs(sides, [(4, 4)])] == [[0, 1, 1, 0]]


def test_a_scan_in_slices_is_the_same_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(ts, ts % 2) for ts in range(20)]
    whole = scanned(Inputs().sides(rows, rows), within(7))
    monkeypatch.setattr(join, "SLICE_MATCHES", 5)
    sides = Inputs().sides(rows, rows)
    assert len(list(scan(sides, within(7)))) > 5
    assert scanned(sides, within(7)) == whole == naive(rows, rows, 7)


def test_windows_of_rows_are_cut_by_places_in_the_whole_stream() -> None:
    """Of the other side's tuples, those whose places are among the last n before the probe; keys beside the point."""
    inputs = Inputs()
    inputs.hold(inputs.block([(0, 7), (0, 7), (0, 8), (0, 7)], []))
    block = inputs.block([], [(9, 7)])
    store, (_, new) = inputs.stores[0], block.inputs
    assert new is not None
    held = replace(store.runs[0], segment=_placed(store.runs[0].segment, [0, 1, 3, 2], [0] * 4))
    probe = replace(new, segment=_placed(new.segment, [0], [4]))
    sides = Sides((Space([held], None, LAYOUT), Space([], probe, LAYOUT, 1)), IN_ROWS)
    assert scanned(sides, Reach((2, 2))) == [(3, 0)]
    assert scanned(sides, Reach((4, 4))) == [(0, 0), (1, 0), (3, 0)]
    assert [found.tolist() for found in count_pairs(sides, [(1, 1), (3, 3), (4, 4)])] == [[1], [2], [3]]
    (found,) = scan(sides, Reach((4, 4)))
    assert found.with_ages(sides.spaces, sides.measures, by_side=False).ages.tolist() == [4, 3, 1]  # type: ignore[union-attr]


def _placed(segment: Segment, places: list[int], seen: list[int]) -> Segment:
    placed = segment.batch.append_column(PLACE, pa.array(places, pa.int64()))
    return replace(segment, batch=placed.append_column(seen_column(0), pa.array(seen, pa.int64())))


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


@given(blocks=blocks_in_time(), window_us=st.integers(0, 12), find=st.sampled_from((key_ranges, compared_ranges)))
def test_blocks_give_every_pair_once_in_order(
    blocks: list[tuple[Rows, Rows]], window_us: int, find: join.KeySearch
) -> None:
    inputs, got = Inputs(), []
    for block in blocks:
        if any(block):
            got += scanned(replace(inputs.sides(*block), finds=(find, find)), within(window_us))
    left, right = ([row for block in blocks for row in block[side]] for side in (0, 1))
    assert got == naive(left, right, window_us)


@given(
    blocks=blocks_in_time(),
    small=st.tuples(*[st.integers(0, 5)] * 2),
    more=st.tuples(*[st.integers(0, 7)] * 2),
    is_self=st.booleans(),
)
def test_windows_in_turns_find_what_the_largest_finds_at_once(
    blocks: list[tuple[Rows, Rows]], small: tuple[int, int], more: tuple[int, int], is_self: bool
) -> None:
    """(0, w1] and then, when newer blocks have come, (w1, w2] are w2, each in order."""
    if is_self:
        small, more = (small[0],) * 2, (more[0],) * 2
    large = (small[0] + more[0], small[1] + more[1])
    inputs, waiting = Inputs(is_self=is_self), []
    for rows in blocks:
        if any(rows[: 1 + (not is_self)]):
            block = inputs.block(*rows[: 1 if is_self else 2])
            sides = inputs.seen_by(block)
            waiting.append((block, scanned(sides, Reach(large)), scanned(sides, Reach(small))))
            inputs.hold(block)
    for block, whole, first in waiting:
        second = scanned(inputs.seen_by(block, is_resumed=True), Reach(large, small))
        assert sorted(first + second) == sorted(whole)
        assert [pair for pair in whole if pair in set(first)] == first
        assert [pair for pair in whole if pair in set(second)] == second


@given(
    blocks=blocks_in_time(),
    windows=st.sets(st.tuples(*[st.integers(0, 12)] * 2), min_size=1),
    is_self=st.booleans(),
)
def test_pairs_are_counted_as_they_are_listed(
    blocks: list[tuple[Rows, Rows]], windows: set[tuple[int, int]], is_self: bool
) -> None:
    inputs = Inputs(is_self=is_self)
    for block in blocks:
        if not any(block[: 1 + (not is_self)]):
            continue
        sides = inputs.sides(*block[: 1 if is_self else 2])
        for window, found in zip(sorted(windows), count_pairs(sides, sorted(windows)), strict=True):
            probes = np.concatenate([one.probe for one in scan(sides, Reach(window))])
            assert found.tolist() == np.bincount(probes, minlength=len(found)).tolist()
