"""Which cells of a group's grid the rows of a side go to (``plan/hypercube.py``), heavy keys among them
(``plan/skew.py``).

      row   x by hash   y dealt      own coordinates                    codes: a side's own coordinates as one number;
      r0    h(7) = 1    0            (1, 0)                             cells that differ only along dimensions that
      r1    7 is heavy  1            (2, 1), as a guest (1, 1)          a side lacks have the same code, and rows

Owns: :class:`Cells`. Invariants: of the copies of a row one, and only one, says that it is to be reported should the
row be late; copies in a cell are in arrival order; the same chunk is always spread in the same way. Cost: a hash and a
sort of the rows; of a side with heavy keys, two searches and a sort more for each row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from headrace.engine.keys import Int64s, shard_of
from headrace.engine.segments import NO_GUEST, NO_SLOT, REPORTED, SLOT, before_column, take_rows
from headrace.plan.hypercube import Dimension, Grid
from headrace.plan.planes import plane_for
from headrace.plan.sharing import Group
from headrace.plan.skew import HeavyKey, meets_older_us


@dataclass(frozen=True, slots=True)
class _Spread:
    """Copies of rows: which row each is, its coordinates as one number, whether it is its row's first, and by attribute
    class, what it is a guest before; of a plane, which of a row's copies it is."""

    rows: Int64s
    codes: Int64s
    is_first: np.ndarray
    before_us: Mapping[int, Int64s]
    slots: Int64s | None = None

    def along(self, share: int, coordinates: Int64s) -> _Spread:
        """Each copy at a coordinate of one dimension more."""
        return replace(self, codes=self.codes * share + coordinates)

    def with_more(self, again: Int64s) -> _Spread:
        """And those at these positions once more, at the end."""
        picked = np.concatenate([np.arange(len(self.rows)), again])
        is_first = self.is_first[picked]
        is_first[len(self.rows) :] = False
        before_us = {attribute: some[picked] for attribute, some in self.before_us.items()}
        return _Spread(self.rows[picked], self.codes[picked], is_first, before_us)


@dataclass(frozen=True, slots=True)
class _HeavyKeys:
    """The heavy keys of a dimension in the order of their numbers, as a side sees them: its own to split, or not."""

    numbers: Int64s
    since_us: Int64s
    is_split: np.ndarray

    @staticmethod
    def of(keys: Sequence[HeavyKey], side: int) -> _HeavyKeys:
        ordered = sorted(keys, key=lambda one: one.number)
        return _HeavyKeys(
            np.array([one.number for one in ordered], dtype=np.int64),
            np.array([one.since_us for one in ordered], dtype=np.int64),
            np.array([one.split_side == side for one in ordered], dtype=bool),
        )

    def find(self, numbers: Int64s, ts_us: Int64s) -> tuple[Int64s, Int64s]:
        """The positions of tuples with a heavy key since it is one, and which key each has."""
        places = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        found = np.flatnonzero(self.numbers[places] == numbers)
        found = found[ts_us[found] >= self.since_us[places[found]]]
        return found, places[found]


class Cells:
    """The cells that the rows of one side of a group go to."""

    def __init__(self, group: Group, side: int, grid: Grid) -> None:
        self.grid = grid
        self._side = side
        self._own = [one for one in grid.dimensions if side in one.sides]
        self._count = math.prod(one.share for one in self._own)
        self._graph = group.graph
        self._meets_older_us = meets_older_us(group)
        self._is_self = group.sides == (0, 0)
        self._heavy = self._heavy_keys()

    def _heavy_keys(self) -> dict[int, _HeavyKeys]:
        """The heavy keys by attribute class, of the side's own dimensions."""
        found = {}
        for attribute in {one.attribute for one in self._own if one.attribute is not None}:
            mine = [one for one in self.grid.heavy if one.attribute == attribute]
            if self._is_self:
                mine = [replace(one, split_side=self._side) for one in mine if plane_for(self._count) is not None]
            if mine:
                found[attribute] = _HeavyKeys.of(mine, self._side)
        return found

    def keyed(self) -> Iterator[tuple[int, int, int]]:
        """The attribute classes that rows are spread by: each with its number among the side's keys and its share."""
        for one in self._own:
            if one.attribute is not None:
                yield one.attribute, self._index_of(one.attribute), one.share

    def split(
        self, batch: pa.RecordBatch, numbers: Sequence[Int64s], ts_us: Int64s, *, every: bool
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows by cell. ``numbers``: of the side's keys. ``every``: also for cells without rows."""
        if self._heavy:
            parts = self._spread_parts(batch, numbers, ts_us, every=every)
        else:
            parts = dict(by_shard(batch, self._codes(numbers, ts_us), self._count, every=every))
        reported: set[int] = set()
        for cell, code in enumerate(self._codes_of_cells):
            if code in parts:
                yield cell, _unreported(parts[code]) if code in reported else parts[code]
                reported.add(code)

    @cached_property
    def _codes_of_cells(self) -> list[int]:
        """The side's own coordinates of each cell, as one number."""
        codes = []
        for place in self.grid.coordinates():
            code = 0
            for dimension, coordinate in zip(self.grid.dimensions, place, strict=True):
                if self._side in dimension.sides:
                    code = code * dimension.share + coordinate
            codes.append(code)
        return codes

    def _codes(self, numbers: Sequence[Int64s], ts_us: Int64s) -> Int64s:
        codes = np.zeros(len(ts_us), dtype=np.int64)
        for dimension in self._own:
            codes = codes * dimension.share + self._coordinates(dimension, numbers, ts_us)
        return codes

    def _coordinates(self, dimension: Dimension, numbers: Sequence[Int64s], ts_us: Int64s) -> Int64s:
        if dimension.attribute is None:
            dealt: Int64s = (_first_dealt(ts_us, dimension.share) + np.arange(len(ts_us))) % dimension.share
            return dealt
        return shard_of(numbers[self._index_of(dimension.attribute)], dimension.share)

    def _index_of(self, attribute: int) -> int:
        return 0 if self._graph is None else self._graph.classes[attribute].index_of(self._side)

    # --- heavy keys

    def _spread_parts(
        self, batch: pa.RecordBatch, numbers: Sequence[Int64s], ts_us: Int64s, *, every: bool
    ) -> dict[int, pa.RecordBatch]:
        """The rows by code, with marks where there may be guests."""
        spread = self._spread(numbers, ts_us)
        order = np.lexsort((spread.rows, spread.codes))
        rows = take_rows(batch, spread.rows[order])
        if len(order) > batch.num_rows:
            rows = _reporting(rows, spread.is_first[order])
        if spread.slots is not None:
            rows = rows.append_column(SLOT, pa.array(spread.slots[order]))
        before = {attribute: pa.array(some[order]) for attribute, some in spread.before_us.items()}
        ends = np.cumsum(np.bincount(spread.codes, minlength=self._count))
        parts = {}
        for code, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
            if end > begin or every:
                part = rows.slice(int(begin), int(end - begin))
                for attribute in self._marked_at(code, ts_us):
                    marks = before[attribute].slice(int(begin), int(end - begin))
                    part = part.append_column(before_column(attribute), marks)
                parts[code] = part
        return parts

    def _spread(self, numbers: Sequence[Int64s], ts_us: Int64s) -> _Spread:
        """All copies of all rows; first copies are in front, in the rows' order."""
        rows = len(ts_us)
        before_us = {one: np.full(rows, NO_GUEST) for one, keys in self._heavy.items() if keys.is_split.any()}
        spread = _Spread(np.arange(rows), np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=bool), before_us)
        stride = 1
        for dimension in self._own:
            coordinates = self._coordinates(dimension, numbers, ts_us)
            keys = None if dimension.attribute is None else self._heavy.get(dimension.attribute)
            if keys is None:
                spread = spread.along(dimension.share, coordinates[spread.rows])
            elif self._is_self:
                spread = self._over_plane(spread, dimension, keys, numbers[0], ts_us)
            else:
                spread = self._along_heavy(spread, dimension, keys, numbers, ts_us, stride)
            stride *= dimension.share if keys is not None or dimension.attribute is None else 1
        return spread

    def _along_heavy(
        self,
        spread: _Spread,
        dimension: Dimension,
        keys: _HeavyKeys,
        numbers: Sequence[Int64s],
        ts_us: Int64s,
        stride: int,
    ) -> _Spread:
        """One dimension more, along which heavy keys are dealt or copied. ``stride``: how many rows in a row are dealt
        to one coordinate, so that a row's places along two dimensions do not go together."""
        assert dimension.attribute is not None
        share, times_us = dimension.share, ts_us[spread.rows]
        mine = numbers[self._index_of(dimension.attribute)][spread.rows]
        home = shard_of(mine, share)
        heavy, places = keys.find(mine, times_us)
        is_split = keys.is_split[places]
        dealt, copied = heavy[is_split], heavy[~is_split]
        at = home.copy()
        at[dealt] = (_first_dealt(ts_us, share) + np.arange(len(dealt)) // stride) % share
        visits = at[dealt] != home[dealt]
        if self._meets_older_us is not None:
            visits &= times_us[dealt] - keys.since_us[places[is_split]] < self._meets_older_us
        guests, since_us = dealt[visits], keys.since_us[places[is_split]][visits]
        elsewhere = (home[copied][:, None] + np.arange(1, share)) % share
        more = spread.with_more(np.concatenate([guests, np.repeat(copied, share - 1)]))
        if len(guests):
            first = len(spread.rows)
            more.before_us[dimension.attribute][first : first + len(guests)] = since_us
        return more.along(share, np.concatenate([at, home[guests], elsewhere.ravel()]))

    def _over_plane(
        self, spread: _Spread, dimension: Dimension, keys: _HeavyKeys, numbers: Int64s, ts_us: Int64s
    ) -> _Spread:
        """The one dimension of a stream that is joined with itself: tuples with a heavy key go to the cells of their
        deals, counted from the key's home on; those that do not come home so are guests there."""
        plane, share = plane_for(dimension.share), dimension.share
        assert plane is not None
        assert dimension.attribute is not None
        home = shard_of(numbers, share)
        heavy, places = keys.find(numbers, ts_us)
        deals = (_first_dealt(ts_us, len(plane.cells)) + np.arange(len(heavy))) % len(plane.cells)
        cells = np.array(plane.cells)[deals]
        visits = ~(cells == 0).any(axis=1)
        if self._meets_older_us is not None:
            visits &= ts_us[heavy] - keys.since_us[places] < self._meets_older_us
        guests = heavy[visits]
        at = home.copy()
        at[heavy] = (home[heavy] + cells[:, 0]) % share
        elsewhere = (home[heavy][:, None] + cells[:, 1:]) % share
        more = spread.with_more(np.concatenate([guests, np.repeat(heavy, elsewhere.shape[1])]))
        more.before_us[dimension.attribute][len(ts_us) : len(ts_us) + len(guests)] = keys.since_us[places[visits]]
        slots = np.full(len(more.rows), NO_SLOT)
        slots[heavy] = 2 * deals + 1
        slots[len(ts_us) + len(guests) :] = np.repeat(2 * deals, elsewhere.shape[1])
        return replace(more.along(share, np.concatenate([at, home[guests], elsewhere.ravel()])), slots=slots)

    def _marked_at(self, code: int, ts_us: Int64s) -> list[int]:
        """The attribute classes of whose heavy keys there may be guests at a code: homes of keys that split this side,
        while older tuples can be met. The same for chunk after chunk, so that their rows can be merged."""
        found = []
        for dimension in reversed(self._own):
            code, coordinate = divmod(code, dimension.share)
            keys = None if dimension.attribute is None else self._heavy.get(dimension.attribute)
            if keys is not None and len(ts_us):
                visited = keys.is_split & (shard_of(keys.numbers, dimension.share) == coordinate)
                if self._meets_older_us is not None:
                    visited &= ts_us.min() - keys.since_us < self._meets_older_us
                if visited.any() and dimension.attribute is not None:
                    found.append(dimension.attribute)
        return sorted(found)


def _first_dealt(ts_us: Int64s, share: int) -> int:
    """Where dealing begins: anywhere, so that small chunks fill all cells, but always there for the same rows."""
    return int(shard_of(ts_us[:1], share)[0]) if len(ts_us) else 0


def by_shard(batch: pa.RecordBatch, shards: Int64s, count: int, *, every: bool) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows by shard; ``every``: also for shards without any."""
    if count == 1:
        yield 0, batch
        return
    order = np.argsort(shards.astype(np.uint16), kind="stable")
    batch = take_rows(batch, order)
    ends = np.cumsum(np.bincount(shards, minlength=count))
    for shard, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if end > begin or every:
            yield shard, batch.slice(int(begin), int(end - begin))


def _unreported(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copies of rows that another cell reports should they be late."""
    return _reporting(batch, np.zeros(batch.num_rows, dtype=bool))


def _reporting(batch: pa.RecordBatch, is_first: np.ndarray) -> pa.RecordBatch:
    index = batch.schema.get_field_index(REPORTED)
    if index < 0:
        return batch.append_column(REPORTED, pa.array(is_first))
    reported = batch.column(index).to_numpy(zero_copy_only=False) & is_first
    return batch.set_column(index, REPORTED, pa.array(reported))
