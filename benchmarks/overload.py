"""`make bench-overload`: CPU-limited execution, paper 001's figures 11 to 13 in the engine, and overload on Spark.

  figure 12     results over saturation by service rate, of linear and bushy plans of four streams (figure 10's
                parameters, see ``headrace.lab.overload``): JAQPOT and JDA_M on the same tuples; then with a service
                rate that only tuples of streams count for, as the paper's equation 3 is printed
  figure 13     stale results by freshness predicate, with little service rate, where nothing but the allocation keeps
                them away; and the share of it that JAQPOT spends for freshness
  figure 11     results over time while selectivities change twice, with probes allocated anew
  on Spark      one join that is too much for its budget, with ON OVERLOAD DEFER and with ADAPT: what waits, how late
                results are, how many there are

Writes ``overload.json``, ``overload.md``, ``overload.png`` and, of the last part, ``overload-spark.png``. Targets are
reported, met or missed. ``--no-spark`` leaves the last part out; ``--only-spark`` the others; ``--figures 12`` all
figures but that. What was measured before in the same directory stays in the report.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from benchmarks.overload_report import checks, draw, draw_spark, markdown, show
from headrace.lab.overload import DENSE, SPARSE, Arrivals, Family, Saturation, drawn_setting, run_limited, saturate

SHAPES = ("linear", "bushy")
FAMILIES: dict[str, tuple[Family, bool]] = {
    "dense": (DENSE, False),
    "sparse": (SPARSE, False),
    "dense, mu in stream tuples": (DENSE, True),
}
"""Parameters, and whether mu is in tuples of streams alone."""
SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
FRESHNESS = (1.5, 3.0, 5.0)
LITTLE = 0.2
"""Of saturation: the service rate of figure 13."""
CHANGED_S = 60.0
"""Of stream time, for figure 11's ten minutes."""


def figure_12(plans: dict[str, int], console: Console) -> dict[str, Any]:
    """By family and shape, allocator and share of saturation: results over saturation's, the mean of several plans.
    ``feasible``: how many times JDA_M's results JAQPOT makes, where the plan can be kept fresh with that share."""
    found: dict[str, Any] = {}
    for kind, shape in product(FAMILIES, SHAPES):
        (family, is_by_stream), name = FAMILIES[kind], f"{kind}, {shape}"
        shares: dict[str, dict[str, list[float]]] = {one: {} for one in ("jaqpot", "jda_m")}
        clock: list[float] = []
        feasible: dict[tuple[int, float], bool] = {}
        for seed in range(plans[kind]):
            setting = replace(drawn_setting(family, shape, seed, freshness=5.0), is_by_stream=is_by_stream)
            arrivals = Arrivals(setting, family.seconds)
            all_of_it = saturate(arrivals, family.warm_s)
            for allocator, share in product(shares, SHARES):
                run = run_limited(arrivals, all_of_it, allocator, share, family.warm_s)
                made = run.results_per_s / all_of_it.results_per_s
                shares[allocator].setdefault(str(share), []).append(made)
                if allocator == "jaqpot":
                    feasible[seed, share] = run.is_feasible
                if (allocator, share) == ("jaqpot", 0.6):
                    clock.append(run.spent_s / run.seconds / all_of_it.spent_per_s)
        found[name] = {one: {share: fmean(some) for share, some in by.items()} for one, by in shares.items()}
        found[name]["clock_at_60"] = fmean(clock)
        found[name]["plans"] = plans[kind]
        times = [
            mine / max(other, 1e-9)
            for share in SHARES
            for seed, (mine, other) in enumerate(zip(*(shares[one][str(share)] for one in shares), strict=True))
            if feasible[seed, share]
        ]
        found[name]["feasible"] = {"ratio": fmean(times) if times else 0.0, "runs": [len(times), len(feasible)]}
        console.print(f"figure 12, {name}: {_rounded(found[name])}")
    return found


def figure_13(plans: int, console: Console) -> dict[str, Any]:
    """By shape and freshness: the share of stale results of each allocator, and JAQPOT's share for freshness; where the
    plan is feasible, as JAQPOT plans it (``jaqpot``) and as it runs, stale tuples being let go (``kept fresh``)."""
    found: dict[str, Any] = {shape: {str(times): {} for times in FRESHNESS} for shape in SHAPES}
    for shape, seed in product(SHAPES, range(plans)):
        all_of_it: Saturation | None = None
        for times in FRESHNESS:
            cell = found[shape][str(times)]
            arrivals = Arrivals(drawn_setting(SPARSE, shape, seed, times), SPARSE.seconds)
            all_of_it = all_of_it or saturate(arrivals, SPARSE.warm_s)
            mine = run_limited(arrivals, all_of_it, "jaqpot", LITTLE, SPARSE.warm_s)
            cell.setdefault("freshness", []).append(mine.freshness_share)
            cell.setdefault("feasible", []).append(float(mine.is_feasible))
            if mine.is_feasible:
                cell.setdefault("jaqpot", []).append(mine.stale / max(mine.results, 1))
                kept = run_limited(arrivals, all_of_it, "jaqpot", LITTLE, SPARSE.warm_s, is_enforced=True)
                cell.setdefault("kept fresh", []).append(kept.stale / max(kept.results, 1))
            for name in ("grepp", "jda_m"):
                run = run_limited(arrivals, all_of_it, name, LITTLE, SPARSE.warm_s)
                cell.setdefault(name, []).append(run.stale / max(run.results, 1))
    for shape, times in product(SHAPES, found["linear"]):
        cell = found[shape][times]
        count = [int(sum(cell["feasible"])), len(cell["feasible"])]
        found[shape][times] = {name: fmean(some) for name, some in cell.items()} | {"plans": count}
        console.print(f"figure 13, {shape}, {times}x: {_rounded(found[shape][times])}")
    return found


def figure_11(console: Console) -> dict[str, Any]:
    """Results over time at 30% of what the first selectivities take, which change after three and seven tenths."""
    found: dict[str, Any] = {}
    for shape in SHAPES:
        first = drawn_setting(SPARSE, shape, 7)
        one, two, root = 0.0003, 0.0003, 0.0003
        changes = (
            (0.3 * CHANGED_S, (3 * one, 3 * two, root)),
            (0.7 * CHANGED_S, (3 * one, 3 * two, 2 * root)),
        )
        before = replace(first, selectivities=(one, two, root))
        all_of_it = saturate(Arrivals(before, SPARSE.seconds), SPARSE.warm_s)
        arrivals = Arrivals(replace(before, changes=changes), CHANGED_S)
        found[shape] = {}
        for name in ("jaqpot", "jda_m"):
            run = run_limited(arrivals, all_of_it, name, 0.3, 0.1 * CHANGED_S)
            spent_ms = 1e3 * run.allocation_s / max(run.allocations, 1)
            found[shape][name] = {
                "moments": [[round(at_s, 1), results] for at_s, results in run.moments],
                "results": run.results,
                "allocations": run.allocations,
                "allocation_ms": spent_ms,
            }
            console.print(f"figure 11, {shape}, {name}: {run.results:,} results, {spent_ms:.2f} ms an allocation")
    return found


def _rounded(told: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _rounded(one) if isinstance(one, dict) else round(one, 3) if isinstance(one, float) else one
        for name, one in told.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/overload"))
    parser.add_argument("--plans", type=int, default=2, help="of each shape")
    parser.add_argument("--seconds", type=int, default=40, help="of each run on Spark")
    parser.add_argument("--figures", nargs="*", choices=("11", "12", "13"), default=("11", "12", "13"))
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--only-spark", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    kept = options.out / "overload.json"
    results: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    results["measured_at"] = time.strftime("%Y-%m-%d")
    figures = {
        "11": lambda: figure_11(console),
        "12": lambda: figure_12(dict.fromkeys(FAMILIES, options.plans), console),
        "13": lambda: figure_13(options.plans, console),
    }
    for name in () if options.only_spark else options.figures:
        results[f"figure {name}"] = figures[name]()
        kept.write_text(json.dumps(results, indent=1))
    if not options.no_spark:
        from headrace.lab.overload_on_spark import MODES, Overload, run_modes

        results["spark"] = run_modes(Overload(), options.seconds, options.out)
        for mode in MODES:
            _, waiting, made, *_ = results["spark"][mode]["moments"][-1]
            console.print(f"on Spark, {mode}: {waiting:,} tuples wait at the end, {made:,} results")
    results["checks"] = checks(results)
    kept.write_text(json.dumps(results, indent=1))
    (options.out / "overload.md").write_text(markdown(results))
    draw(results, options.out / "overload.png")
    if "spark" in results:
        draw_spark(results["spark"], options.out / "overload-spark.png")
    show(results, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
