"""The hold buffer of Filter-Order (paper 004, section 5): results found ahead of their time, released in order.

      run 1     . . o o o o . .|                a run is what one scan found, in the order of the newest tuples; a heap
      run 2           o o o o o o|              says which run begins first, so that a release looks at no other
      run 3               o o . . o o o o
                  --------> released up to here, merged: what progress has passed and every pending scan is past

Owns :class:`HoldBuffer`. A window whose scans wait is released less far than others, so a result stays until every
window is past it. Runs are stored once, as segments; what is found in one step and weighs more than ``limit_bytes`` is
handed to the store at once and let go of here: nothing is dropped, and a run is opened again when it is due. What is
due is released in stretches of about ``limit_bytes``, in order, with only those runs open that a stretch is of. Runs of
a size are merged into one of the next, while they weigh no more than the limit together, so that there are few however
long a stream is silent. ``peak_bytes`` tells the most that was open at once.
Invariants: a run is sorted by the newest tuple's time and stream; what is due at one place is in one stretch.
Cost: O(results log runs) to hold, O(results due) to release, and each is merged O(log(held / found)) times.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.engine.blocks import CELL, EARLY_MARK, RANK, THEN, HeldResults
from headrace.engine.events import DropSegment, Effect, KeepSegment
from headrace.engine.inputs import END_OF_TIME, Place
from headrace.engine.keys import Int64s
from headrace.engine.segments import content_name, int64s_of, pack_batch, take_rows, unpack_batch
from headrace.engine.window import MOST_RUN_BYTES, SegmentSource, Serial
from headrace.plan.canonical import Sizes
from headrace.plan.queries import EARLY

FANOUT = 8
"""Runs of a size that are merged into one of the next."""
LIMIT_BYTES = 1 << 26
LEAST_MERGED_BYTES = 1 << 20
"""What runs may weigh together to be merged, however small the limit: or else there would be too many of them."""
LEAST_ROWS = 1 << 12
"""Results in a stretch, however little they may weigh."""
_NEWEST, _STREAM = RANK, f"{THEN}0"
"""The columns with a held result's newest tuple's time, and its stream's position."""


@dataclass(slots=True)
class HeldRun:
    """Results of one family in order, the first ``start`` of them released to all. ``batch`` is None while they are
    only in the store."""

    readers: tuple[tuple[str, ...], ...]
    counted: bool
    raw: bool
    epoch: int
    rows: int
    first: Place
    batch: pa.RecordBatch | None
    columns: str
    """Names the batch's schema: runs with the same can be merged."""
    start: int = 0
    tier: int = 0
    name: str | None = None
    size_bytes: int = 0
    starts: dict[Sizes, int] = field(default_factory=dict)
    """By window, how many of them it has been given; a window that is not there: as many as all have."""

    @property
    def is_even(self) -> bool:
        """Whether all windows have been given the same."""
        return all(start == self.start for start in self.starts.values())

    @property
    def kind(self) -> tuple[bool, bool, int, str]:
        """What runs whose results can be in one have in common."""
        return self.counted, self.raw, self.epoch, self.columns

    @property
    def held_bytes(self) -> int:
        return self.size_bytes or (0 if self.batch is None else self.batch.nbytes)

    @property
    def row_bytes(self) -> float:
        return max(self.held_bytes / self.rows, 1.0)


@dataclass(slots=True)
class HoldBuffer:
    """One group's held results in one shard."""

    serial: Serial
    source: SegmentSource | None = None
    limit_bytes: int = LIMIT_BYTES
    runs: list[HeldRun] = field(default_factory=list)
    peak_bytes: int = 0
    """The most that was in memory at once."""
    _effects: list[Effect] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(run.rows - run.start for run in self.runs)

    @property
    def size_bytes(self) -> int:
        return sum(run.held_bytes for run in self.runs)

    @property
    def open_bytes(self) -> int:
        return sum(run.batch.nbytes for run in self.runs if run.batch is not None)

    def _note_open(self, beside_bytes: int = 0) -> None:
        self.peak_bytes = max(self.peak_bytes, self.open_bytes + beside_bytes)

    # --- holding

    def add(self, found: HeldResults, epoch: int) -> Iterator[Effect]:
        """Takes what a scan found; beyond the limit, what is not in the store yet goes there."""
        batch = _in_order(found.batch)
        self.runs.append(_held_run(replace(found, batch=batch), epoch))
        self._note_open()
        fresh = [run for run in self.runs if run.name is None and run.batch is not None]
        if sum(run.batch.nbytes for run in fresh if run.batch is not None) > self.limit_bytes:
            yield from self._merge_fresh()
            yield from self._spilled()

    def _spilled(self) -> Iterator[Effect]:
        """Hands all to the store, and lets go of it here where it can be asked for again."""
        for run in self.runs:
            if run.name is None:
                yield self._stored(run)
            if self.source is not None:
                run.batch = None

    def _stored(self, run: HeldRun) -> KeepSegment:
        assert run.batch is not None
        blob = pack_batch(run.batch)
        run.name, run.size_bytes = f"{content_name(blob)}-{self.serial.take()}", blob.size
        return KeepSegment(run.name, blob)

    def _opened(self, run: HeldRun) -> pa.RecordBatch:
        if run.batch is None:
            assert run.name is not None
            assert self.source is not None
            run.batch = unpack_batch(self.source.stored(run.name))
            self._note_open()
        return run.batch

    # --- releasing

    def release(
        self, bounds: Mapping[Sizes, Place], served: Callable[[int], Set[str]]
    ) -> Iterator[tuple[list[HeldResults], list[Sizes]]]:
        """For windows whose results are known up to a place: what of those was not released yet, one batch a kind, for
        those of its readers that ``served`` says were there in its epoch; and the windows. A tuple that comes later may
        be at the very place, so what was released is told by run, not by place."""
        alike: dict[tuple[Place, tuple[int, ...]], list[Sizes]] = {}
        for sizes, bound in bounds.items():
            offsets = tuple(run.starts.get(sizes, run.start) for run in self.runs)
            alike.setdefault((bound, offsets), []).append(sizes)
        for (bound, offsets), windows in sorted(alike.items(), key=lambda one: one[0][0]):
            yield from ((found, windows) for found in self._due(offsets, bound, windows, served))
        self._forget(list(bounds))

    def _due(
        self, offsets: Sequence[int], upto: Place, windows: Sequence[Sizes], served: Callable[[int], Set[str]]
    ) -> Iterator[list[HeldResults]]:
        """The results from these offsets on, by run, up to a place; a stretch at a time."""
        coming = [(run.first, number) for number, run in enumerate(self.runs)]
        heapq.heapify(coming)
        going: dict[int, int] = {}
        while going or (coming and coming[0][0] <= upto):
            place = min([upto, *(self._far_enough(number, begin) for number, begin in going.items())])
            while coming and coming[0][0] <= place:
                number = heapq.heappop(coming)[1]
                going[number] = offsets[number]
                place = min(place, self._far_enough(number, offsets[number]))
            found = self._stretch(going, self._shortened(going, place), windows, served)
            if found:
                yield found
            going = {number: at for number, at in going.items() if at < _stop(self._opened(self.runs[number]), upto)}
            self._close(going)

    def _stretch(
        self, going: dict[int, int], place: Place, windows: Sequence[Sizes], served: Callable[[int], Set[str]]
    ) -> list[HeldResults]:
        """What open runs have from where they are up to a place; they go on after it."""
        found: dict[tuple[bool, bool, str], list[HeldResults]] = {}
        for number, begin in going.items():
            run = self.runs[number]
            batch = self._opened(run)
            end = _stop(batch, place)
            if end > begin:
                run.starts |= dict.fromkeys(windows, end)
                now = served(run.epoch)
                readers = tuple(tuple(one for one in some if one in now) for some in run.readers)
                part = HeldResults(readers, batch.slice(begin, end - begin), run.counted, raw=run.raw)
                found.setdefault((run.counted, run.raw, run.columns), []).append(part)
                going[number] = end
        return [_merged(parts) for parts in found.values()]

    def _far_enough(self, number: int, begin: int) -> Place:
        """Up to where a run has as much as a stretch may have."""
        run = self.runs[number]
        batch = self._opened(run)
        rows = max(int(self.limit_bytes / run.row_bytes), LEAST_ROWS)
        return END_OF_TIME if begin >= run.rows else _place(batch, min(begin + rows, run.rows) - 1)

    def _shortened(self, going: Mapping[int, int], place: Place) -> Place:
        """A place up to which all runs together have about as much as a stretch may have; at the place at least."""
        while True:
            rows = {number: _stop(self._opened(self.runs[number]), place) - begin for number, begin in going.items()}
            weights = {number: max(some, 0) * self.runs[number].row_bytes for number, some in rows.items()}
            if sum(weights.values()) <= self.limit_bytes or sum(max(some, 0) for some in rows.values()) <= LEAST_ROWS:
                return place
            heaviest = max(weights, key=lambda number: weights[number])
            middle = _place(self._opened(self.runs[heaviest]), going[heaviest] + (rows[heaviest] - 1) // 2)
            if middle == place:
                return place
            place = middle

    def _close(self, going: Container[int]) -> None:
        """Lets go of runs that are in the store and not being released, where those that are open weigh too much."""
        idle = [run for number, run in enumerate(self.runs) if run.batch is not None and number not in going]
        stored = [run for run in idle if run.name is not None and self.source is not None]
        if sum(run.held_bytes for run in stored) > self.limit_bytes:
            for run in stored:
                run.batch = None

    def _forget(self, windows: Sequence[Sizes]) -> None:
        """Lets go of what all windows are past."""
        for run in self.runs:
            start = min(run.starts.get(sizes, run.start) for sizes in windows)
            if start > run.start:
                run.start = start
                if start < run.rows:
                    run.first = _place(self._opened(run), start)
                elif run.name is not None:
                    self._effects.append(DropSegment(run.name))
        self.runs = [run for run in self.runs if run.start < run.rows]

    # --- keeping

    def settle(self) -> Iterator[Effect]:
        """Tells the store what is held since this step, and what is not any more."""
        yield from self._merge_fresh()
        yield from self._merge_tiers()
        for run in self.runs:
            if run.name is None:
                yield self._stored(run)
        yield from self._effects
        self._effects.clear()

    def _merge_fresh(self) -> Iterator[Effect]:
        """What was found since the last time, as one run a kind."""
        fresh = [run for run in self.runs if run.name is None and run.is_even]
        for some in _alike(fresh):
            if len(some) > 1:
                yield from self._replace(some, 0)

    def _merge_tiers(self) -> Iterator[Effect]:
        """Merges runs of a size; those that would weigh too much together stay as they are, and are not looked into."""
        tier, most_bytes = 0, max(min(self.limit_bytes, MOST_RUN_BYTES), LEAST_MERGED_BYTES)
        while any(run.tier >= tier for run in self.runs):
            for some in _alike([run for run in self.runs if run.tier == tier and run.is_even]):
                if len(some) >= FANOUT and sum(run.held_bytes for run in some) <= most_bytes:
                    yield from self._replace(some, tier + 1)
                    if self.open_bytes > self.limit_bytes:
                        yield from self._spilled()
            tier += 1

    def _replace(self, runs: Sequence[HeldRun], tier: int) -> Iterator[Effect]:
        """Several runs of a kind as one."""
        parts = [HeldResults(run.readers, self._opened(run).slice(run.start), run.counted, raw=run.raw) for run in runs]
        whole = _merged(parts)
        self._note_open(whole.batch.nbytes)
        made = _held_run(replace(whole, batch=_in_order(whole.batch)), runs[0].epoch, tier)
        gone = {id(run) for run in runs}
        self.runs = [*(run for run in self.runs if id(run) not in gone), made]
        yield from (DropSegment(run.name) for run in runs if run.name is not None)

    def to_json(self) -> dict[str, Any]:
        return {"runs": [_run_to_json(run) for run in self.runs]}

    def from_json(self, kept: dict[str, Any]) -> None:
        for counted, raw, epoch, columns, readers, rows, start, tier, name, size_bytes, starts, *first in kept["runs"]:
            told = tuple(tuple(some) for some in readers)
            kind, stored = (counted, raw, epoch), (columns, start, tier, name, size_bytes)
            given = {tuple(sizes): one for sizes, one in starts}
            self.runs.append(HeldRun(told, *kind, rows, Place(*first), None, *stored, given))


def _held_run(found: HeldResults, epoch: int, tier: int = 0) -> HeldRun:
    """A run of results that are in order."""
    batch = found.batch
    columns = content_name(batch.schema.serialize())
    kind = (found.counted, found.raw, epoch)
    return HeldRun(found.readers, *kind, batch.num_rows, _place(batch, 0), batch, columns, tier=tier)


def _run_to_json(run: HeldRun) -> list[Any]:
    stored = (run.start, run.tier, run.name, run.size_bytes, list(run.starts.items()))
    return [*run.kind, run.readers, run.rows, *stored, *astuple(run.first)]


def names_held(kept: dict[str, Any]) -> Iterator[str]:
    """Every stored segment that a kept hold buffer refers to."""
    return (run[8] for run in kept["runs"])


def marked_early(found: HeldResults, progress: Place | None) -> HeldResults:
    """Results of queries that do not wait, each with whether it came before progress was past it."""
    newest_us, streams = int64s_of(found.batch, _NEWEST), int64s_of(found.batch, _STREAM)
    is_early = np.ones(len(newest_us), dtype=bool)
    if progress is not None:
        at_progress = (newest_us == progress.ts_us) & (streams > progress.position)
        is_early = (newest_us > progress.ts_us) | at_progress
    if found.counted:
        return found
    index = found.batch.schema.get_field_index(EARLY)
    if index < 0:
        batch = found.batch.append_column(EARLY_MARK, pa.array(is_early))
    else:
        batch = found.batch.set_column(index, found.batch.schema.field(index), pa.array(is_early))
    return replace(found, batch=batch)


def _alike(runs: Iterable[HeldRun]) -> list[list[HeldRun]]:
    """Runs whose results can be in one: of a kind, for one set of queries, with the same columns."""
    found: dict[tuple[bool, bool, int, str], list[HeldRun]] = {}
    for run in runs:
        found.setdefault(run.kind, []).append(run)
    return list(found.values())


def _merged(parts: Sequence[HeldResults]) -> HeldResults:
    """Results of several runs as one batch, not in order; each set of readers is one cell."""
    first = parts[0]
    if len(parts) == 1:
        return first
    cells: dict[tuple[str, ...], int] = {}
    batches = []
    for part in parts:
        codes = np.array([cells.setdefault(readers, len(cells)) for readers in part.readers])
        index = part.batch.schema.get_field_index(CELL)
        batches.append(part.batch.set_column(index, CELL, pa.array(codes[int64s_of(part.batch, CELL)])))
    return HeldResults(tuple(cells), pa.concat_batches(batches), first.counted, raw=first.raw)


def _in_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    newest_us, streams = int64s_of(batch, _NEWEST), int64s_of(batch, _STREAM)
    rises = (newest_us[1:] > newest_us[:-1]) | ((newest_us[1:] == newest_us[:-1]) & (streams[1:] >= streams[:-1]))
    return batch if rises.all() else take_rows(batch, np.lexsort((streams, newest_us)))


def _place(batch: pa.RecordBatch, row: int) -> Place:
    return Place(int(int64s_of(batch, _NEWEST)[row]), int(int64s_of(batch, _STREAM)[row]))


def _stop(batch: pa.RecordBatch, upto: Place) -> int:
    """How many of a run's results are at or before a place."""
    newest_us: Int64s = int64s_of(batch, _NEWEST)
    low, high = (int(np.searchsorted(newest_us, upto.ts_us, side=side)) for side in ("left", "right"))
    return low + int(np.searchsorted(int64s_of(batch, _STREAM)[low:high], upto.position, side="right"))
