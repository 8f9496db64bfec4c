"""Pack: rows of a source task become a few envelopes, inside ``mapInArrow``, before the shuffle."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from headrace.engine.arrow_types import arrow_type
from headrace.engine.packing import CORRUPT, ORDER, Envelope, Kind, Packer
from headrace.model import Stream
from headrace.plan.sharing import SharedPlan
from headrace.spark.envelopes import to_arrow

FLUSH_ROWS = 1 << 21
"""Rows a task gathers before it packs them: bounds its memory."""

Rows = Iterable[pa.RecordBatch]


def packer(plan: SharedPlan, stream: Stream, labels: tuple[int, ...]) -> Callable[[Rows], Iterator[pa.RecordBatch]]:
    """The function that packs one stream's rows."""

    def pack(batches: Rows) -> Iterator[pa.RecordBatch]:
        packing = Packer(plan, stream, len(labels))
        for rows in _gathered(batches):
            began_ns = time.perf_counter_ns()
            envelopes = list(packing.pack(_typed(rows, stream), time.time_ns() // 1000))
            spent_us = (time.perf_counter_ns() - began_ns) // 1000
            timed = [replace(one, spent_us=spent_us) if one.kind is Kind.TALLY else one for one in envelopes]
            yield to_arrow(timed, labels)

    return pack


def ender(labels: tuple[int, ...]) -> Callable[[Rows], Iterator[pa.RecordBatch]]:
    """The function that tells every shard of each control message that the input has ended."""

    def end(batches: Rows) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield to_arrow([Envelope(shard, Kind.END) for shard in range(len(labels))], labels)

    return end


def _gathered(batches: Rows) -> Iterator[pa.RecordBatch]:
    """Batches put together up to ``FLUSH_ROWS`` rows."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
        if rows >= FLUSH_ROWS:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def _typed(rows: pa.RecordBatch, stream: Stream) -> pa.RecordBatch:
    """The batch with the stream's own types: Spark names the session's time zone, the engine is in UTC."""
    fields = []
    for field in rows.schema:
        column = None if field.name in (ORDER, CORRUPT) else stream.schema.find(field.name)
        fields.append(field if column is None else pa.field(field.name, arrow_type(column.type)))
    return rows.cast(pa.schema(fields))
