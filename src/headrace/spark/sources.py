"""Sources: a declared stream as a Spark streaming DataFrame of all its columns: a query may come that reads them.

Files arrive in modification order, rows in file order: column ``__order`` says so. Generators, other sources of Spark's
and DataFrames given through the API have no order that can be seen; there a micro-batch arrives at once.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headrace.config import Settings
from headrace.engine.arrow_types import arrow_type
from headrace.engine.packing import CORRUPT, ORDER, ORDER_SHIFT
from headrace.errors import SourceError
from headrace.model import Stream
from headrace.plan.connectors import SOURCES
from headrace.spark.ddl import ddl
from headrace.spark.formats import format_frame
from headrace.spark.generator import generator_reader
from headrace.spark.kafka import kafka_frame
from headrace.spark.values import field_of, quoted, read_times, shown, texts_of, with_json

_CHECKED_FILES = 200
"""Parquet files whose schema is looked at before a run starts."""
_LINE = "__line"


def source_frame(spark: SparkSession, stream: Stream, settings: Settings, first_us: int) -> DataFrame:
    """The stream's rows."""
    match stream.option("connector"):
        case "generator":
            return generator_reader(spark, stream, first_us)
        case "kafka":
            return kafka_frame(spark, stream)
        case "spark":
            return format_frame(spark, stream)
    return _file_frame(spark, stream, settings)


def _file_frame(spark: SparkSession, stream: Stream, settings: Settings) -> DataFrame:
    options = SOURCES["files"].values(stream.options)
    path, file_format = str(options["path"]), str(options["format"])
    per_batch = options["max_files_per_batch"] or settings.max_files_per_batch
    reader = spark.readStream.option("maxFilesPerTrigger", int(per_batch))  # type: ignore[arg-type]
    reader = reader.option("maxFileAge", "3650d")  # Spark passes over files a week older than the newest, silently
    schema = ddl(stream.schema)
    if file_format == "json":
        file_format, schema = "text", f"{_LINE} string"
    if file_format == "csv":
        schema = f"{ddl(texts_of(stream.schema))}, `{CORRUPT}` string"
        reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", CORRUPT)
        reader = reader.option("timeZone", "UTC").option("escape", str(options["escape"]))
        # Columns are taken by position, so each header must have them in order: Spark checks it if told so.
        reader = reader.option("header", str(options["header"]).lower()).option("enforceSchema", "false")
    try:
        frame = reader.format(file_format).schema(schema).load(path)
    except AnalysisException as error:
        raise SourceError(f"stream {stream.name} cannot read {path}: {first_line(error)}") from None
    # Below the modification time, anything that tells files apart.
    order = (
        f"shiftleft(unix_millis(_metadata.file_modification_time), {ORDER_SHIFT})"
        f" | (xxhash64(_metadata.file_path) & {(1 << ORDER_SHIFT) - 1})"
    )
    frame = frame.selectExpr("*", f"{order} AS {ORDER}")
    if options["format"] == "json":
        return _objects(frame, stream)
    return read_times(frame, stream.schema) if file_format == "csv" else frame


def _objects(lines: DataFrame, stream: Stream) -> DataFrame:
    """The rows of lines that are an object each; empty ones are none. A column that directories are named by is taken
    from there, as Spark does in other formats."""
    text = sf.col(_LINE)
    found, bad = with_json(lines.where(sf.trim(text, sf.lit(" \t\r")) != ""), text, stream.schema)
    placed = {name.lower(): quoted(name) for name in lines.columns if name not in (_LINE, ORDER)}
    columns = [
        sf.expr(f"try_cast({placed[one.name.lower()]} AS {one.type})").alias(one.name)
        if one.name.lower() in placed
        else field_of(one).alias(one.name)
        for one in stream.schema
    ]
    return found.select(*columns, sf.when(bad, shown(text)).alias(CORRUPT), ORDER)


def first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def check_path(stream: Stream) -> None:
    """Refuses a directory that is not there."""
    path = _visible_path(stream)
    if path is not None and not path.exists():
        raise SourceError(f"stream {stream.name}: there is no {path}. Create the directory, or correct path = '{path}'")


def check_files(stream: Stream) -> None:
    """Refuses, before the first run, files that are not as declared. Later ones, also those that come between two runs,
    are checked by Spark as it reads them."""
    path = _visible_path(stream)
    if path is None:
        return
    options = SOURCES["files"].values(stream.options)
    files = sorted(filter(_is_input, path.iterdir())) if path.is_dir() else [path]
    for file in files[:_CHECKED_FILES]:
        if options["format"] == "parquet":
            _check_parquet(stream, file)
        elif options["format"] == "csv" and options["header"]:
            _check_header(stream, file)


def _visible_path(stream: Stream) -> Path | None:
    """Where a stream's files are; None if it has none, or they are in another file system or found by a pattern: there
    Spark itself will say."""
    path = str(stream.option("path"))
    is_elsewhere = "://" in path or any(mark in path for mark in "*?[{")
    return None if stream.option("connector") != "files" or is_elsewhere else Path(path)


def _is_input(path: Path) -> bool:
    """What Spark would read: no directories, and no names that it takes for hidden."""
    return not path.name.startswith((".", "_")) and path.is_file()


def _check_parquet(stream: Stream, file: Path) -> None:
    try:
        found = pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"stream {stream.name}: {file} is not a Parquet file ({first_line(error)})") from None
    names = {name.lower(): name for name in found.names}
    for column in stream.schema:
        if column.name.lower() not in names:
            raise SourceError(
                f"stream {stream.name}: {file} has no column {column.name} (it has {', '.join(found.names)}). "
                f"Correct the columns of CREATE STREAM {stream.name}, or move the file away"
            )
        kind = found.field(names[column.name.lower()]).type
        if not _readable_as(kind, arrow_type(column.type)):
            raise SourceError(
                f"stream {stream.name}: column {column.name} of {file} is {kind}, declared {column.type}. "
                f"Correct the type in CREATE STREAM {stream.name}, or move the file away"
            )


def _check_header(stream: Stream, file: Path) -> None:
    """The header must be the declared columns in order, case aside: as Spark checks it in later files."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            header = next(csv.reader(lines), None)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"stream {stream.name}: {file} is not a CSV file ({first_line(error)})") from None
    if header is not None and [name.lower() for name in header] != [name.lower() for name in stream.schema.names]:
        raise SourceError(
            f"stream {stream.name}: {file} has the columns {', '.join(header)}, declared are "
            f"{', '.join(stream.schema.names)}. Declare them in the file's order, or move the file away"
        )


def _readable_as(found: pa.DataType, wanted: pa.DataType) -> bool:
    """What Spark's Parquet reader converts without loss."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(found)) and found.unit != "ns"
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_signed_integer(found)) and found.bit_width <= wanted.bit_width
    if pa.types.is_floating(wanted):
        return bool(pa.types.is_floating(found))
    if pa.types.is_string(wanted):
        return bool(pa.types.is_string(found) or pa.types.is_large_string(found))
    if pa.types.is_decimal(wanted):
        return bool(pa.types.is_decimal(found)) and found.scale == wanted.scale and found.precision <= wanted.precision
    return bool(found == wanted)
