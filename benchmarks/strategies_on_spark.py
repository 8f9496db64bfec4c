"""The same queries, streams and strategies on Spark, through the public API.

First a run without a limit that matters tells how many probes a micro-batch's work comes to on the average; the
others have so many over the load as their budget. A budget of time would be other work for each run, as the machine
is faster or slower then. Every micro-batch brings the same stretch of the streams' time, however long it takes: the
arrivals are the same in every run. So is what is known of operators at the start: all runs go on from copies of one
that collected statistics for some micro-batches, without a limit, and was stopped, as the paper's experiments have a
period of collecting them. Latency is from when a result's newest tuple was read to when its micro-batch was published;
queue memory is what is carried over to the next micro-batch, on all shards together.

Each run is stored as it ends. What was stored for the same setting is not run again, so that the runs, which take
minutes each, may be made in several goes.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.strategies_report import Results
from headrace.config import Settings
from headrace.lab.sixteen_queries import Sixteen
from headrace.spark.local import local_session
from headrace.spark.run import Run
from headrace.spark.session import Engine

SHARDS = 2
TRIGGER_S = 2.5
"""From one micro-batch to the next."""
STATISTICS = 8
"""Micro-batches of which operators are known when a strategy begins."""
PATIENCE_S = 180
"""How long a run may go on after its last tuple is due."""

Planned = Sequence[tuple[str, str, float | None]]
Seen = dict[int, tuple[float, dict[str, Any]]]
"""Micro-batches by their numbers: when they were seen to be over, and what was told of them."""


FREE = "without a limit"
WHOLE = "1 h"
"""More than any micro-batch takes."""


def on_spark(
    setting: Sixteen,
    load: float,
    planned: Planned,
    out: Path,
    say: Callable[[str, dict[str, Any]], None],
    at_once: int | None = None,
) -> Results | None:
    """All strategies; ``planned``: by name, a strategy, and its memory as a part of what path capacity needs. None:
    this go made ``at_once`` runs, and some are left."""
    longer = replace(setting, seconds=setting.seconds + STATISTICS * setting.speed, is_stepped=True)
    stored = _Stored(out / "spark-runs.json", {"load": load, "statistics": STATISTICS, **asdict(longer)})
    ahead = [(FREE, "path", None), *planned]
    begun = out / "begun"
    if not begun.exists() and any(one[0] not in stored.runs for one in ahead):
        stored.runs.clear()  # the others would begin with other statistics
    left = [one for one in ahead if one[0] not in stored.runs]
    spark = local_session(out / "spark.log") if left else None
    try:
        if not stored.runs:
            shutil.rmtree(begun, ignore_errors=True)
            _begin(Engine(spark, _settings("path", WHOLE, None)), longer, begun)
        for name, strategy, part in left[:at_once]:
            limit_bytes = None if part is None else max(1, round(part * stored.runs["path"]["peak_bytes"]))
            budget = WHOLE if name == FREE else f"{round(stored.runs[FREE]['interval_probes'] / load)} probes"
            engine = Engine(spark, _settings(strategy, budget, limit_bytes))
            place = out / f"run-{len(stored.runs)}"  # of its own: Spark may still be writing to the last one's
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(begun, place)
            stored.add(name, {**_run(engine, longer, place), "limit_bytes": limit_bytes})
            say(name, stored.runs[name])
    finally:
        for place in out.glob("run-*"):
            shutil.rmtree(place, ignore_errors=True)
        if spark is not None:
            spark.stop()
    if any(name not in stored.runs for name, _, _ in ahead):
        return None
    shutil.rmtree(begun, ignore_errors=True)
    free = stored.runs[FREE]
    return {
        "where": "spark",
        "load": load,
        "interval_work_ms": round(free["work_ms"], 1),
        "interval_probes": round(free["interval_probes"]),
        "free_latency_s": free["mean_latency_s"],
        "runs": {name: stored.runs[name] for name, _, _ in planned},
    }


class _Stored:
    """The runs of a setting that have been made; those of another setting are forgotten."""

    def __init__(self, path: Path, setting: dict[str, Any]) -> None:
        self._path, self._setting = path, setting
        told = json.loads(path.read_text()) if path.exists() else {}
        self.runs: dict[str, Any] = told["runs"] if told.get("setting") == setting else {}

    def add(self, name: str, run: dict[str, Any]) -> None:
        self.runs[name] = run
        self._path.write_text(json.dumps({"setting": self._setting, "runs": self.runs}))


def _settings(strategy: str, budget: str, limit_bytes: int | None) -> Settings:
    settings = Settings(shards=SHARDS)
    given = {
        "strategy": strategy,
        "fairness": "static",
        "budget": budget,
        "trigger": f"{TRIGGER_S:g} s",
        "backlog_limit": str(10**9),
        "queue_memory": f"{limit_bytes or 2**40} B",
    }
    for name, value in given.items():
        settings = settings.with_text(name, value)
    return settings


def _begin(engine: Engine, setting: Sixteen, out: Path) -> None:
    """Until statistics have been collected."""
    engine.sql(setting.program())
    run = engine.start(out)
    try:
        _watch(run, STATISTICS, lambda seen: len(seen) >= STATISTICS)
    finally:
        run.stop()


def _run(engine: Engine, setting: Sixteen, out: Path) -> dict[str, Any]:
    """One run from there on, until nothing waits after the last tuple."""
    engine.sql(setting.program())
    run = engine.start(out)
    intervals = setting.intervals - STATISTICS
    try:
        seen = _watch(run, intervals, lambda seen: len(seen) >= intervals and _is_empty(run, seen))
        is_done, graph = _is_empty(run, seen), run.stats().graph
    finally:
        run.stop()
    began_s = min(at_s for at_s, _ in seen.values())
    moments = [_moment(max(at_s - began_s, 0.0) + TRIGGER_S, entry) for at_s, entry in seen.values()]
    work_ms = [
        max((told.get("join", 0.0) + told.get("emit", 0.0) for told in entry["shards_ms"]), default=0.0)
        for _, entry in seen.values()
    ]
    results = sum(one[1] for one in moments)
    spans_s = [one[0] - before for one, before in zip(moments, [0.0, *(one[0] for one in moments)], strict=False)]
    assert graph is not None
    return {
        "results": results,
        "mean_latency_s": round(sum(one[2] for one in moments) / max(results, 1), 3),
        "peak_bytes": max(one[3] for one in moments),
        "mean_bytes": round(sum(one[3] * span for one, span in zip(moments, spans_s, strict=True)) / moments[-1][0]),
        "is_done": is_done,
        "mode_changes": graph.mode_changes,
        "turns": sum(one.turns for one in graph.operators),
        "work_ms": sum(work_ms) / intervals,
        "interval_probes": sum(entry["probes"] for _, entry in seen.values()) / intervals,
        "moments": moments,
    }


def _watch(run: Run, intervals: int, is_done: Callable[[Seen], bool]) -> Seen:
    """The micro-batches of a run until it is done, or takes far longer than so many of them should."""
    seen: Seen = {}
    until_s = time.monotonic() + intervals * TRIGGER_S + PATIENCE_S
    while not is_done(seen) and time.monotonic() < until_s:
        run.wait(TRIGGER_S / 2)
        for entry in run.history():
            seen.setdefault(entry["batch"], (time.monotonic(), entry))
    if not seen:
        raise SystemExit("no micro-batch came to an end: the machine is too slow, or busy")
    return seen


def _is_empty(run: Run, seen: Seen) -> bool:
    graph = run.stats().graph
    return not seen[max(seen)][1]["backlog_rows"] and (graph is None or not graph.queue_bytes)


def _moment(at_s: float, entry: dict[str, Any]) -> list[Any]:
    told = entry["responses"].values()
    results, latency_s = sum(one[0] for one in told), sum(one[1] for one in told) / 1000
    return [round(at_s, 2), results, round(latency_s, 2), entry["queue_bytes"]]
