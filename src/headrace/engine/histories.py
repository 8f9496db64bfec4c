"""How the groups of one window went from one evaluation time to another: their values at each time they changed.

      time          before                 now          a history has, for each group that anything happened to, its
      results come      |   x     x   x     |           value at ``before`` and at every evaluation time until ``now``
      results leave     |     x      x      |           at which results came or left; nothing else is looked at
      slots         g:  0   1 2   3  45

Owns: :class:`Points` (which times are evaluation times) and ``history_of``. Invariant: the cost is that of what came
and what left, and a binary search a group and run: never of what stays in the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headrace.engine.keys import Int64s
from headrace.engine.panes import PaneRun, Panes, Sums, best_order, together
from headrace.errors import InvariantError

LOWEST = -(2**63)
NEVER = 2**63 - 1
FEW = 8
"""Evaluation times that are gone through one by one (``stepping``)."""


@dataclass(frozen=True, slots=True)
class Points:
    """The evaluation times: every ``every_us``; each moment at which anything changes (``is_eager``); or else once for
    each time that is reached."""

    every_us: int = 0
    is_eager: bool = False

    def last(self, complete_us: int) -> int:
        """The newest evaluation time of those until which all is known."""
        return complete_us // self.every_us * self.every_us if self.every_us else complete_us

    def first_after(self, after_us: int, coming_us: Int64s, now_us: int) -> int:
        """The first evaluation time after another and up to ``now_us``, where panes come at these times."""
        if self.every_us:
            return min((after_us // self.every_us + 1) * self.every_us, now_us)
        return int(coming_us[coming_us > after_us].min(initial=now_us)) if self.is_eager else now_us

    def next(self, times_us: Int64s, now_us: int) -> Int64s:
        """The first evaluation time at or after each time, where ``now_us`` is the last one."""
        if self.every_us:
            return -(-times_us // self.every_us) * self.every_us
        return times_us if self.is_eager else np.full(len(times_us), now_us, dtype=np.int64)

    def between(self, before_us: int, now_us: int) -> list[int] | None:
        """The evaluation times after one and up to another, where they are few; None where they are not."""
        if self.is_eager and not self.every_us:
            return None
        if not self.every_us:
            return [now_us]
        if before_us == LOWEST or now_us - before_us > FEW * self.every_us:
            return None
        return list(range(now_us, before_us, -self.every_us))[::-1]

    def grain_us(self, windows_us: Sequence[int]) -> int:
        """How exactly evaluation times can tell apart when results leave windows."""
        return self.every_us if self.every_us and all(one % self.every_us == 0 for one in windows_us) else 1

    def shared_since(self, since_us: Int64s, windows_us: Sequence[int]) -> Int64s:
        """A since as exact as that, so that few panes are told apart: the first of those that leave every window at the
        same time. A window that comes later and could tell them apart then counts none that it does not reach."""
        grain_us = self.grain_us(windows_us)
        return since_us if grain_us == 1 else since_us // grain_us * grain_us

    def marked(self, newest_us: Int64s, complete_us: int) -> Int64s:
        """From when on results count: as exact as evaluation times need it, so that few are told apart. All that is at
        or before ``complete_us`` becomes known at once."""
        if self.every_us or self.is_eager:
            return self.next(newest_us, 0)
        return np.maximum(newest_us, complete_us)


@dataclass(frozen=True, slots=True)
class History:
    """Values of groups, slot after slot, window after window: each group's slots are neighbours, the first is its value
    before. ``keys`` are by group, ``ends`` by window: where its slots end; all else is by slot."""

    keys: tuple[pa.Array, ...]
    owners: Int64s
    at_us: Int64s
    sums: Sums
    bests: tuple[pa.Array, ...]
    windows_us: tuple[int, ...]
    ends: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.owners)


@dataclass(frozen=True, slots=True)
class _Span:
    """From one evaluation time to another, for a window of one length."""

    before_us: int
    now_us: int
    window_us: int
    points: Points

    def leaves_at(self, since_us: Int64s) -> Int64s:
        """When panes leave; ``NEVER`` of those that are still there."""
        at_us = self.points.next(since_us + self.window_us + 1, self.now_us)
        return np.where(since_us < self.now_us - self.window_us, at_us, NEVER)


@dataclass(frozen=True, slots=True)
class _Stays:
    """Panes that come or leave, and from when (``LOWEST``: before) until when they are there."""

    panes: Panes
    begins_us: Int64s
    ends_us: Int64s


def history_of(
    runs: Sequence[PaneRun], coming: Panes | None, before_us: int, now_us: int, window_us: int, points: Points
) -> History | None:
    """What happened to the groups since ``before_us``: panes of ``coming`` count from then on, those of the runs did
    before; None if nothing did. ``before_us`` may be ``LOWEST``: then there was nothing."""
    span = _Span(before_us, now_us, window_us, points)
    stays = [one for one in (*_arrivals(coming, span), *_departures(runs, span)) if len(one.panes)]
    return _Slots(stays, runs, span).history() if stays else None


def _arrivals(coming: Panes | None, span: _Span) -> list[_Stays]:
    if coming is None:
        return []
    begins_us = span.points.next(coming.from_us, span.now_us)
    seen = np.flatnonzero(coming.since_us + span.window_us >= begins_us)
    panes = coming.take(seen)
    return [_Stays(panes, begins_us[seen], span.leaves_at(panes.since_us))]


def _departures(runs: Sequence[PaneRun], span: _Span) -> list[_Stays]:
    if span.before_us == LOWEST:
        return []
    found = []
    for run in runs:
        rows = run.leaving(span.before_us - span.window_us, span.now_us - span.window_us)
        sums = {name: run.sum_at(name, rows) for name in run.panes.sums}
        panes = replace(run.panes.take(rows), sums=sums)
        found.append(_Stays(panes, np.full(len(rows), LOWEST), span.leaves_at(panes.since_us)))
    return found


class _Slots:
    """Stays sorted into slots: one a group and time, and one a group for what was before."""

    def __init__(self, stays: Sequence[_Stays], runs: Sequence[PaneRun], span: _Span) -> None:
        self._panes = together([one.panes for one in stays])
        begins_us = np.concatenate([one.begins_us for one in stays])
        ends_us = np.concatenate([one.ends_us for one in stays])
        self._runs = runs
        self._span = span
        self._groups, self._firsts, self._of_group = np.unique(
            self._panes.groups, return_index=True, return_inverse=True
        )
        if np.any(self._panes.checks != self._panes.checks[self._firsts][self._of_group]):
            raise InvariantError("two groups of a query have the same number of 64 bits")
        self._left = np.flatnonzero(ends_us != NEVER)
        self._place(begins_us, ends_us)

    def _place(self, begins_us: Int64s, ends_us: Int64s) -> None:
        """Gives each pane the slot it comes in and the one it is gone in."""
        groups = len(self._groups)
        owners = np.concatenate([np.arange(groups), self._of_group, self._of_group[self._left]])
        times = np.concatenate([np.full(groups, LOWEST), begins_us, ends_us[self._left]])
        order = np.lexsort((times, owners))
        owners, times = owners[order], times[order]
        is_new = np.ones(len(order), dtype=bool)
        is_new[1:] = (owners[1:] != owners[:-1]) | (times[1:] != times[:-1])
        slots = np.empty(len(order), dtype=np.int64)
        slots[order] = np.cumsum(is_new) - 1
        self.owners, self.at_us = owners[is_new], times[is_new]
        self._bases = slots[:groups]
        self._ends = np.append(self._bases[1:], len(self.owners))
        self._begins = slots[groups : groups + len(begins_us)]
        self._gone = self._ends[self._of_group]
        self._gone[self._left] = slots[groups + len(begins_us) :]
        self._came = np.flatnonzero(begins_us != LOWEST)

    def history(self) -> History:
        places = pa.array(self._firsts)
        keys = tuple(one.take(places) for one in self._panes.keys)
        before = self._before()
        names = dict.fromkeys([*before, *self._panes.sums])
        sums = {name: self._running(name, before.get(name)) for name in names}
        bests = tuple(self._best(number) for number in range(len(self._panes.bests)))
        ends = (len(self.owners),)
        return History(keys, self.owners, self.at_us, sums, bests, (self._span.window_us,), ends)

    def _before(self) -> Sums:
        """What the groups added up to."""
        if self._span.before_us == LOWEST:
            return {}
        total: Sums = {}
        for run in self._runs:
            spans = run.spans(self._groups, self._span.before_us - self._span.window_us)
            for name in run.panes.sums:
                mine = run.sums_of(spans, name)
                total[name] = total[name] + mine if name in total else mine
        return total

    def _running(self, name: str, before: Int64s | None) -> Int64s:
        """A sum in each slot: what was before, and all that came or left until then."""
        added = np.zeros(len(self.owners), dtype=np.int64)
        if before is not None:
            added[self._bases] = before
        if name in self._panes.sums:
            values = self._panes.sums[name]
            np.add.at(added, self._begins[self._came], values[self._came])
            np.subtract.at(added, self._gone[self._left], values[self._left])
        running = np.cumsum(added)
        start = np.where(self._bases > 0, running[np.maximum(self._bases, 1) - 1], 0)
        total: Int64s = running - start[self.owners]
        return total

    def _best(self, number: int) -> pa.Array:
        """The best value in each slot, of the panes that are there then."""
        staying = list(self._staying(number))
        values = pa.concat_arrays([self._panes.bests[number], *(one for one, _ in staying)])
        owners = np.concatenate([np.empty(0, dtype=np.int64), *(one for _, one in staying)])
        begins = np.append(self._begins, self._bases[owners])
        ends = np.append(self._gone, self._ends[owners])
        valid = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        values = values.take(pa.array(valid))
        by_rank = best_order(values, least=self._panes.is_least[number])
        ranks = np.empty(len(by_rank), dtype=np.int64)
        ranks[by_rank] = np.arange(len(by_rank))
        found = best_over(begins[valid], ends[valid], ranks, len(self.owners))
        is_none = found < 0
        places = np.zeros(len(found), dtype=np.int64)
        places[~is_none] = by_rank[found[~is_none]]
        return values.take(pa.array(places, mask=is_none))

    def _staying(self, number: int) -> Iterator[tuple[pa.Array, Int64s]]:
        """Of each run and group, the best of what was there before and still is."""
        if self._span.before_us == LOWEST:
            return
        for run in self._runs:
            low, high = run.spans(self._groups, self._span.now_us - self._span.window_us)
            owners = np.flatnonzero(low < high)
            places = run.places[number][low[owners]]
            found = places >= 0
            yield run.panes.bests[number].take(pa.array(places[found])), owners[found]


def best_over(begins: Int64s, ends: Int64s, ranks: Int64s, slots: int) -> Int64s:
    """For each slot the highest rank of the ranges [begin, end) that hold it; -1 where none does.

    A range is covered by two of a power of 2, which may overlap; these are halved until they are single slots.

    >>> best_over(np.array([0, 1]), np.array([3, 2]), np.array([0, 1]), 4).tolist()
    [0, 1, 0, -1]
    """
    lengths = ends - begins
    kept = np.flatnonzero(lengths > 0)
    begins, ends, ranks = begins[kept], ends[kept], ranks[kept]
    levels = np.frexp(lengths[kept].astype(np.float64))[1] - 1
    best = np.full(slots, -1, dtype=np.int64)
    for level in range(int(levels.max(initial=0)), -1, -1):
        mine = levels == level
        np.maximum.at(best, begins[mine], ranks[mine])
        np.maximum.at(best, ends[mine] - (1 << level), ranks[mine])
        if level:
            half = 1 << (level - 1)
            later = best.copy()
            later[half:] = np.maximum(later[half:], best[: slots - half])
            best = later
    return best
