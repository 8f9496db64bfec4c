"""Sinks that Spark writes: Kafka, and any format by name. Rows leave the shards as reports and are written by tasks.

Owns :class:`Outlet` and where a row stands: its shard and its number among the query's rows of that shard in the
micro-batch, which are the same when the micro-batch is run again. Kafka sinks of the same brokers are written together,
by one job a micro-batch; others by one each, and none where a query has no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.engine.segments import unpack_batch
from headrace.model import Options, QueryId, Schema
from headrace.spark import formats, kafka
from headrace.spark.ddl import ddl
from headrace.spark.fresh_rows import without_stale

SHARD, ROW = "__shard", "__row"
CONNECTORS = frozenset((kafka.FORMAT, formats.NAME))
"""The connectors of INTO that are written in this way."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where one query's rows are written."""

    query: str
    schema: Schema
    into: Options

    @property
    def connector(self) -> str:
        return dict(self.into)["connector"]

    def placed_ddl(self) -> str:
        """The columns of rows that know their places."""
        return f"{ddl(self.schema)}, {SHARD} int, {ROW} bigint"


def make_ready(spark: SparkSession, outlets: Iterable[Outlet], aside: Path) -> None:
    """Refuses outlets that could not be written to; makes topics that are not there. ``aside``: a directory that driver
    and executors share."""
    for one in outlets:
        if one.connector == kafka.FORMAT:
            kafka.ready_topics(spark, one.query, one.into)
        else:
            formats.check_writable_format(spark, one.query, one.schema, one.into, aside)


def write_out(outlets: Iterable[Outlet], rows_of: Callable[[Outlet], DataFrame], batch: int, run: str) -> None:
    """Writes a micro-batch; ``rows_of`` gives an outlet's rows with their places, ``run`` tells checkpoints apart."""
    together: dict[Options, list[Outlet]] = {}
    for one in outlets:
        if one.connector == kafka.FORMAT:
            together.setdefault(kafka.brokers_of(one.into), []).append(one)
        else:
            formats.write_rows(rows_of(one).drop(SHARD, ROW), one.query, one.into, batch, run)
    for mine in together.values():
        records = [
            kafka.records_of(rows_of(one), one.schema, one.query, one.into, batch, run, SHARD, ROW) for one in mine
        ]
        kafka.write_records(reduce(DataFrame.unionAll, records), mine[0].into)


Unpacking = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""For ``mapInArrow`` over a query's reports."""


def unpacked(released_us: int) -> Unpacking:
    """Result rows out of their payloads, those that are fresh at a time."""

    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column("payload"):
                yield without_stale(unpack_batch(payload.as_buffer()), released_us)

    return unpack


def placed(released_us: int) -> Unpacking:
    """The same with their places: a row has the same place, whichever others are left out."""

    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen: dict[int, int] = {}
        for batch in batches:
            for shard, payload in zip(batch.column("shard").to_pylist(), batch.column("payload"), strict=True):
                rows = with_places(unpack_batch(payload.as_buffer()), shard, seen)
                yield without_stale(rows, released_us)

    return unpack


def with_places(rows: pa.RecordBatch, shard: int, seen: dict[int, int]) -> pa.RecordBatch:
    """The rows with their places; ``seen`` has how many each shard had before, and goes on."""
    first = seen.get(shard, 0)
    seen[shard] = first + rows.num_rows
    shards = pa.array(np.full(rows.num_rows, shard, dtype=np.int32))
    return rows.append_column(SHARD, shards).append_column(ROW, pa.array(np.arange(first, seen[shard])))


def of_queries(schemas: Mapping[QueryId, Schema], sinks: Iterable[tuple[QueryId, Options]]) -> dict[str, Outlet]:
    """The outlets among the queries' sinks."""
    return {
        query: Outlet(query, schemas[query], into) for query, into in sinks if dict(into).get("connector") in CONNECTORS
    }
