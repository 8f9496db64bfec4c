"""The hold buffer of Filter-Order (paper 004, section 5): results found ahead of their time, released in order.

      run 1     . . o o o o . .|                a run is what one scan found, in the order of the newest tuples; a heap
      run 2           o o o o o o|              says which run begins first, so that a release looks at no other
      run 3               o o . . o o o o
                  --------> released up to here, merged: what progress has passed and every pending scan is past

Owns :class:`HoldBuffer`. A window whose scans wait is released less far than others, so a result stays until every
window is past it. Runs are stored once, as segments; what is found in one step and weighs more than ``limit_bytes`` is
handed to the store at once and let go of here: nothing is dropped, and a run is opened again when it is due. Runs of a
size are merged into one of the next, so that there are few however long a stream is silent.
Invariant: a run is sorted by the newest tuple's time and stream.
Cost: O(results log runs) to hold, O(results due) to release, and each is merged O(log(held / found)) times.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.engine.blocks import CELL, EARLY_MARK, RANK, THEN, HeldResults
from headrace.engine.events import DropSegment, Effect, KeepSegment
from headrace.engine.inputs import Place
from headrace.engine.keys import Int64s
from headrace.engine.segments import content_name, int64s_of, pack_batch, take_rows, unpack_batch
from headrace.engine.window import MOST_RUN_BYTES, SegmentSource, Serial
from headrace.plan.canonical import Sizes
from headrace.plan.queries import EARLY

FANOUT = 8
"""Runs of a size that are merged into one of the next."""
LIMIT_BYTES = 1 << 26
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
    def kind(self) -> tuple[bool, bool, int]:
        return self.counted, self.raw, self.epoch


@dataclass(slots=True)
class HoldBuffer:
    """One group's held results in one shard."""

    serial: Serial
    source: SegmentSource | None = None
    limit_bytes: int = LIMIT_BYTES
    runs: list[HeldRun] = field(default_factory=list)
    _effects: list[Effect] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(run.rows - run.start for run in self.runs)

    @property
    def size_bytes(self) -> int:
        return sum(run.size_bytes or (0 if run.batch is None else run.batch.nbytes) for run in self.runs)

    # --- holding

    def add(self, found: HeldResults, epoch: int) -> Iterator[Effect]:
        """Takes what a scan found; beyond the limit, what is not in the store yet goes there."""
        batch = _in_order(found.batch)
        self._take(HeldRun(found.readers, found.counted, found.raw, epoch, batch.num_rows, _place(batch, 0), batch))
        fresh = [run for run in self.runs if run.name is None and run.batch is not None]
        if sum(run.batch.nbytes for run in fresh if run.batch is not None) > self.limit_bytes:
            yield from self._merge_fresh()
            for run in self.runs:
                if run.name is None:
                    yield self._stored(run)
                if self.source is not None:
                    run.batch = None

    def _take(self, run: HeldRun) -> None:
        self.runs.append(run)

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
            found = self._due(offsets, bound, windows, served)
            if found:
                yield found, windows
        self._forget(list(bounds))

    def _due(
        self, offsets: Sequence[int], upto: Place, windows: Sequence[Sizes], served: Callable[[int], Set[str]]
    ) -> list[HeldResults]:
        """The results from these offsets on, by run, up to a place."""
        found: dict[tuple[bool, bool, pa.Schema], list[HeldResults]] = {}
        heap = [(run.first, number) for number, run in enumerate(self.runs)]
        heapq.heapify(heap)
        while heap and heap[0][0] <= upto:
            number = heapq.heappop(heap)[1]
            run, begin = self.runs[number], offsets[number]
            batch = self._opened(run)
            end = _stop(batch, upto)
            if end > begin:
                run.starts |= dict.fromkeys(windows, end)
                now = served(run.epoch)
                readers = tuple(tuple(one for one in some if one in now) for some in run.readers)
                part = HeldResults(readers, batch.slice(begin, end - begin), run.counted, raw=run.raw)
                found.setdefault((run.counted, run.raw, batch.schema), []).append(part)
        return [_merged(parts) for parts in found.values()]

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
        tier = 0
        while any(run.tier >= tier for run in self.runs):
            mine = [run for run in self.runs if run.tier == tier and run.is_even]
            for run in mine if len(mine) >= FANOUT else ():
                self._opened(run)
            for some in _alike(mine):
                if len(some) >= FANOUT and sum(run.size_bytes for run in some) <= MOST_RUN_BYTES:
                    yield from self._replace(some, tier + 1)
            tier += 1

    def _replace(self, runs: Sequence[HeldRun], tier: int) -> Iterator[Effect]:
        """Several runs of a kind as one."""
        parts = [HeldResults(run.readers, self._opened(run).slice(run.start), run.counted, raw=run.raw) for run in runs]
        whole = _merged(parts)
        batch = _in_order(whole.batch)
        kind = (whole.counted, whole.raw, runs[0].epoch)
        made = HeldRun(whole.readers, *kind, batch.num_rows, _place(batch, 0), batch, tier=tier)
        gone = {id(run) for run in runs}
        self.runs = [*(run for run in self.runs if id(run) not in gone), made]
        yield from (DropSegment(run.name) for run in runs if run.name is not None)

    def to_json(self) -> dict[str, Any]:
        return {"runs": [_run_to_json(run) for run in self.runs]}

    def from_json(self, kept: dict[str, Any]) -> None:
        for counted, raw, epoch, readers, rows, start, tier, name, size_bytes, starts, *first in kept["runs"]:
            told = tuple(tuple(some) for some in readers)
            kind, stored = (counted, raw, epoch), (start, tier, name, size_bytes)
            given = {tuple(sizes): one for sizes, one in starts}
            self.runs.append(HeldRun(told, *kind, rows, Place(*first), None, *stored, given))


def _run_to_json(run: HeldRun) -> list[Any]:
    stored = (run.start, run.tier, run.name, run.size_bytes, list(run.starts.items()))
    return [*run.kind, run.readers, run.rows, *stored, *astuple(run.first)]


def names_held(kept: dict[str, Any]) -> Iterator[str]:
    """Every stored segment that a kept hold buffer refers to."""
    return (run[7] for run in kept["runs"])


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


def _alike(runs: Sequence[HeldRun]) -> list[list[HeldRun]]:
    """Runs whose results can be in one: of a kind, for one set of queries, with the same columns."""
    found: list[list[HeldRun]] = []
    for run in runs:
        schema = None if run.batch is None else run.batch.schema
        mine = (one for one in found if one[0].kind == run.kind and _columns(one[0]) == schema)
        some = next(mine, None)
        if some is None:
            found.append([run])
        else:
            some.append(run)
    return found


def _columns(run: HeldRun) -> pa.Schema | None:
    return None if run.batch is None else run.batch.schema


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
