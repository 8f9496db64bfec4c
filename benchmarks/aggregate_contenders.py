"""Six aggregate queries, each contender in a process of its own: ``python -m benchmarks.aggregate_contenders TASK``.

headrace       all queries in one Engine
native         a stream-stream join and a sliding aggregation of Spark's own for each, on the RocksDB state store
native-joins   only the joins, into nothing: what six queries cost before anything is counted

Spark's aggregation is as near to the query as Spark allows: a window of the query's length at every multiple of the
slide, over results both of whose tuples are in it, written when its end is passed (append mode). Headrace gives a row
when a group's value has changed, also to empty; Spark gives every group of every window, and none that is empty, and
holds a window back until the join can give nothing more to it.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.aggregate_workload import COLUMNS
from benchmarks.contenders import ROCKSDB, Outcome, Spec, finish, finished, headrace_outcome, run_program, session


@dataclass(frozen=True, slots=True)
class Task(Spec):
    """What such a contender is told. ``names``: the queries', by window."""

    module: ClassVar[str] = "benchmarks.aggregate_contenders"
    sql: str = ""
    slide_s: int = 0
    names: tuple[str, ...] = ()


def side(spark: SparkSession, task: Task, stream: str) -> DataFrame:
    read = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(f"{task.data}/{stream}")
    columns = [F.col(name).alias(f"{stream}_{name}") for name in ("key", "value", "ts")]
    return read.select(*columns).withWatermark(f"{stream}_ts", "0 seconds")


def joined(spark: SparkSession, task: Task, window_s: int) -> DataFrame:
    within = (
        f"a_key = b_key AND a_ts >= b_ts - INTERVAL {window_s} SECONDS AND a_ts <= b_ts + INTERVAL {window_s} SECONDS"
    )
    return side(spark, task, "a").join(side(spark, task, "b"), F.expr(within))


def folded(spark: SparkSession, task: Task, window_s: int) -> DataFrame:
    """The query's values at every multiple of the slide."""
    window = F.window("a_ts", f"{window_s} seconds", f"{task.slide_s} seconds").alias("w")
    plain = F.col("b_ts").alias("b_ts", metadata={"plain": True})  # one event time only, which metadata tells
    results = joined(spark, task, window_s).select("a_key", "a_value", "a_ts", "b_value", plain)
    in_both = results.select("*", window).where("b_ts >= w.start AND b_ts < w.end")
    values = in_both.groupBy("w", "a_key").agg(
        F.count("*").alias("n"), F.sum("b_value").alias("total"), F.max("a_value").alias("top")
    )
    return values.select(F.col("a_key").cast("string").alias("grp"), "n", "total", "top", F.col("w.end").alias("ts"))


def run_native(task: Task) -> Outcome:
    spark = session(task, ROCKSDB)
    started = time.perf_counter()
    queries = []
    for name, window_s in zip(task.names, task.windows_s, strict=True):
        if task.contender == "native":
            writer = folded(spark, task, window_s).writeStream.format("parquet").option("path", f"{task.out}/{name}")
        else:
            writer = joined(spark, task, window_s).writeStream.format("noop")
        writer = writer.queryName(name).option("checkpointLocation", f"{task.out}/_checkpoint/{name}")
        queries.append(writer.trigger(availableNow=True).start())
    return finished(started, queries)


def run_headrace(task: Task) -> Outcome:
    run, total_s = run_program(task, task.sql)
    return headrace_outcome(run, total_s)


def main(text: str) -> None:
    told: dict[str, Any] = json.loads(text)
    task = Task(**told)
    finish(task, run_headrace(task) if task.contender == "headrace" else run_native(task))


if __name__ == "__main__":
    main(sys.argv[1])
