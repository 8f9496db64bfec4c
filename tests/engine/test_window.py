"""The held window of one input: few runs, whole parts expired, and the same rows however it is rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine import window
from headrace.engine.events import CacheSegment, DropSegment, KeepSegment
from headrace.engine.segments import KEY, PLACE, Layout, Segment, build_segment
from headrace.engine.window import Collected, Run, Serial, WindowStore, open_run

LAYOUT = Layout("ts")
PLAN = Collected(("ts", "id"), ())
OTHER_PLAN = Collected(("ts", "id"), ("(k < 3)",))


def segment(*rows: tuple[int, int, int]) -> Segment:
    """Rows (ts, key, id), given in time order."""
    ts_us, keys, ids = zip(*rows, strict=True)
    columns = {"ts": pa.array(ts_us, pa.timestamp("us", "UTC")), "id": pa.array(ids, pa.int64())}
    return build_segment(pa.RecordBatch.from_pydict({**columns, KEY: pa.array(keys, pa.int64())}), LAYOUT)[0]


@dataclass
class Held:
    """A window with what its effects left in a store."""

    store: WindowStore
    blobs: dict[str, pa.Buffer] = field(default_factory=dict)
    cached: dict[str, pa.RecordBatch] = field(default_factory=dict)

    @staticmethod
    def empty(fanout: int = 4) -> Held:
        return Held(WindowStore(LAYOUT, fanout, Serial()))

    def add(self, *rows: tuple[int, int, int], collected: Collected = PLAN) -> None:
        self.store.insert(segment(*rows), collected)
        self.store.compact()
        self.settle()

    def settle(self) -> None:
        for effect in self.store.drain():
            match effect:
                case KeepSegment(name, blob):
                    assert name not in self.blobs
                    self.blobs[name] = blob
                case DropSegment(name):
                    del self.blobs[name]
                case CacheSegment(name, batch):
                    self.cached[name] = batch
        assert set(self.blobs) == {part.name for run in self.store.runs for part in run.parts}

    def expire(self, cutoff_us: int) -> int:
        dropped = self.store.expire_before(cutoff_us)
        self.settle()
        return dropped

    def stored(self, name: str) -> pa.Buffer:
        return self.blobs[name]

    def derived(self, _name: str, rebuild: Callable[[], pa.Buffer]) -> pa.Buffer:
        return rebuild()

    def reopened(self, run: Run) -> Run:
        return open_run(run.name, run.parts, run.collected, LAYOUT, self)


def ids(run: Run) -> list[int]:
    return run.segment.batch.column("id").to_pylist()


def all_ids(runs: Sequence[Run]) -> list[int]:
    return sorted(one for run in runs for one in ids(run))


# --- merging


def test_a_block_becomes_a_run_sorted_by_key_then_time() -> None:
    held = Held.empty()
    held.add((1, 9, 0), (2, 7, 1), (3, 9, 2), (3, 7, 3))
    assert [ids(run) for run in held.store.runs] == [[1, 3, 0, 2]]


def test_light_runs_merge_when_there_are_as_many_as_the_fanout() -> None:
    held = Held.empty(fanout=3)
    for number in range(2):
        held.add((number, 1, number))
    assert len(held.store.runs) == 2
    held.add((2, 1, 2))
    assert [ids(run) for run in held.store.runs] == [[0, 1, 2]]


def test_a_merge_stores_nothing_and_offers_the_run_to_the_cache() -> None:
    held = Held.empty(fanout=2)
    held.add((0, 1, 0))
    held.add((1, 1, 1))
    (run,) = held.store.runs
    assert len(held.blobs) == 2
    assert held.cached[run.name].column("id").to_pylist() == [0, 1]


def test_tiers_keep_few_runs() -> None:
    for fanout in (2, 4):
        held = Held.empty(fanout)
        for number in range(300):
            held.add((number, number % 5, number))
            assert len(held.store.runs) <= 2 * fanout + 4
        assert all_ids(held.store.runs) == list(range(300))


def test_runs_of_another_plan_are_not_merged() -> None:
    held = Held.empty(fanout=2)
    held.add((0, 1, 0))
    held.add((1, 1, 1), collected=OTHER_PLAN)
    held.add((2, 1, 2), collected=OTHER_PLAN)
    assert [(run.collected, ids(run)) for run in held.store.runs] == [(PLAN, [0]), (OTHER_PLAN, [1, 2])]


def test_when_tuples_are_collected_in_another_way_the_small_runs_before_them_become_one() -> None:
    """A large one is not merged for their sake."""
    held = Held.empty(fanout=4)
    held.add(*((time, 1, time) for time in range(100)))
    for time in (100, 101, 102):
        held.add((time, 1, time))
    assert len(held.store.runs) == 4
    held.add((103, 1, 103), collected=OTHER_PLAN)
    assert [len(ids(run)) for run in held.store.runs] == [100, 3, 1]
    assert all_ids(held.store.runs) == list(range(104))


def test_a_run_of_too_many_parts_is_stored_as_one() -> None:
    held = Held.empty(fanout=2)
    for number in range(2 * window.MOST_PARTS):
        held.add((number, number % 3, number))
    assert max(len(run.parts) for run in held.store.runs) <= window.MOST_PARTS
    (run,) = held.store.runs
    assert len(held.blobs) == len(run.parts) == 1
    assert sorted(ids(held.reopened(run))) == list(range(2 * window.MOST_PARTS))


def test_equal_blocks_are_two_parts() -> None:
    held = Held.empty()
    held.add((0, 1, 0))
    held.add((0, 1, 0))
    assert len(held.blobs) == 2


# --- expiry


def test_a_part_whose_newest_row_is_at_the_cutoff_stays() -> None:
    held = Held.empty()
    held.add((1, 1, 0), (5, 1, 1))
    assert held.expire(5) == 0
    assert all_ids(held.store.runs) == [0, 1]
    assert held.expire(6) == 2
    assert held.store.runs == []
    assert held.blobs == {}


def test_expiry_drops_the_dead_parts_of_a_merged_run() -> None:
    held = Held.empty(fanout=4)
    for number in range(4):
        held.add((number, 1, number))
    (run,) = held.store.runs
    assert held.expire(1) == 1
    (left,) = held.store.runs
    assert (len(left.parts), left.live_rows) == (3, 3)
    assert left.segment is run.segment, "a quarter dead is not worth a rewrite"


def test_a_run_more_than_half_dead_is_trimmed() -> None:
    held = Held.empty(fanout=4)
    for number in range(4):
        held.add((number, 1, number))
    assert held.expire(3) == 3
    (run,) = held.store.runs
    assert ids(run) == [3]
    assert ids(held.reopened(run)) == [3]


def test_where_windows_are_of_rows_a_part_goes_when_its_newest_place_is_out_of_reach() -> None:
    held = Held.empty()
    for place in (3, 7):
        one = segment((place, 1, place))
        placed = one.batch.append_column(PLACE, pa.array([place], pa.int64()))
        held.store.insert(replace(one, batch=placed), PLAN)
    assert held.store.expire_before(None, 3) == 0
    assert held.store.expire_before(3, 8) == 0, "a stream that is looked at both ways stays for either"
    assert held.store.expire_before(None, 4) == 1
    assert held.store.expire_before(8, 8) == 1


def test_clearing_lets_go_of_everything() -> None:
    held = Held.empty(fanout=2)
    for number in range(5):
        held.add((number, 1, number))
    held.store.clear()
    held.settle()
    assert held.blobs == {}


# --- rebuilding

Rows = list[tuple[int, int]]


@given(
    blocks=st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=4), max_size=12),
    fanout=st.sampled_from((2, 3, 4)),
    data=st.data(),
)
def test_a_run_rebuilt_from_its_parts_has_the_same_rows_in_the_same_order(
    blocks: list[Rows], fanout: int, data: st.DataObject
) -> None:
    held = Held.empty(fanout)
    now = number = cutoff = 0
    times: dict[int, int] = {}
    for block in blocks:
        rows = []
        for step, key in block:
            now += step
            times[number] = now
            rows.append((now, key, number))
            number += 1
        held.add(*rows)
        if data.draw(st.booleans()):
            cutoff = max(cutoff, data.draw(st.integers(0, now + 1)))
            held.expire(cutoff)
    live = {one for one, time in times.items() if time >= cutoff}
    assert live <= set(all_ids(held.store.runs)), "what is in reach is held"
    for run in held.store.runs:
        rebuilt = held.reopened(run)
        needed = [one for one in ids(run) if times[one] >= cutoff]
        assert [one for one in ids(rebuilt) if times[one] >= cutoff] == needed
        assert len(ids(rebuilt)) == run.live_rows <= run.rows


# --- which tuples serve which queries


def test_tuples_serve_queries_that_read_no_more_columns_and_want_no_more_tuples() -> None:
    kept = Collected(("ts", "id", "x"), ("(k < 3)",))
    assert kept.serves(frozenset({"ts", "x"}), frozenset({"(k < 3)", "(x > 0)"}))
    assert not kept.serves(frozenset({"ts", "name"}), frozenset({"(k < 3)"}))
    assert not kept.serves(frozenset({"ts"}), frozenset())
