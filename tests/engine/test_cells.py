"""Cells: where rows go along each dimension, what heavy keys change, who reports a late row, which keys are seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

import engine_cases as cases
import numpy as np
import outcomes
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_host import LocalHost

from headrace.engine.cells import Cells
from headrace.engine.frequent import MOST_KEYS, SAMPLE_ROWS, frequent_keys
from headrace.engine.guests import with_marks
from headrace.engine.keys import shard_of
from headrace.engine.packing import Kind, Packer
from headrace.engine.segments import BEFORE, NO_GUEST, REPORTED, SLOT, before_column, unpack_batch
from headrace.engine.window import Collected
from headrace.model import Catalog, Stream, StreamId
from headrace.plan.hypercube import Dimension, Grid, grid_of, pair_grid
from headrace.plan.sharing import Group, SharedPlan, share
from headrace.plan.skew import HeavyKey
from headrace.sql import read_script

CATALOG = Catalog(tuple(Stream(StreamId(name), cases.WIDE, "ts") for name in "abc"))
WINDOW_US = 10
SINCE = 100


def plan(select: str) -> SharedPlan:
    return share(CATALOG, read_script(f"CREATE QUERY q AS {select}", CATALOG).queries)


PAIR = plan("SELECT s.id FROM a s, b t WHERE s.n = t.n WINDOW 10 MICROSECONDS")
COUNTED = plan("SELECT s.id FROM a s, b t WHERE s.n = t.n WINDOW 10 ROWS")
CHAINED = "FROM a s, b t, c u WHERE s.n = t.n AND t.k = u.k"
CHAIN = plan(f"SELECT s.id {CHAINED} WINDOW 10 MICROSECONDS")
SQUARE = Grid((Dimension((0, 1), 0, 2), Dimension((1, 2), 1, 2)))

Copy = tuple[int, int, int]
"""A row, the cell it is in, and what it is a guest before."""


def group(plan: SharedPlan) -> Group:
    (found,) = plan.groups
    return found


def spread(
    group: Group, side: int, grid: Grid, numbers: Sequence[Sequence[int]], ts_us: Sequence[int], attribute: int = 0
) -> list[Copy]:
    """Where rows with these keys and times go."""
    batch = pa.RecordBatch.from_pydict({"row": pa.array(range(len(ts_us)), pa.int64())})
    keys = [np.array(some, dtype=np.int64) for some in numbers]
    found: list[Copy] = []
    for cell, part in Cells(group, side, grid).split(batch, keys, np.array(ts_us, dtype=np.int64), every=False):
        rows = part.column("row").to_pylist()
        assert rows == sorted(rows)
        name = before_column(attribute)
        before = part.column(name).to_pylist() if name in part.schema.names else [NO_GUEST] * len(rows)
        found += zip(rows, [cell] * len(rows), before, strict=True)
    return found


def cells_of(copies: Sequence[Copy], row: int) -> set[int]:
    return {cell for one, cell, _ in copies if one == row}


def home(number: int, share: int = 4) -> int:
    return int(shard_of(np.array([number]), share)[0])


def heavy(split_side: int, *numbers: int, attribute: int = 0) -> tuple[HeavyKey, ...]:
    return tuple(HeavyKey(attribute, number, split_side, SINCE) for number in numbers)


SPLIT_LEFT = Grid(pair_grid(4).dimensions, heavy(0, 7))


# --- heavy keys


def test_without_heavy_keys_a_row_is_where_its_hash_is() -> None:
    copies = spread(group(PAIR), 0, pair_grid(4), [range(50)], range(50))
    assert [(row, cell) for row, cell, _ in sorted(copies)] == [(row, home(row)) for row in range(50)]


def test_tuples_from_before_a_key_was_heavy_go_home_whenever_they_come() -> None:
    for side in (0, 1):
        copies = spread(group(PAIR), side, SPLIT_LEFT, [[7, 7]], [SINCE - 1, SINCE - 50])
        assert [(cell, before) for _, cell, before in copies] == [(home(7), NO_GUEST)] * 2


def test_the_split_side_is_dealt_out_evenly_and_the_other_is_copied_to_all() -> None:
    later = SINCE + WINDOW_US
    copies = spread(group(PAIR), 0, SPLIT_LEFT, [[7] * 40], [later] * 40)
    assert Counter(cell for _, cell, _ in copies) == dict.fromkeys(range(4), 10)
    copies = spread(group(PAIR), 1, SPLIT_LEFT, [[7] * 3], [later] * 3)
    assert Counter((row, cell) for row, cell, _ in copies) == Counter(product(range(3), range(4)))


def test_other_keys_stay_where_they_are() -> None:
    for side in (0, 1):
        copies = spread(group(PAIR), side, SPLIT_LEFT, [[8, 7, 9]], [SINCE] * 3)
        assert [cells_of(copies, row) for row in (0, 2)] == [{home(8)}, {home(9)}]


@pytest.mark.parametrize(
    ("ts_us", "guests"), [(SINCE, True), (SINCE + WINDOW_US - 1, True), (SINCE + WINDOW_US, False)]
)
def test_a_dealt_tuple_is_a_guest_at_home_while_it_can_meet_an_older_one(ts_us: int, guests: bool) -> None:
    copies = spread(group(PAIR), 0, SPLIT_LEFT, [[7] * 4], [ts_us] * 4)
    dealt = [(row, cell) for row, cell, before in copies if before == NO_GUEST]
    marked = [(row, cell, before) for row, cell, before in copies if before != NO_GUEST]
    assert sorted(row for row, _ in dealt) == [0, 1, 2, 3]
    away = sorted(row for row, cell in dealt if cell != home(7))
    assert sorted(marked) == ([(row, home(7), SINCE) for row in away] if guests else [])


def test_where_rows_are_counted_a_dealt_tuple_is_always_a_guest_at_home() -> None:
    copies = spread(group(COUNTED), 0, SPLIT_LEFT, [[7] * 4], [SINCE + 10**9] * 4)
    assert len([before for _, _, before in copies if before == SINCE]) == 3


def test_marks_are_only_where_and_while_there_may_be_guests() -> None:
    def marked(side: int, ts_us: int) -> set[int]:
        batch = pa.RecordBatch.from_pydict({"row": pa.array(range(40))})
        keys, times = np.arange(40), np.full(40, ts_us)
        parts = Cells(group(PAIR), side, SPLIT_LEFT).split(batch, [keys], times, every=False)
        return {cell for cell, part in parts if any(name.startswith(BEFORE) for name in part.schema.names)}

    assert marked(0, SINCE) == {home(7)}
    assert marked(0, SINCE + WINDOW_US) == set()
    assert marked(1, SINCE) == set()


def test_a_batch_with_marks_is_collected_in_a_way_of_its_own() -> None:
    plain = Collected(("ts", "id"), ())
    batch = pa.RecordBatch.from_pydict({"ts": [1], "id": [2]})
    assert with_marks(plain, batch) is plain
    assert with_marks(plain, batch.append_column(before_column(1), pa.array([NO_GUEST]))) != plain


def test_the_same_chunk_is_always_spread_in_the_same_way() -> None:
    rows = ([[7] * 9], list(range(SINCE, SINCE + 9)))
    assert spread(group(PAIR), 0, SPLIT_LEFT, *rows) == spread(group(PAIR), 0, SPLIT_LEFT, *rows)


# --- dealt out


def test_small_chunks_are_dealt_out_over_all_cells() -> None:
    """Each is of a source task of its own, which knows nothing of the others."""
    joined = group(plan("SELECT s.id FROM a s, b t WHERE s.n < t.n WINDOW 10 MICROSECONDS"))
    found = Counter(
        next(iter(cells_of(spread(joined, 0, Grid((Dimension((0,), None, 4),)), [[0]], [second * 10**6]), 0)))
        for second in range(400)
    )
    assert sorted(found) == [0, 1, 2, 3]
    assert max(found.values()) < 140


def test_a_chunk_is_dealt_out_evenly() -> None:
    joined = group(plan("SELECT s.id FROM a s, b t WHERE s.n < t.n WINDOW 10 MICROSECONDS"))
    copies = spread(joined, 0, Grid((Dimension((0,), None, 4),)), [[0] * 40], range(40))
    assert Counter(cell for _, cell, _ in copies) == dict.fromkeys(range(4), 10)


# --- every combination meets once

keys = st.sampled_from((7, 7, 7, 1, 2))
times = st.integers(SINCE - 3, SINCE + 3)


def met(split: tuple[int, int], rows: Sequence[tuple[int, int, int]]) -> list[tuple[int, ...]]:
    """Of one tuple of each side (its n, its k, its time), the cells in which they count as a result."""
    joined = group(CHAIN)
    assert joined.graph is not None
    assert [one.sides for one in joined.graph.classes] == [(0, 1), (1, 2)]
    grid = Grid(SQUARE.dimensions, (*heavy(split[0], 7), *heavy(split[1], 7, attribute=1)))
    copies = []
    for side, (n, k, ts_us) in enumerate(rows):
        values = {0: [n], 1: [k]}
        numbers: list[list[int]] = [[] for _ in joined.inputs[side].indexes]
        for attribute, one in enumerate(joined.graph.classes):
            if side in one.sides:
                numbers[one.index_of(side)] = values[attribute]
        marks = [spread(joined, side, grid, numbers, [ts_us], attribute) for attribute in (0, 1)]
        copies.append({cell: (first, second) for (_, cell, first), (_, _, second) in zip(*marks, strict=True)})
    found = []
    for cell in set.intersection(*(set(one) for one in copies)):
        others = {
            (side, attribute): other
            for attribute, (a, b) in enumerate(((0, 1), (1, 2)))
            for side, other in ((a, b), (b, a))
        }
        if all(rows[other][2] < copies[side][cell][attribute] for (side, attribute), other in others.items()):
            found.append((cell,))
    return found


@given(
    split=st.tuples(st.sampled_from((0, 1)), st.sampled_from((1, 2))),
    n=keys,
    k=keys,
    ts_us=st.tuples(times, times, times),
)
def test_three_tuples_meet_in_one_cell_whichever_keys_are_heavy_and_tuples_old(
    split: tuple[int, int], n: int, k: int, ts_us: tuple[int, int, int]
) -> None:
    assert len(met(split, [(n, k, one) for one in ts_us])) == 1


# --- late rows


@pytest.mark.parametrize("grid", [SQUARE, Grid(SQUARE.dimensions, heavy(0, 1)), Grid(SQUARE.dimensions, heavy(1, 1))])
@pytest.mark.parametrize("stream", ["a", "b", "c"])
def test_one_copy_of_each_row_reports_it(grid: Grid, stream: str) -> None:
    packer = Packer(CHAIN, CATALOG.get(StreamId(stream)), 4, grids={group(CHAIN).signature: grid})
    rows = [cases.row(second, second, n=second % 3, k=second % 2) for second in range(20)]
    reporting: list[float] = []
    for one in packer.pack(cases.batch_of(rows), 0):
        if one.kind is Kind.ROWS:
            batch = unpack_batch(one.payload)
            times_us = batch.column("ts").to_pylist()
            is_first = batch.column(REPORTED).to_pylist() if REPORTED in batch.schema.names else [True] * len(times_us)
            reporting += [time for time, first in zip(times_us, is_first, strict=True) if first]
    assert len(reporting) == len(set(reporting)) == 20


def test_a_late_row_that_is_copied_is_rejected_once() -> None:
    script = read_script(f"CREATE QUERY q AS SELECT s.id, t.id AS i, u.id AS j {CHAINED} WINDOW 1 SECOND", CATALOG)
    host = LocalHost(CATALOG, script.queries, shards=4, grids={group(CHAIN).signature: SQUARE})
    for seconds in (10, 9):
        cases.arrive(host, {StreamId(name): [cases.row(seconds, seconds)] for name in "abc"})
    assert outcomes.rejected(host) == {(name, "late", 9): 1 for name in "abc"}


# --- what is seen


def test_frequent_keys_are_those_of_more_than_half_a_coordinates_share() -> None:
    numbers = np.repeat([1, 2, 3, 4], [500, 126, 125, 249])
    assert frequent_keys(np.random.default_rng(0).permutation(numbers), 4).keys == {1: 500, 4: 249, 2: 126}


def test_only_a_few_keys_are_told_and_none_that_is_known() -> None:
    assert len(frequent_keys(np.repeat(np.arange(10), 100), 8).keys) == MOST_KEYS
    assert 3 not in frequent_keys(np.repeat(np.arange(10), 100), 8, known={3}).keys


@pytest.mark.parametrize("rows", [0, 1, 3, SAMPLE_ROWS, SAMPLE_ROWS + 1, 10 * SAMPLE_ROWS + 7])
def test_a_large_chunk_is_sampled(rows: int) -> None:
    numbers = np.where(np.random.default_rng(1).random(rows) < 0.5, 7, np.arange(rows) + 100)
    seen = frequent_keys(numbers, 4)
    assert seen.rows == rows
    assert rows < 10 or 0.45 * rows < seen.keys[7] < 0.55 * rows


def test_a_packer_tells_what_it_saw_of_each_class_and_side() -> None:
    grids = {group(CHAIN).signature: Grid(SQUARE.dimensions, heavy(1, 5, attribute=1))}
    packer = Packer(CHAIN, CATALOG.get(StreamId("b")), 4, grids=grids)
    for _ in range(2):
        list(packer.pack(cases.batch_of([cases.row(1, number, n=3, k=5) for number in range(100)]), 0))
    seen = {(attribute, side): (one.rows, dict(one.keys)) for (_, attribute, side), one in packer.heavy_seen.items()}
    assert seen == {(0, 1): (200, {3: 200}), (1, 1): (200, {})}


# --- a stream with itself

ITSELF = plan("SELECT s.id FROM a s, a t WHERE s.n = t.n WINDOW 10 MICROSECONDS")


def grid_of_itself(shards: int) -> Grid:
    return Grid(pair_grid(shards).dimensions, heavy(0, 7))


def parts(shards: int, ts_us: Sequence[int]) -> dict[int, list[tuple[int, int, int]]]:
    """By cell, the rows with a heavy key at these times: each with its slot and what it is a guest before."""
    batch = pa.RecordBatch.from_pydict({"row": pa.array(range(len(ts_us)), pa.int64())})
    numbers, times_us = np.full(len(ts_us), 7), np.array(ts_us, dtype=np.int64)
    found = {}
    for cell, part in Cells(group(ITSELF), 0, grid_of_itself(shards)).split(batch, [numbers], times_us, every=False):
        marks = [name for name in (before_column(0),) if name in part.schema.names]
        before = part.column(marks[0]).to_pylist() if marks else [NO_GUEST] * part.num_rows
        found[cell] = list(zip(part.column("row").to_pylist(), part.column(SLOT).to_pylist(), before, strict=True))
    return found


@pytest.mark.parametrize("shards", [3, 4, 6, 7, 9, 13])
@given(ts_us=st.lists(times, min_size=1, max_size=9))
def test_two_tuples_of_one_stream_meet_in_one_cell(shards: int, ts_us: list[int]) -> None:
    """As ``found_here`` says; a tuple also meets itself."""
    meetings: Counter[tuple[int, int]] = Counter()
    for mine in parts(shards, ts_us).values():
        for (i, slot, before), (j, other, before_other) in product(mine, mine):
            at_home = ts_us[j] < before and ts_us[i] < before_other
            meetings[i, j] += at_home and (slot != other or slot % 2 == 1)
    assert meetings == Counter(product(range(len(ts_us)), repeat=2))


def test_a_heavy_key_of_one_stream_is_spread_evenly() -> None:
    found = parts(7, [SINCE + WINDOW_US] * 70)
    assert [len(some) for _, some in sorted(found.items())] == [30] * 7


def test_of_two_cells_one_would_hold_all_so_nothing_is_split() -> None:
    assert grid_of(group(ITSELF), 2) is None
    batch = pa.RecordBatch.from_pydict({"row": [1]})
    sent = dict(
        Cells(group(ITSELF), 0, grid_of_itself(2)).split(batch, [np.array([7])], np.array([SINCE]), every=False)
    )
    assert {cell: part.schema.names for cell, part in sent.items()} == {home(7, 2): ["row"]}


def test_without_heavy_keys_a_stream_joined_with_itself_is_where_its_hash_is() -> None:
    packer = Packer(ITSELF, CATALOG.get(StreamId("a")), 4)
    sent = list(packer.pack(cases.batch_of([cases.row(1, number, n=7) for number in range(9)]), 0))
    assert [one.shard for one in sent if one.kind is Kind.ROWS] == [home(7)]
    assert [dict(one.keys) for one in packer.heavy_seen.values()] == [{7: 9}]
