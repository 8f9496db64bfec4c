"""What a source task does with its rows: rows of one (shard, input) become one envelope; every shard hears how far.

    rows of a stream --+-- malformed, late within their chunk or behind earlier micro-batches --> dead letters
                       +-- for each input: filtered, keyed, split by shard --> BlockArrived, one an input and shard
                       +-- the newest event time --> ProgressMade, one a chunk, source and shard

Owns: :class:`Packer` and the envelope, the only thing that crosses the shuffle. A chunk is a stretch of rows with one
place in the stream's arrival order (a file), whichever of the stream's sources they are from (``parting``).
Invariants: a row reaches one shard of each input that takes it; of a join, as many as its grid says (``cells``); one of
them reports it should it be late. What several inputs filter and read alike is selected once for all of them
(``selecting``). Cost: a few vector passes over the rows; payloads are Arrow IPC, copied once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.cells import Cells, by_shard
from headrace.engine.events import UNORDERED, Arrival, BlockArrived, Event, ProgressMade, StreamsEnded
from headrace.engine.frequent import frequent_keys
from headrace.engine.inputs import layout_of
from headrace.engine.keys import Int64s, encode_keys, shard_of
from headrace.engine.measuring import Meters, OperatorMeter, WorkReport
from headrace.engine.parting import PART, Parts, parts_of
from headrace.engine.progressing import KnownSources
from headrace.engine.segments import (
    BEFORE,
    KEY,
    NUMBER,
    REPORTED,
    Layout,
    int64s_of,
    key_column,
    pack_batch,
    times_of,
    unpack_batch,
)
from headrace.engine.selecting import Reader, Selected, columns_of_keys, first_alike
from headrace.engine.waiting import SEAT
from headrace.errors import InvariantError
from headrace.model import PARTITION, Stream, StreamId
from headrace.plan.graph_building import leaf_operator
from headrace.plan.hypercube import Grid, grid_of
from headrace.plan.sharing import Group, Input, SharedPlan
from headrace.plan.skew import SeenKeys

ORDER = "__order"
"""Column that tells chunks apart: a chunk's place in arrival order, shifted left by ``ORDER_SHIFT``, and below it any
number that differs between chunks of one place. Absent where the source has no order."""
ORDER_SHIFT = 20
CORRUPT = "__corrupt"
"""Column with the text of a row that could not be read as its schema says; null for all others."""
MALFORMED = "malformed"
LATE = "late"
"""Why a row is rejected: it came further behind the newest than its stream allows."""

DEAD_LETTERS = pa.schema([("stream", pa.string()), ("reason", pa.string()), ("row", pa.string())])


class Kind(IntEnum):
    """What an envelope holds."""

    HEARTBEAT = 0
    ROWS = 1
    DEAD = 2
    """Dead letters; ``rows`` says how many of them were late."""
    TALLY = 3
    """How many rows a source task read, how many of them were malformed, and how long packing them took."""
    END = 4
    GO_ON = 5
    """Nothing but a reason to step: work is waiting."""


EVENTS = frozenset((Kind.HEARTBEAT, Kind.ROWS, Kind.END))
"""What a shard is told of."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """One message to one shard; which fields matter depends on the kind."""

    shard: int
    kind: Kind
    stream: str = ""
    group: int = -1
    input: int = -1
    order: int = UNORDERED
    first_us: int = 0
    newest_us: int = 0
    oldest_us: int = 0
    arrived_us: int = 0
    chunk: int = 0
    rows: int = 0
    malformed: int = 0
    spent_us: int = 0
    payload: bytes | pa.Buffer = b""
    times: bytes = b""
    """Event times of the whole chunk, as 64-bit numbers, where the group counts rows."""
    partitions: tuple[str, ...] = ("",)
    """The sources that the rows, or the progress, are of."""
    parts: bytes = b""
    """Which of them each of the ``times`` is of, as 64-bit numbers, where there are several."""

    def event(self, plan: SharedPlan) -> Event:
        """What a shard is told; dead letters and tallies are not events."""
        arrival = Arrival(self.order, self.first_us)
        if self.kind is Kind.HEARTBEAT:
            times = (self.newest_us, self.oldest_us)
            return ProgressMade(StreamId(self.stream), arrival, *times, self.rows, self.partitions[0])
        if self.kind is Kind.ROWS:
            group = plan.groups[self.group]
            counts = group.counts_rows[self.input]
            chunk_us = np.frombuffer(self.times, dtype=np.int64) if counts else None
            chunk_parts = np.frombuffer(self.parts, dtype=np.int64) if counts and self.parts else None
            told = (arrival, self.arrived_us, unpack_batch(self.payload), chunk_us, self.chunk)
            return BlockArrived(group.signature, self.input, *told, self.partitions, chunk_parts)
        if self.kind is Kind.END:
            return StreamsEnded()
        raise InvariantError(f"an envelope of kind {self.kind.name} is no event")


class Packer:
    """Packs the rows of one source task of one stream. ``grids``: by group; one without has that of ``grid_of``.
    ``clock``: to measure the operators by that run here; without one they are not. ``known``: of the stream's sources,
    before this micro-batch; rows that are late by that are rejected here, where they are whole.
    ``heavy_seen``: by group, attribute class and side, the keys that many of the rows so far had, except heavy ones."""

    def __init__(
        self,
        plan: SharedPlan,
        stream: Stream,
        shards: int,
        task: int = 0,
        grids: Mapping[str, Grid] | None = None,
        clock: Callable[[], float] | None = None,
        known: KnownSources | None = None,
    ) -> None:
        self._clock = clock
        self._known = known or KnownSources({}, None)
        self._did: dict[Reader, OperatorMeter] = {}
        """What selections and projections did, by the first reader of each."""
        self.heavy_seen: dict[tuple[str, int, int], SeenKeys] = {}
        self._task = task
        self._grids = grids or {}
        self._cells: dict[tuple[int, int], Cells | None] = {}
        self._chunks = 0
        self._plan = plan
        self._stream = stream
        self._shards = shards
        self._dealt = 0
        self._numbered = 0
        self._readers = [
            (group_index, input_index)
            for group_index, group in enumerate(plan.groups)
            for input_index, reader in enumerate(group.inputs)
            if reader.stream == stream.name
        ]
        self._alike = first_alike(plan, self._readers)

    def pack(self, rows: pa.RecordBatch, arrived_us: int) -> Iterator[Envelope]:
        """Envelopes for rows in arrival order."""
        well, dead = self._well_formed(rows)
        yield Envelope(0, Kind.TALLY, self._stream.name, rows=rows.num_rows, malformed=dead.num_rows)
        if dead.num_rows:
            yield self._dead_envelope(dead, MALFORMED)
        for chunk, order, mark in _chunks(well):
            first_us = int(times_of(chunk, self._stream.time).min())
            arrival = Arrival(order) if order == UNORDERED else Arrival(order, first_us)
            self._chunks += 1
            number = (mark << 40) | (self._task << 20) | self._chunks
            yield from self._pack_chunk(chunk, arrival, number, arrived_us)

    def _well_formed(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Rows that can be read and have an event time; and the others."""
        bad = pc.is_null(rows.column(self._stream.time))
        if CORRUPT in rows.schema.names:
            bad = pc.or_(bad, pc.is_valid(rows.column(CORRUPT)))
        if not pc.any(bad).as_py():
            return rows, rows.slice(0, 0)
        return rows.filter(pc.invert(bad)), rows.filter(bad)

    def _dead_envelope(self, rows: pa.RecordBatch, reason: str) -> Envelope:
        payload = pack_batch(dead_letters(self._stream.name, reason, rows))
        late = rows.num_rows if reason == LATE else 0
        return Envelope(0, Kind.DEAD, self._stream.name, rows=late, payload=payload)

    def _pack_chunk(self, chunk: pa.RecordBatch, arrival: Arrival, number: int, arrived_us: int) -> Iterator[Envelope]:
        parts, ts_us = parts_of(chunk, self._stream.partition), times_of(chunk, self._stream.time)
        place: dict[str, Any] = {"order": arrival.order, "first_us": arrival.first_us}
        place |= {"arrived_us": arrived_us, "chunk": number}
        yield from self._heartbeats(parts, ts_us, place)
        if parts.are_several:
            chunk = chunk.append_column(PART, pa.array(parts.codes))
        late = ts_us < self._known.floors_us(parts.names, self._stream.max_delay_us)[parts.codes]
        if arrival.order != UNORDERED:
            late |= parts.late_rows(ts_us, self._stream.max_delay_us)
        if late.any():
            yield self._dead_envelope(chunk.filter(pa.array(late)), LATE)
            chunk = chunk.filter(pa.array(~late))
        if any(group.numbers_tuples for group in self._plan.groups):
            chunk = self._numbered_on(chunk)
        place |= {"newest_us": int(ts_us.max()), "oldest_us": int(ts_us.min()), "partitions": parts.names}
        yield from self._rows(chunk, place)

    def _heartbeats(self, parts: Parts, ts_us: Int64s, place: dict[str, Any]) -> Iterator[Envelope]:
        """To every shard, how far each of the chunk's sources has come."""
        for name, rows in parts.rows_of_each():
            times: dict[str, Any] = {"newest_us": int(ts_us[rows].max()), "oldest_us": int(ts_us[rows].min())}
            for shard in range(self._shards):
                yield Envelope(
                    shard, Kind.HEARTBEAT, self._stream.name, rows=len(rows), partitions=(name,), **times, **place
                )

    def _rows(self, chunk: pa.RecordBatch, place: dict[str, Any]) -> Iterator[Envelope]:
        """The chunk's rows, for each input that takes them, by shard."""
        taken = np.zeros(chunk.num_rows, dtype=bool)
        times = times_of(chunk, self._stream.time).tobytes() if self._is_counted else b""
        parts = int64s_of(chunk, PART).tobytes() if self._is_counted and PART in chunk.schema.names else b""
        selected: dict[Reader, Selected] = {}
        for group_index, input_index in self._readers:
            counts = self._plan.groups[group_index].counts_rows[input_index]
            whole: dict[str, Any] = {"times": times, "parts": parts} if counts else {}
            first = self._alike[group_index, input_index]
            if first not in selected:
                selected[first] = self._select(first, chunk)
            for shard, batch in self._split(group_index, input_index, selected[first], taken):
                yield Envelope(
                    shard, Kind.ROWS, self._stream.name, group_index, input_index, rows=batch.num_rows,
                    payload=pack_batch(batch), **whole, **place,
                )  # fmt: skip

    @property
    def _is_counted(self) -> bool:
        return any(self._plan.groups[group].counts_rows[input] for group, input in self._readers)

    def _numbered_on(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """The chunk with its rows' numbers, which go on from this task's chunks before it."""
        numbers = np.arange(self._numbered, self._numbered + chunk.num_rows)
        self._numbered += chunk.num_rows
        return chunk.append_column(NUMBER, pa.array(numbers))

    def _select(self, reader: Reader, chunk: pa.RecordBatch) -> Selected:
        """What a leaf operator gives: once for all readers that have it in common."""
        began_s = self._now_s()
        input = self._input(reader)
        selected = Selected.of(input, chunk)
        self._note(reader, chunk, selected.rows.select(list(input.schema.names)), began_s)
        return selected

    def _input(self, reader: Reader) -> Input:
        group, side = reader
        return self._plan.groups[group].inputs[side]

    def _split(
        self, group_index: int, input_index: int, selected: Selected, taken: np.ndarray
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The input's rows and columns, by shard; ``taken`` says which rows an input before it has. Where the group
        counts rows, every shard gets its part, if only an empty one."""
        group = self._plan.groups[group_index]
        reader, counts = group.inputs[input_index], group.counts_rows[input_index]
        kept, chunk = selected.with_keys(reader)
        if counts:
            chunk = chunk.append_column(SEAT, pa.array(np.flatnonzero(kept)))
        marks = {NUMBER: group.numbers_tuples, SEAT: counts, PART: PART in chunk.schema.names}
        carried = chunk.select([*reader.schema.names, *(name for name, is_told in marks.items() if is_told)])
        if chunk.num_rows == 0 and not counts:
            return
        if len(self._readers) > 1:
            carried = carried.append_column(REPORTED, pa.array(~taken[kept]))
            taken |= kept
        if not group.is_join:
            yield from by_shard(carried, self._deal(chunk.num_rows) % self._shards, self._shards, every=counts)
            return
        numbers = _key_numbers(group, reader, chunk)
        carried = _with_numbers(carried, numbers, layout_of(reader, group.key_form))
        cells = self._cells_of(group_index, input_index)
        if cells is None:
            yield from by_shard(carried, shard_of(numbers[0], self._shards), self._shards, every=counts)
            return
        self._look_at(cells, group, input_index, numbers)
        yield from cells.split(carried, numbers, times_of(carried, reader.time), every=counts)
        if counts:
            yield from ((shard, carried.slice(0, 0)) for shard in range(cells.grid.cells, self._shards))

    # --- measuring

    def _now_s(self) -> float:
        return 0.0 if self._clock is None else self._clock()

    def _note(self, reader: Reader, taken: pa.RecordBatch, given: pa.RecordBatch, began_s: float) -> None:
        if self._clock is not None:
            spent_s = self._clock() - began_s
            report = WorkReport(taken.num_rows, given.num_rows, taken.nbytes, given.nbytes, spent_s)
            self._did.setdefault(reader, OperatorMeter()).add(report, 0.0)

    def leaves(self) -> Meters:
        """What the operators did that run here, before the shards'; a reader that takes rows as they are has none."""
        found = Meters()
        for reader, meter in self._did.items():
            leaf = leaf_operator(self._plan.catalog, self._input(reader))
            if leaf is not None:
                found.take(Meters({leaf.name: meter}))
        return found

    # --- where rows go

    def _deal(self, rows: int) -> Int64s:
        """Numbers that go on from row to row."""
        self._dealt += rows
        return np.arange(self._dealt - rows, self._dealt)

    def _cells_of(self, group_index: int, side: int) -> Cells | None:
        """Where a side's rows go; None where the group has no grid: one key's hash says it then."""
        place = (group_index, side)
        if place not in self._cells:
            group = self._plan.groups[group_index]
            grid = self._grids.get(group.signature) or grid_of(group, self._shards)
            self._cells[place] = None if grid is None else Cells(group, side, grid)
        return self._cells[place]

    def _look_at(self, cells: Cells, group: Group, side: int, numbers: Sequence[Int64s]) -> None:
        """Notes which keys are frequent."""
        for attribute, index, share in cells.keyed():
            known = {one.number for one in cells.grid.heavy if one.attribute == attribute}
            place = (group.signature, attribute, side)
            seen = frequent_keys(numbers[index], share, known)
            self.heavy_seen[place] = self.heavy_seen.get(place, SeenKeys()).plus(seen)


def _chunks(rows: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int, int]]:
    """Stretches of rows with one place in arrival order, and the number that tells them from others there."""
    if rows.num_rows == 0:
        return
    if ORDER not in rows.schema.names:
        yield rows, UNORDERED, 0
        return
    orders = rows.column(ORDER).to_numpy(zero_copy_only=False)
    cuts = [0, *(np.flatnonzero(orders[1:] != orders[:-1]) + 1), len(orders)]
    for begin, end in pairwise(cuts):
        mark = int(orders[begin]) & ((1 << ORDER_SHIFT) - 1)
        yield rows.slice(begin, end - begin), int(orders[begin]) >> ORDER_SHIFT, mark


def _key_numbers(group: Group, reader: Input, chunk: pa.RecordBatch) -> list[Int64s]:
    """The numbers of each key that rows are searched by."""
    if group.graph is None:
        return [encode_keys(columns_of_keys(reader.keys, chunk), group.key_form)]
    return [encode_keys(columns_of_keys(index.keys, chunk), index.form) for index in reader.indexes]


def _with_numbers(batch: pa.RecordBatch, numbers: Sequence[Int64s], layout: Layout) -> pa.RecordBatch:
    """The rows with the numbers of their keys, where no column is that number already; without any key, all have 0."""
    if layout.key not in batch.schema.names:
        first = numbers[0] if numbers else np.zeros(batch.num_rows, dtype=np.int64)
        batch = batch.append_column(KEY, pa.array(first))
    for index, some in enumerate(numbers[1:], 1):
        batch = batch.append_column(key_column(index), pa.array(some))
    return batch


def dead_letters(stream: StreamId, reason: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rejected rows as text that people and programs can read."""
    shown = [_readable(row) for row in rows.to_pylist()]
    texts = [json.dumps(row, default=str, ensure_ascii=False) for row in shown]
    columns = [[str(stream)] * len(texts), [reason] * len(texts), texts]
    return pa.RecordBatch.from_arrays([pa.array(one, pa.string()) for one in columns], schema=DEAD_LETTERS)


def dead_letters_from(letters: pa.RecordBatch) -> list[str]:
    """The letters as lines of JSON."""
    return [json.dumps({**one, "row": json.loads(one["row"])}, ensure_ascii=False) for one in letters.to_pylist()]


def _readable(row: dict[str, object]) -> object:
    corrupt = row.pop(CORRUPT, None)
    if corrupt is not None:
        return corrupt
    marks = (ORDER, PARTITION, NUMBER, SEAT, PART)
    return {name: value for name, value in row.items() if name not in marks and not name.startswith((KEY, BEFORE))}
