"""How far each stream has come: TS_trigger of paper 004, from heartbeats of all of its sources.

      partition 1   . . . . . . . . .|          a stream has come as far as the one of its partitions that is furthest
      partition 2   . . . . .|                  behind; each may be out of order by max_delay
      reached       ---------|
      idle          partition 2 said nothing for so long that it is passed over: reached moves on to partition 1's time,
                    and what 2 brings later from before that time is late
      all idle      of a join: all of its streams are passed to just after the newest tuple, so that nothing waits

Owns :class:`StreamProgress`. Which sources are idle is told (there is no clock here), alike on all shards. Invariants:
what a stream has reached only rises; all shards hear the same, so they reach the same. Cost: O(sources) a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from headrace.engine.events import Arrival, ProgressMade
from headrace.engine.keys import Int64s
from headrace.model import Catalog, StreamId

Idle: TypeAlias = frozenset[tuple[StreamId, str | None]]
"""Sources that are passed over: a stream's partitions; with None, those of it that were never heard of."""
LOWEST = -(2**63)
Floors: TypeAlias = dict[tuple[StreamId, str, Arrival], int | None]


@dataclass(frozen=True, slots=True)
class KnownSources:
    """What is known of a stream's sources at a moment: the newest time of each, and up to where the stream has been
    passed. What is before that is late, wherever it is found to be: where it is read, if that was known then already,
    or in the shards, if only its own micro-batch tells."""

    newest_us: Mapping[str, int]
    passed_us: int | None

    def floor_us(self, source: str, max_delay_us: int) -> int | None:
        """What the source's tuples must not be before."""
        newest_us = self.newest_us.get(source)
        allowed_us = None if newest_us is None else newest_us - max_delay_us
        return max((one for one in (allowed_us, self.passed_us) if one is not None), default=None)

    def floors_us(self, sources: Iterable[str], max_delay_us: int) -> Int64s:
        """The same for several; LOWEST where they may be at any time."""
        floors = [self.floor_us(one, max_delay_us) for one in sources]
        return np.array([LOWEST if one is None else one for one in floors], dtype=np.int64)


@dataclass(slots=True)
class StreamProgress:
    """The newest time of each stream's partitions, and up to where a stream has been passed."""

    catalog: Catalog
    newest_us: dict[StreamId, dict[str, int]] = field(default_factory=dict)
    passed_us: dict[StreamId, int] = field(default_factory=dict)
    idle: Idle = frozenset()

    def hear(self, beats: Iterable[ProgressMade]) -> Floors:
        """Moves each partition's newest time on; gives, for each chunk, what its tuples must not be before."""
        floors: Floors = {}
        for beat in sorted(beats, key=lambda one: one.arrival):
            newest = self.newest_us.setdefault(beat.stream, {})
            floor_us = self.known(beat.stream).floor_us(beat.partition, self.catalog.get(beat.stream).max_delay_us)
            floors.setdefault((beat.stream, beat.partition, beat.arrival), floor_us)
            newest[beat.partition] = max(beat.newest_us, newest.get(beat.partition, beat.newest_us))
            self.idle -= {(beat.stream, beat.partition)}
        return floors

    def known(self, stream: StreamId) -> KnownSources:
        """What is known of a stream's sources now."""
        return KnownSources(self.newest_us.get(stream, {}), self.passed_us.get(stream))

    def newest(self, stream: StreamId) -> int | None:
        return max(self.newest_us.get(stream, {}).values(), default=None)

    def reached(self, stream: StreamId) -> int | None:
        """The time that no future tuple of the stream is before; None where there is no telling."""
        own, passed = self._own(stream), self.passed_us.get(stream)
        known = [one for one in (own, passed) if one is not None]
        return max(known, default=None)

    def _own(self, stream: StreamId) -> int | None:
        """What its sources that are not idle have reached."""
        if self._is_awaited(stream):
            return None
        newest = [one for name, one in self.newest_us.get(stream, {}).items() if (stream, name) not in self.idle]
        return min(newest) - self.catalog.get(stream).max_delay_us if newest else None

    def _is_awaited(self, stream: StreamId) -> bool:
        """Whether a partition has not been heard of and may yet be."""
        missing = len(self.newest_us.get(stream, {})) < (self.catalog.get(stream).partitions or 1)
        return missing and (stream, None) not in self.idle

    def is_idle(self, stream: StreamId) -> bool:
        """Whether all of its sources are."""
        heard = self.newest_us.get(stream, {})
        return not self._is_awaited(stream) and all((stream, name) in self.idle for name in heard)

    def pass_idle(self, groups: Iterable[Sequence[StreamId]], scans: Iterable[Sequence[StreamId]] = ()) -> None:
        """Moves streams that are idle on with those that they are joined with: as far as the others have come, or, if
        all are idle, to just after the newest time of any: at that time, results wait for streams after the first, and
        values of aggregates for all. ``groups``: the streams of each join or aggregate; ``scans``: of each group where
        rows wait for nothing at their own time."""
        moved: dict[StreamId, int] = {}
        for streams, after_us in [*((one, 1) for one in groups), *((one, 0) for one in scans)]:
            idle = [one for one in streams if self.is_idle(one)]
            going = [self.reached(one) for one in streams if one not in idle]
            if not idle or None in going:
                continue
            newest = [one for one in map(self.newest, streams) if one is not None]
            known = [one for one in going if one is not None] or [max(newest, default=LOWEST - after_us) + after_us]
            for one in idle:
                moved[one] = max(min(known), moved.get(one, LOWEST))
        for stream, to_us in moved.items():
            if to_us != LOWEST:
                self.passed_us[stream] = max(to_us, self.passed_us.get(stream, to_us))

    def settle(self) -> None:
        """Remembers how far streams have come: a source that is new, or was idle, may be behind; and one that is idle
        now is passed no less far than it has come itself."""
        for stream in self.catalog.streams:
            reached = self.reached(stream.name)
            if reached is not None:
                self.passed_us[stream.name] = reached

    def to_json(self) -> dict[str, Any]:
        return {"newest_us": self.newest_us, "passed_us": self.passed_us}

    def from_json(self, kept: dict[str, Any]) -> None:
        self.newest_us = {StreamId(name): dict(some) for name, some in kept["newest_us"].items()}
        self.passed_us = {StreamId(name): passed for name, passed in kept["passed_us"].items()}
