"""Any format of Spark's: ``connector = 'spark'`` reads what Spark can read as a stream and writes what it can write.

Names and options go to Spark as they are. Owns the fit between a declared stream and what the source has: columns are
taken by name, and cast where the types differ; a row with a value that cannot be cast is malformed.

In a sink's options and path, ``{query}``, ``{micro_batch}`` and ``{checkpoint}`` stand for what is being written. A
micro-batch is written at least once: a sink that knows such names (a path of its own for each micro-batch, written with
``mode = 'overwrite'``; Delta's ``txnAppId`` and ``txnVersion``) drops repeats.
"""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headrace.engine.packing import CORRUPT
from headrace.errors import SinkError, SourceError
from headrace.model import Options, Stream
from headrace.plan.connectors import SINKS, SOURCES
from headrace.spark.ddl import ddl
from headrace.spark.packages import check_format

NAME = "spark"
ENDLESS = frozenset(("rate", "rate-micro-batch"))
"""Streaming sources whose input never ends."""
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
        columns.append(cast.alias(column.name))
    return frame.select(*columns, sf.when(bad, sf.to_json(sf.struct("*"))).alias(CORRUPT))


def check_writable_format(spark: SparkSession, query: str, into: Options) -> None:
    """Refuses a sink whose format the session does not have."""
    check_format(spark, str(SINKS[NAME].values(into)["format"]), f"query {query}", SinkError)


def write_rows(rows: DataFrame, query: str, into: Options, batch: int, run: str) -> None:
    """Writes a query's rows of a micro-batch."""
    given = SINKS[NAME].values(into)
    told = {"query": query, "micro_batch": str(batch), "checkpoint": run}

    def filled(text: str) -> str:
        return _PLACES.sub(lambda found: told[found.group(1)], text)

    passed = {name: filled(text) for name, text in SINKS[NAME].passed(into).items()}
    writer = rows.write.format(str(given["format"])).mode(str(given["mode"])).options(**passed)
    writer.save(None if given["path"] is None else filled(str(given["path"])))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
