"""Paper 000's Figure 6 on Spark, by the real clock: policies one after the other on the same tuples.

Seven queries whose windows are spread as in Table 1 ("Small-Large", scaled down so that they fill in half a minute)
share one join of two bursty streams (Pareto, expected burst 5). Each policy runs on its own, on the same tuples and
with the same budget, which is less than the load while the streams last: work piles up, and is done after them. A
response is the time from when a result's newest tuple was read to when its micro-batch was published; what was released
while the windows were filling is left out, and the run goes on after the last tuple until nothing waits.

Owns :class:`Load`, ``run_policy`` and the experiment. It takes minutes, and a machine that does nothing else.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
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
    at_least,
    less,
)
from headrace.spark.local import local_session
from headrace.spark.session import Engine
from headrace.stats import RunStats

POLICIES = ("lwo", "swf", "mqt")
SMALL_LARGE_S = (1, 5, 15, 300, 510, 570, 600)
SCALE = 20
"""How much shorter the windows are than the paper's."""
PATIENCE_S = 120
"""How long a run may go on after the last tuple."""


@dataclass(frozen=True, slots=True)
class Load:
    """What the pipeline is given. ``keys``: the paper's selectivity of 0.002; ``share``: the average load against the
    budget."""

    rate: int = 400
    keys: int = 500
    burst: float = 5.0
    share: float = 1.3
    trigger_s: float = 2.0
    block_ms: int = 100
    warm_s: int = 32
    measured_s: int = 45
    shards: int = 2

    @property
    def windows_ms(self) -> list[int]:
        return [second * 1000 // SCALE for second in SMALL_LARGE_S]

    @property
    def probes(self) -> int:
        """The budget of a micro-batch."""
        return round(2 * self.rate * self.trigger_s * len(SMALL_LARGE_S) / self.share)


def program(load: Load, seed: int) -> str:
    streams = "".join(
        f"CREATE STREAM {name} (location BIGINT, value DOUBLE, ts TIMESTAMP) WITH (connector = 'generator', "
        f"arrival = 'pareto', burst = '{load.burst}', rate = '{load.rate}', keys = '{load.keys}', time = 'ts', "
        f"duration = '{load.warm_s + load.measured_s} s', seed = '{seed + number}');"
        for number, name in enumerate(("temperature", "humidity"))
    )
    return streams + "".join(
        f"CREATE QUERY {query_name(window_ms)} AS SELECT a.location, a.value AS t, b.value AS h FROM temperature a, "
        f"humidity b WHERE a.location = b.location WINDOW {window_ms} ms;"
        for window_ms in load.windows_ms
    )


def query_name(window_ms: int) -> str:
    return f"w{window_ms}ms"


def run_policy(spark: Any, load: Load, policy: str, seed: int, out: Path) -> dict[str, Any]:
    """One policy on one seed's tuples: each query's mean and longest response, in milliseconds."""
    shutil.rmtree(out, ignore_errors=True)
    settings = Settings(shards=load.shards)
    for name, value in (
        ("policy", policy),
        ("budget", f"{load.probes} probes"),
        ("block", f"{load.block_ms} ms"),
        ("trigger", f"{load.trigger_s} s"),
        ("backlog_limit", str(10**9)),
    ):
        settings = settings.with_text(name, value)
    engine = Engine(spark, settings)
    engine.sql(program(load, seed))
    run = engine.start(out)
    buffers = []
    try:
        run.wait(load.warm_s)
        first = run.stats().batches
        ends = time.monotonic() + load.measured_s
        while time.monotonic() < ends or waiting(run.stats()):
            run.wait(1.0)
            buffers.append(buffer_shares(run.stats()))
            if time.monotonic() > ends + PATIENCE_S:
                break
        history = [entry for entry in run.history() if entry["batch"] >= first]
    finally:
        run.stop()
    queries = {}
    for window_ms in load.windows_ms:
        told = [
            entry["responses"][query_name(window_ms)]
            for entry in history
            if query_name(window_ms) in entry["responses"]
        ]
        count = sum(one[0] for one in told)
        queries[str(window_ms)] = {
            "results": count,
            "mean_ms": round(sum(one[1] for one in told) / max(count, 1), 1),
            "longest_ms": round(max((one[2] for one in told), default=0.0), 1),
        }
    return {
        "queries": queries,
        "mean_ms": round(mean(one["mean_ms"] for one in queries.values()), 1),
        "micro_batches": len(history),
        "longest_backlog": max(entry["backlog_rows"] for entry in history),
        "input_share": max(one[0] for one in buffers),
        "output_share": max(one[1] for one in buffers),
    }


def waiting(stats: RunStats) -> int:
    return sum(window.backlog_tuples for window in stats.windows)


def buffer_shares(stats: RunStats) -> tuple[float, float]:
    """Input and output buffers against the join buffers (section 5.4)."""
    held = [(shard.held_bytes, shard.input_bytes, shard.output_bytes) for shard in stats.shards]
    joins, inputs, outputs = (sum(column) for column in zip(*held, strict=True))
    return round(inputs / max(joins, 1), 4), round(outputs / max(joins, 1), 4)


# --- the experiment


def _seeds(setup: Setup) -> tuple[int, int]:
    """Of the two streams."""
    return 100 * setup.seed, 100 * setup.seed + 1


def _measure(setup: Setup) -> Numbers:
    """In a session of its own."""
    load = Load(measured_s=20) if setup.is_quick else Load()
    folder = Path(tempfile.mkdtemp(prefix="headrace-lab-"))
    spark = local_session(folder / "spark.log")
    try:
        # A directory each: what Spark still writes for the last one must not be in the next one's way.
        runs = {name: run_policy(spark, load, name, _seeds(setup)[0], folder / name) for name in POLICIES}
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    ours = {
        "rate": f"{load.rate} tuples/s a stream",
        "windows": f"Small-Large of Table 1, over {SCALE}",
        "budget": f"{load.probes:,} probes a micro-batch of {load.trigger_s:g} s, {1 / load.share:.0%} of the load",
        "shards": str(load.shards),
        "lasts": f"{load.measured_s} s after {load.warm_s} s",
    }
    return {"ours": ours, "windows_ms": load.windows_ms, "runs": runs}


def _charts(numbers: Numbers) -> list[Picture]:
    windows = [f"{window / 1000:g}" for window in numbers["windows_ms"]]
    return [
        Chart(f"Figure 6 on Spark: {told} response", "window, s", "s", [
            Line(name.upper(), windows, [
                numbers["runs"][name]["queries"][str(window)][key] / 1000 or None for window in numbers["windows_ms"]
            ])
            for name in POLICIES
        ], log_y=True)
        for told, key in (("mean", "mean_ms"), ("longest", "longest_ms"))
    ]  # fmt: skip


def _claims(numbers: Numbers) -> list[Claim]:
    lwo, swf, mqt = (numbers["runs"][name] for name in POLICIES)
    smallest, largest = (str(numbers["windows_ms"][at]) for at in (0, -1))

    def ahead(one: Numbers) -> float:
        return float(lwo["queries"][smallest]["mean_ms"] / max(one["queries"][smallest]["mean_ms"], 1.0))

    return [
        less("mean response over all queries: MQT is before LWO", mqt["mean_ms"], lwo["mean_ms"]),
        less("MQT is before SWF, or within 2%", mqt["mean_ms"], swf["mean_ms"], times=1.02),
        at_least("smallest window: SWF is many times as fast as LWO", ahead(swf), 5),
        at_least("smallest window: MQT is many times as fast as LWO", ahead(mqt), 5),
        less("largest window: MQT is before SWF, or within 2%", mqt["queries"][largest]["mean_ms"],
             swf["queries"][largest]["mean_ms"], times=1.02),
    ]  # fmt: skip


SPARK_EXPERIMENTS = (
    Experiment(
        "000-figure-6-spark",
        "Figure 6 on Spark",
        "The same queries as one streaming query on Spark: a micro-batch is the quantum, its results come together.",
        Ground.SPARK,
        {"rate": "100 tuples/s a stream", "windows": "Table 1", "arrivals": "Pareto bursts of 5"},
        _measure,
        _charts,
        _claims,
        seeds=_seeds,
        clocks=(Clock.WALL,),
    ),
)
