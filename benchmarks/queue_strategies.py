"""`make bench-strategies`: paper 003's Figures 2 to 4 (latency, throughput and queue memory over time) as measured.

16 queries with more than 100 operators over 5 self-similar streams (``headrace.lab.sixteen_queries``); those after the
streams' selections take turns (with ``--variants 4`` more than 100 do), under a budget that bursts exceed: all
strategies on the same arrivals. In the engine by a real clock, a micro-batch each in turn, so that whatever else the
machine does meets all of them (``headrace.lab.queue_strategies``); with ``--spark`` on Spark, too, one after the other,
through the public API with two shards (``--only-spark``: that alone). Threshold runs with half the memory that path
capacity needs, with four fifths, and with plenty. No strategy is kept from starving anyone, as in the paper
(``fairness = 'static'``). Memory is what is carried over from one micro-batch to the next; in the engine also what
waits at the most within one.

Writes ``strategies.json``, ``strategies.md`` and ``strategies.png`` (and the same with ``-spark``). Targets are
reported, met or missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.strategies_report import LIMITS, Results, checks, draw, markdown, show
from headrace.lab.operator_strategies import STRATEGIES, told_run
from headrace.lab.queue_strategies import Calibrated, calibrate, run_together
from headrace.lab.sixteen_queries import Sixteen, counted
from headrace.plan.capacities import assumed_facts, release_capacities
from headrace.plan.path_segments import full_segments, simplified_segments
from headrace.plan.shard_graph import scheduled_graph
from headrace.plan.sharing import share
from headrace.sql import read_script


def setting_of(setting: Sixteen) -> dict[str, Any]:
    script = read_script(setting.program())
    found = counted(share(script.catalog, tuple(script.queries)))
    told = {"operators": found.operators, "kinds": found.kinds, "scheduled": found.scheduled, "packing": found.packing}
    return {**asdict(setting), "queries": len(script.queries), **told}


def in_engine(setting: Sixteen, load: float, console: Console) -> Results:
    """All strategies in the engine."""
    calibrate(replace(setting, seconds=5 * setting.speed))  # what is done for the first time takes longer
    known = calibrate(setting)
    console.print(f"all of an interval's work takes {known.interval_work_s * 1000:.0f} ms on the average")
    plain = run_together({name: (name, None) for name in STRATEGIES}, known, load)
    limits = {name: max(1, round(part * plain["path"].peak_bytes)) for name, part in LIMITS.items()}
    limited = run_together(
        {"path": ("path", None)} | {name: ("threshold", limits[name]) for name in limits}, known, load
    )
    again = limited.pop("path")
    runs = {name: told_run(one) for name, one in (plain | limited).items()}
    for name, run in {**runs, "path, beside threshold": told_run(again)}.items():
        _say(name, run, console)
    return {
        "where": "engine",
        "setting": setting_of(setting),
        "load": load,
        "interval_work_ms": round(known.interval_work_s * 1000, 1),
        "cut_alike": _cut_alike(known),
        "path_again": told_run(again),
        "runs": runs,
    }


def _cut_alike(known: Calibrated) -> list[int]:
    """Of the shards' paths, how many both forms of segments cut at the same places; and how many there are."""
    graph = scheduled_graph(known.plan)
    release = release_capacities(graph, assumed_facts(graph, known.facts))
    same = [full_segments(path, release) == simplified_segments(path, release) for path in graph.paths]
    return [sum(same), len(same)]


def _say(name: str, run: dict[str, Any], console: Console) -> None:
    console.print(
        f"{name}: mean latency {run['mean_latency_s']:.2f} s, {run['peak_bytes'] / 1e6:.2f} MB carried over at most, "
        f"{run['mean_bytes'] / 1e6:.2f} MB on the average" + _within(run)
    )


def _within(run: dict[str, Any]) -> str:
    """On Spark it is not told."""
    return f"; {run['most_bytes'] / 1e6:.2f} MB at most within a micro-batch" if "most_bytes" in run else ""


def finish(results: Results, out: Path, stem: str, console: Console) -> None:
    results["checks"] = checks(results)
    results["measured_at"] = time.strftime("%Y-%m-%d")
    (out / f"{stem}.json").write_text(json.dumps(results, indent=1))
    (out / f"{stem}.md").write_text(markdown(results, stem))
    draw(results, out / f"{stem}.png")
    show(results, console)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/strategies"))
    parser.add_argument("--intervals", type=int, default=80, help="seconds of the streams' clock, in the engine")
    parser.add_argument("--spark-intervals", type=int, default=26, help="micro-batches that bring tuples, on Spark")
    parser.add_argument("--load", type=float, default=1.2, help="the part of the time that all work takes")
    parser.add_argument("--variants", type=int, default=1, help="of each query; with 4, more than 100 take turns")
    parser.add_argument("--scale", type=float, default=1.0, help="of the streams' rates")
    parser.add_argument("--seed", type=int, default=Sixteen().seed)
    parser.add_argument("--spark", action="store_true", help="on Spark, too")
    parser.add_argument("--only-spark", action="store_true", help="on Spark alone, going on with the runs stored there")
    parser.add_argument("--at-once", type=int, help="so many runs on Spark; the others with --only-spark, later")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    setting = Sixteen(scale=options.scale, seed=options.seed, variants=options.variants)
    setting = replace(setting, seconds=options.intervals * setting.speed)
    if not options.only_spark:
        finish(in_engine(setting, options.load, console), options.out, "strategies", console)
        (options.out / "spark-runs.json").unlink(missing_ok=True)
    if options.spark or options.only_spark:
        from benchmarks.strategies_on_spark import on_spark

        setting = replace(setting, seconds=options.spark_intervals * setting.speed)
        planned = [
            *((name, name, None) for name in STRATEGIES),
            *((name, "threshold", part) for name, part in LIMITS.items()),
        ]
        told = lambda name, run: _say(name, run, console)  # noqa: E731
        runs = on_spark(setting, options.load, planned, options.out, told, options.at_once)
        if runs is not None:
            finish({"setting": setting_of(setting), **runs}, options.out, "strategies-spark", console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
