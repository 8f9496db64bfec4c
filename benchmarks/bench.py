"""`make bench`: every contender on every scenario, one after the other, checked against DuckDB.

Writes ``results.json``, ``results.md`` and ``bench.png`` to the output directory. The exit code tells whether every
contender ran and every answer was right; targets are reported, met or missed, and change nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import psutil
import pyspark
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import headrace
from benchmarks import inputs, measure, report
from benchmarks.contenders import CORES, Spec
from benchmarks.inputs import Answer, Work, Workload
from headrace.config import Settings

TIMEOUT_S = 900.0
START_S = 20.0
"""What a contender may take to start its JVM and session, which is not in its time."""
ALL = ("headrace", "native-hdfs", "native-rocksdb", "ceiling")
MOST_HEAP_GB = 14
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Scenario:
    """A workload and who runs it."""

    title: str
    workload: Work
    contenders: tuple[str, ...]
    repeated: tuple[str, ...] = ()
    """Contenders that take turns ``ROUNDS`` times: their runs are short, and one alone says as much about the machine's
    mood as about them. The run with the median time stands for the contender, the median of the ratios for the pair."""

    @property
    def runs(self) -> tuple[str, ...]:
        """Who runs, in order."""
        once = tuple(name for name in self.contenders if name not in self.repeated)
        return once + tuple(name for name in self.contenders if name in self.repeated) * ROUNDS

    @property
    def name(self) -> str:
        return self.workload.name

    def spec(self, contender: str, data: Path, options: Options) -> Spec:
        """What a contender is told."""
        assert isinstance(self.workload, Workload)
        return Spec(
            contender=contender,
            data=str(data.resolve()),
            out=str(self.out(contender, options)),
            windows_s=self.workload.windows_s,
            codec=options.codec,
            driver_memory=options.driver_memory,
            streams=self.workload.streams,
        )

    def out(self, contender: str, options: Options) -> Path:
        return (options.out / "runs" / self.name / contender).resolve()


def scenarios(quick: bool) -> tuple[Scenario, ...]:
    """The sizes of the comparison; quick ones only show that everything works."""
    six = (1, 5, 15, 30, 60, 90)
    if quick:
        one = Workload("one", 1_000, 20, 500, (10,))
        many = Workload("six", 1_000, 20, 5_000, six)
        large = Workload("large", 5_000, 20, 25_000, six)
        short, long = Workload("short", 1_000, 40, 5_000, (6,)), Workload("long", 1_000, 40, 15_000, (18,))
    else:
        one = Workload("one", 10_000, 100, 5_000, (10,))
        many = Workload("six", 10_000, 100, 50_000, six)
        large = Workload("large", 50_000, 40, 250_000, six)
        short, long = Workload("short", 10_000, 150, 50_000, (30,)), Workload("long", 10_000, 150, 150_000, (90,))
    return (
        Scenario("one query", one, ALL),
        Scenario("six queries", many, ALL),
        Scenario(
            "larger size", large, ("headrace-counts", "headrace", "ceiling"), repeated=("headrace-counts", "ceiling")
        ),
        Scenario("window growth, short window", short, ("headrace",)),
        Scenario("window growth, long window", long, ("headrace",)),
    )


@dataclass(frozen=True, slots=True)
class Options:
    out: Path
    codec: str
    driver_memory: str
    timeout_s: float
    keep: bool


def run_scenario(scenario: Scenario, options: Options, progress: Progress) -> dict[str, Any]:
    """Every contender of a scenario in turn; the answer to compare with is computed first."""
    workload = scenario.workload
    task = progress.add_task(f"{scenario.title}: input and DuckDB's answer", total=None, memory="")
    data = workload.write(options.out / "data")
    right = workload.expected(data)
    progress.remove_task(task)
    entries: dict[str, Any] = {}
    runs: dict[str, list[dict[str, Any]]] = {}
    for contender in scenario.runs:
        task = progress.add_task(f"{scenario.title}: {contender}", total=workload.batches, memory="")
        spec = scenario.spec(contender, data, options)
        limit_s = min(options.timeout_s, beaten_after_s(contender, entries))
        entry = run_contender(spec, workload, right, replace(options, timeout_s=limit_s), progress, task)
        if limit_s < options.timeout_s and entry["failure"] == measure.not_done(limit_s):
            entry["beaten_s"] = round(limit_s)
        runs.setdefault(contender, []).append(entry)
        entries[contender] = stands_for(runs[contender])
        progress.remove_task(task)
        progress.console.print(report.line(contender, entry))
    return {
        "title": scenario.title,
        "workload": {**asdict(workload), "text": str(workload), "batches": workload.batches, "tuples": workload.tuples},
        "steady_from": workload.steady_from,
        "expected": {name: answer.results for name, answer in right.items()},
        "contenders": entries,
    }


def stands_for(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Of a contender's runs the one with the median time, with the times of all; one that went wrong, if any did."""
    bad = [run for run in runs if run["failure"] or run["wrong"]]
    if bad or len(runs) == 1:
        return bad[0] if bad else runs[0]
    by_time = sorted(runs, key=lambda run: run["total_s"])
    rounds = {"rounds_s": [run["total_s"] for run in runs]}
    if runs[0].get("history"):
        rounds["rounds_history"] = [run["history"] for run in runs]
    return {**by_time[(len(runs) - 1) // 2], **rounds}


def beaten_after_s(contender: str, entries: dict[str, Any]) -> float:
    """When a native contender has taken longer than the one before it (and a start): only the better of the two
    counts, so there is nothing more to learn from it."""
    native = [entries[one]["total_s"] for one in report.STORES if one in entries and not entries[one]["failure"]]
    return min(native) + START_S if contender in report.STORES and native else math.inf


def run_contender(
    spec: Spec, workload: Work, right: dict[str, Answer], options: Options, progress: Progress, task: Any
) -> dict[str, Any]:
    def show(batches: int, memory_bytes: float) -> None:
        progress.update(task, completed=min(batches, workload.batches), memory=f"{memory_bytes / 2**30:.1f} GiB")

    log = options.out / "logs" / f"{workload.name}-{spec.contender}.log"
    measured = measure.run(spec, log, options.timeout_s, show)
    entry: dict[str, Any] = {"failure": measured.failure, "peak_mib": round(measured.peak_bytes / 2**20)}
    outcome = measured.outcome
    if outcome is not None and outcome.refusal is not None:
        entry |= {"refused": outcome.refusal, "wrong": []}
    elif outcome is not None:
        batches_ms = slowest(list(outcome.batches_ms.values()))
        entry |= {
            "total_s": round(outcome.total_s, 3),
            "tuples_per_s": round(workload.tuples / outcome.total_s),
            "first_batch_ms": batches_ms[0] if batches_ms else None,
            "later_batch_ms": median(batches_ms[1:]) if batches_ms[1:] else None,
            "batches_ms": batches_ms,
            "stages_ms": report.added(outcome.stages_ms),
        }
        if outcome.history:  # without the micro-batch that only tells that the input has ended
            entry |= {"history": outcome.history[: workload.batches], "switches": outcome.switches}
        entry |= check(spec, outcome, workload, right)
    if not options.keep:
        shutil.rmtree(spec.out, ignore_errors=True)
    return entry


def slowest(queries: list[list[float]]) -> list[float]:
    """The time of each micro-batch; of queries side by side, the slowest one's."""
    return [
        max(times[batch] for times in queries if batch < len(times))
        for batch in range(max(map(len, queries), default=0))
    ]


def check(spec: Spec, outcome: measure.Outcome, workload: Work, right: dict[str, Answer]) -> dict[str, Any]:
    """Whether all input was read and every answer is DuckDB's."""
    wrong = []
    if outcome.input_rows != workload.tuples:
        wrong.append(f"read {outcome.input_rows:,} tuples of {workload.tuples:,}")
    if spec.contender == "ceiling":
        return {"wrong": wrong}
    files = {name: inputs.result_files(Path(spec.out) / name) for name in right}
    if outcome.counted is not None:
        answers = {name: Answer(outcome.counted.get(name, 0)) for name in right}
    else:
        answers = {name: inputs.found(files[name], workload.hashed) for name in right}
    for name, answer in answers.items():
        if answer.results != right[name].results:
            wrong.append(f"{name}: {answer.results:,} results instead of {right[name].results:,}")
        elif not answer.agrees(right[name]):
            wrong.append(f"{name}: the count is right, the rows are not")
    written = [path for paths in files.values() for path in paths]
    return {
        "wrong": wrong,
        "results": sum(answer.results for answer in answers.values()),
        "codec": inputs.codec_of(written),
        "output_mib": round(sum(path.stat().st_size for path in written) / 2**20, 1),
    }


def wide_console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=160)


def machine() -> dict[str, Any]:
    return {
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "duckdb": duckdb.__version__,
        "headrace": headrace.__version__,
        "spark_cores": CORES,
    }


def arguments(prog: str, description: str, scenarios: str, contenders: str, out: Path) -> argparse.Namespace:
    heap_gb = min(MOST_HEAP_GB, int(psutil.virtual_memory().total * 0.6 / 2**30))
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything work?")
    parser.add_argument("--only", default="", help=f"scenarios, by name: {scenarios}")
    parser.add_argument("--contenders", default="", help=f"some of {contenders}")
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument(
        "--codec", default=Settings().compression, help="Parquet compression of every contender's results"
    )
    parser.add_argument("--driver-memory", default=f"{max(heap_gb, 1)}g", help="the JVM's heap limit, for all")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds a contender may take")
    parser.add_argument("--keep", action="store_true", help="keep what the contenders wrote")
    return parser.parse_args()


def chosen(args: argparse.Namespace, scenarios: Sequence[Scenario]) -> list[Scenario]:
    names = {name for name in args.only.split(",") if name}
    who = {name for name in args.contenders.split(",") if name}
    picked = [one for one in scenarios if not names or one.name in names]
    if not who:
        return picked
    kept = [replace(one, contenders=tuple(name for name in one.contenders if name in who)) for one in picked]
    return [one for one in kept if one.contenders]


def run_all(args: argparse.Namespace, picked: Sequence[Scenario], console: Console) -> dict[str, Any]:
    """Every scenario in turn, with what is to be known about the run."""
    options = Options(args.out, args.codec, args.driver_memory, args.timeout, args.keep)
    started = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[memory]}"))
    done: dict[str, Any] = {}
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        for scenario in picked:
            console.print(f"[bold]{scenario.title}[/bold]: {scenario.workload}")
            done[scenario.name] = run_scenario(scenario, options, progress)
    args.out.mkdir(parents=True, exist_ok=True)
    return {
        "quick": args.quick,
        "machine": machine(),
        "codec": args.codec,
        "driver_memory": args.driver_memory,
        "scenarios": done,
        "total_s": round(time.perf_counter() - started, 1),
    }


def main() -> int:
    args = arguments(
        "make bench",
        "Headrace against Spark's own joins.",
        "one,six,large,short,long",
        f"{', '.join(ALL)}, headrace-counts",
        Path("out/bench"),
    )
    console = wide_console()
    results = run_all(args, chosen(args, scenarios(args.quick)), console)
    results["ratios"] = report.ratios(results)
    results["targets"] = report.targets(results)
    (args.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (args.out / "results.md").write_text(report.markdown(results))
    report.draw(results, args.out / "bench.png")
    report.show(results, console)
    console.print(
        f"total {results['total_s'] / 60:.1f} minutes; saved in {args.out}: results.json, results.md, bench.png"
    )
    return 1 if report.faults(results) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted: nothing saved")
