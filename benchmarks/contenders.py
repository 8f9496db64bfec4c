"""The three ways to run a workload, each in a process and a JVM of its own: ``python -m benchmarks.contenders SPEC``.

headrace  all queries in one Engine
native    one Spark stream-stream join per query, all in one session; on the HDFS-backed or the RocksDB state store
ceiling   both sources, a shuffle by key, a mapInArrow that only counts, no sink: what Spark itself costs

Every join writes all columns of its results as Parquet, with the same codec and the same number of shuffle partitions.
The time is from a session that is there, before the first DataFrame is made, until the last streaming query has ended:
the same for all; JVM and session start are outside it. Progress goes to standard output (``batch N``), the outcome to
``result.json`` beside the results.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.inputs import STREAMS, query_name
from headrace.config import Settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.spark.run import Run

CORES = 2
COLUMNS = "key BIGINT, value DOUBLE, ts TIMESTAMP"
STATE_STORE = "spark.sql.streaming.stateStore"
ROCKSDB = {
    f"{STATE_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
}


@dataclass(frozen=True, slots=True)
class Spec:
    """What a contender's process is told; ``module`` is what it runs."""

    module: ClassVar[str] = "benchmarks.contenders"
    contender: str
    """headrace, headrace-counts, native-hdfs, native-rocksdb or ceiling"""
    data: str
    out: str
    windows_s: tuple[int, ...]
    codec: str
    driver_memory: str
    streams: tuple[str, ...] = STREAMS

    def text(self) -> str:
        return json.dumps(asdict(self))


@dataclass(slots=True)
class Outcome:
    """What it answers. ``batches_ms`` and ``stages_ms`` (totals) are per streaming query, by its name."""

    total_s: float
    batches_ms: dict[str, list[float]]
    stages_ms: dict[str, dict[str, float]]
    input_rows: int | None = None
    counted: dict[str, int] | None = None
    """Results per query, where they were counted instead of written."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """Micro-batch by micro-batch, where more is told than times."""
    switches: list[str] = field(default_factory=list)
    refusal: str | None = None
    """Why the contender does not run such a query at all."""


def session(spec: Spec, extra: dict[str, str]) -> SparkSession:
    conf = {
        "spark.driver.memory": spec.driver_memory,
        "spark.ui.enabled": "false",
        "spark.local.dir": str(Path(spec.out).resolve() / "spark"),
        "spark.sql.warehouse.dir": str(Path(spec.out).resolve() / "warehouse"),
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": spec.codec,
        "spark.hadoop.parquet.compression.codec.zstd.level": "1",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        **extra,
    }
    builder = SparkSession.builder.master(f"local[{CORES}]").appName(spec.contender)
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def source(spark: SparkSession, spec: Spec, stream: str) -> DataFrame:
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(f"{spec.data}/{stream}")


# --- Headrace -------------------------------------------------------------------------------------------------------


def stream_sql(stream: str, columns: str, data: Path | str) -> str:
    """A stream of a workload's files, in Headrace's dialect."""
    return (
        f"CREATE STREAM {stream} ({columns}) WITH (connector = 'files', format = 'parquet', "
        f"path = '{data}/{stream}', time = 'ts', max_files_per_batch = '1');"
    )


def headrace_sql(spec: Spec, *, counts: bool) -> str:
    """The streams and one query per window."""
    first, *others = spec.streams
    columns = ", ".join(f"{one}.value AS v{one}, {one}.ts AS t{one}" for one in spec.streams)
    same_key = " AND ".join(f"{first}.key = {other}.key" for other in others)
    into = " INTO (connector = 'count')" if counts else ""
    queries = [
        f"CREATE QUERY {query_name(window)} AS SELECT {first}.key, {columns} FROM {', '.join(spec.streams)} "
        f"WHERE {same_key} WINDOW {window} SECONDS{into};"
        for window in spec.windows_s
    ]
    return "\n".join([*(stream_sql(stream, COLUMNS, spec.data) for stream in spec.streams), *queries])


def run_headrace(spec: Spec, *, counts: bool = False) -> Outcome:
    run, total_s = run_program(spec, headrace_sql(spec, counts=counts))
    return headrace_outcome(run, total_s, counts=counts)


def run_program(spec: Spec, sql: str) -> tuple[Run, float]:
    """A Headrace program to its end, and the seconds it took."""
    from headrace.spark.local import PREPARED
    from headrace.spark.session import Engine

    spark = session(spec, {**ROCKSDB, **PREPARED})
    started = time.perf_counter()
    engine = Engine(spark, settings=Settings(shards=CORES, compression=spec.codec))
    engine.sql(sql)
    run = engine.start(out=spec.out, once=True)
    with reporting(lambda: run.stats().batches):
        run.wait()
    return run, time.perf_counter() - started


def headrace_outcome(run: Run, total_s: float, *, counts: bool = False) -> Outcome:
    history, stats = run.history(), run.stats()
    return Outcome(
        total_s=total_s,
        batches_ms={"headrace": [float(entry["batch_ms"]) for entry in history]},
        stages_ms={"headrace": summed(stages_of(entry) for entry in history)},
        input_rows=sum(stream.tuples for stream in stats.streams),
        counted={query.query: query.results for query in stats.queries} if counts else None,
    )


def stages_of(entry: dict[str, Any]) -> dict[str, float]:
    """A micro-batch's times by stage: under ``stage_ms``, or as fields that end in ``_ms``."""
    if "stage_ms" in entry:
        return dict(entry["stage_ms"])
    return {name.removesuffix("_ms"): ms for name, ms in entry.items() if name.endswith("_ms") and name != "batch_ms"}


# --- Spark's own joins ----------------------------------------------------------------------------------------------


def native_join(spark: SparkSession, spec: Spec, window_s: int) -> DataFrame:
    """The same query for Spark: one stream after the other is joined to what there is. Event time is in order, so a
    delay of 0 loses no result; the window is two range conditions for each pair of streams, from which Spark derives
    how long it must keep a row. It wants one event time in what is joined again: the first stream's stays."""
    first, *others = spec.streams
    joined = native_side(spark, spec, first)
    for number, stream in enumerate(others, 1):
        kept = [name if name != f"t{spec.streams[number - 1]}" else plain(name) for name in joined.columns]
        joined = joined.select(*kept) if number > 1 else joined
        within = [
            f"t{one} >= t{stream} - INTERVAL {window_s} SECONDS AND t{one} <= t{stream} + INTERVAL {window_s} SECONDS"
            for one in spec.streams[:number]
        ]
        condition = F.expr(" AND ".join([f"{first}_key = {stream}_key", *within]))
        joined = joined.join(native_side(spark, spec, stream), condition)
    columns = [name for stream in spec.streams for name in (f"v{stream}", f"t{stream}")]
    return joined.select(F.col(f"{first}_key").alias("key"), *columns)


def plain(name: str) -> Column:
    """A column that is no event time any more: that is told by its metadata."""
    return F.col(name).alias(name, metadata={"plain": True})


def native_side(spark: SparkSession, spec: Spec, stream: str) -> DataFrame:
    columns = [F.col("key").alias(f"{stream}_key"), F.col("value").alias(f"v{stream}"), F.col("ts").alias(f"t{stream}")]
    return source(spark, spec, stream).select(*columns).withWatermark(f"t{stream}", "0 seconds")


def run_native(spec: Spec, store: dict[str, str]) -> Outcome:
    # A micro-batch without data would only clean state up: an inner join gives nothing there, so it is spared.
    spark = session(spec, {**store, "spark.sql.streaming.noDataMicroBatches.enabled": "false"})
    started = time.perf_counter()
    joins = {query_name(window): native_join(spark, spec, window) for window in spec.windows_s}
    queries = [
        join.writeStream.queryName(name)
        .format("parquet")
        .option("path", f"{spec.out}/{name}")
        .option("checkpointLocation", f"{spec.out}/_checkpoint/{name}")
        .trigger(availableNow=True)
        .start()
        for name, join in joins.items()
    ]
    return finished(started, queries)


# --- Spark's ceiling ------------------------------------------------------------------------------------------------


def count_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})


def run_ceiling(spec: Spec) -> Outcome:
    spark = session(spec, {})
    started = time.perf_counter()
    both = source(spark, spec, "a").union(source(spark, spec, "b"))
    counted = both.repartition(CORES, "key").mapInArrow(count_rows, "rows BIGINT")
    query = (
        counted.writeStream.queryName("ceiling")
        .format("noop")
        .option("checkpointLocation", f"{spec.out}/_checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    return finished(started, [query])


# --------------------------------------------------------------------------------------------------------------------


def finished(started: float, queries: list[StreamingQuery]) -> Outcome:
    """Waits for Spark queries to end, and reads their progress reports."""
    with reporting(lambda: min(len(query.recentProgress) for query in queries)):
        for query in queries:
            query.awaitTermination()
    total_s = time.perf_counter() - started
    reports = {query.name: [one for one in query.recentProgress if one["numInputRows"]] for query in queries}
    return Outcome(
        total_s=total_s,
        batches_ms={
            name: [float(one["durationMs"]["triggerExecution"]) for one in all_] for name, all_ in reports.items()
        },
        stages_ms={name: summed(without_total(one["durationMs"]) for one in all_) for name, all_ in reports.items()},
        input_rows=sum(one["numInputRows"] for all_ in reports.values() for one in all_) // len(queries),
    )


def without_total(stages: dict[str, float]) -> dict[str, float]:
    return {name: ms for name, ms in stages.items() if name != "triggerExecution"}


def summed(stages: Iterator[dict[str, float]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for one in stages:
        for name, ms in one.items():
            totals[name] = totals.get(name, 0.0) + ms
    return totals


@contextmanager
def reporting(batches: Callable[[], int]) -> Iterator[None]:
    """While inside, prints how many micro-batches are done, once a second, from a thread of its own."""
    stop = threading.Event()

    def report() -> None:
        while not stop.wait(1.0):
            print(f"batch {batches()}", flush=True)

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


CONTENDERS: dict[str, Callable[[Spec], Outcome]] = {
    "headrace": run_headrace,
    "headrace-counts": lambda spec: run_headrace(spec, counts=True),
    "native-hdfs": lambda spec: run_native(spec, {}),
    "native-rocksdb": lambda spec: run_native(spec, ROCKSDB),
    "ceiling": run_ceiling,
}


def main(text: str) -> None:
    spec = Spec(**json.loads(text))
    finish(spec, CONTENDERS[spec.contender](spec))


def finish(spec: Spec, outcome: Outcome) -> None:
    """Answers, and ends Spark."""
    (Path(spec.out) / "result.json").write_text(json.dumps(asdict(outcome)))
    SparkSession.builder.getOrCreate().stop()


if __name__ == "__main__":
    main(sys.argv[1])
