"""Cutting what is released into blocks: by event time, alike on every shard, or by a number of tuples on one.

Owns: :class:`BlockCut`, :class:`Heard` (what a block weighs), ``boundaries``, ``split_rows`` and ``stretches``.
Cost: O(rows); O(chunks that wait) to weigh a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from headrace.engine.keys import Int64s
from headrace.engine.spaces import total_order
from headrace.engine.waiting import Released

MOST_BLOCKS = 64
"""Blocks that are made of one release by time; a longer stretch is cut into as many equal ones."""


@dataclass(frozen=True, slots=True)
class BlockCut:
    """How large a block may be: a stretch of event time, or a number of tuples; neither: all that is released."""

    span_us: int | None = None
    rows: int | None = None


def boundaries(cut: BlockCut, before_us: int | None, upto_us: int | None) -> list[int]:
    """The event times, after one progress and before the next, at which blocks end.

    >>> boundaries(BlockCut(span_us=10), 3, 35), boundaries(BlockCut(), 3, 35)
    ([9, 19, 29], [])
    """
    if cut.span_us is None or before_us is None or upto_us is None:
        return []
    span_us = max(cut.span_us, -(-(upto_us - before_us) // MOST_BLOCKS))
    first = (before_us // span_us + 1) * span_us - 1
    return [end for end in range(first, upto_us, span_us) if end > before_us]


@dataclass(slots=True)
class Heard:
    """What heartbeats told of a group's streams and was not released yet: (oldest, newest, tuples, position of its
    stream) of each chunk.

    The same on every shard, whoever has the tuples. A chunk's tuples are taken to be spread evenly over its time."""

    chunks: list[list[int]] = field(default_factory=list)
    lately: bool = False
    """Whether anything was heard since blocks were last made."""

    def add(self, oldest_us: int, newest_us: int, rows: int, position: int) -> None:
        self.chunks.append([oldest_us, newest_us, rows, position])
        self.lately = True

    def before_us(self) -> int | None:
        """A time before all that was heard."""
        return min(chunk[0] for chunk in self.chunks) - 1 if self.chunks else None

    def due(self, upto: Mapping[int, int]) -> int:
        """About how many tuples are due where each stream, by position, is released up to such a time; they are not
        counted again.

        >>> heard = Heard([[0, 9, 100, 0], [5, 5, 7, 1], [20, 30, 50, 0]])
        >>> heard.due({0: 4, 1: 4}), heard.due({0: 9, 1: 5}), heard.due({0: 9, 1: 9}), heard.chunks
        (50, 57, 0, [[20, 30, 50, 0]])
        """
        due = 0
        for chunk in self.chunks:
            oldest_us, newest_us, rows, position = chunk
            upto_us = upto[position]
            if upto_us >= newest_us:
                part = rows
            else:
                part = max(0, rows * (upto_us - oldest_us + 1) // (newest_us - oldest_us + 1))
            due += part
            chunk[:] = [max(oldest_us, min(upto_us + 1, newest_us)), newest_us, rows - part, position]
        self.chunks = [chunk for chunk in self.chunks if chunk[2]]
        return due


def split_rows(released: Sequence[Released | None], positions: Sequence[int], rows: int) -> list[list[Released | None]]:
    """A release as several of at most so many tuples, in the total order (the inputs are in catalog order)."""
    given = [one for one in released if one is not None]
    places = [place for one, place in zip(released, positions, strict=True) if one is not None]
    total = sum(len(one.ts_us) for one in given)
    if total <= rows:
        return [list(released)]
    of_input = np.repeat(np.arange(len(given)), [len(one.ts_us) for one in given])
    ordered = of_input[total_order(given, places)]
    return [list(_spread(released, one)) for one in _cut_at(given, ordered, range(rows, total, rows))]


def stretches(released: Sequence[Sequence[Released]], positions: Sequence[int]) -> list[list[Released | None]]:
    """What each input released, as stretches of the total order in each of which an input's rows were collected in one
    way: as many as that changes, mostly one."""
    if all(len(ways) <= 1 for ways in released):
        together = [ways[0] if ways else None for ways in released]
        return [together] if any(one is not None for one in together) else []
    inputs = [(number, way) for number, ways in enumerate(released) for way in ways]
    parts = [way for _, way in inputs]
    sizes = [len(way.ts_us) for way in parts]
    order = total_order(parts, [positions[number] for number, _ in inputs])
    ordered = np.repeat(np.arange(len(parts)), sizes)[order]
    of_input = np.repeat([number for number, _ in inputs], sizes)[order]
    cuts = set()
    for number in range(len(released)):
        mine = np.flatnonzero(of_input == number)
        cuts.update(mine[1:][ordered[mine[1:]] != ordered[mine[:-1]]].tolist())
    found = []
    for pieces in _cut_at(parts, ordered, sorted(cuts)):
        row: list[Released | None] = [None] * len(released)
        for (number, _), piece in zip(inputs, pieces, strict=True):
            row[number] = piece if piece is not None else row[number]
        found.append(row)
    return found


def _cut_at(parts: Sequence[Released], ordered: Int64s, cuts: Sequence[int]) -> Iterator[list[Released | None]]:
    """The parts, cut where so many rows of all, in order, have gone by; ``ordered``: the part of each."""
    for begin, end in pairwise([0, *cuts, len(ordered)]):
        starts = np.bincount(ordered[:begin], minlength=len(parts))
        sizes = np.bincount(ordered[begin:end], minlength=len(parts))
        yield [_part(one, int(start), int(size)) for one, start, size in zip(parts, starts, sizes, strict=True)]


def _spread(released: Sequence[Released | None], pieces: Sequence[Released | None]) -> Iterator[Released | None]:
    given = iter(pieces)
    return (None if one is None else next(given) for one in released)


def _part(released: Released, start: int, size: int) -> Released | None:
    if not size:
        return None
    some = slice(start, start + size)
    batch = released.batch.slice(start, size)
    return replace(released, batch=batch, ts_us=released.ts_us[some], arrived_us=released.arrived_us[some])
