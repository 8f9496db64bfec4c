"""What waits before the operators after a join: items, a turn's each, in queues; and how those are kept.

      Stage   [ item | item | item ] operator        item    weight, came, known_us, epoch
                                                             rows, for some queries     (in the store once kept)

Owns :class:`RawRows`, :class:`TurnItem`, :class:`Stage` and the items' kept form. Invariants: a queue is first in,
first out; rows have a name once they are stored, and are stored once. Cost: O(1) an item put or taken; to keep, what
was not stored yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.engine.events import Effect, KeepSegment
from headrace.engine.segments import content_name, pack_batch, unpack_batch
from headrace.engine.window import SegmentSource, Serial
from headrace.model import QueryId
from headrace.plan.opgraph import OperatorName


@dataclass(slots=True)
class RawRows:
    """Columns of results, and for whom: queries whose windows they are in, or how far things are once all are there."""

    batch: pa.RecordBatch
    queries: tuple[QueryId, ...] = ()
    part: int = 0
    complete_us: int = 0
    name: str | None = None
    size_bytes: int = 0


@dataclass(slots=True)
class TurnItem:
    """What one turn made for one class. ``came``: the step of the tuples it is of; ``known_us``: until when all results
    are in earlier items; ``epoch``: whose queries its rows are for, and not for those that came since."""

    weight: float
    came: int
    known_us: int
    epoch: int
    rows: list[RawRows] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes or one.batch.nbytes for one in self.rows)


@dataclass(slots=True)
class Stage:
    """An operator: its queue, and the class it is of; a select-project that is the same for several classes is one, of
    the first. ``then``: the aggregates after it."""

    number: int
    items: deque[TurnItem] = field(default_factory=deque)
    folds: bool = False
    then: list[OperatorName] = field(default_factory=list)
    weight: float = 0.0
    """What its items weigh together: added up at the beginning of a step, and kept up to date by its turns."""
    size_bytes: int = 0
    """And in bytes, here."""

    def put(self, item: TurnItem) -> None:
        self.items.append(item)
        self.weight += item.weight
        self.size_bytes += item.size_bytes

    def take(self) -> TurnItem:
        item = self.items.popleft()
        self.weight = self.weight - item.weight if self.items else 0.0
        self.size_bytes -= item.size_bytes
        return item

    def weigh(self) -> None:
        """Adds up anew: the same whether its queue was kept or restored."""
        self.weight = sum(item.weight for item in self.items)
        self.size_bytes = sum(item.size_bytes for item in self.items)

    def keep(self, serial: Serial) -> Iterator[Effect]:
        """Stores what waits and is not stored yet."""
        for one in (one for item in self.items for one in item.rows):
            if one.name is None:
                blob = pack_batch(one.batch)
                one.name, one.size_bytes = f"{content_name(blob)}-{serial.take()}", blob.size
                yield KeepSegment(one.name, blob)


# --- kept form


def names_queued(kept: Mapping[str, Any]) -> Iterator[str]:
    """Every stored segment that kept queues refer to."""
    return (rows[0] for items in kept.values() for item in items for rows in item[3])


def item_to_json(item: TurnItem) -> list[Any]:
    rows = [_rows_to_json(one) for one in item.rows]
    return [item.weight, item.came, item.known_us, rows, item.epoch]


def item_from_json(kept: Sequence[Any], source: SegmentSource) -> TurnItem:
    weight, came, known_us, rows, epoch = kept
    made = [_rows_from_json(one, source) for one in rows]
    return TurnItem(weight, came, known_us, epoch, made)


def _rows_to_json(rows: RawRows) -> list[Any]:
    return [rows.name, rows.size_bytes, list(rows.queries), rows.part, rows.complete_us]


def _rows_from_json(kept: Sequence[Any], source: SegmentSource) -> RawRows:
    name, size_bytes, queries, part, complete_us = kept
    return RawRows(unpack_batch(source.stored(name)), tuple(queries), part, complete_us, name, size_bytes)
