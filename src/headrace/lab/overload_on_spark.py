"""Paper 001's overload on Spark: one join that is too much for its budget, with ON OVERLOAD DEFER and with ADAPT.

Three streams by the wall's clock, one query; the two runs differ in the clause alone, and in FRESHNESS, which only
ADAPT has. After each second: tuples that wait for their turn, results so far, and how far the streams are behind the
clock by which they are generated; for each micro-batch its responses, from when a result's newest tuple was read to
when it was published.

      DEFER    what waits  ./`     nothing is lost, everything is late       ADAPT    ____     probes are left out

What is too much depends on the machine: a first run without a limit tells how long the join takes, and the budget is
half of that.

Owns :class:`Overload`, ``run_modes`` and the experiment. It takes minutes, and a machine that does nothing else.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from headrace.config import Settings
from headrace.lab.experiment import (
    Chart,
    Claim,
    Clock,
    Experiment,
    Ground,
    Line,
    Numbers,
    Picture,
    Setup,
    above,
    at_least,
    at_most,
    equals,
    over,
)
from headrace.spark.local import local_session
from headrace.spark.session import Engine

MODES = ("defer", "adapt")
STARTING_S = 90
"""How long the first results are waited for: Spark's start is no part of the load."""
TRIED_S = 20
"""How long the run without a limit goes on, of which the later half counts: windows are full by then."""
BUDGET_PART = 0.5
"""Of what the join takes, what it may."""
WITHOUT_LIMIT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Overload:
    """What the pipeline is given, and what it may spend a micro-batch."""

    rate: int = 3000
    keys: int = 300
    window_s: int = 4
    freshness_s: int = 8
    budget_ms: int = WITHOUT_LIMIT_MS
    trigger_s: float = 1.0
    shards: int = 2
    seed: int = 0


def program(load: Overload, mode: str) -> str:
    streams = "".join(
        f"CREATE STREAM {name} (location BIGINT, value DOUBLE, ts TIMESTAMP) WITH (connector = 'generator', "
        f"rate = '{load.rate}', keys = '{load.keys}', time = 'ts', seed = '{load.seed + number}');"
        for number, name in enumerate("abc")
    )
    fresh = f" FRESHNESS {load.freshness_s} SECONDS" if mode == "adapt" else ""
    listed = ", ".join(f"{name}{fresh}" for name in "abc")
    return (
        f"{streams}CREATE QUERY q AS SELECT a.location, a.value FROM {listed} WHERE a.location = b.location "
        f"AND b.location = c.location AND a.value < b.value AND b.value < c.value WINDOW {load.window_s} SECONDS "
        f"ON OVERLOAD {mode} INTO (connector = 'count');"
    )


def run_mode(spark: Any, load: Overload, mode: str, seconds: int, out: Path) -> dict[str, Any]:
    shutil.rmtree(out, ignore_errors=True)
    settings = Settings(shards=load.shards)
    for name, value in (
        ("budget", f"{load.budget_ms} ms"),
        ("block", "250 ms"),
        ("trigger", f"{load.trigger_s} s"),
        ("backlog_limit", str(10**9)),
    ):
        settings = settings.with_text(name, value)
    engine = Engine(spark, settings)
    engine.sql(program(load, mode))
    run = engine.start(out)
    moments = []
    try:
        _wait_for_results(run)
        for second in range(seconds):
            run.wait(1.0)
            stats = run.stats()
            (query,) = stats.queries
            waiting = sum(window.backlog_tuples for window in stats.windows)
            behind_s = max(((one.lag_ms or 0.0) / 1000 for one in stats.streams), default=0.0)
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
    told["join_ms"] = [sum(entry["stage_ms"].get(stage, 0.0) for stage in ("join", "emit")) for entry in history]
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


def _wait_for_results(run: Any) -> None:
    for _ in range(STARTING_S):
        if any(query.results for query in run.stats().queries):
            return
        run.wait(1.0)


def run_modes(load: Overload, seconds: int, out: Path) -> dict[str, Any]:
    """Both clauses, one after the other, in a session of their own, with a budget that is too small for the load; what
    the runs leave in ``out`` is removed."""
    spark = local_session(out / "spark.log")
    found: dict[str, Any] = {}

    def measured(load: Overload, mode: str, seconds: int) -> dict[str, Any]:
        told = run_mode(spark, load, mode, seconds, out / mode)
        shutil.rmtree(out / mode, ignore_errors=True)
        return told

    try:
        takes_ms = measured(load, "defer", TRIED_S)["join_ms"]
        needed_ms = median(takes_ms[len(takes_ms) // 2 :])
        load = replace(load, budget_ms=max(1, round(BUDGET_PART * needed_ms)))
        found |= {"load": asdict(load), "needed_ms": needed_ms}
        found |= {mode: measured(load, mode, seconds) for mode in MODES}
    finally:
        spark.stop()
    return found


# --- the experiment


def _load(setup: Setup) -> Overload:
    return replace(Overload(), seed=setup.seed)


def _seeds(setup: Setup) -> Sequence[int]:
    """Of the three streams."""
    return range(setup.seed, setup.seed + 3)


def _measure(setup: Setup) -> Numbers:
    load, seconds = _load(setup), 30 if setup.is_quick else 120
    folder = Path(tempfile.mkdtemp(prefix="headrace-lab-"))
    try:
        found = run_modes(load, seconds, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ours = {
        "plan": "3 streams, one key",
        "rates": f"{load.rate:,} tuples/s",
        "states": f"windows of {load.window_s} s",
        "freshness": f"{load.freshness_s} s",
        "budget": f"{found['load']['budget_ms']} ms a micro-batch of {load.trigger_s:g} s, of {found['needed_ms']:.0f}",
        "shards": str(load.shards),
        "lasts": f"{seconds} s",
    }
    return {"ours": ours, **found}


def _charts(numbers: Numbers) -> list[Picture]:
    waits = [Line(mode.upper(), *_columns(numbers[mode]["moments"], 1)) for mode in MODES]
    responses = [Line(mode.upper(), *_columns(numbers[mode]["responses_s"], 1)) for mode in MODES]
    return [
        Chart("Overload on Spark: what waits", "time, s", "tuples", waits),
        Chart("Overload on Spark: response", "micro-batch", "mean response, s", responses),
    ]


def _columns(rows: Sequence[Sequence[float]], column: int) -> tuple[list[float], list[float]]:
    return [row[0] for row in rows], [row[column] for row in rows]


def _grown(values: Sequence[float]) -> float | None:
    """The mean of the last third over that of the middle one; None where there are too few."""
    third = len(values) // 3
    return over(fmean(values[-third:]), max(fmean(values[third : 2 * third]), 1e-3)) if third else None


def _claims(numbers: Numbers) -> list[Claim]:
    defer, adapt, load = numbers["defer"], numbers["adapt"], numbers["load"]
    waits, late = ([one[1] for one in defer[key]] for key in ("moments", "responses_s"))
    behind = max((one for one in (_grown(waits), _grown(late)) if one is not None), default=None)
    longest_s = max((one[2] for one in adapt["responses_s"]), default=None)
    # Its oldest tuple came a window before the newest at most, and a micro-batch later than it should have.
    oldest_s = None if longest_s is None else longest_s + load["trigger_s"] + load["window_s"]
    return [
        at_least("DEFER falls behind: what waits or the response, last third over the middle one", behind, 1.3),
        at_most("ADAPT does not: tuples that wait at the end", adapt["moments"][-1][1], 0),
        at_most("ADAPT's response does not grow: last third over the middle one",
                _grown([one[1] for one in adapt["responses_s"]]), 1.3),
        above("ADAPT leaves probes out: how many", adapt.get("left_out"), 0),
        above("ADAPT makes results: how many", adapt["moments"][-1][2], 0),
        equals("its freshness can be kept: streams and states whose cannot", adapt.get("infeasible"), []),
        equals("no micro-batch is published with a stale result: how many are", adapt.get("released_late"), 0),
        at_most("all of ADAPT's results are fresh: longest response, a trigger and the window, s", oldest_s,
                load["freshness_s"]),
    ]  # fmt: skip


OVERLOAD_EXPERIMENTS = (
    Experiment(
        "001-overload-spark",
        "Overload on Spark",
        "One join that is too much for its budget, as a streaming query: all results late, or a part in time.",
        Ground.SPARK,
        {"plan": "4 streams", "rates": "300 to 1,200 tuples/s", "states": "200 to 5,000 tuples"},
        _measure,
        _charts,
        _claims,
        seeds=_seeds,
        clocks=(Clock.WALL,),
    ),
)
