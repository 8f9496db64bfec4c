"""What streams brought in the last micro-batches, as every shard heard it: what their rates are worked out from.

      micro-batch    1    2    3    4    5          fast    5 tuples in the last one: it tells enough
      fast           xxx  xxx  xxx  xxx  xxx        slow    two tuples in five: more micro-batches are looked at
      slow                x              x

Streams may lag each other, and so may the sources of one stream: a rate is by the time that a source itself brought.
Owns: :class:`Arrivals`. Invariant: times of late tuples, which have nothing to do with a rate, are not in it. Cost: a
pass over as many micro-batches as are looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from headrace.model import Catalog, StreamId
from headrace.spark.metrics import BatchFacts

COUNTS = (5, 10, 20, 40, 80, 160)
"""Micro-batches that are looked at: as few as have ``FEW`` tuples of each stream that is asked for, because a slow one
brings none in most of them."""
FEW = 5

Source: TypeAlias = tuple[StreamId, str | None]
"""A stream's partition; with None, those of it that were never heard of."""
Brought: TypeAlias = tuple[int, int, int]
"""So many tuples, their oldest and their newest time."""


@dataclass(slots=True)
class Arrivals:
    """What came, micro-batch by micro-batch. ``counts``: how many of them are looked at, as few as possible."""

    counts: tuple[int, ...] = COUNTS
    _batches: deque[dict[Source, Brought]] = field(init=False)
    _newest_us: dict[StreamId, dict[str, int]] = field(default_factory=dict)
    _rows: dict[int, dict[str, Brought]] = field(default_factory=dict)
    """What was worked out since the last micro-batch."""

    def __post_init__(self) -> None:
        self._batches = deque(maxlen=self.counts[-1])

    def take(self, facts: BatchFacts, catalog: Catalog) -> bool:
        """Remembers what a micro-batch brought; whether it brought anything in time."""
        found = {source: self._in_time(source, one, catalog) for source, one in facts.heard_from().items()}
        heard = {source: one for source, one in found.items() if one is not None}
        if heard:
            self._batches.append(heard)
            self._rows = {}
        if facts.told:  # of empty files no shard hears anything
            self._newest_us = facts.sources()
        return bool(heard)

    def _in_time(self, source: Source, brought: Brought, catalog: Catalog) -> Brought | None:
        """Without the times of late tuples; None where there are no others."""
        stream, name = source
        rows, oldest_us, newest_us = brought
        reached_us = self._newest_us.get(stream, {}).get(str(name))
        if reached_us is None:
            return brought
        floor_us = reached_us - catalog.get(stream).max_delay_us
        return (rows, max(oldest_us, floor_us), newest_us) if newest_us >= floor_us else None

    def count_for(self, streams: Iterable[str]) -> int:
        """How many micro-batches tell enough of all these streams."""
        wanted = list(streams)
        return next((one for one in self.counts if _tells_of(wanted, self.rows(one))), self.counts[-1])

    def rows(self, count: int) -> dict[str, Brought]:
        """By stream, the tuples of the last so many micro-batches with their oldest and newest times. Sources may lag
        each other: what counts is the time that one of them brought, the longest."""
        by_source: dict[Source, Brought] = {}
        for heard in list(self._batches)[-count:]:
            for source, (rows, oldest_us, newest_us) in heard.items():
                before = by_source.get(source, (0, oldest_us, newest_us))
                by_source[source] = (before[0] + rows, min(before[1], oldest_us), max(before[2], newest_us))
        found: dict[str, Brought] = {}
        for (stream, _), (rows, oldest_us, newest_us) in by_source.items():
            many, begin_us, end_us = found.get(stream, (0, oldest_us, newest_us))
            longest = (begin_us, end_us) if end_us - begin_us >= newest_us - oldest_us else (oldest_us, newest_us)
            found[stream] = (many + rows, *longest)
        return found


def _tells_of(streams: Iterable[str], rows: dict[str, Brought]) -> bool:
    """Whether there are enough tuples of each of these streams, of more than one time."""
    known = [rows.get(name, (0, 0, 0)) for name in streams]
    return all(count >= FEW and oldest_us < newest_us for count, oldest_us, newest_us in known)
