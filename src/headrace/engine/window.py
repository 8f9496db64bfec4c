"""The held window of one input: runs of segments, oldest first, merged in tiers and expired by whole parts.

      parts (stored)    |p1|p2|p3|p4|p5|p6|p7|p8|p9|        one a block, written to the store once
      runs  (searched)  |      r1         |  r2   |r3|      merges of neighbouring parts, rebuilt from them at need
                        ^ expire_before(cutoff) drops p1 when its newest tuple is out of every reach

A part is what the store holds; a run is what the join searches. Merging makes a new run and stores nothing, so a tuple
is written once; only when a run has collected ``MOST_PARTS`` parts is it stored as one part of its own.

Invariants: runs do not overlap in arrival; a run holds at least the rows of its live parts, and any others it holds are
expired; where rows have places in the whole stream, these rise with time in a run. Cost: a tuple is merged
O(log(window / block)) times in its life; expiry costs O(parts dropped), and a run is rewritten when more than half of
it is dead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from headrace.engine.events import CacheSegment, DropSegment, Effect, ForgetSegment, KeepSegment
from headrace.engine.segments import (
    AHEAD_MARKS,
    Layout,
    Segment,
    combined_name,
    content_name,
    merge_segments,
    pack_batch,
    unpack_batch,
    view_segment,
)
from headrace.plan.bounds import ToldBound

MOST_PARTS = 64
"""Parts a run may be made of before it is stored as one."""
MOST_RUN_BYTES = 1 << 28
"""What a run may weigh: larger ones are not merged further, so that a stored one stays a value a store can take."""


class SegmentSource(Protocol):
    """Where a restored shard finds its segments: the host's business."""

    def stored(self, name: str) -> pa.Buffer:
        """The bytes kept under this name."""

    def derived(self, name: str, rebuild: Callable[[], pa.Buffer]) -> pa.Buffer:
        """The bytes of a merged run: a local copy, or rebuilt from its parts."""


@dataclass(slots=True)
class Serial:
    """Numbers for names: two equal blocks are still two."""

    next_number: int = 0

    def take(self) -> int:
        self.next_number += 1
        return self.next_number


@dataclass(frozen=True, slots=True)
class Collected:
    """Under which plan tuples were kept: their columns, the filters they passed and the bounds they are within."""

    columns: tuple[str, ...]
    pushed: tuple[str, ...]
    bounds: tuple[ToldBound, ...] = ()
    """Of columns, which they are all within: filters too that are nothing else."""

    @property
    def asked_for(self) -> Collected:
        """The same less the marks of tuples that were taken in ahead, which no query asks for."""
        if not self.is_ahead:
            return self
        return replace(self, columns=tuple(one for one in self.columns if one not in AHEAD_MARKS))

    @property
    def is_ahead(self) -> bool:
        """Whether the tuples have those marks."""
        return AHEAD_MARKS[0] in self.columns

    def serves(self, columns: frozenset[str], conditions: frozenset[str]) -> bool:
        """Whether these tuples have all a query reads, and lack none it would want, but for what is beyond a bound."""
        bounds = {text for *_, text in self.bounds}
        return columns <= set(self.columns) and set(self.pushed) - bounds <= conditions


@dataclass(frozen=True, slots=True)
class Part:
    """A stored segment: its name and what it spans."""

    name: str
    rows: int
    size_bytes: int
    min_us: int
    max_us: int
    last_place: int = -1
    """The newest row's place in the whole stream, where windows are measured in rows."""


@dataclass(frozen=True, slots=True)
class Run:
    """A searchable segment made of neighbouring parts."""

    name: str
    parts: tuple[Part, ...]
    collected: Collected
    segment: Segment

    @property
    def rows(self) -> int:
        return self.segment.rows

    @property
    def min_us(self) -> int:
        return min(part.min_us for part in self.parts)

    @property
    def max_us(self) -> int:
        return max(part.max_us for part in self.parts)

    @property
    def live_rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def span_us(self) -> tuple[int, int] | None:
        """The times of its rows; None when it holds expired ones, whose times are not kept."""
        return (self.min_us, self.max_us) if self.live_rows == self.rows else None


@dataclass(slots=True)
class WindowStore:
    """The runs of one input, and what changed in the store since the last ``drain``."""

    layout: Layout
    fanout: int
    serial: Serial
    runs: list[Run] = field(default_factory=list)
    _effects: list[Effect] = field(default_factory=list)

    def insert(self, segment: Segment, collected: Collected) -> None:
        """Adds a block's segment as the newest run."""
        if self.runs and self.runs[-1].collected != collected:
            self._close_collection()
        part = self._store(segment)
        self.runs.append(Run(part.name, (part,), collected, segment))

    def compact(self) -> None:
        """Merges the newest runs once they weigh as much as the one before them (tiers that double)."""
        start = self._first_light_run()
        if len(self.runs) - start < self.fanout:
            return
        merging = self.runs[start:]
        self.runs[start:] = [self._merged(merging)]
        self._forget(merging)

    def _close_collection(self) -> None:
        """Merges the small runs of the newest collection, which no later ones will be merged with."""
        start, newer = len(self.runs) - 1, self.runs[-1].rows
        while start and self._is_light(start - 1, newer):
            start -= 1
            newer += self.runs[start].rows
        if len(merging := self.runs[start:]) > 1:
            self.runs[start:] = [self._merged(merging)]
            self._forget(merging)

    def _is_light(self, index: int, newer: int) -> bool:
        """Whether a run may be merged with so many newer rows of its collection, and it is worth it."""
        run = self.runs[index]
        size_bytes = sum(part.size_bytes for one in self.runs[index:] for part in one.parts)
        is_small = run.rows <= 4 * newer and size_bytes <= MOST_RUN_BYTES
        return is_small and run.collected == self.runs[-1].collected and self._goes_on(index)

    def _first_light_run(self) -> int:
        """The oldest run that weighs no more than all newer ones of its collection together."""
        start, newer = len(self.runs), 0
        size_bytes = 0
        for index in range(len(self.runs) - 1, -1, -1):
            size_bytes += sum(part.size_bytes for part in self.runs[index].parts)
            if self.runs[index].collected != self.runs[-1].collected or size_bytes > MOST_RUN_BYTES:
                break
            if index + 1 < len(self.runs) and not self._goes_on(index):
                break
            if newer >= self.runs[index].rows:
                start = index
            newer += self.runs[index].rows
        return start

    def _goes_on(self, index: int) -> bool:
        """Whether a run and the next may be one: not if an end came between them and the next is older, where places
        count."""
        segment, later = self.runs[index].segment, self.runs[index + 1].segment
        return not (segment.has_places and later.has_places) or segment.max_us <= later.min_us

    def _merged(self, runs: list[Run]) -> Run:
        parts = tuple(part for run in runs for part in run.parts)
        segment = merge_segments(
            [run.segment for run in runs], self.layout, since_us=min(part.min_us for part in parts)
        )
        if len(parts) > MOST_PARTS:
            self._drop(parts)
            parts = (self._store(segment),)
            return Run(parts[0].name, parts, runs[0].collected, segment)
        return self._cached(Run(combined_name([part.name for part in parts]), parts, runs[0].collected, segment))

    def _cached(self, run: Run) -> Run:
        self._effects.append(CacheSegment(run.name, run.segment.batch))
        return run

    def expire_before(self, cutoff_us: int | None, cutoff_place: int | None = None) -> int:
        """Drops parts that lie wholly before the cut-off, or both cut-offs where a stream is looked at in two ways;
        gives the number of rows let go."""
        dropped = 0
        kept: list[Run] = []
        for run in self.runs:
            dead = tuple(part for part in run.parts if _is_before(part, cutoff_us, cutoff_place))
            self._drop(dead)
            dropped += sum(part.rows for part in dead)
            if len(dead) < len(run.parts):
                kept.append(self._without(run, dead) if dead else run)
        left = {run.name for run in kept}
        self._forget([run for run in self.runs if run.name not in left])
        self.runs = kept
        return dropped

    def _without(self, run: Run, dead: tuple[Part, ...]) -> Run:
        """The run less its dead parts; rewritten only when more than half of its rows are dead."""
        left = replace(run, parts=tuple(part for part in run.parts if part not in dead))
        if 2 * left.live_rows >= run.rows:
            return left
        segment = merge_segments([run.segment], self.layout, since_us=left.min_us)
        # A lone part is stored under its own name, with rows that are dead now: this is another segment.
        name = combined_name([part.name for part in left.parts] + ["trimmed"])
        return self._cached(replace(left, name=name, segment=segment))

    def let_go(self, run: Run) -> None:
        """Lets go of one run."""
        self._drop(run.parts)
        self._forget([run])
        self.runs = [one for one in self.runs if one is not run]

    def clear(self) -> None:
        """Lets go of everything."""
        for run in self.runs:
            self._drop(run.parts)
        self._forget(self.runs)
        self.runs = []

    def drain(self) -> Iterator[Effect]:
        """What the store must be told, once."""
        yield from self._effects
        self._effects.clear()

    def _store(self, segment: Segment) -> Part:
        blob = pack_batch(segment.batch)
        name = f"{content_name(blob)}-{self.serial.take()}"
        self._effects.append(KeepSegment(name, blob))
        return Part(name, segment.rows, blob.size, segment.min_us, segment.max_us, segment.last_place)

    def _forget(self, runs: Sequence[Run]) -> None:
        self._effects.extend(ForgetSegment(run.name) for run in runs)

    def _drop(self, parts: tuple[Part, ...]) -> None:
        self._effects.extend(DropSegment(part.name) for part in parts)


def _is_before(part: Part, cutoff_us: int | None, cutoff_place: int | None) -> bool:
    in_time = cutoff_us is None or part.max_us < cutoff_us
    return in_time and (cutoff_place is None or part.last_place < cutoff_place)


def open_run(name: str, parts: tuple[Part, ...], collected: Collected, layout: Layout, source: SegmentSource) -> Run:
    """A run as it was kept: mapped from the nearest copy, or merged again from its stored parts."""

    def rebuild() -> pa.Buffer:
        segments = [view_segment(unpack_batch(source.stored(part.name)), layout) for part in parts]
        return pack_batch(merge_segments(segments, layout).batch)

    buffer = source.stored(name) if [part.name for part in parts] == [name] else source.derived(name, rebuild)
    return Run(name, parts, collected, view_segment(unpack_batch(buffer), layout))
