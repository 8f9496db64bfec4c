"""The aggregates of one class of queries in one shard: results in, rows of groups out whenever their values change.

      results --add--> coming panes --evaluate, window by window--> rows of the groups that changed
                            \\--when all windows have counted them--> kept panes --expire--> gone

Owns :class:`FoldOperator`. Each window has its own evaluation time (a window that waits for its scans is behind the
others); panes come with the time from which they count, so a window takes exactly those that are due. What a group had
before follows from the panes, so nothing else is kept. ``forwards``: where groups span shards, panes are not evaluated
but sent on to where those of all shards meet, which is this same operator without a join below it.
A window that is new begins with what the others still have: the kept panes from the cut-off on, whatever merges have
left of earlier ones. So does a query that is new, also in a window that others have: its groups were empty, so at its
first evaluation it gets rows of all of them, and the others of those that changed.
Invariants: an evaluation time of a window only rises, and every query that has begun had the last; kept panes count for
every window. Cost: see ``histories``; of a step in which no time moves, storing what came; where a window or a query is
new, once that of all that is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.engine.arrow_types import arrow_schema
from headrace.engine.events import Effect, EmitCount, EmitPanes, EmitRows, Lack, Past, TimesReached
from headrace.engine.finishing import GroupRows, finished_rows
from headrace.engine.folded_rows import FoldedRows, Stays
from headrace.engine.folds import joined, least_first, pairs_of, panes_of, raises
from headrace.engine.histories import LOWEST, History, Points, history_of
from headrace.engine.keys import Int64s
from headrace.engine.panes import PaneRun, Panes
from headrace.engine.panestore import PaneStore
from headrace.engine.segments import unpack_batch
from headrace.engine.stepping import step_history
from headrace.engine.waiting_panes import PanePiece, WaitingPanes
from headrace.engine.window import SegmentSource, Serial
from headrace.plan.aggregates import Fold
from headrace.plan.folding import Final, Folding, Offsets

MAIN = -1
"""The panes of the groups, among those of each COUNT DISTINCT's pairs."""


class FoldOperator:
    """One class's aggregates."""

    def __init__(self, group: str, folding: Folding, points: Points, serial: Serial, *, forwards: bool = False) -> None:
        self.folding = folding
        self._group = group
        self._points = points
        self._forwards = forwards
        self._serial = serial
        self._is_least = least_first(folding)
        distinct = [number for number, one in enumerate(folding.aggregates) if one.fold is Fold.DISTINCT]
        self._coming = {number: WaitingPanes() for number in (MAIN, *distinct)}
        self._stores = {MAIN: PaneStore(self._is_least, serial)}
        self._stores |= {number: PaneStore((), serial) for number in distinct}
        self.evaluated_us: dict[int, int] = {}
        """By window, the last evaluation time."""
        self.begun: set[str] = set()
        """The queries that have been evaluated, by identity: their groups had values then."""
        self._cutoff_us = LOWEST
        """What is before it, no window can reach: some of it is gone."""
        self._kept_us = LOWEST
        """Until when panes are kept for every window."""
        self._ended_us = LOWEST
        self._arrived_us = 0

    # --- taking in

    @property
    def staying(self) -> tuple[str, Offsets, int]:
        """What says how long results stay: classes that have it in common share ``stays``."""
        return ("stays", self.folding.offsets, self._points.grain_us(self.folding.windows_us))

    def stays(self, times: Sequence[Int64s], positions: Int64s, complete_us: int) -> Stays:
        """How long these results stay, given the times of their tuples, by side. All results at or before
        ``complete_us`` become known together."""
        mine = [some[positions] for some in times]
        shifted = [some + more for some, more in zip(mine, self.folding.offsets, strict=True)]
        since_us = self._points.shared_since(np.minimum.reduce(shifted), self.folding.windows_us)
        return Stays.of(since_us, self._points.marked(np.maximum.reduce(mine), complete_us))

    def stays_of(self, newest_us: Int64s, since_us: Int64s, complete_us: int) -> Stays:
        """The same, given their timestamps and sinces."""
        since_us = self._points.shared_since(since_us, self.folding.windows_us)
        return Stays.of(since_us, self._points.marked(newest_us, complete_us))

    def add(self, rows: FoldedRows, stays: Stays, arrived_us: int) -> None:
        """Takes results: what is folded of each, and how long it stays."""
        self._arrived_us = max(self._arrived_us, arrived_us)
        self._take(MAIN, panes_of(self.folding, rows, stays))
        for number, pairs in pairs_of(self.folding, rows, stays):
            self._take(number, pairs)

    def add_past(self, rows: FoldedRows, newest_us: Int64s, since_us: Int64s, past: Past) -> Iterator[Effect]:
        """Takes results that were found once more. A window that was not there tells them apart as exactly as it needs
        to."""
        stays = Stays.of(since_us, self._points.marked(newest_us, past.known_us))
        for number, panes in ((MAIN, panes_of(self.folding, rows, stays)), *pairs_of(self.folding, rows, stays)):
            if self._forwards:
                yield EmitPanes(self._group, self.folding.identity, number, panes.to_batch(), LOWEST, past)
            else:
                self._take_past(number, panes, past)

    def before_past(self) -> Iterator[Effect]:
        """Readies itself for what its windows have let go of: all of that is found once more, also what came already
        and waits to be counted."""
        if not self._forwards:
            self.let_go()
            return
        for number, panes in self._waiting():
            past = Past(LOWEST, Lack.NOTHING)
            yield EmitPanes(self._group, self.folding.identity, number, panes.to_batch(), self._arrived_us, past)

    def let_go(self) -> None:
        """Lets go of all that no window that was there reaches, wherever it is."""
        for store in self._stores.values():
            store.cut_before(self._cutoff_us)
        for waiting in self._coming.values():
            waiting.let_go_before(self._cutoff_us)

    def _take_past(self, number: int, panes: Panes, past: Past) -> None:
        if past.lack is Lack.LET_GO:
            panes = panes.take(panes.since_us < self._cutoff_us)
        elif past.lack is Lack.NEW:
            self._kept_us = max(self._kept_us, past.known_us)
        self._take(number, panes)

    def take_panes(self, number: int, batch: pa.RecordBatch, arrived_us: int, past: Past | None = None) -> None:
        """Takes panes that another shard has sent on."""
        self._arrived_us = max(self._arrived_us, arrived_us)
        panes = Panes.from_batch(batch, self._is_least if number == MAIN else ())
        if past is None:
            self._take(number, panes)
        else:
            self._take_past(number, panes, past)

    def _take(self, number: int, panes: Panes) -> None:
        """After an end, what comes counts from later on: its time has been evaluated."""
        if len(panes):
            ended = self._ended_us != LOWEST
            self._coming[number].add(panes.not_before(self._ended_us + 1) if ended else panes)

    # --- evaluating

    def evaluate(self, complete_us: Mapping[int, int], *, ended: bool = False) -> Iterator[Effect]:
        """Gives the rows of all windows whose evaluation time moves. ``complete_us``: by window, until when all its
        results are known; ``ended``: what comes later is later."""
        if self._forwards:
            yield from self._send()
            yield TimesReached(self._group, self.folding.identity, tuple(complete_us.items()), ended)
            return
        if moves := self._moves(complete_us):
            yield from self._evaluate(moves)
        if ended and self.evaluated_us:
            self._ended_us = max(self.evaluated_us.values())

    def _evaluate(self, moves: Mapping[tuple[int, int], Sequence[int]]) -> Iterator[Effect]:
        if self._has_new_windows():
            # Merges let earlier panes go, at one time those of groups and at another those of pairs.
            for store in self._stores.values():
                store.cut_before(self._cutoff_us)
        coming = _Coming(self._all_coming())
        for (before_us, now_us), windows_us in moves.items():
            mine = [final for final in self.folding.finals if final.window_us in windows_us]
            if going := list(_parts(mine, lambda one: one in self.begun)):
                runs = self._stores[MAIN].runs
                for history in self._histories(_windows_of(going), before_us, now_us, runs, coming):
                    yield from self._rows(history, going)
            if new := list(_parts(mine, lambda one: one not in self.begun)):
                begins = self._beginning(before_us, now_us, coming)
                for history in self._histories(_windows_of(new), LOWEST, now_us, [], begins):
                    yield from self._rows(history, new)
            self.begun.update(one for final in new for one in final.identities)
            self.evaluated_us |= dict.fromkeys(windows_us, now_us)
        self._absorb(coming)

    def _beginning(self, before_us: int, now_us: int, coming: _Coming) -> _Coming:
        """What there is for new queries in windows whose evaluation time was ``before_us``: all that others had
        before comes at once, at the first evaluation time after that."""
        known_us = max(before_us, self._kept_us)
        if known_us == LOWEST:
            return coming
        first_us = self._points.first_after(known_us, coming.from_us, now_us)
        return coming.after([run.rows() for run in self._stores[MAIN].runs], first_us)

    def _send(self) -> Iterator[Effect]:
        for number, panes in self._waiting():
            yield EmitPanes(self._group, self.folding.identity, number, panes.to_batch(), self._arrived_us)

    def _waiting(self) -> Iterator[tuple[int, Panes]]:
        """All panes that came, which wait here no longer."""
        for number, waiting in self._coming.items():
            panes = waiting.take_all()
            if panes is not None:
                yield number, panes

    def _all_coming(self) -> Panes | None:
        """What comes for the groups; of distinct values what they add."""
        found = [one.panes for one in self._coming[MAIN].pieces]
        for number, waiting in self._coming.items():
            pairs = waiting.panes() if number != MAIN else None
            if pairs is not None:
                found += raises(number, self.folding, pairs, self._stores[number].runs)
        return joined(found)

    def _moves(self, complete_us: Mapping[int, int]) -> dict[tuple[int, int], list[int]]:
        """From which evaluation time to which, and the windows that go there together. One that is new does not begin
        before the time that the others' panes are of."""
        found: dict[tuple[int, int], list[int]] = {}
        for window_us in self.folding.windows_us:
            before_us = self.evaluated_us.get(window_us, LOWEST)
            now_us = self._points.last(complete_us.get(window_us, LOWEST))
            if now_us > before_us and now_us >= self._kept_us:
                found.setdefault((before_us, now_us), []).append(window_us)
        return found

    def _histories(
        self, windows_us: Sequence[int], before_us: int, now_us: int, runs: Sequence[PaneRun], coming: _Coming
    ) -> Iterator[History | None]:
        """How the groups of these windows went: time by time where these are few, else window by window."""
        runs = [*runs, *coming.runs_between(LOWEST, before_us)]
        times_us = self._points.between(before_us, now_us)
        if times_us is None:
            due = coming.between(before_us, now_us)
            for window_us in windows_us:
                yield history_of(runs, due, before_us, now_us, window_us, self._points)
            return
        for time_us in times_us:
            come = coming.runs_between(before_us, time_us)
            yield step_history(runs, come[0] if come else None, before_us, time_us, windows_us)
            runs, before_us = [*runs, *come], time_us

    def _rows(self, history: History | None, finals: Iterable[Final]) -> Iterator[Effect]:
        if history is None:
            return
        group_rows = GroupRows(self.folding, history)
        made: dict[Any, dict[int, pa.RecordBatch]] = {}
        for final in finals:
            if final.window_us not in history.windows_us:
                continue
            asked = (final.outputs, final.having)
            if asked not in made:
                made[asked] = finished_rows(asked, arrow_schema(final.schema), history, group_rows)
            rows = made[asked].get(final.window_us)
            if rows is None:
                continue
            arrived = ((self._arrived_us, rows.num_rows),)
            if final.is_counted:
                yield EmitCount(final.queries, rows.num_rows, arrived)
            else:
                yield EmitRows(final.queries, rows, arrived)

    def _absorb(self, coming: _Coming) -> None:
        """Keeps the panes that count for every window, and lets go of those that count for none any more."""
        if self._has_new_windows():
            return
        self.evaluated_us = {window_us: self.evaluated_us[window_us] for window_us in self.folding.windows_us}
        self._kept_us = upto_us = min(self.evaluated_us.values())
        self._cutoff_us = cutoff_us = _cutoff(self.evaluated_us)
        for run in coming.runs_between(LOWEST, upto_us):
            self._stores[MAIN].insert(run, cutoff_us)
        for number, waiting in self._coming.items():
            panes = waiting.take(upto_us)
            if number != MAIN and panes is not None:
                self._stores[number].insert(PaneRun.of(panes.from_time(LOWEST)), cutoff_us)
        for store in self._stores.values():
            store.expire_before(cutoff_us)

    def _has_new_windows(self) -> bool:
        return any(window_us not in self.evaluated_us for window_us in self.folding.windows_us)

    # --- keeping

    def settle(self) -> Iterator[Effect]:
        """Tells the store what changed."""
        for waiting in self._coming.values():
            yield from waiting.settle(self._serial)
        for store in self._stores.values():
            yield from store.drain()

    def to_json(self) -> dict[str, Any]:
        pieces = [(number, piece) for number, waiting in self._coming.items() for piece in waiting.pieces]
        return {
            "evaluated_us": list(self.evaluated_us.items()),
            "begun": sorted(self.begun),
            "cutoff_us": self._cutoff_us,
            "kept_us": self._kept_us,
            "ended_us": self._ended_us,
            "arrived_us": self._arrived_us,
            "coming": [[number, piece.name, piece.size_bytes] for number, piece in pieces],
            "stores": [[number, store.to_json()] for number, store in self._stores.items()],
        }

    def from_json(self, kept: dict[str, Any], source: SegmentSource) -> None:
        self.evaluated_us = dict(map(tuple, kept["evaluated_us"]))
        finals = [final for final in self.folding.finals if final.window_us in self.evaluated_us]
        known = [one for final in finals for one in final.identities]
        # A state that does not say who has begun is of a version in which all did that had the window of one that had.
        self.begun = set(known).intersection(kept.get("begun", known))
        self._cutoff_us = kept.get("cutoff_us", _cutoff(self.evaluated_us))
        self._kept_us = kept.get("kept_us", min(self.evaluated_us.values(), default=LOWEST))
        self._ended_us, self._arrived_us = kept["ended_us"], kept["arrived_us"]
        for number, name, *size_bytes in kept["coming"]:
            panes = Panes.from_batch(unpack_batch(source.stored(name)), self._is_least if number == MAIN else ())
            self._coming[number].pieces.append(PanePiece(panes, name, sum(size_bytes)))
        for number, stored in kept["stores"]:
            self._stores[number].from_json(stored, source)

    @property
    def size_bytes(self) -> int:
        waiting_bytes = sum(one.size_bytes for one in self._coming.values())
        return waiting_bytes + sum(store.size_bytes for store in self._stores.values())


class _Coming:
    """Panes that come, by the time from which they count; sorted into runs once for all that ask for the same."""

    def __init__(self, panes: Panes | None) -> None:
        self._panes = panes
        self._runs: dict[tuple[int, int], list[PaneRun]] = {}

    @property
    def from_us(self) -> Int64s:
        return np.empty(0, dtype=np.int64) if self._panes is None else self._panes.from_us

    def after(self, others: Sequence[Panes], from_us: int) -> _Coming:
        """Together with others; what counted from earlier on does so from that time."""
        every = [*others, *(() if self._panes is None else (self._panes,))]
        return _Coming(joined([one.not_before(from_us) for one in every]))

    def between(self, after_us: int, upto_us: int) -> Panes | None:
        """Those that count from later than one time and not later than another."""
        if self._panes is None:
            return None
        is_due = (self._panes.from_us > after_us) & (self._panes.from_us <= upto_us)
        return self._panes if is_due.all() else self._panes.take(is_due)

    def runs_between(self, after_us: int, upto_us: int) -> list[PaneRun]:
        """The same as a run, if there are any."""
        place = (after_us, upto_us)
        if place not in self._runs:
            panes = self.between(after_us, upto_us)
            self._runs[place] = [PaneRun.of(panes.from_time(LOWEST))] if panes is not None and len(panes) else []
        return self._runs[place]


def _parts(finals: Iterable[Final], is_asked: Callable[[str], bool]) -> Iterator[Final]:
    """The same for those of their queries, by identity; nothing of those that have none of them."""
    for final in finals:
        asked = [pair for pair in zip(final.queries, final.identities, strict=True) if is_asked(pair[1])]
        if len(asked) == len(final.queries):
            yield final
        elif asked:
            queries, identities = zip(*asked, strict=True)
            yield replace(final, queries=queries, identities=identities)


def _windows_of(finals: Iterable[Final]) -> list[int]:
    return sorted({final.window_us for final in finals})


def _cutoff(evaluated_us: Mapping[int, int]) -> int:
    """What no window reaches any more, given their evaluation times."""
    return min((now_us - window_us for window_us, now_us in evaluated_us.items()), default=LOWEST)


def names_kept(kept: dict[str, Any]) -> Iterator[str]:
    """Every stored segment that an operator's kept state refers to."""
    yield from (name for _, name, *_ in kept["coming"])
    yield from (name for _, stored in kept["stores"] for name, _ in stored)
