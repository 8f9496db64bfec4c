"""Where panes are kept: a few sorted runs, each one stored segment, merged in tiers and let go by time.

Owns :class:`PaneStore`. A merge adds up the panes of one group and since, drops those out of every window's reach and
is stored in the place of what it was made of. Invariant: every run is stored, under the name it has here. Cost: a pane
is merged and written O(log(panes / new panes)) times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.engine.events import DropSegment, Effect, KeepSegment
from headrace.engine.panes import PaneRun, together
from headrace.engine.segments import content_name, pack_batch, unpack_batch
from headrace.engine.window import SegmentSource, Serial

FANOUT = 4
"""Runs of about one weight that make a larger one."""


def tail_to_merge(sizes: Sequence[int]) -> int:
    """From where on the newest weigh as much as the one before them, as far back as that goes.

    >>> tail_to_merge([9, 4, 2, 1]), tail_to_merge([9, 3, 2, 2, 3])
    (4, 0)
    """
    start, newer = len(sizes), 0
    for index in range(len(sizes) - 1, -1, -1):
        if newer >= sizes[index]:
            start = index
        newer += sizes[index]
    return start


@dataclass(slots=True)
class StoredRun:
    name: str
    size_bytes: int
    run: PaneRun

    @property
    def max_us(self) -> int:
        return int(self.run.times[-1])


@dataclass(slots=True)
class PaneStore:
    """The panes that count already, whatever time they are from."""

    is_least: tuple[bool, ...]
    serial: Serial
    kept: list[StoredRun] = field(default_factory=list)
    _effects: list[Effect] = field(default_factory=list)

    @property
    def runs(self) -> list[PaneRun]:
        return [one.run for one in self.kept]

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.kept)

    def insert(self, run: PaneRun, cutoff_us: int) -> None:
        """Adds a run, and merges the newest runs once they weigh as much as the one before them; ``cutoff_us``: what
        is before it, nothing can reach."""
        if run.times[-1] >= cutoff_us:
            self._add(run)
        start = tail_to_merge([len(one.run) for one in self.kept])
        if len(self.kept) - start >= FANOUT:
            merging, self.kept = self.kept[start:], self.kept[:start]
            self._effects += [DropSegment(one.name) for one in merging]
            merged = together([one.run.rows() for one in merging])
            kept = merged.take(merged.since_us >= cutoff_us)
            if len(kept):
                self._add(PaneRun.of(kept))

    def _add(self, run: PaneRun) -> None:
        blob = pack_batch(run.to_batch())
        name = f"{content_name(blob)}-{self.serial.take()}"
        self._effects.append(KeepSegment(name, blob))
        self.kept.append(StoredRun(name, blob.size, run))

    def expire_before(self, cutoff_us: int) -> None:
        """Lets runs go that lie wholly before the cut-off."""
        self._effects += [DropSegment(one.name) for one in self.kept if one.max_us < cutoff_us]
        self.kept = [one for one in self.kept if one.max_us >= cutoff_us]

    def cut_before(self, cutoff_us: int) -> None:
        """Lets everything go that is before the cut-off: what is left is then the same whatever was merged when."""
        runs, self.kept = self.kept, []
        for one in runs:
            if one.run.times[0] >= cutoff_us:
                self.kept.append(one)
                continue
            self._effects.append(DropSegment(one.name))
            rows = one.run.rows()
            rows = rows.take(rows.since_us >= cutoff_us)
            if len(rows):
                self._add(PaneRun.of(rows))

    def clear(self) -> None:
        self._effects += [DropSegment(one.name) for one in self.kept]
        self.kept = []

    def drain(self) -> Iterator[Effect]:
        yield from self._effects
        self._effects.clear()

    def to_json(self) -> list[list[Any]]:
        return [[one.name, one.size_bytes] for one in self.kept]

    def from_json(self, kept: list[list[Any]], source: SegmentSource) -> None:
        self.kept = [
            StoredRun(name, size, PaneRun.from_batch(unpack_batch(source.stored(name)), self.is_least))
            for name, size in kept
        ]
