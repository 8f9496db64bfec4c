"""Who runs the queries of ``asked``, each in a process of its own: ``python -m benchmarks.multiway_contenders TASK``.

native    Spark's own join: tries it, and tells how it is refused
others    Headrace, each with settings of its own, which are in its program
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.contenders import Outcome, Spec, finish, headrace_outcome, run_program, session

TOLD = ("batch", "rows", "batch_ms", "stage_ms", "shards_ms")
"""What is kept of a micro-batch's history."""


@dataclass(frozen=True, slots=True)
class Task(Spec):
    """What such a contender is told: the program, and for Spark the columns of each stream and the condition."""

    module: ClassVar[str] = "benchmarks.multiway_contenders"
    sql: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    where: str = ""


def run_asked(task: Task) -> Outcome:
    run, total_s = run_program(task, task.sql)
    outcome = headrace_outcome(run, total_s)
    outcome.history = [{name: entry[name] for name in TOLD} for entry in run.history() if entry["rows"]]
    outcome.switches = list(run.stats().switches)
    return outcome


def try_native(task: Task) -> Outcome:
    """Whether Spark takes the query; if it does, the contender fails, because nobody has said what to compare."""
    spark = session(task, {})
    sides = []
    for stream, columns in task.columns:
        read = spark.readStream.schema(columns).parquet(f"{task.data}/{stream}")
        sides.append(read.withWatermark("ts", "0 seconds").alias(stream))
    first, second = sides
    try:
        joined = first.join(second, F.expr(f"{task.where} AND {within(task)}")).select(F.lit(1))
        writer = joined.writeStream.format("noop").option("checkpointLocation", f"{task.out}/_checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
    except PySparkException as error:
        said = str(error).partition("terminated with exception: ")
        return Outcome(0.0, {}, {}, refusal=(said[2] or said[0]).splitlines()[0].partition(";")[0])
    raise SystemExit("Error: Spark has not refused the query")


def within(task: Task) -> str:
    (first, _), (second, _) = task.columns
    return " AND ".join(
        f"{newer}.ts <= {older}.ts + INTERVAL {window_s} SECONDS"
        for (newer, older), window_s in zip(((first, second), (second, first)), task.windows_s, strict=True)
    )


def main(text: str) -> None:
    told: dict[str, Any] = json.loads(text)
    task = Task(**told)
    finish(task, try_native(task) if task.contender == "native" else run_asked(task))


if __name__ == "__main__":
    main(sys.argv[1])
