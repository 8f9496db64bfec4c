"""`make bench-multiway`: joins of three streams, joins without a key, and orders that follow the rates, on Spark.

common    three streams on one key: Headrace against two chained joins of Spark's own
theta     a comparison as the only condition, which Spark refuses: on one cell and on four
adaptive  a hub b(x, y) with a(x) and c(y), whose rates change places half-way: with and without changing orders

Contenders run one after the other in processes of their own; answers are checked against DuckDB. Writes
``results.json``, ``results.md`` and ``multiway.png``. The exit code tells whether every contender ran and every answer
was right; targets are reported, met or missed, and change nothing.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks import multiway_report, report
from benchmarks.asked import Asked, Stream
from benchmarks.bench import Options, Scenario, arguments, chosen, run_all, wide_console
from benchmarks.contenders import Spec
from benchmarks.inputs import Workload
from benchmarks.multiway_contenders import Task

FEW = "few"
COMMON = ("headrace", "native-hdfs", "native-rocksdb")
THETA = ("cells-1", "cells-4", "native")
ADAPTIVE = ("adaptive", "fixed")


@dataclass(frozen=True, slots=True)
class AskedScenario(Scenario):
    """A scenario of one query of ``asked``."""

    def spec(self, contender: str, data: Path, options: Options) -> Spec:
        asked = self.workload
        assert isinstance(asked, Asked)
        return Task(
            contender=contender,
            data=str(data.resolve()),
            out=str(self.out(contender, options)),
            windows_s=tuple(one.window_s for one in reversed(asked.streams)),
            codec=options.codec,
            driver_memory=options.driver_memory,
            sql=asked.sql(data.resolve(), contender),
            columns=tuple((one.name, one.declared) for one in asked.streams),
            where=asked.where,
        )


def few_results() -> Scenario:
    """The common key with a quarter of the results a tuple; run when it is asked for by name."""
    workload = Workload(FEW, 10_000, 80, 40_000, (10,), streams=("a", "b", "c"))
    return Scenario("three streams, fewer results", workload, COMMON)


def scenarios(quick: bool) -> tuple[Scenario, ...]:
    """The sizes; quick ones only show that everything works."""
    streams = ("a", "b", "c")
    common = (
        Workload("common", 500, 20, 2_000, (10,), streams=streams)
        if quick
        else Workload("common", 10_000, 80, 20_000, (10,), streams=streams)
    )
    return (
        Scenario("three streams on a common key", common, COMMON),
        AskedScenario("theta join", theta(300, 4) if quick else theta(6_000, 8), THETA),
        AskedScenario(
            "rates that change places", adaptive(400, 1_000, 3) if quick else adaptive(2_000, 8_000, 7), ADAPTIVE,
            repeated=() if quick else ADAPTIVE,
        ),
    )  # fmt: skip


def theta(rate: int, batches: int) -> Asked:
    """Values that are almost the same: of 10,000 pairs in a window, two."""
    return Asked(
        "theta",
        tuple(Stream(name, {"id": 1_000_000_000, "v": 100.0}, (rate,), 10) for name in ("a", "b")),
        {"a_id": "a.id", "va": "a.v", "b_id": "b.id", "vb": "b.v"},
        "a.v BETWEEN b.v - 0.01 AND b.v + 0.01",
        part_batches=(batches,),
        batch_s=5,
        settings={"cells-1": {"shards": "1"}, "cells-4": {"shards": "4"}},
    )


def adaptive(hub_rate: int, fast_rate: int, batches: int) -> Asked:
    """First c is fast and the order b, a, c is right, which is what is taken before anything is known; then a is fast:
    a tuple of the hub has hundreds of partners there and hardly any in c. In between c's window runs empty: with both
    full there would be more results than anything else."""
    keys, part_batches = 160, (batches, 2, batches)
    return Asked(
        "adaptive",
        (
            Stream("a", {"x": keys, "v": 1.0}, (1, 1, fast_rate), 20),
            Stream("b", {"x": keys, "y": keys, "v": 1.0}, (hub_rate,) * 3, 1),
            Stream("c", {"y": keys, "v": 1.0}, (fast_rate, 1, 1), 20),
        ),
        {"x": "b.x", "y": "b.y", "va": "a.v", "vb": "b.v", "vc": "c.v"},
        "a.x = b.x AND b.y = c.y AND a.v + b.v + c.v < 0.5",
        part_batches=part_batches,
        batch_s=10,
        settings={"adaptive": {"order_switch": "0.2"}, "fixed": {"order_switch": "none"}},
    )


def main() -> int:
    args = arguments(
        "make bench-multiway",
        "Joins of many streams and without a key.",
        f"common,theta,adaptive; {FEW} only if it is named",
        ", ".join((*COMMON, *THETA, *ADAPTIVE)),
        Path("out/bench-multiway"),
    )
    console = wide_console()
    on_demand = [few_results()] if FEW in args.only.split(",") else []
    results = run_all(args, chosen(args, [*scenarios(args.quick), *on_demand]), console)
    multiway_report.add(results)
    (args.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (args.out / "results.md").write_text(multiway_report.markdown(results))
    multiway_report.draw(results, args.out / "multiway.png")
    report.show(results, console)
    for line in multiway_report.told(results):
        console.print(line)
    console.print(f"total {results['total_s'] / 60:.1f} minutes; saved in {args.out}")
    return 1 if report.faults(results) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted: nothing saved")
