"""One join that is too much for its budget, on Spark: with ON OVERLOAD DEFER its backlog grows, with ADAPT it does not.

Three streams by the wall's clock, one query; the two runs differ in the clause alone, and in FRESHNESS, which only
ADAPT has. After each second: tuples that wait for their turn, results so far, and how far the streams are behind the
clock by which they are generated: a pipeline that falls behind reads later and later.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from headrace.config import Settings
from headrace.spark.local import local_session
from headrace.spark.session import Engine


@dataclass(frozen=True, slots=True)
class Overload:
    """What the pipeline is given, and what it may spend."""

    rate: int = 1500
    keys: int = 300
    window_s: int = 4
    freshness_s: int = 6
    budget_ms: int = 150
    trigger_s: float = 1.0
    shards: int = 2


def program(load: Overload, mode: str) -> str:
    streams = "".join(
        f"CREATE STREAM {name} (location BIGINT, value DOUBLE, ts TIMESTAMP) WITH (connector = 'generator', "
        f"rate = '{load.rate}', keys = '{load.keys}', time = 'ts', seed = '{number}');"
        for number, name in enumerate("abc")
    )
    fresh = f" FRESHNESS {load.freshness_s} SECONDS" if mode == "adapt" else ""
    listed = ", ".join(f"{name}{fresh}" for name in "abc")
    return (
        f"{streams}CREATE QUERY q AS SELECT a.location, a.value FROM {listed} WHERE a.location = b.location "
        f"AND b.location = c.location AND a.value < b.value AND b.value < c.value WINDOW {load.window_s} SECONDS "
        f"ON OVERLOAD {mode} INTO (connector = 'count');"
    )


def run_mode(load: Overload, mode: str, seconds: int, out: Path) -> dict[str, Any]:
    shutil.rmtree(out, ignore_errors=True)
    settings = Settings(shards=load.shards)
    for name, value in (
        ("budget", f"{load.budget_ms} ms"),
        ("block", "250 ms"),
        ("trigger", f"{load.trigger_s} s"),
        ("backlog_limit", str(10**9)),
    ):
        settings = settings.with_text(name, value)
    engine = Engine(local_session(out.parent / "spark.log"), settings)
    engine.sql(program(load, mode))
    run = engine.start(out)
    moments = []
    try:
        for second in range(seconds):
            run.wait(1.0)
            stats = run.stats()
            (query,) = stats.queries
            waiting = sum(window.backlog_tuples for window in stats.windows)
            behind_s = max((one.lag_ms or 0.0) / 1000 for one in stats.streams)
            moments.append([second + 1, waiting, query.results, behind_s])
        history = run.history()
        stats, text = run.stats(), run.explain()
    finally:
        run.stop()
    responses = [
        [number, entry["responses"]["q"][1] / entry["responses"]["q"][0] / 1000, entry["responses"]["q"][2] / 1000]
        for number, entry in enumerate(history)
        if "q" in entry["responses"] and entry["responses"]["q"][0]
    ]
    told: dict[str, Any] = {"moments": moments, "responses_s": responses, "micro_batches": len(history)}
    for tree in stats.trees:
        told |= {
            "left_out": tree.left_out,
            "stale": tree.stale,
            "released_late": tree.released_late,
            "results_per_s": tree.results_per_s,
            "saturation_per_s": tree.saturation_per_s,
            "allocation_ms": tree.allocation_ms,
            "plan": tree.plan,
            "infeasible": list(tree.infeasible),
            "explain": text,
        }
    return told


def on_spark(seconds: int, out: Path, console: Console) -> dict[str, Any]:
    load = Overload()
    found: dict[str, Any] = {"load": {name: getattr(load, name) for name in Overload.__slots__}}
    for mode in ("defer", "adapt"):
        found[mode] = run_mode(load, mode, seconds, out / mode)
        last = found[mode]["moments"][-1]
        console.print(f"on Spark, {mode}: {last[1]:,} tuples wait at the end, {last[2]:,} results")
        shutil.rmtree(out / mode, ignore_errors=True)
    return found
