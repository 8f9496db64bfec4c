"""Kafka through Spark's own connector: topics as streams, and rows as records.

      record  key | value ............. | timestamp      a topic's partition has an order of its own
                |   json, csv or raw        |
      column  key_column | the others | timestamp_column

Owns: what a record's columns are (one that cannot be read is malformed, and keeps its text), where reading begins, and
what a result row is as a record. Spark keeps the offsets in the checkpoint, so a record is taken once. A row is written
at least once: a micro-batch that is run again after a crash writes the same rows with the same identity::

    <checkpoint>/<query>/<micro-batch>/<shard>/<row>

the record's key unless ``key_column`` says otherwise, and its header ``headrace-id`` in any case. The identity is the
same each time because a shard's step is deterministic: the same input gives the same rows in the same order.
"""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from headrace.engine.packing import CORRUPT
from headrace.errors import HeadraceError, SinkError, SourceError
from headrace.model import PARTITION, TIMESTAMP, Catalog, Options, Schema, Stream
from headrace.plan.connectors import SINKS, SOURCES
from headrace.spark.failures import cause_in
from headrace.spark.packages import check_format
from headrace.spark.values import KEPT_BLANKS, field_of, has_no_date, is_text, quoted, shown, with_csv, with_json

FORMAT = "kafka"
ID_HEADER = "headrace-id"
QUERY_HEADER = "headrace-query"
NO_VALUE = "(no value)"
"""What the dead letters show of a record without a value."""
_ANSWER_MS = 10_000
"""How long a broker may take to answer before a run starts."""
_TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timeZone": "UTC"}
"""How times are written: with microseconds, in UTC."""


# Records as rows.


def kafka_frame(spark: SparkSession, stream: Stream) -> DataFrame:
    """The stream's rows, those that cannot be read with their text in ``CORRUPT``."""
    given = SOURCES[FORMAT].values(stream.options)
    passed = SOURCES[FORMAT].passed(stream.options)
    check_format(spark, FORMAT, f"stream {stream.name}", SourceError)
    topics = str(given["topic"]).split(",")
    _topics(spark, stream, str(given["servers"]), topics, passed)
    reader = spark.readStream.format(FORMAT).options(**passed)
    reader = reader.option("kafka.bootstrap.servers", given["servers"]).option("subscribe", ",".join(topics))
    for name, value in _start(given["start"]).items():
        reader = reader.option(name, value)
    if given["max_records_per_batch"] is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(given["max_records_per_batch"]))
    try:
        return _rows(reader.load(), stream, given)
    except (PySparkException, Py4JJavaError) as error:
        raise SourceError(f"stream {stream.name}: Spark cannot read Kafka so: {cause_in(str(error))}") from None


def _start(start: object) -> dict[str, str]:
    if not isinstance(start, dt.datetime):
        return {"startingOffsets": str(start)}
    moment_ms = (start - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
    # A partition that has nothing since then begins with what comes.
    return {"startingTimestamp": str(moment_ms), "startingOffsetsByTimestampStrategy": "latest"}


def _rows(records: DataFrame, stream: Stream, given: Mapping[str, object]) -> DataFrame:
    key, moment = (str(given[name] or "").lower() for name in ("key_column", "timestamp_column"))
    inside = Schema(tuple(one for one in stream.schema if one.name.lower() not in (key, moment)))
    text = sf.col("value").cast("string")
    found, bad = _parsed(records, text, inside, given)
    found = found.withColumn("__key", shown(sf.col("key").cast("string")))
    columns: list[Column] = []
    for column in stream.schema:
        if column.name.lower() == moment:
            columns.append(sf.col("timestamp").alias(column.name))
        elif column.name.lower() == key:
            read = sf.expr(f"try_cast(__key AS {column.type})")
            bad |= sf.col("__key").isNotNull() & read.isNull()
            if column.type == TIMESTAMP:
                bad |= has_no_date(sf.col("__key"))
            columns.append(read.alias(column.name))
        else:
            columns.append((text if given["format"] == "raw" else field_of(column)).alias(column.name))
    partition = sf.concat_ws("-", sf.col("topic"), sf.col("partition")).alias(PARTITION)
    told = sf.coalesce(shown(text), sf.lit(NO_VALUE))
    return found.select(*columns, sf.when(sf.coalesce(bad, sf.lit(True)), told).alias(CORRUPT), partition)


def _parsed(records: DataFrame, text: Column, inside: Schema, given: Mapping[str, object]) -> tuple[DataFrame, Column]:
    """The records with what their values are, and whether one is none."""
    if given["format"] == "raw":
        return records, text.isNull() | ~is_text(text)
    if given["format"] == "csv":
        return with_csv(records, text, inside, str(given["delimiter"]), str(given["escape"]))
    return with_json(records, text, inside)


# Rows as records.


def records_of(
    rows: DataFrame, schema: Schema, query: str, into: Options, batch: int, run: str, shard: str, row: str
) -> DataFrame:
    """A query's rows of a micro-batch as records: topic, key, value and headers. ``run``: what tells checkpoints apart;
    ``shard`` and ``row``: the columns that tell the rows of a micro-batch apart."""
    given = SINKS[FORMAT].values(into)
    identity = sf.concat_ws("/", sf.lit(run), sf.lit(query), sf.lit(str(batch)), sf.col(shard), sf.col(row))
    key = str(given["key_column"] or "")
    found = schema.find(key) if key else None
    headers = [(QUERY_HEADER, sf.lit(query)), (ID_HEADER, identity)]
    named = [sf.struct(sf.lit(name).alias("key"), one.cast("binary").alias("value")) for name, one in headers]
    return rows.select(
        sf.lit(str(given["topic"] or query)).alias("topic"),
        (identity if found is None else sf.col(quoted(found.name)).cast("string")).alias("key"),
        _value(schema, key, given).alias("value"),
        sf.array(*named).alias("headers"),
    )


def _value(schema: Schema, key: str, given: Mapping[str, object]) -> Column:
    if given["format"] == "raw":
        (inside,) = [one for one in schema if one.name.lower() != key.lower()]
        return sf.col(quoted(inside.name))
    whole = sf.struct(*(sf.col(quoted(one.name)) for one in schema))
    if given["format"] == "csv":
        return sf.to_csv(
            whole, {**_TIMES, **KEPT_BLANKS, "sep": str(given["delimiter"]), "escape": str(given["escape"])}
        )
    return sf.to_json(whole, {**_TIMES, "ignoreNullFields": "false"})


def write_records(records: DataFrame, into: Options) -> None:
    """Sends records to the brokers of a sink; returns when they have them."""
    given = SINKS[FORMAT].values(into)
    writer = records.write.format(FORMAT).options(**SINKS[FORMAT].passed(into))
    writer.option("kafka.bootstrap.servers", given["servers"]).save()


def brokers_of(into: Options) -> Options:
    """What sinks must have in common to be written together."""
    return tuple((name, value) for name, value in into if name == "servers" or name.startswith("option."))


# What is asked of a broker before a run starts.


def with_partitions(spark: SparkSession, catalog: Catalog) -> Catalog:
    """The streams; those that are topics with as many partitions as these have now, where nothing else is said. All are
    waited for, so that one that is heard of later is not late."""
    return Catalog(tuple(_with_partitions(spark, stream) for stream in catalog.streams))


def _with_partitions(spark: SparkSession, stream: Stream) -> Stream:
    if stream.option("connector") != FORMAT or stream.partition != PARTITION or stream.partitions is not None:
        return stream
    given, passed = SOURCES[FORMAT].values(stream.options), SOURCES[FORMAT].passed(stream.options)
    check_format(spark, FORMAT, f"stream {stream.name}", SourceError)
    counts = _topics(spark, stream, str(given["servers"]), str(given["topic"]).split(","), passed)
    return replace(stream, partitions=max(1, sum(counts.values())))


def _topics(
    spark: SparkSession, stream: Stream, servers: str, topics: Sequence[str], passed: Mapping[str, str]
) -> dict[str, int]:
    """How many partitions topics have. Refuses those that are not there: Spark would wait for them, and fail."""
    with _admin(spark, f"stream {stream.name}", servers, passed, SourceError) as admin:
        names = set(admin.listTopics().names().get())
        for topic in topics:
            if topic not in names:
                near = difflib.get_close_matches(topic, names, n=1)
                hint = f"did you mean {near[0]}?" if near else "create it, or correct topic = '...'"
                raise SourceError(f"stream {stream.name}: there is no topic {topic} at {servers}: {hint}")
        asked = spark._jvm.java.util.HashSet()
        for topic in topics:
            asked.add(topic)
        described = admin.describeTopics(asked).allTopicNames().get()
        return {topic: int(described[topic].partitions().size()) for topic in topics}


def ready_topics(spark: SparkSession, query: str, into: Options) -> None:
    """Refuses options that Kafka does not take, which would fail in each micro-batch; makes a sink's topic, with as
    many partitions as the brokers give by default, if it is not there."""
    given, passed = SINKS[FORMAT].values(into), SINKS[FORMAT].passed(into)
    topic, servers = str(given["topic"] or query), str(given["servers"])
    check_format(spark, FORMAT, f"query {query}", SinkError)
    _check_producer(spark, query, servers, passed)
    with _admin(spark, f"query {query}", servers, passed, SinkError) as admin:
        if topic in set(admin.listTopics().names().get()):
            return
        java = spark._jvm.java.util
        new = spark._jvm.org.apache.kafka.clients.admin.NewTopic(topic, java.Optional.empty(), java.Optional.empty())
        admin.createTopics(java.Collections.singleton(new)).all().get()


_SERIALIZERS = ("key.serializer", "value.serializer")
"""Spark's own: it refuses options of these names."""


def _check_producer(spark: SparkSession, query: str, servers: str, passed: Mapping[str, str]) -> None:
    options = {name.lower().removeprefix("kafka."): value for name, value in passed.items() if _is_kafkas(name)}
    own = next((name for name in _SERIALIZERS if name in options), None)
    if own is not None:
        raise SinkError(f"query {query}: option.kafka.{own} cannot be given: Spark writes keys and values itself")
    config = spark._jvm.java.util.HashMap()
    config.put("bootstrap.servers", servers)
    for name in _SERIALIZERS:
        config.put(name, "org.apache.kafka.common.serialization.ByteArraySerializer")
    for name, value in options.items():
        config.put(name, value)
    try:
        spark._jvm.org.apache.kafka.clients.producer.ProducerConfig(config)
    except Py4JJavaError as failure:
        raise SinkError(
            f"query {query}: Kafka does not take its options: {failure.java_exception.getMessage()}"
        ) from None


def _is_kafkas(name: str) -> bool:
    return name.lower().startswith("kafka.")


@contextmanager
def _admin(spark: SparkSession, who: str, servers: str, passed: Mapping[str, str], error: type[HeadraceError]) -> Any:
    """A client that asks brokers; what they refuse is told as ``error``."""
    jvm = spark._jvm
    properties = jvm.java.util.Properties()
    properties.put("bootstrap.servers", servers)
    properties.put("default.api.timeout.ms", str(_ANSWER_MS))
    properties.put("request.timeout.ms", str(_ANSWER_MS // 2))
    for name, value in passed.items():
        if _is_kafkas(name):
            properties.put(name[len("kafka.") :], value)
    admin = None
    try:
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
        yield admin
    except Py4JJavaError as failure:
        cause = failure.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise error(f"{who}: the brokers at {servers} do not do as asked: {_told(cause)}") from None
    except Py4JError as failure:
        raise error(f"{who}: Kafka's client cannot be used: {str(failure).splitlines()[0]}") from None
    finally:
        if admin is not None:
            admin.close(jvm.java.time.Duration.ZERO)


def _told(cause: Any) -> str:
    name = cause.getClass().getSimpleName()
    if name in ("TimeoutException", "ConnectException"):
        return "nobody answers. Start them, or correct servers = '...'"
    return f"{name}: {cause.getMessage()}"
