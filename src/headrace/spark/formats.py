"""Any format of Spark's: ``connector = 'spark'`` reads what Spark can read as a stream and writes what it can write.

Names and options go to Spark as they are. Owns the fit between a declared stream and what the source has: columns are
taken by name, and cast where the types differ; a row with a value that cannot be cast is malformed.

In a sink's options and path, ``{query}``, ``{micro_batch}`` and ``{checkpoint}`` stand for what is being written. A
micro-batch is written at least once: a sink that knows such names (a path of its own for each micro-batch, written with
``mode = 'overwrite'``; Delta's ``txnAppId`` and ``txnVersion``) drops repeats.

What Spark would refuse to write, it refuses in the middle of a micro-batch, which ends the pipeline and, as the query
is written down by then, the next run too. So a sink is tried out before it is anybody's: one row of made-up values is
written with its options in the checkpoint's directory. Cost: a job of one task for each new sink.
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headrace.engine.packing import CORRUPT
from headrace.errors import SinkError, SourceError
from headrace.model import TIMESTAMP, Options, Schema, Stream, TypeKind
from headrace.plan.connectors import SINKS, SOURCES
from headrace.spark.ddl import ddl
from headrace.spark.failures import cause_in
from headrace.spark.packages import check_format
from headrace.spark.values import has_no_date

NAME = "spark"
ENDLESS = frozenset(("rate", "rate-micro-batch"))
"""Streaming sources whose input never ends."""
PATH_FORMATS = frozenset(("avro", "csv", "delta", "json", "orc", "parquet", "text", "xml"))
"""Formats that write to their path and nowhere else, so that they can be tried out elsewhere."""
_MADE_UP = {
    TypeKind.STRING: "x",
    TypeKind.BOOLEAN: "false",
    TypeKind.TIMESTAMP: "2026-01-31 12:00:00",
    TypeKind.DATE: "2026-01-31",
}
_ONCE = ("error", "ignore")
"""Modes that write nothing where something is."""
_PLACES = re.compile(r"\{(query|micro_batch|checkpoint)\}")


def format_frame(spark: SparkSession, stream: Stream) -> DataFrame:
    """The stream's rows, from a source that Spark knows by name."""
    given = SOURCES[NAME].values(stream.options)
    name, path = str(given["format"]), given["path"]
    check_format(spark, name, f"stream {stream.name}", SourceError)
    reader = spark.readStream.format(name).options(**SOURCES[NAME].passed(stream.options))
    try:
        try:
            frame = reader.load(path)
        except (PySparkException, Py4JJavaError):  # files have no columns of their own: those that are declared
            frame = reader.schema(ddl(stream.schema)).load(path)
        return _fitted(frame, stream)
    except (PySparkException, Py4JJavaError) as error:
        raise SourceError(f"stream {stream.name}: Spark cannot read {name} so: {_first_line(error)}") from None


def _fitted(frame: DataFrame, stream: Stream) -> DataFrame:
    """The declared columns, each of its type."""
    found = {name.lower(): name for name in frame.columns}
    columns, bad = [], sf.lit(False)
    for column in stream.schema:
        if column.name.lower() not in found:
            raise SourceError(
                f"stream {stream.name}: the source has no column {column.name} (it has {', '.join(frame.columns)}). "
                f"Correct the columns of CREATE STREAM {stream.name}"
            )
        quoted = f"`{found[column.name.lower()].replace('`', '``')}`"
        cast = sf.expr(f"try_cast({quoted} AS {column.type})")
        bad |= sf.col(quoted).isNotNull() & cast.isNull()
        if column.type == TIMESTAMP:
            bad |= has_no_date(sf.col(quoted).cast("string"))
        columns.append(cast.alias(column.name))
    return frame.select(*columns, sf.when(bad, sf.to_json(sf.struct("*"))).alias(CORRUPT))


def check_writable_format(spark: SparkSession, query: str, schema: Schema, into: Options, aside: Path) -> None:
    """Refuses a sink that the session could not write a query's rows to. ``aside``: a directory that driver and
    executors share, to try it out in."""
    given, passed = SINKS[NAME].values(into), SINKS[NAME].passed(into)
    name, path, mode = str(given["format"]), given["path"], str(given["mode"])
    check_format(spark, name, f"query {query}", SinkError)
    if mode in _ONCE and not any("{micro_batch}" in text for text in (str(path), *passed.values())):
        raise SinkError(
            f"query {query}: mode = '{mode}' would write the first micro-batch only. Write another mode, or let "
            "{micro_batch} be in the path"
        )
    if path is not None and name.lower() in PATH_FORMATS:
        filled = _filling(query, 0, "trial")
        _try_out(spark, query, schema, name, {option: filled(text) for option, text in passed.items()}, aside)


def _try_out(
    spark: SparkSession, query: str, schema: Schema, name: str, options: Mapping[str, str], aside: Path
) -> None:
    trial = aside.absolute() / f".trial-{uuid.uuid4().hex[:8]}"
    columns = [sf.lit(_MADE_UP.get(one.type.kind, "0")).cast(str(one.type)).alias(one.name) for one in schema]
    try:
        spark.range(0, 1, 1, 1).select(*columns).write.format(name).options(**options).save(trial.as_uri())
    except (PySparkException, Py4JJavaError) as error:
        raise SinkError(f"query {query}: Spark cannot write {name} so: {cause_in(str(error))}") from None
    finally:
        shutil.rmtree(trial, ignore_errors=True)


def write_rows(rows: DataFrame, query: str, into: Options, batch: int, run: str) -> None:
    """Writes a query's rows of a micro-batch."""
    given, filled = SINKS[NAME].values(into), _filling(query, batch, run)
    passed = {name: filled(text) for name, text in SINKS[NAME].passed(into).items()}
    writer = rows.write.format(str(given["format"])).mode(str(given["mode"])).options(**passed)
    writer.save(None if given["path"] is None else filled(str(given["path"])))


def _filling(query: str, batch: int, run: str) -> Callable[[str], str]:
    """Puts what is being written into a sink's texts."""
    told = {"query": query, "micro_batch": str(batch), "checkpoint": run}
    return lambda text: _PLACES.sub(lambda found: told[found.group(1)], text)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
