"""From one evaluation time to the next, for all windows of a class: two values a group, each by binary search.

      panes of group 7, by since     1  2 | 4  4  6 | 7  9   and  8  9 that come
      window w at ``before``              [-----------------                        all from before - w on
      window w at ``now``                           [-----------------------        all from now - w on

When nothing is evaluated in between, no pane need be looked at by itself: sums are differences of running sums, and the
best from a place on is known. Owns ``step_history``. Invariant: the same history as ``histories`` gives. Cost: two
binary searches a run for each group that changed, and a look at what leaves; never at what stays or what comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from headrace.engine.histories import LOWEST, History
from headrace.engine.keys import Int64s
from headrace.engine.matching import bisect_within
from headrace.engine.panes import PaneRun, best_places, concatenated_keys, dense_codes
from headrace.errors import InvariantError

_Spans: TypeAlias = tuple[PaneRun, Int64s, Int64s]
"""Of each group and window, the rows of a run that are there."""


def step_history(
    runs: Sequence[PaneRun], come: PaneRun | None, before_us: int, now_us: int, windows_us: Sequence[int]
) -> History | None:
    """What happened to the groups of each window: the panes of the runs counted at ``before_us``, those of ``come`` do
    at ``now_us``. ``before_us`` may be ``LOWEST``: then there are no runs, and there was nothing."""
    if not runs and come is None:
        return None
    found = _Changed(runs, come, before_us, now_us, windows_us)
    return _Step(found, runs, come, before_us, now_us).history() if len(found.pairs) else None


class _Changed:
    """The groups that anything happened to, in any window; ``windows`` and ``pairs`` list them window by window."""

    def __init__(
        self, runs: Sequence[PaneRun], come: PaneRun | None, before_us: int, now_us: int, windows_us: Sequence[int]
    ) -> None:
        self.windows_us = np.asarray(windows_us, dtype=np.int64)
        firsts = np.empty(0, dtype=np.int64) if come is None else come.group_starts()
        left = [_leaving(run, before_us - self.windows_us, now_us - self.windows_us) for run in runs]
        whole = [run.panes for run in (*runs, *(() if come is None else (come,)))]
        rows = [*map(np.concatenate, left), *(() if come is None else (firsts,))]
        numbers = np.concatenate([one.groups[mine] for one, mine in zip(whole, rows, strict=True)])
        checks = np.concatenate([one.checks[mine] for one, mine in zip(whole, rows, strict=True)])
        self.groups, at, of_group = np.unique(numbers, return_index=True, return_inverse=True)
        if np.any(checks != checks[at][of_group]):
            raise InvariantError("two groups of a query have the same number of 64 bits")
        self.keys = tuple(one.take(pa.array(at)) for one in concatenated_keys(whole, rows))
        is_changed = np.zeros((len(self.windows_us), len(self.groups)), dtype=bool)
        begin = 0
        for one in left:
            for window, mine in enumerate(one):
                is_changed[window, of_group[begin : begin + len(mine)]] = True
                begin += len(mine)
        if come is not None:
            last_us = come.panes.since_us[np.append(firsts[1:], len(come)) - 1]
            is_changed[:, of_group[begin:]] |= last_us >= (now_us - self.windows_us)[:, None]
        self.windows, self.pairs = np.nonzero(is_changed)


def _leaving(run: PaneRun, begin_us: Int64s, end_us: Int64s) -> list[Int64s]:
    """For each window, a row of every group that something leaves it of."""
    low, high = np.searchsorted(run.times, begin_us), np.searchsorted(run.times, end_us)
    found = []
    for first, last in zip(low.tolist(), high.tolist(), strict=True):
        rows = run.order[first:last]
        codes, count = dense_codes(run.panes.groups[rows]) if len(rows) else (rows, 0)
        one_of = np.full(count, -1, dtype=np.int64)
        one_of[codes] = rows
        found.append(one_of[one_of >= 0])
    return found


class _Step:
    """The values of the groups that changed, before and now."""

    def __init__(
        self, found: _Changed, runs: Sequence[PaneRun], come: PaneRun | None, before_us: int, now_us: int
    ) -> None:
        self._found = found
        self._now_us = now_us
        sizes = found.windows_us[found.windows]
        self._count = len(sizes)
        self._before: list[_Spans] = []
        self._now: list[_Spans] = []
        for run in (*runs, *(() if come is None else (come,))):
            since_us, low, high = run.panes.since_us, *self._ranges(run)
            if run is not come:
                low = bisect_within(since_us, low, high, before_us - sizes)
                self._before.append((run, low, high))
            self._now.append((run, bisect_within(since_us, low, high, now_us - sizes), high))

    def _ranges(self, run: PaneRun) -> tuple[Int64s, Int64s]:
        """All rows of each group."""
        low = np.searchsorted(run.panes.groups, self._found.groups, side="left")
        high = np.searchsorted(run.panes.groups, self._found.groups, side="right")
        return low[self._found.pairs], high[self._found.pairs]

    def history(self) -> History:
        found = self._found
        names = dict.fromkeys(name for run, _, _ in self._now for name in run.panes.sums)
        ends = np.searchsorted(found.windows, np.arange(len(found.windows_us)), side="right")
        return History(
            found.keys,
            np.repeat(found.pairs, 2),
            np.tile(np.array([LOWEST, self._now_us]), self._count),
            {name: self._sum(name) for name in names},
            tuple(self._best(number) for number in range(len(self._now[0][0].panes.bests))),
            tuple(found.windows_us.tolist()),
            tuple((2 * ends).tolist()),
        )

    def _sum(self, name: str) -> Int64s:
        total = np.zeros((self._count, 2), dtype=np.int64)
        for column, spans in enumerate((self._before, self._now)):
            for run, low, high in spans:
                if name in run.panes.sums:
                    total[:, column] += run.sums_of((low, high), name)
        return total.ravel()

    def _best(self, number: int) -> pa.Array:
        values, slots = [], []
        for column, spans in enumerate((self._before, self._now)):
            for run, low, high in spans:
                there = np.flatnonzero(low < high)
                places = run.places[number][low[there]]
                known = places >= 0
                values.append(run.panes.bests[number].take(pa.array(places[known])))
                slots.append(2 * there[known] + column)
        together = pa.concat_arrays(values)
        least = self._now[0][0].panes.is_least[number]
        best = best_places(together, np.concatenate(slots), 2 * self._count, least=least)
        return together.take(pa.array(best, mask=best < 0))
