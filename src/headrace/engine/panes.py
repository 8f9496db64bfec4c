"""Partial aggregates: what the results of a group add up to, told apart by how long they stay.

      results of group 7     since  3   3   5   9         one row (a pane) for each group and ``since``, the time that
      panes of group 7       since  3(2)    5   9         says how long a result stays: it is in a window of length w
                                                          at T while since >= T - w. So the panes of each window are
      window w at T          [T - w ------------ T]       the later ones of one list: nested ranges

Owns: :class:`Panes` (rows of partial aggregates, with what makes them from rows) and :class:`PaneRun` (sorted by group
and since, with running sums and suffix extremes, so that a range costs two binary searches whatever its length).
Invariants: a run's rows are sorted by (group, since); two groups with one number are found out (``check``) and never
mixed. Cost: making panes sorts their rows; a run is made in a sort and a pass for each column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.keys import Int64s, encode_keys, zero_of
from headrace.engine.matching import bisect_within
from headrace.engine.segments import int64s_of
from headrace.errors import InvariantError
from headrace.plan.joingraph import KeyForm

Sums: TypeAlias = dict[str, Int64s]
Rows: TypeAlias = np.ndarray | slice

_GROUP, _CHECK, _SINCE, _FROM = "group", "check", "since", "from"
_KEY, _SUM, _BEST, _AT = "key:", "sum:", "best:", "at:"
_ORDER, _TIMES = "order", "times"
_LEAST = -(2**63)


@dataclass(frozen=True, slots=True)
class Panes:
    """Rows of partial aggregates. ``from_us``: from which evaluation time on each counts. ``sums`` are what can be
    added and taken away, one that is missing is 0; ``bests`` the extreme values, null where there is none, and
    ``is_least`` says of which of them the least is the best."""

    groups: Int64s
    checks: Int64s
    since_us: Int64s
    from_us: Int64s
    keys: tuple[pa.Array, ...]
    sums: Sums
    bests: tuple[pa.Array, ...] = ()
    is_least: tuple[bool, ...] = ()

    def __len__(self) -> int:
        return len(self.groups)

    def take(self, rows: Rows) -> Panes:
        """Those rows, by mask or by place."""
        places = pa.array(np.arange(len(self))[rows])
        return Panes(
            self.groups[rows],
            self.checks[rows],
            self.since_us[rows],
            self.from_us[rows],
            tuple(one.take(places) for one in self.keys),
            {name: column[rows] for name, column in self.sums.items()},
            tuple(one.take(places) for one in self.bests),
            self.is_least,
        )

    def from_time(self, from_us: int) -> Panes:
        """The same, as if they counted from that time on."""
        return replace(self, from_us=np.full(len(self), from_us, dtype=np.int64))

    def not_before(self, from_us: int) -> Panes:
        """The same, those that counted from earlier on from that time."""
        return replace(self, from_us=np.maximum(self.from_us, from_us))

    def reduced(self) -> Panes:
        """One row for each group, since and from, in that order."""
        if _is_rising((self.groups, self.since_us, self.from_us)):
            return self
        order = sorting_order(self.groups, self.since_us, self.from_us)
        told = [column[order] for column in (self.groups, self.since_us, self.from_us)]
        starts = _starts(told)
        checks = self.checks[order]
        if np.any((checks[1:] != checks[:-1]) & (told[0][1:] == told[0][:-1])):
            raise InvariantError("two groups of a query have the same number of 64 bits")
        if len(starts) == len(self):
            return self.take(order)
        firsts = order[starts]
        sums = {name: np.add.reduceat(column[order], starts) for name, column in self.sums.items()}
        return replace(self.take(firsts), sums=sums, bests=self._best_of(order, starts))

    def _best_of(self, order: Int64s, starts: Int64s) -> tuple[pa.Array, ...]:
        """Of each stretch of the rows, as ordered, the extremes."""
        if not self.bests:
            return ()
        owners = np.empty(len(order), dtype=np.int64)
        owners[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
        found = (
            best_places(best, owners, len(starts), least=least)
            for best, least in zip(self.bests, self.is_least, strict=True)
        )
        return tuple(
            best.take(pa.array(places, mask=places < 0)) for best, places in zip(self.bests, found, strict=True)
        )

    def to_batch(self) -> pa.RecordBatch:
        columns: dict[str, pa.Array] = {
            _GROUP: pa.array(self.groups),
            _CHECK: pa.array(self.checks),
            _SINCE: pa.array(self.since_us),
            _FROM: pa.array(self.from_us),
        }
        columns |= {f"{_KEY}{number}": one for number, one in enumerate(self.keys)}
        columns |= {f"{_SUM}{name}": pa.array(one) for name, one in self.sums.items()}
        columns |= {f"{_BEST}{number}": one for number, one in enumerate(self.bests)}
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    @staticmethod
    def from_batch(batch: pa.RecordBatch, is_least: tuple[bool, ...]) -> Panes:
        named = batch.schema.names
        groups, checks, since_us, from_us = (int64s_of(batch, name) for name in (_GROUP, _CHECK, _SINCE, _FROM))
        return Panes(
            groups,
            checks,
            since_us,
            from_us,
            tuple(batch.column(name) for name in named if name.startswith(_KEY)),
            {name.removeprefix(_SUM): int64s_of(batch, name) for name in named if name.startswith(_SUM)},
            tuple(batch.column(name) for name in named if name.startswith(_BEST)),
            is_least,
        )


def together(several: Sequence[Panes]) -> Panes:
    """The rows of several, one after the other."""
    if len(several) == 1:
        return several[0]
    names = dict.fromkeys(name for one in several for name in one.sums)
    first = several[0]
    return Panes(
        np.concatenate([one.groups for one in several]),
        np.concatenate([one.checks for one in several]),
        np.concatenate([one.since_us for one in several]),
        np.concatenate([one.from_us for one in several]),
        tuple(pa.concat_arrays([one.keys[number] for one in several]) for number in range(len(first.keys))),
        {name: np.concatenate([_sum(one, name) for one in several]) for name in names},
        tuple(pa.concat_arrays([one.bests[number] for one in several]) for number in range(len(first.bests))),
        first.is_least,
    )


def concatenated_keys(several: Sequence[Panes], rows: Sequence[Int64s]) -> Iterator[pa.Array]:
    """The keys of these rows of each, one after the other."""
    for number in range(len(several[0].keys)):
        yield pa.concat_arrays([one.keys[number].take(pa.array(mine)) for one, mine in zip(several, rows, strict=True)])


def _sum(panes: Panes, name: str) -> Int64s:
    return panes.sums.get(name, np.zeros(len(panes), dtype=np.int64))


def _starts(columns: Sequence[np.ndarray]) -> Int64s:
    """Where rows that are sorted by these columns begin to differ from the row before."""
    rows = len(columns[0])
    differs = np.zeros(rows, dtype=bool)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(differs)


def _is_rising(columns: Sequence[np.ndarray]) -> bool:
    """Whether each row is above the one before."""
    *_, last = columns
    is_above = last[1:] > last[:-1]
    for column in columns[-2::-1]:
        is_above = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & is_above)
    return bool(is_above.all())


# --- extremes


def goodness(values: pa.Array, *, least: bool) -> Int64s:
    """Numbers that compare as the values do, or the other way round; NaN is the greatest. Of nulls: anything."""
    if pa.types.is_string(values.type) or pa.types.is_decimal(values.type):
        numbers: Int64s = pc.rank(values, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    else:
        filled = values.fill_null(zero_of(values.type)) if values.null_count else values
        numbers = encode_keys([filled], KeyForm.ORDERED)
    return ~numbers if least else numbers


def best_order(values: pa.Array, *, least: bool) -> Int64s:
    """The rows from the worst to the best, nulls before all."""
    numbers = goodness(values, least=least)
    if not values.null_count:
        return np.argsort(numbers)
    order: Int64s = np.lexsort((numbers, values.is_valid().to_numpy(zero_copy_only=False)))
    return order


def best_places(values: pa.Array, owners: Int64s, count: int, *, least: bool) -> Int64s:
    """For each of so many owners, where the best of its values is; -1 where it has none but nulls.

    >>> best_places(pa.array([3, 9, None, 7]), np.array([0, 0, 2, 1]), 3, least=False).tolist()
    [1, 3, -1]
    """
    numbers = goodness(values, least=least)
    valid: Rows = slice(None)
    rows = np.arange(len(owners))
    if values.null_count:
        valid = rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    mine, numbers = owners[valid], numbers[valid]
    best = np.full(count, _LEAST, dtype=np.int64)
    np.maximum.at(best, mine, numbers)
    is_best = numbers == best[mine]
    places = np.full(count, -1, dtype=np.int64)
    places[mine[is_best]] = rows[is_best]
    return places


def sorting_order(groups: Int64s, since_us: Int64s, from_us: Int64s) -> Int64s:
    """The rows by group, since and from: sorted as one number each, where that fits, in a fraction of the time."""
    numbers, room = np.zeros(len(groups), dtype=np.int64), 1
    for column in (groups, since_us, from_us) if len(groups) else ():
        codes, count = dense_codes(column)
        room *= count
        if room > _ROOM:
            return np.lexsort((from_us, since_us, groups))
        numbers = numbers * count + codes if count > 1 else numbers
    # Sixteen bits are sorted in two passes.
    return np.argsort(numbers.astype(np.uint16), kind="stable") if room <= 1 << 16 else np.argsort(numbers)


def dense_codes(numbers: Int64s) -> tuple[Int64s, int]:
    """Codes from 0 on that compare as the numbers do, and how many there may be: ranks where numbers recur, else the
    distances from the least."""
    least, most = int(numbers.min()), int(numbers.max())
    if least == most:
        return np.zeros(len(numbers), dtype=np.int64), 1
    if most - least < _NEAR or (most - least < _FAR and len(np.unique(numbers[:_LOOK])) > _LOOK // 4):
        return numbers - least, most - least + 1
    found = pa.array(numbers).dictionary_encode()
    values = found.dictionary.to_numpy()
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(values)] = np.arange(len(values))
    return ranks[found.indices.to_numpy()], len(values)


_ROOM, _NEAR, _FAR = 1 << 62, 1 << 12, 1 << 42
_LOOK = 1 << 10


# --- runs


@dataclass(frozen=True, slots=True)
class PaneRun:
    """Panes that are sorted, with running sums in place of ``sums``, and for each row and extreme where the best of its
    group from this row on is (-1: there is none). ``order`` lists the rows by since, and ``times`` what that is."""

    panes: Panes
    places: tuple[np.ndarray, ...]
    order: np.ndarray
    times: Int64s

    @staticmethod
    def of(panes: Panes) -> PaneRun:
        """A run of panes, whatever time each is from."""
        rows = panes.reduced()
        running = {name: np.cumsum(column) for name, column in rows.sums.items()}
        places = tuple(
            _suffix_best(rows.groups, best, least) for best, least in zip(rows.bests, rows.is_least, strict=True)
        )
        order = np.argsort(rows.since_us).astype(np.int32)
        return PaneRun(replace(rows, sums=running), places, order, rows.since_us[order])

    def __len__(self) -> int:
        return len(self.panes)

    def rows(self) -> Panes:
        """The panes with their own sums."""
        return replace(self.panes, sums={name: self.sum_at(name, slice(None)) for name in self.panes.sums})

    def sum_at(self, name: str, rows: Rows) -> Int64s:
        """What these rows add."""
        running = self.panes.sums.get(name)
        places = np.arange(len(self))[rows]
        return np.zeros(len(places), dtype=np.int64) if running is None else _between(running, places, places + 1)

    def group_starts(self) -> Int64s:
        """Where each group's rows begin."""
        return _starts([self.panes.groups])

    def leaving(self, begin_us: int, end_us: int) -> Int64s:
        """The rows with a since in [begin, end)."""
        low, high = np.searchsorted(self.times, [begin_us, end_us])
        return self.order[low:high].astype(np.int64)

    def spans(self, groups: Int64s, bound_us: int) -> tuple[Int64s, Int64s]:
        """The rows of each of the groups with a since at or after the bound."""
        low = np.searchsorted(self.panes.groups, groups, side="left")
        high = np.searchsorted(self.panes.groups, groups, side="right")
        bounds = np.full(len(groups), bound_us, dtype=np.int64)
        return bisect_within(self.panes.since_us, low, high, bounds), high

    def sums_of(self, spans: tuple[Int64s, Int64s], name: str) -> Int64s:
        """What each span of rows adds up to."""
        running = self.panes.sums.get(name)
        return np.zeros(len(spans[0]), dtype=np.int64) if running is None else _between(running, *spans)

    def to_batch(self) -> pa.RecordBatch:
        batch = self.panes.to_batch()
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns |= {f"{_AT}{number}": pa.array(one) for number, one in enumerate(self.places)}
        columns |= {_ORDER: pa.array(self.order), _TIMES: pa.array(self.times)}
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    @staticmethod
    def from_batch(batch: pa.RecordBatch, is_least: tuple[bool, ...]) -> PaneRun:
        places = tuple(int64s_of(batch, name) for name in batch.schema.names if name.startswith(_AT))
        return PaneRun(Panes.from_batch(batch, is_least), places, int64s_of(batch, _ORDER), int64s_of(batch, _TIMES))


def _between(running: Int64s, low: Int64s, high: Int64s) -> Int64s:
    """The differences of running sums over [low, high)."""
    upto = np.where(high > 0, running[np.maximum(high, 1) - 1], 0)
    before = np.where(low > 0, running[np.maximum(low, 1) - 1], 0)
    return upto - before


def _suffix_best(groups: Int64s, values: pa.Array, least: bool) -> np.ndarray:
    """Where the best value of its group from each row on is."""
    rows = len(groups)
    by_rank = best_order(values, least=least)
    ranks = np.empty(rows, dtype=np.int64)
    ranks[by_rank] = np.arange(1, rows + 1)
    ranks[values.is_null().to_numpy(zero_copy_only=False)] = 0
    # Groups rise from row to row, so from the end they fall: turned round, a group's numbers are above all later ones'.
    later = np.cumsum(np.append(groups[1:] != groups[:-1], [False])[::-1])[::-1] if rows else groups
    numbers = np.maximum.accumulate((later * (rows + 1) + ranks)[::-1])[::-1] - later * (rows + 1)
    found = np.where(numbers > 0, by_rank[np.maximum(numbers, 1) - 1], -1)
    return found.astype(np.int32)
