"""Tuples that have arrived but cannot be processed yet, because an older tuple of another stream may still come.

      stream a   . . . . . . . |o o o o        released up to progress: the least place that every stream has reached;
      stream b   . . . . . . . |               the o wait here, in time order (paper 004's Sync-Filter)
                               progress

Owns: one input's waiting pieces. A piece is what one chunk left over: stored once, then consumed from its front.
Invariants: a piece is in event-time order, ties in arrival order; pieces are in arrival order. Cost: O(pieces) to ask,
O(rows released) to release; rows that go on waiting are not touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.engine.events import DropSegment, Effect, KeepSegment
from headrace.engine.keys import Int64s
from headrace.engine.segments import content_name, pack_batch, take_rows, times_of
from headrace.engine.window import Collected, Serial


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

    @property
    def rows(self) -> int:
        return len(self.ts_us) - self.start

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


@dataclass(slots=True)
class WaitingRows:
    """One input's pieces, and what changed in the store since the last ``drain``."""

    time: str
    serial: Serial
    pieces: list[Piece] = field(default_factory=list)
    _dropped: list[Effect] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch, arrived_us: int, collected: Collected) -> None:
        """Takes rows in arrival order."""
        if batch.num_rows == 0:
            return
        ts_us = times_of(batch, self.time)
        if np.any(ts_us[1:] < ts_us[:-1]):
            order = np.argsort(ts_us, kind="stable")
            batch, ts_us = take_rows(batch, order), ts_us[order]
        self.pieces.append(Piece(batch, ts_us, arrived_us, collected))

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    @property
    def size_bytes(self) -> int:
        return sum(piece.size_bytes for piece in self.pieces)

    @property
    def first_us(self) -> int | None:
        """The oldest event time that waits."""
        return min((piece.first_us for piece in self.pieces), default=None)

    def release(self, upto_us: int, *, inclusive: bool) -> list[Released]:
        """The rows before ``upto_us``, or also those at it, in time order; one entry for each way of collecting."""
        side = "right" if inclusive else "left"
        taken: dict[Collected, list[tuple[Piece, int, int]]] = {}
        for piece in self.pieces:
            stop = int(np.searchsorted(piece.ts_us, upto_us, side=side))  # type: ignore[call-overload]
            if stop > piece.start:
                taken.setdefault(piece.collected, []).append((piece, piece.start, stop))
                piece.start = stop
        self._forget_empty()
        return [_in_time_order(collected, slices) for collected, slices in taken.items()]

    def _forget_empty(self) -> None:
        for piece in self.pieces:
            if piece.rows == 0 and piece.name is not None:
                self._dropped.append(DropSegment(piece.name))
        self.pieces = [piece for piece in self.pieces if piece.rows]

    def clear(self) -> None:
        for piece in self.pieces:
            piece.start = len(piece.ts_us)
        self._forget_empty()

    def drain(self) -> Iterator[Effect]:
        """What the store must be told, once: what left, and what waits since this step."""
        yield from self._dropped
        self._dropped.clear()
        for piece in self.pieces:
            if piece.name is None:
                piece.batch, piece.ts_us, piece.start = piece.batch.slice(piece.start), piece.ts_us[piece.start :], 0
                blob = pack_batch(piece.batch)
                piece.name, piece.size_bytes = f"{content_name(blob)}-{self.serial.take()}", blob.size
                yield KeepSegment(piece.name, blob)


def _in_time_order(collected: Collected, slices: list[tuple[Piece, int, int]]) -> Released:
    batches = [piece.batch.slice(start, stop - start) for piece, start, stop in slices]
    ts_us = np.concatenate([piece.ts_us[start:stop] for piece, start, stop in slices])
    arrived_us = np.concatenate([np.full(stop - start, piece.arrived_us) for piece, start, stop in slices])
    batch = pa.concat_batches(batches)
    if len(slices) == 1 or not np.any(ts_us[1:] < ts_us[:-1]):
        return Released(batch, ts_us, arrived_us, collected)
    order = np.argsort(ts_us, kind="stable")
    return Released(take_rows(batch, order), ts_us[order], arrived_us[order], collected)
