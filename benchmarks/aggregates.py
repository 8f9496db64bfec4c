"""`make bench-aggregates`: a hundred aggregate queries over one join against one, and six against Spark's own.

hundred   10 windows x 10 groupings, and one of these queries alone: pipelines in one Spark session that get the same
          files in turns, as in ``many_queries``; once evaluated with every micro-batch, once every so many seconds
six       six windows of one grouping: Headrace against six joins and sliding aggregations of Spark's own, each
          contender in a process of its own, one after the other, in a few rounds

Answers are checked against DuckDB: the values of all groups of every query at a few evaluation times. Writes
``results.json`` and ``results.md``. The exit code tells whether every answer was right; targets are reported, met or
missed, and change nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import measure
from benchmarks.aggregate_contenders import Task
from benchmarks.aggregate_workload import (
    GROUPINGS,
    WINDOWS_S,
    Answers,
    Folded,
    Workload,
    difference,
    program,
    queries,
    spread,
    write,
    written_times,
    written_values,
)
from benchmarks.bench import machine, wide_console
from benchmarks.inputs import file_name
from benchmarks.many_queries import SINK, Contestant, measured, quiet, session
from benchmarks.report import markdown_table, verdict
from headrace.config import Settings

ONE = queries(WINDOWS_S[-1:], GROUPINGS[:1])
HUNDRED = queries()
REEVALUATE_S = 2
SIX = queries((2, 4, 8, 12, 16, 20), [("a.key",)])
CONTENDERS = ("headrace", "native-joins", "native")
MOST_RATIO = 4.0
"""Micro-batch time of a hundred queries over that of one: at most."""
TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the two parts are."""

    hundred: Workload
    six: Workload
    rounds: int


FULL = Sizes(Workload(), Workload(batch_s=10, batches=12), 3)
QUICK = Sizes(Workload(sensors=100, batches=14, settling=1), Workload(sensors=100, batch_s=10, batches=5), 1)


# --- a hundred against one ------------------------------------------------------------------------------------------


def contestants_of() -> dict[str, tuple[list[Folded], int]]:
    """By name: the queries, and how often they are evaluated."""
    return {
        "one": (ONE, REEVALUATE_S),
        "hundred": (HUNDRED, REEVALUATE_S),
        "one, every micro-batch": (ONE, 0),
        "hundred, every micro-batch": (HUNDRED, 0),
    }


def run_hundred(workload: Workload, out: Path, console: Console) -> dict[str, Any]:
    data = out / "data-hundred"
    write(workload, data)
    asked = contestants_of()
    with quiet(out / "spark.log"):
        spark = session()
        running = {
            name: Contestant(spark, partial(program, mine, every_s), data, out / "runs" / name.replace(" ", "-"))
            for name, (mine, every_s) in asked.items()
        }
        names = list(running)
        for turn in track(range(workload.batches), "micro-batches", console=console, transient=True):
            for name in [*names[turn % len(names) :], *names[: turn % len(names)]]:
                running[name].take(file_name(turn))
        batches = {name: one.finish() for name, one in running.items()}
        spark.stop()
    answers = Answers(data)
    found = {}
    for name, (mine, every_s) in asked.items():
        files = f"{running[name].out}/{SINK}/micro_batch=*/*.parquet"
        found[name] = {
            **steady(batches[name], workload),
            "queries": len(mine),
            "reevaluate_s": every_s,
            "wrong": wrong_answers(answers, mine, files),
        }
    shutil.rmtree(out / "runs", ignore_errors=True)
    return found


def steady(batches: list[dict[str, Any]], workload: Workload) -> dict[str, Any]:
    """The micro-batches in which all windows are full, and the first of these left out."""

    @dataclass(frozen=True, slots=True)
    class Measured:
        settling: int
        batches: int

    return measured(batches, Measured(workload.first_measured, workload.batches))  # type: ignore[arg-type]


def wrong_answers(answers: Answers, asked: list[Folded], files: str) -> list[str]:
    wrong = []
    for query in asked:
        for at_us in spread(written_times(files)):
            found = difference(answers.values(query, at_us), written_values(files, at_us, f"query = '{query.name}'"))
            wrong += [] if found is None else [f"{query.name} at {at_us}: {found}"]
    return wrong


# --- six against Spark's own ----------------------------------------------------------------------------------------


def run_six(sizes: Sizes, out: Path, console: Console) -> dict[str, Any]:
    data = out / "data-six"
    write(sizes.six, data)
    answers = Answers(data)
    found: dict[str, Any] = {name: {"rounds_s": [], "peak_mib": 0, "wrong": []} for name in CONTENDERS}
    steps = [(turn, name) for turn in range(sizes.rounds) for name in CONTENDERS]
    for turn, name in track(steps, "six queries", console=console, transient=True):
        target = out / "runs" / f"six-{name}"
        task = Task(
            contender=name,
            data=str(data),
            out=str(target),
            windows_s=tuple(query.window_s for query in SIX),
            codec=Settings().compression,
            driver_memory="3g",
            sql=program(SIX, REEVALUATE_S, data),
            slide_s=REEVALUATE_S,
            names=tuple(query.name for query in SIX),
        )
        ran = measure.run(task, out / "logs" / f"{name}-{turn}.log", TIMEOUT_S, lambda _batches, _bytes: None)
        one = found[name]
        one["peak_mib"] = max(one["peak_mib"], round(ran.peak_bytes / 2**20))
        if ran.outcome is None:
            one["wrong"].append(ran.failure)
            continue
        one["rounds_s"].append(round(ran.outcome.total_s, 2))
        one["batches_ms"] = ran.outcome.batches_ms
        if name != "native-joins":
            one["wrong"] += wrong_six(answers, target, is_native=name == "native")
    shutil.rmtree(out / "runs", ignore_errors=True)
    for one in found.values():
        one["total_s"] = median(one["rounds_s"]) if one["rounds_s"] else None
    return found


def wrong_six(answers: Answers, out: Path, *, is_native: bool) -> list[str]:
    """Spark's rows are those of each window's end alone."""
    wrong = []
    for query in SIX:
        files = f"{out}/{query.name}/*.parquet" if is_native else f"{out}/{query.name}/micro_batch=*/*.parquet"
        full = [at_us for at_us in written_times(files) if at_us % (REEVALUATE_S * 1_000_000) == 0]
        for at_us in spread(full):
            only = f"epoch_us(ts) = {at_us}" if is_native else "true"
            found = difference(answers.values(query, at_us), written_values(files, at_us, only))
            wrong += [] if found is None else [f"{query.name} at {at_us}: {found}"]
    return wrong


# --- results --------------------------------------------------------------------------------------------------------


def add_ratios(results: dict[str, Any]) -> None:
    """Of medians; and of a hundred against one, the median of the ratios turn by turn."""
    targets = []
    if sets := results.get("hundred"):
        for name in ("", ", every micro-batch"):
            one, hundred = sets[f"one{name}"], sets[f"hundred{name}"]
            one["ratio"], hundred["ratio"] = 1.0, round(hundred["median_ms"] / one["median_ms"], 2)
            pairs = zip(hundred["measured_ms"], one["measured_ms"], strict=False)
            one["paired_ratio"], hundred["paired_ratio"] = (
                1.0,
                round(median(mine / theirs for mine, theirs in pairs), 2),
            )
            how = "evaluated with every micro-batch" if name else f"evaluated every {REEVALUATE_S} s"
            targets.append(
                {
                    "what": f"a hundred queries against one, {how}: micro-batch time",
                    "wanted": f"<= {MOST_RATIO:g}",
                    "measured": hundred["ratio"],
                    "met": hundred["ratio"] <= MOST_RATIO,
                }
            )
    if six := results.get("six"):
        ours = six["headrace"]["total_s"]
        for name in ("native-joins", "native"):
            theirs = six[name]["total_s"]
            measured_ratio = round(theirs / ours, 2) if ours and theirs else None
            what = "six queries: throughput against six native " + ("queries" if name == "native" else "joins alone")
            targets.append({"what": what, "wanted": "shown", "measured": measured_ratio, "met": None})
    results["targets"] = targets


SET_HEADINGS = ("queries", "evaluated", "micro-batch", "quartiles", "against one", "by turns", "slower shard", "right")
SIX_HEADINGS = ("contender", "seconds", "rounds", "peak memory", "right")
TARGET_HEADINGS = ("what", "wanted", "measured", "")


def set_rows(sets: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            str(one["queries"]),
            f"every {one['reevaluate_s']} s" if one["reevaluate_s"] else "every micro-batch",
            f"{one['median_ms']:.0f} ms",
            " - ".join(map(str, one["quartiles_ms"])),
            f"{one['ratio']:.2f}",
            f"{one['paired_ratio']:.2f}",
            ", ".join(f"{name} {ms:.0f}" for name, ms in one["stage_ms"].items()),
            "no" if one["wrong"] else "yes",
        )
        for one in sets.values()
    ]


def six_rows(six: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            name,
            "-" if one["total_s"] is None else f"{one['total_s']:.1f}",
            ", ".join(f"{seconds:.1f}" for seconds in one["rounds_s"]),
            f"{one['peak_mib']:,} MiB",
            "no" if one["wrong"] else "not asked" if name == "native-joins" else "yes",
        )
        for name, one in six.items()
    ]


def target_rows(results: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (one["what"], one["wanted"], str(one["measured"]), "" if one["met"] is None else verdict(one["met"]))
        for one in results["targets"]
    ]


def tables(results: dict[str, Any]) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    found: list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]] = []
    if "hundred" in results:
        found.append((results["hundred_text"], SET_HEADINGS, set_rows(results["hundred"])))
    if "six" in results:
        found.append((results["six_text"], SIX_HEADINGS, six_rows(results["six"])))
    return [*found, ("Targets", TARGET_HEADINGS, target_rows(results))]


def markdown(results: dict[str, Any]) -> str:
    facts = results["machine"]
    lines = [
        f"Measured on {facts['cores']} cores ({facts['processor']}), {facts['memory_gib']} GiB; "
        f"Spark {facts['pyspark']} on `local[{facts['spark_cores']}]`, Python {facts['python']}.",
    ]
    for title, headings, rows in tables(results):
        lines += ["", f"{title}.", "", *markdown_table(headings, rows)]
    return "\n".join(lines) + "\n"


def faults(results: dict[str, Any]) -> list[str]:
    parts = [results.get("hundred", {}), results.get("six", {})]
    return [f"{name}: {fault}" for part in parts for name, one in part.items() for fault in one["wrong"]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-aggregates", description="What aggregate queries cost.")
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything work?")
    parser.add_argument("--only", default="hundred,six", help="the parts, by name: hundred, six")
    parser.add_argument("--out", type=Path, default=Path("out/bench-aggregates"))
    return parser.parse_args()


def main() -> int:
    args = arguments()
    sizes, out = QUICK if args.quick else FULL, args.out.absolute()
    console = wide_console()
    started = time.perf_counter()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    results: dict[str, Any] = {"machine": machine(), "sizes": asdict(sizes)}
    if "hundred" in args.only:
        results["hundred_text"] = f"A hundred and one: {sizes.hundred}"
        results["hundred"] = run_hundred(sizes.hundred, out, console)
    if "six" in args.only:
        windows = ", ".join(str(query.window_s) for query in SIX)
        results["six_text"] = (
            f"Six queries by sensor (windows of {windows} s, evaluated every {REEVALUATE_S} s): 2 x "
            f"{sizes.six.sensors:,} tuples/s for {sizes.six.batches * sizes.six.batch_s} s, in micro-batches of "
            f"{sizes.six.batch_s} s"
        )
        results["six"] = run_six(sizes, out, console)
    add_ratios(results)
    results["total_s"] = round(time.perf_counter() - started, 1)
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (out / "results.md").write_text(markdown(results))
    for title, headings, rows in tables(results):
        table = Table(*headings, title=title, title_justify="left")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    for fault in faults(results)[:10]:
        console.print(f"wrong: {fault}")
    console.print(f"total {results['total_s'] / 60:.1f} minutes; saved in {args.out}")
    return 1 if faults(results) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted: nothing saved")
