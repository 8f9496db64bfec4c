"""Tuples that have arrived but cannot be processed yet, because an older tuple of another stream may still come.

      stream a   . . . . . . . |o o o o        released up to progress: the least place that every stream has reached;
      stream b   . . . . . . . |               the o wait here, in time order (paper 004's Sync-Filter)
                               progress

Owns: one input's waiting pieces. A piece is what one chunk left over: stored once, then consumed from its front. Where
windows are measured in rows, a piece also has the times of the whole chunk, all shards' tuples: when they are released,
every tuple gets its place in the whole stream.
Invariants: a piece is in event-time order, ties in arrival order; pieces are in arrival order. Cost: O(pieces) to ask,
O(rows released) to release; rows that go on waiting are not touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa

from headrace.engine.events import DropSegment, Effect, KeepSegment
from headrace.engine.keys import Int64s
from headrace.engine.segments import PLACE, content_name, int64s_of, pack_batch, take_rows, times_of
from headrace.engine.window import Collected, Serial

SEAT = "__seat"
"""The column that holds a waiting row's place among the times of its chunk, where those are told."""


@dataclass(slots=True)
class ChunkTimes:
    """The event times of a whole chunk in order, the first ``start`` of them released already."""

    ts_us: Int64s
    start: int = 0
    name: str | None = None

    @property
    def batch(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array(self.ts_us)], names=["ts"])


@dataclass(slots=True)
class Piece:
    """Rows in time order, the first ``start`` of them released already; stored under ``name`` once it has waited."""

    batch: pa.RecordBatch
    ts_us: Int64s
    arrived_us: int
    collected: Collected
    start: int = 0
    name: str | None = None
    size_bytes: int = 0
    chunk: ChunkTimes | None = None

    @property
    def rows(self) -> int:
        return len(self.ts_us) - self.start

    @property
    def is_empty(self) -> bool:
        return not self.rows and (self.chunk is None or self.chunk.start == len(self.chunk.ts_us))

    @property
    def first_us(self) -> int:
        return int(self.ts_us[self.start])


@dataclass(frozen=True, slots=True)
class Released:
    """Rows in time order with the time each arrived."""

    batch: pa.RecordBatch
    ts_us: Int64s
    arrived_us: Int64s
    collected: Collected


@dataclass(frozen=True, slots=True)
class Counted:
    """The times of a whole stream's tuples that were released together, and how many had been before them."""

    before: int
    ts_us: Int64s

    def seen(self, ts_us: Int64s, *, first_at_tie: bool) -> Int64s:
        """How many of the stream's tuples are before each of these times; at it, those of a stream that is first."""
        side: Literal["left", "right"] = "right" if first_at_tie else "left"
        return self.before + np.searchsorted(self.ts_us, ts_us, side=side)


@dataclass(slots=True)
class WaitingRows:
    """One input's pieces, and what changed in the store since the last ``drain``. ``counted``: how many tuples of the
    whole stream have been released, where that is told."""

    time: str
    serial: Serial
    pieces: list[Piece] = field(default_factory=list)
    counted: int = 0
    _dropped: list[Effect] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch, arrived_us: int, collected: Collected, chunk_us: Int64s | None = None) -> None:
        """Takes rows in arrival order; with ``chunk_us``, the times of all of their chunk, and their SEATs there."""
        chunk = None
        if chunk_us is not None:
            order = np.argsort(chunk_us, kind="stable")
            batch, chunk = _seated(batch, order), ChunkTimes(chunk_us[order])
        if batch.num_rows == 0 and chunk is None:
            return
        ts_us = times_of(batch, self.time)
        if np.any(ts_us[1:] < ts_us[:-1]):
            order = np.argsort(ts_us, kind="stable")
            batch, ts_us = take_rows(batch, order), ts_us[order]
        self.pieces.append(Piece(batch, ts_us, arrived_us, collected, chunk=chunk))

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    @property
    def size_bytes(self) -> int:
        return sum(piece.size_bytes for piece in self.pieces)

    @property
    def arrived_rows(self) -> int:
        """How many tuples of the whole stream have arrived, where they are counted."""
        return self.counted + sum(len(one.chunk.ts_us) - one.chunk.start for one in self.pieces if one.chunk)

    @property
    def first_us(self) -> int | None:
        """The oldest event time that waits."""
        return min((piece.first_us for piece in self.pieces if piece.rows), default=None)

    def release(self, upto_us: int, *, inclusive: bool) -> tuple[list[Released], Counted]:
        """The rows before ``upto_us``, or also those at it, in time order; one entry, as they arrived, for each time
        the way of collecting changes. And the whole stream's times that were released with them."""
        side: Literal["left", "right"] = "right" if inclusive else "left"
        counted = self._count(upto_us, side)
        taken: list[list[tuple[Piece, int, int]]] = []
        for piece in self.pieces:
            stop = int(np.searchsorted(piece.ts_us, upto_us, side=side))
            if stop > piece.start:
                if not taken or taken[-1][-1][0].collected != piece.collected:
                    taken.append([])
                taken[-1].append((piece, piece.start, stop))
                piece.start = stop
        self._forget_empty()
        return [_in_time_order(slices[0][0].collected, slices) for slices in taken], counted

    def _count(self, upto_us: int, side: Literal["left", "right"]) -> Counted:
        """Gives the tuples that are due their places in the whole stream."""
        due = []
        for piece in self.pieces:
            if piece.chunk is not None:
                stop = int(np.searchsorted(piece.chunk.ts_us, upto_us, side=side))
                due.append((piece, piece.chunk.start, stop))
                piece.chunk.start = stop
        ts_us = np.concatenate([_NO_TIMES, *(p.chunk.ts_us[a:b] for p, a, b in due if p.chunk)])
        order = np.argsort(ts_us, kind="stable")
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.arange(self.counted, self.counted + len(order))
        offset = 0
        for piece, start, stop in due:
            piece.batch = _placed(piece.batch, places[offset : offset + stop - start], start)
            offset += stop - start
        self.counted += len(order)
        return Counted(self.counted - len(order), ts_us[order])

    def _forget_empty(self) -> None:
        for piece in self.pieces:
            if piece.is_empty:
                chunk_name = piece.chunk.name if piece.chunk else None
                self._dropped += [DropSegment(name) for name in (piece.name, chunk_name) if name is not None]
        self.pieces = [piece for piece in self.pieces if not piece.is_empty]

    def clear(self) -> None:
        for piece in self.pieces:
            piece.start, piece.chunk = len(piece.ts_us), None
        self._forget_empty()

    def drain(self) -> Iterator[Effect]:
        """What the store must be told, once: what left, and what waits since this step."""
        yield from self._dropped
        self._dropped.clear()
        for piece in self.pieces:
            if piece.name is None:
                piece.batch, piece.ts_us, piece.start = piece.batch.slice(piece.start), piece.ts_us[piece.start :], 0
                blob = pack_batch(piece.batch)
                piece.name, piece.size_bytes = self._named(blob), blob.size
                yield KeepSegment(piece.name, blob)
            if piece.chunk is not None and piece.chunk.name is None:
                blob = pack_batch(piece.chunk.batch)
                piece.chunk.name = self._named(blob)
                yield KeepSegment(piece.chunk.name, blob)

    def _named(self, blob: pa.Buffer) -> str:
        return f"{content_name(blob)}-{self.serial.take()}"


_NO_TIMES = np.empty(0, dtype=np.int64)


def _seated(batch: pa.RecordBatch, order: Int64s) -> pa.RecordBatch:
    """The rows with their seats in the sorted chunk, and with places to be given."""
    seats = np.empty(len(order), dtype=np.int64)
    seats[order] = np.arange(len(order))
    index = batch.schema.get_field_index(SEAT)
    batch = batch.set_column(index, SEAT, pa.array(seats[int64s_of(batch, SEAT)]))
    batch = take_rows(batch, np.argsort(int64s_of(batch, SEAT)))
    return batch.append_column(PLACE, pa.array(np.full(batch.num_rows, -1)))


def _placed(batch: pa.RecordBatch, places: Int64s, first_seat: int) -> pa.RecordBatch:
    """The rows, those with seats among the placed ones with their places."""
    seats, before = int64s_of(batch, SEAT), int64s_of(batch, PLACE)
    due = (seats >= first_seat) & (seats < first_seat + len(places))
    if not due.any():
        return batch
    given = before.copy()
    given[due] = places[seats[due] - first_seat]
    return batch.set_column(batch.schema.get_field_index(PLACE), PLACE, pa.array(given))


def _in_time_order(collected: Collected, slices: list[tuple[Piece, int, int]]) -> Released:
    batches = [piece.batch.slice(start, stop - start) for piece, start, stop in slices]
    ts_us = np.concatenate([piece.ts_us[start:stop] for piece, start, stop in slices])
    arrived_us = np.concatenate([np.full(stop - start, piece.arrived_us) for piece, start, stop in slices])
    batch = pa.concat_batches([without_seats(one) for one in batches])
    if len(slices) == 1 or not np.any(ts_us[1:] < ts_us[:-1]):
        return Released(batch, ts_us, arrived_us, collected)
    order = np.argsort(ts_us, kind="stable")
    return Released(take_rows(batch, order), ts_us[order], arrived_us[order], collected)


def without_seats(batch: pa.RecordBatch) -> pa.RecordBatch:
    if SEAT not in batch.schema.names:
        return batch
    return batch.select([name for name in batch.schema.names if name != SEAT])
