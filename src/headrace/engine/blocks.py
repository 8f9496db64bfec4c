"""Blocks that wait: tuples that came together and go through the windows in turns, and the results held for them.

      block   a         b         c              the paper's scheduling queues (done) and its outputBuffer (held):
      done    w1 w2     w1        -              b's results up to w1 are out for queries with w1, and held for those
      held              up to w1                 with larger windows until b has scanned them too

Owns :class:`PendingBlock`, :class:`HeldResults`, :class:`Backlog`. Invariants: blocks are oldest first, and every tuple
of a block is before every tuple of a later one; an older block has done at least the windows that a newer one has. A
block's rows are searchable (in the window) once it has had its first turn, so a first scan meets older blocks only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.engine.events import DropSegment, Effect, EmitCount, EmitRows, KeepSegment
from headrace.engine.inputs import Place
from headrace.engine.keys import Int64s
from headrace.engine.segments import content_name, int64s_of, pack_batch
from headrace.engine.spaces import Block, NewRows
from headrace.engine.window import Serial
from headrace.plan.canonical import Sizes

RANK = "__rank"
"""The place of a row's tuple, or of the tuple that found a result, in its block; of a whole block's result, its own."""
ARRIVED = "__arrived"
"""When that tuple arrived."""
CELL = "__cell"
"""Which set of readers a held result has."""
THEN = "__then"
"""What the columns are called by that order results further, where those of several scans are put in one order."""
EARLY_MARK = "__early"
"""Which of the columns for operators to come are of results that leave before their time."""
MARKS = (RANK, ARRIVED, CELL)


@dataclass(slots=True)
class HeldResults:
    """What one scan of a block found for one class of queries: rows in order with their marks, and who reads each cell.

    Results that are only counted have their marks and nothing else. ``round``: which of the block's rounds it was."""

    readers: tuple[tuple[str, ...], ...]
    batch: pa.RecordBatch
    counted: bool
    round: int = 0
    name: str | None = None
    size_bytes: int = 0
    raw: bool = False
    """Whether these are columns for operators to come, which want to know when each result's newest tuple arrived."""
    is_early: bool = False
    """Whether they leave as soon as they are found."""
    by_cell: list[EmitRows | EmitCount | None] | None = None
    """What was made of each cell to be released; not stored, since it is made again of the batch."""


@dataclass(slots=True, eq=False)
class PendingBlock:
    """Tuples that still have windows to scan. ``done`` is how far back they have scanned each side (None: not at all);
    ``weight`` what they count for in a budget, the same on all shards, and ``tuples`` how many of them are here;
    ``epoch`` which queries they serve: those that were there when it was made. A ``whole`` block scans all of it in its
    first turn, whatever is due by then; its rounds are stretches of the total order, one after the other. Results of a
    ``placed`` block are held with the places of their tuples, because those of different scans come between each
    other."""

    epoch: int
    weight: int
    tuples: int
    rounds: list[Block]
    whole: bool = False
    placed: bool = False
    done: Sizes | None = None
    held: list[HeldResults] = field(default_factory=list)
    names: list[list[str | None]] = field(default_factory=list)
    """Where the rounds' rows are stored, once they are."""
    size_bytes: int = 0
    known_us: int = -(2**63)
    """Until when all tuples are in blocks before it."""
    upto_us: int = -(2**63)
    """Until when all are once it is done, too."""
    came: int = 0
    """The step that its tuples were taken in."""
    after: Place | None = None
    """No tuple of it is at or before this place; the same on all shards."""
    ahead: bool = False
    """Whether its tuples were taken in before all streams had come that far: its results are put in order as they are
    released (``holding``)."""
    completed: int | None = None
    """How many windows it has scanned, once that was asked for."""

    def scanned_to(self, done: Sizes) -> None:
        """Now it has scanned so far back."""
        self.done, self.completed = done, None

    @property
    def held_bytes(self) -> int:
        return sum(held.size_bytes or held.batch.nbytes for held in self.held)

    @property
    def nbytes(self) -> int:
        """What its tuples weigh here."""
        return self.size_bytes or sum(new.segment.batch.nbytes for one in self.rounds for new in one.inputs if new)

    @property
    def is_scanned(self) -> bool:
        """Whether nothing is left to find, only to release."""
        return self.whole and self.done is not None

    def oldest_us(self, index: int) -> int | None:
        """The oldest tuple of an input that may still scan."""
        return min((new.segment.min_us for new in self._scanning(index)), default=None)

    def least_seen(self, index: int, probed: int) -> int | None:
        """The fewest tuples of a probed input that one of an input's tuples has before it."""
        return min((new.segment.least_seen(probed) for new in self._scanning(index)), default=None)

    def _scanning(self, index: int) -> list[NewRows]:
        new = [] if self.is_scanned else [block.inputs[index] for block in self.rounds]
        return [one for one in new if one is not None]

    def keep(self, serial: Serial) -> Iterator[Effect]:
        """Stores what is not stored yet."""
        if self.is_scanned:
            self.rounds = []
            yield from self._drop_rows()
        elif not self.names:
            for block in self.rounds:
                batches = [None if new is None else _marked_rows(block, new) for new in block.inputs]
                blobs = [None if batch is None else pack_batch(batch) for batch in batches]
                self.names.append([None if blob is None else _name(blob, serial) for blob in blobs])
                for name, blob in zip(self.names[-1], blobs, strict=True):
                    if name is not None and blob is not None:
                        self.size_bytes += blob.size
                        yield KeepSegment(name, blob)
        for held in self.held:
            if held.name is None:
                blob = pack_batch(held.batch)
                held.name, held.size_bytes = _name(blob, serial), blob.size
                yield KeepSegment(held.name, blob)

    def drop(self) -> Iterator[Effect]:
        """Lets go of all that is stored."""
        yield from self._drop_rows()
        yield from (DropSegment(held.name) for held in self.held if held.name is not None)

    def _drop_rows(self) -> Iterator[Effect]:
        yield from (DropSegment(name) for names in self.names for name in names if name is not None)
        self.names, self.size_bytes = [], 0


class Backlog(NamedTuple):
    """Blocks added up: tuples, what all their turns cost, and what those turns cost that they have had and hold results
    of, as all shards weigh them; and what they weigh here, with these results."""

    rows: int
    probes: int
    scanned: int
    size_bytes: int

    def changed(self, before: Backlog, now: Backlog) -> Backlog:
        """The sums, once blocks that weighed so much weigh that."""
        return Backlog(*(mine - one + other for mine, one, other in zip(self, before, now, strict=True)))


NO_BACKLOG = Backlog(0, 0, 0, 0)


def _name(blob: pa.Buffer, serial: Serial) -> str:
    return f"{content_name(blob)}-{serial.take()}"


def _marked_rows(block: Block, new: NewRows) -> pa.RecordBatch:
    ranked = new.segment.batch.append_column(RANK, pa.array(new.ranks.astype(np.int64)))
    return ranked.append_column(ARRIVED, pa.array(block.arrived_us[new.ranks].astype(np.int64)))


def marked_results(
    batch: pa.RecordBatch, ranks: Sequence[Int64s], arrived_us: Int64s, cells: np.ndarray
) -> pa.RecordBatch:
    """Result rows with their marks beside them, each given by row. ``ranks``: what orders them, first things first."""
    first, *more = (rank.astype(np.int64, copy=False) for rank in ranks)
    marks = [first, arrived_us, cells.astype(np.int64), *more]
    names = [*batch.schema.names, *MARKS, *(f"{THEN}{number}" for number in range(len(more)))]
    return pa.RecordBatch.from_arrays([*batch.columns, *(pa.array(mark) for mark in marks)], names=names)


def ranks_of(batch: pa.RecordBatch) -> list[Int64s]:
    """What orders marked results, first things first."""
    return [int64s_of(batch, name) for name in batch.schema.names if name == RANK or name.startswith(THEN)]


def with_arrivals(batch: pa.RecordBatch, arrived_us: Int64s) -> pa.RecordBatch:
    """Results with when the newest tuple of each arrived."""
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(arrived_us)], names=[*batch.schema.names, ARRIVED])


def without_marks(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select([name for name in batch.schema.names if name not in MARKS and not name.startswith(THEN)])
