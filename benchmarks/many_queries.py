"""`make bench-queries`: what 7, 100 and 1,000 queries over the same seven windows cost, side by side.

Two streams of 2,000 sensors that report once a second; every query asks for alerts, with thresholds and a window of its
own, and all of them write to one shared sink. Each set of queries is a pipeline of its own, and all pipelines are up in
one Spark session. They get the same files in turns, one a stream and micro-batch: what else the machine does meets all
of them alike. The time is that of Spark's whole micro-batch; those in which the largest window fills, and a few more,
are left out. Every query's results are checked against DuckDB's, count and checksum.

Writes ``results.json``, ``results.md`` and ``queries.png`` to the output directory. The exit code tells whether every
answer was right; the target is reported, met or missed, and changes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.bench import machine
from benchmarks.contenders import COLUMNS, CORES, stream_sql
from benchmarks.inputs import SCHEMA, START_US, STREAMS, file_name, write_file
from benchmarks.report import markdown_table, verdict
from headrace.config import Settings
from headrace.spark.session import Engine

WINDOWS_S = (1, 10, 20, 30, 40, 50, 60)
"""Paper 000's uniform windows (1, 100, ... 600 s), ten times smaller."""
COUNTS = (7, 100, 1000)
SINK = "alerts"
TARGET = 3.0
"""Micro-batch time of the largest set of queries over that of the smallest: at most."""


@dataclass(frozen=True, slots=True)
class Workload:
    """``history_s`` of event time in a few large files, which fill the windows; then small files. Of those the first
    ``settling`` are not measured."""

    sensors: int = 2000
    batch_s: int = 2
    batches: int = 45
    settling: int = 5
    history_s: int = max(WINDOWS_S)
    history_file_s: int = 10

    @property
    def spans_s(self) -> list[int]:
        """The event time in each file."""
        return [self.history_file_s] * (self.history_s // self.history_file_s) + [self.batch_s] * self.batches

    @property
    def first_measured(self) -> int:
        return self.history_s // self.history_file_s + self.settling

    def __str__(self) -> str:
        return (
            f"2 x {self.sensors:,} tuples/s ({self.sensors:,} sensors, one reading a second in each stream), "
            f"micro-batches of {self.batch_s} s of event time, windows of {', '.join(map(str, WINDOWS_S))} s"
        )


@dataclass(frozen=True, slots=True)
class Alert:
    """A query: both readings above thresholds of its own, within a window."""

    name: str
    window_s: int
    above_a: float
    above_b: float

    @property
    def sql(self) -> str:
        return (
            f"CREATE QUERY {self.name} AS SELECT a.key, a.value AS va, a.ts AS ta, b.value AS vb, b.ts AS tb FROM a, b "
            f"WHERE a.key = b.key AND a.value > {self.above_a} AND b.value > {self.above_b} "
            f"WINDOW {self.window_s} SECONDS;"
        )


def alerts(count: int) -> list[Alert]:
    """Queries spread evenly over windows and thresholds: a share of 0.05 to 1 % of one stream's readings is above the
    one, 1 to 10 % of the other's above the other."""
    return [
        Alert(
            f"q{number}",
            WINDOWS_S[number % len(WINDOWS_S)],
            round(99 + 0.95 * (number * 0.6180339887 % 1), 5),
            round(90 + 9 * (number * 0.7548776662 % 1), 5),
        )
        for number in range(count)
    ]


def write(workload: Workload, directory: Path) -> None:
    """One file a stream and micro-batch; every sensor once a second, at a moment of its own."""
    for number, stream in enumerate(STREAMS):
        chance = np.random.default_rng([number, workload.sensors])
        folder = directory / stream
        folder.mkdir(parents=True)
        second = 0
        for index, span_s in enumerate(workload.spans_s):
            keys = np.concatenate([chance.permutation(workload.sensors) for _ in range(span_s)])
            ts = START_US + second * 1_000_000 + np.arange(len(keys)) * (1_000_000 // workload.sensors)
            second += span_s
            columns = [pa.array(keys), pa.array(chance.random(len(keys)) * 100), pa.array(ts).cast(SCHEMA.types[2])]
            write_file(folder, index, pa.Table.from_arrays(columns, schema=SCHEMA))


# --- running --------------------------------------------------------------------------------------------------------


def program(queries: list[Alert], data: Path) -> str:
    streams = (stream_sql(stream, COLUMNS, data) for stream in STREAMS)
    return "\n".join([*streams, *(query.sql for query in queries)])


class Contestant:
    """A set of queries in a running pipeline, which is given its input file by file. ``asked``: their program, given
    where the streams' files are."""

    def __init__(self, spark: SparkSession, asked: Callable[[Path], str], data: Path, out: Path) -> None:
        self._data = data
        self._input = out / "input"
        self._engine = Engine(spark, settings=Settings(shards=CORES, shared_sink=SINK))
        shutil.rmtree(out, ignore_errors=True)
        for stream in STREAMS:
            (self._input / stream).mkdir(parents=True)
        self._engine.sql(asked(self._input))
        self.out = out / "results"
        before = {query.id for query in spark.streams.active}
        self._run = self._engine.start(out=self.out)
        (self._query,) = (query for query in spark.streams.active if query.id not in before)

    def take(self, name: str) -> None:
        """One micro-batch: the next file of each stream."""
        for stream in STREAMS:
            os.link(self._data / stream / name, self._input / stream / f".{name}")
        for stream in STREAMS:
            (self._input / stream / f".{name}").rename(self._input / stream / name)
        self._query.processAllAvailable()

    def finish(self) -> list[dict[str, Any]]:
        """What each micro-batch took. Then once more, from the checkpoint: what waits for the input's end comes out."""
        batches = [entry for entry in self._run.history() if entry["rows"]]
        self._run.stop()
        self._engine.start(out=self.out, once=True).wait()
        return [{"batch_ms": one["batch_ms"], "stage_ms": one["stage_ms"]} for one in batches]


def session() -> SparkSession:
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.sql.streaming.pollingDelay": "250ms",  # pipelines that wait for their turn should not be busy
    }
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("many-queries")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def quiet(log: Path) -> Iterator[None]:
    """What Spark and its Python workers write to standard error goes to a file."""
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


# --- right answers --------------------------------------------------------------------------------------------------

_CHECKSUM = "bit_xor(hash(key, va, epoch_us(ta), vb, epoch_us(tb)))"


def expected(queries: list[Alert], data: Path) -> dict[str, tuple[int, str]]:
    """DuckDB's answer to every query: all pairs within the largest window that any could want, then each's share."""
    with duckdb.connect() as database:
        database.execute("CREATE TABLE q (name VARCHAR, window_s INT, above_a DOUBLE, above_b DOUBLE)")
        database.executemany(
            "INSERT INTO q VALUES (?, ?, ?, ?)", [[one.name, one.window_s, one.above_a, one.above_b] for one in queries]
        )
        rows = database.execute(
            f"""
            WITH pairs AS (
              SELECT a.key, a.value AS va, a.ts AS ta, b.value AS vb, b.ts AS tb
              FROM read_parquet('{data}/a/*.parquet') a JOIN read_parquet('{data}/b/*.parquet') b
                ON a.key = b.key AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= {max(WINDOWS_S)} * 1000000
              WHERE a.value > {min(one.above_a for one in queries)} AND b.value > {min(one.above_b for one in queries)}
            )
            SELECT name, count(*), {_CHECKSUM}
            FROM pairs JOIN q ON va > above_a AND vb > above_b
              AND abs(epoch_us(ta) - epoch_us(tb)) <= window_s * 1000000
            GROUP BY name
            """
        ).fetchall()
    return {name: (count, str(checksum)) for name, count, checksum in rows}


def found(out: Path) -> dict[str, tuple[int, str]]:
    files = f"{out}/{SINK}/micro_batch=*/*.parquet"
    with duckdb.connect() as database:
        sql = f"SELECT query, count(*), {_CHECKSUM} FROM read_parquet('{files}') GROUP BY query"
        rows = database.execute(sql).fetchall()
    return {name: (count, str(checksum)) for name, count, checksum in rows}


def wrong_answers(right: dict[str, tuple[int, str]], written: dict[str, tuple[int, str]]) -> list[str]:
    names = [name for name in {*right, *written} if right.get(name) != written.get(name)]
    return [f"{name}: {written.get(name)} instead of {right.get(name)}" for name in sorted(names)]


# --- results --------------------------------------------------------------------------------------------------------


def measured(batches: list[dict[str, Any]], workload: Workload) -> dict[str, Any]:
    """The micro-batches in which all windows are full."""
    kept = batches[workload.settling - workload.batches :]
    times = [one["batch_ms"] for one in kept]
    stages = sorted({name for one in kept for name in one["stage_ms"]})
    return {
        "median_ms": median(times),
        "quartiles_ms": [round(float(np.quantile(times, share))) for share in (0.25, 0.75)],
        "measured_ms": times,
        "batches_ms": [one["batch_ms"] for one in batches],
        "stage_ms": {name: round(median(one["stage_ms"].get(name, 0) for one in kept), 1) for name in stages},
    }


def add_ratios(results: dict[str, Any]) -> None:
    """Against the smallest set: of the medians, and the median of the ratios turn by turn."""
    sets = results["sets"]
    least = sets[str(min(map(int, sets)))]
    for one in sets.values():
        one["ratio"] = round(one["median_ms"] / least["median_ms"], 2)
        pairs = zip(one["measured_ms"], least["measured_ms"], strict=False)
        one["paired_ratio"] = round(median(mine / theirs for mine, theirs in pairs), 2)
    most = sets[str(max(map(int, sets)))]["ratio"]
    results["target"] = {"wanted": f"<= {TARGET:g}", "measured": most, "met": most <= TARGET}


HEADINGS = ("queries", "micro-batch", "quartiles", "against 7", "by turns", "results/batch", "slowest shard", "right")


def rows(results: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            f"{int(count):,}",
            f"{one['median_ms']:.0f} ms",
            " - ".join(f"{ms}" for ms in one["quartiles_ms"]),
            f"{one['ratio']:.2f}",
            f"{one['paired_ratio']:.2f}",
            f"{one['results_a_batch']:,}",
            ", ".join(f"{name} {ms:.0f} ms" for name, ms in one["stage_ms"].items()),
            "no" if one["wrong"] else "yes",
        )
        for count, one in results["sets"].items()
    ]


def markdown(results: dict[str, Any]) -> str:
    facts, target = results["machine"], results["target"]
    lines = [
        f"{results['text']}. Measured on {facts['cores']} cores ({facts['processor']}), {facts['memory_gib']} GiB; "
        f"Spark {facts['pyspark']} on `local[{facts['spark_cores']}]`, Python {facts['python']}.",
        "",
        *markdown_table(HEADINGS, rows(results)),
        "",
        f"Target: {target['wanted']} times the smallest set's micro-batch; measured {target['measured']}: "
        f"{verdict(target['met'])}. Medians over {results['measured_batches']} micro-batches of each set, in turns.",
    ]
    return "\n".join(lines) + "\n"


def draw(results: dict[str, Any], path: Path) -> None:
    """The time of every micro-batch, and the medians."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (times, bars) = pyplot.subplots(1, 2, figsize=(10, 4), width_ratios=(2, 1))
    colours = ("#8a8f98", "#58b3ac", "#1b7f79")
    for colour, (count, one) in zip(colours, results["sets"].items(), strict=False):
        times.plot(one["batches_ms"], color=colour, label=f"{int(count):,} queries", linewidth=1)
    times.axvline(results["first_measured"] - 0.5, color="black", linewidth=0.5, linestyle=":")
    most_ms = max(max(one["measured_ms"]) for one in results["sets"].values())
    times.set(xlabel="micro-batch", ylabel="ms", ylim=(0, 1.3 * most_ms))
    times.legend(fontsize=8)
    names = [f"{int(count):,}" for count in results["sets"]]
    drawn = bars.bar(names, [one["median_ms"] for one in results["sets"].values()], color=colours[: len(names)])
    bars.bar_label(drawn, fmt="%.0f", fontsize=8)
    bars.set(xlabel="queries", ylabel="median micro-batch, ms")
    figure.suptitle(results["text"], fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-queries", description="What many queries cost.")
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything work?")
    parser.add_argument("--counts", default=",".join(map(str, COUNTS)), help="sizes of the sets of queries")
    parser.add_argument("--out", type=Path, default=Path("out/bench-queries"))
    return parser.parse_args()


def main() -> int:
    args = arguments()
    workload = Workload(sensors=200, batches=6, settling=2) if args.quick else Workload()
    counts = sorted(int(count) for count in args.counts.split(","))
    console = Console() if sys.stdout.isatty() else Console(width=160)
    console.print(str(workload))
    started = time.perf_counter()
    data = args.out.absolute() / "data"
    shutil.rmtree(data, ignore_errors=True)
    write(workload, data)
    right = {count: expected(alerts(count), data) for count in counts}
    with quiet(args.out / "spark.log"):
        spark = session()
        contestants = {
            count: Contestant(spark, partial(program, alerts(count)), data, args.out.absolute() / "runs" / str(count))
            for count in counts
        }
        for turn in track(range(len(workload.spans_s)), "micro-batches", console=console, transient=True):
            for count in [*counts[turn % len(counts) :], *counts[: turn % len(counts)]]:
                contestants[count].take(file_name(turn))
        batches = {count: one.finish() for count, one in contestants.items()}
        wrong = {count: wrong_answers(right[count], found(one.out)) for count, one in contestants.items()}
        spark.stop()
    shutil.rmtree(args.out / "runs", ignore_errors=True)
    results: dict[str, Any] = {
        "text": str(workload),
        "workload": asdict(workload),
        "machine": machine(),
        "first_measured": workload.first_measured,
        "measured_batches": workload.batches - workload.settling,
        "sets": {
            str(count): {
                **measured(batches[count], workload),
                "results": sum(results for results, _ in right[count].values()),
                "results_a_batch": round(
                    sum(results for results, _ in right[count].values()) * workload.batch_s / sum(workload.spans_s)
                ),
                "wrong": wrong[count],
            }
            for count in counts
        },
    }
    add_ratios(results)
    results["total_s"] = round(time.perf_counter() - started, 1)
    (args.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (args.out / "results.md").write_text(markdown(results))
    draw(results, args.out / "queries.png")
    show(results, console)
    console.print(f"total {results['total_s'] / 60:.1f} minutes; saved in {args.out}")
    return 1 if any(wrong.values()) else 0


def show(results: dict[str, Any], console: Console) -> None:
    table = Table(*HEADINGS, title="Many queries")
    for row in rows(results):
        table.add_row(*row)
    console.print(table)
    target = results["target"]
    console.print(f"target: {target['wanted']}, measured {target['measured']}: {verdict(target['met'])}")
    for one in results["sets"].values():
        for fault in one["wrong"][:5]:
            console.print(f"wrong: {fault}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted: nothing saved")
