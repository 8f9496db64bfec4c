"""`make bench-joins`: paper 002's Table 8 and Figure 4, measured on the real engine.

Table 8: four streams with the parameters of Table 5, joined by nested loops and by hash tables of five buckets, eagerly
(evaluated at every unit of time) and lazily (every 5 and 10), each with the best and the worst global order by the cost
model. Beside them the engine's default: a sorted index of single keys and the order it chooses. Figure 4(a): nested
loops and 2, 10 and 30 buckets against the interval. Figure 4(b): how buckets are best shared between one fast stream
and three slow ones. Parameters are the paper's (sections 6.2, 6.3 and 6.5), made larger by a scale S so that comparing
rows is what takes the time: ``multijoin_runs.py`` says how, and what is timed.

All algorithms take turns, round after round, in one process; a rate is measured tuples over the median of their time.
Every algorithm must find as many results as DuckDB does, or its rate counts for nothing. Results are counted, not
delivered; the default is measured both ways.

Writes ``results.json``, ``results.md`` and ``joins.png``. Targets are reported, met or missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.multijoin_answers import duckdb_count
from benchmarks.multijoin_report import Results, checks, draw, markdown, show
from headrace.lab.multijoin_algorithms import (
    DEFAULTS,
    EVEN,
    ONE_FAST,
    ROWS,
    TABLE_5,
    default_algorithms,
    interval_algorithms,
    sharing_algorithms,
    with_buckets,
)
from headrace.lab.multijoin_runs import Algorithm, Filled, Workload
from headrace.plan.costs import multiway_cost


@dataclass(slots=True)
class Timed:
    """What an algorithm did, round by round."""

    seconds: list[float] = field(default_factory=list)
    clock_seconds: list[float] = field(default_factory=list)
    results: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Job:
    workload: Workload
    algorithm: Algorithm


def workloads(quick: bool) -> tuple[Workload, Workload, Workload]:
    shrink = 10 if quick else 1
    return (
        Workload("Table 8", TABLE_5, 80 // shrink, 10),
        Workload("Figure 4(a)", EVEN, 100 // shrink, 50),
        Workload("Figure 4(b)", ONE_FAST, 40 // shrink, 10),
    )


def smaller_and_larger(table: Workload, quick: bool) -> list[Workload]:
    """Table 8's streams at other scales."""
    scales = () if quick else SCALES
    return [replace(table, name=f"{table.name} at S = {scale}", scale=scale) for scale in scales]


SCALED = ROWS[3]
"""Has the least to compare, and the most steps: the one whose plans a step's fixed cost makes the most alike."""
SCALES = (20, 40, 120)


# --- measuring


def measure(jobs: Sequence[Job], rounds: int, progress: Progress) -> dict[tuple[str, str], Timed]:
    """All jobs, round after round, each from its workload's full windows."""
    states = {_state(job): job for job in jobs}
    task = progress.add_task("", total=len(states) + rounds * len(jobs))
    filled = {}
    for state, job in states.items():
        progress.update(task, description=f"filling windows: {job.workload.name}, τ = {job.algorithm.tau}")
        filled[state] = Filled(job.workload, job.algorithm.tau, counted=job.algorithm.counted)
        progress.advance(task)
    timed: dict[tuple[str, str], Timed] = defaultdict(Timed)
    for number in range(rounds):
        for job in jobs:
            name = f"{job.workload.name}: {job.algorithm.name}"
            progress.update(task, description=f"round {number + 1}, {name}")
            gc.collect()
            seconds, clock_seconds, results = filled[_state(job)].run(job.algorithm)
            one = timed[job.workload.name, job.algorithm.name]
            one.seconds.append(round(seconds, 4))
            one.clock_seconds.append(round(clock_seconds, 4))
            one.results.append(results)
            progress.advance(task)
    return timed


def _state(job: Job) -> tuple[str, int, bool]:
    return job.workload.name, job.algorithm.tau, job.algorithm.counted


def told(workload: Workload, timed: Timed) -> dict[str, Any]:
    rates = [round(workload.measured_tuples / one) for one in timed.seconds]
    rate, clock_rate = (workload.measured_tuples / median(one) for one in (timed.seconds, timed.clock_seconds))
    return {"rate": round(rate), "clock_rate": round(clock_rate), "rates": rates, **asdict(timed)}


def table_8(workload: Workload, timed: dict[tuple[str, str], Timed]) -> dict[str, Any]:
    rows = []
    for row in ROWS:
        plans = {}
        for plan, order in row.plans.items():
            cost = multiway_cost(row.streams, order, row.tau)
            shown = ", ".join(f"S{side + 1}" for side in order)
            measured = told(workload, timed[workload.name, f"{row.name}, {plan}"])
            plans[plan] = {"order": shown, "model_cost": round(cost), **measured}
        ratio, clock = (plans["best"][one] / plans["worst"][one] for one in ("rate", "clock_rate"))
        model = plans["worst"]["model_cost"] / plans["best"]["model_cost"]
        said = {"is_index": row.is_index, "tau": row.tau, "paper": row.paper}
        ratios = {"ratio": round(ratio, 2), "clock_ratio": round(clock, 2), "model_ratio": round(model, 2)}
        rows.append({"name": row.name, **said, **plans, **ratios})
    defaults = {name: told(workload, timed[workload.name, name]) for name in DEFAULTS}
    return {"rows": rows, "defaults": defaults}


def lines(
    workload: Workload, algorithms: dict[tuple[str, int], Algorithm], timed: dict[tuple[str, str], Timed]
) -> dict[str, list[dict[str, Any]]]:
    """The lines of a figure: for each a list of points."""
    drawn: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (line, at), algorithm in algorithms.items():
        streams = with_buckets(workload.streams, algorithm.buckets or (1,) * len(workload.streams))
        cost = multiway_cost(streams, algorithm.order or (), algorithm.tau)
        measured = told(workload, timed[workload.name, algorithm.name])
        drawn[line].append({"at": at, "model_cost": round(cost), **measured})
    return dict(drawn)


def by_scale(scaled: Sequence[Workload], timed: dict[tuple[str, str], Timed]) -> list[dict[str, Any]]:
    """How far the best plan of an algorithm is above its worst, the larger the streams."""
    found = []
    for workload in scaled:
        best, worst = (told(workload, timed[workload.name, f"{SCALED.name}, {plan}"])["rate"] for plan in SCALED.plans)
        found.append({"scale": workload.scale, "best": best, "worst": worst, "ratio": round(best / worst, 2)})
    return found


def answers(workload: Workload, timed: dict[tuple[str, str], Timed]) -> dict[str, Any]:
    """How many results each algorithm found that did not find DuckDB's number, and that number."""
    expected = duckdb_count(workload)
    mine = {name: one.results for (of, name), one in timed.items() if of == workload.name}
    wrong = {name: found for name, found in mine.items() if set(found) != {expected}}
    return {"duckdb": expected, "algorithms": len(mine), "wrong": wrong}


def described(workload: Workload) -> dict[str, Any]:
    return {
        "streams": [asdict(one) for one in workload.streams],
        "scale": workload.scale,
        "tuples_per_unit": workload.per_unit,
        "measured_units": workload.measured_units,
        "measured_tuples": workload.measured_tuples,
    }


def run(rounds: int, quick: bool, progress: Progress) -> Results:
    table, intervals, sharing = workloads(quick)
    by_interval, by_strategy = interval_algorithms(), sharing_algorithms()
    jobs = [Job(table, row.algorithm(plan)) for row in ROWS for plan in ("best", "worst")]
    jobs += [Job(table, one) for one in default_algorithms()]
    scaled = sorted([table, *smaller_and_larger(table, quick)], key=lambda one: one.scale)
    jobs += [Job(one, SCALED.algorithm(plan)) for one in scaled if one is not table for plan in SCALED.plans]
    jobs += [Job(intervals, one) for one in by_interval.values()]
    jobs += [Job(sharing, one) for one in by_strategy.values()]
    started = time.perf_counter()
    timed = measure(jobs, rounds, progress)
    results = {
        "workloads": {one.name: described(one) for one in (table, intervals, sharing)},
        "rounds": rounds,
        "quick": quick,
        "table_8": table_8(table, timed),
        "by_scale": {"name": SCALED.name, "scales": by_scale(scaled, timed)},
        "figure_4a": lines(intervals, by_interval, timed),
        "figure_4b": lines(sharing, by_strategy, timed),
        "answers": {one.name: answers(one, timed) for one in (*scaled, intervals, sharing)},
        "measured_at": time.strftime("%Y-%m-%d"),
        "run_s": round(time.perf_counter() - started),
    }
    return {**results, "checks": checks(results)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/bench-joins"))
    parser.add_argument("--quick", action="store_true", help="small streams, one round: does it run, is it right")
    parser.add_argument("--rounds", type=int, help="how often all is measured (3; quick: 1)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        results = run(options.rounds or (1 if options.quick else 3), options.quick, progress)
    (options.out / "results.json").write_text(json.dumps(results, indent=2, ensure_ascii=False))
    (options.out / "results.md").write_text(markdown(results))
    draw(results, options.out / "joins.png")
    show(results, console)
    return 1 if any(one["wrong"] for one in results["answers"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
