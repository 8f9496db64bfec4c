"""Pack: rows of a source task become a few envelopes, inside ``mapInArrow``, before the shuffle."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark import TaskContext

from headrace.engine.arrow_types import arrow_type
from headrace.engine.packing import CORRUPT, ORDER, Envelope, Kind, Packer
from headrace.model import PARTITION, Stream
from headrace.spark.checkpoint import END_MESSAGE
from headrace.spark.envelopes import to_arrow
from headrace.spark.orders import Orders, batch_number
from headrace.spark.task_told import TaskTold

FLUSH_ROWS = 1 << 21
"""Rows a task gathers before it packs them: bounds its memory."""

Rows = Iterable[pa.RecordBatch]


def packer(
    work: bytes, orders: Orders, stream: Stream, labels: tuple[int, ...]
) -> Callable[[Rows], Iterator[pa.RecordBatch]]:
    """The function that packs one stream's rows, for the run's first plan (pickled) or one that came later. A task ends
    with a tally of its rows, the keys that many of them had, and what its operators did."""

    def pack(batches: Rows) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = context.partitionId() if context else 0
        now = orders.work(batch_number(), work)
        clock = None if now.shard.scheduling is None else time.process_time
        known = orders.sources(batch_number()).get(stream.name)
        packing = Packer(now.plan, stream, len(labels), task, now.grids, clock, known)
        for rows in _gathered(batches):
            began_ns = time.perf_counter_ns()
            envelopes = list(packing.pack(_typed(rows, stream), time.time_ns() // 1000))
            spent_us = (time.perf_counter_ns() - began_ns) // 1000
            timed = [replace(one, spent_us=spent_us) if one.kind is Kind.TALLY else one for one in envelopes]
            yield to_arrow(timed, labels)
        told = TaskTold.of(packing)
        if told is not None:
            yield to_arrow([Envelope(0, Kind.TALLY, stream.name, payload=told.to_payload())], labels)

    return pack


def controller(labels: tuple[int, ...]) -> Callable[[Rows], Iterator[pa.RecordBatch]]:
    """The function that passes control messages on to every shard: the input has ended, or there is work to go on
    with."""

    def control(batches: Rows) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for message in batch.column("value").to_pylist():
                kind = Kind.END if message == END_MESSAGE else Kind.GO_ON
                yield to_arrow([Envelope(shard, kind) for shard in range(len(labels))], labels)

    return control


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
        column = None if field.name in (ORDER, CORRUPT, PARTITION) else stream.schema.find(field.name)
        fields.append(field if column is None else pa.field(field.name, arrow_type(column.type)))
    return rows.cast(pa.schema(fields))
