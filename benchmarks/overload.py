"""`make bench-overload`: CPU-limited execution, paper 001's figures 11 to 13 in the engine, and overload on Spark.

  figure 12     results over saturation by service rate, of linear and bushy plans of four streams (figure 10's smaller
                parameters, ``DENSE`` of ``headrace.lab.overload``): JAQPOT, JDA_M, and JDA_M to the letter, on the same
                tuples; once with a service rate that every probe counts for (equation 6), once with one that only
                tuples of streams count for, as equation 3 is printed
  figure 13     stale results by freshness predicate, where nothing but the allocation keeps them away, of plans that
                can be kept fresh at 1.5 x the window and of others; and the share of the service rate that JAQPOT
                spends for freshness, on the same plans for every predicate
  figure 11     results over time while selectivities change twice, as printed, with probes allocated anew
  on Spark      one join that is too much for its budget, with ON OVERLOAD DEFER and with ADAPT: what waits, how late
                results are, how many there are

Plans are drawn by seeds, the first that the model says can be kept fresh; each figure is a mean of several. Writes
``overload.json``, ``overload.md``, ``overload.png`` and, of the last part, ``overload-spark.png``. Targets are
reported, met or missed. ``--no-spark`` leaves the last part out; ``--only-spark`` the others; ``--figures 12`` all
figures but that. What was measured before in the same directory stays in the report.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from benchmarks.overload_report import checks, draw, draw_spark, markdown, show
from headrace.lab.overload import (
    DENSE,
    SPARSE,
    Allot,
    Arrivals,
    LimitedRun,
    drawn_setting,
    feasible_seeds,
    jda_m_as_printed,
    run_limited,
    saturate,
)
from headrace.plan.allocators import allocate

SHAPES = ("linear", "bushy")
READINGS = {"every probe": False, "tuples of streams": True}
"""What counts for mu; whether that is tuples of streams alone."""
SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
FRESHNESS = (1.5, 3.0, 5.0)
LITTLE = 0.2
"""Of saturation: the service rate of figure 13."""
SPARE = 0.75
"""Of that, what has to be enough for a plan to be kept fresh: rates and selectivities waver."""
CHANGED_S = 30.0
"""Of stream time, for figure 11's ten minutes."""
SELECTIVITIES = ((0.0, (0.01, 0.01, 0.05)), (0.3, (0.03, 0.03, 0.05)), (0.7, (0.03, 0.03, 0.1)))
"""Of figure 11, as printed: from which part of the run on; of the three joins, the root last."""


ALLOCATORS: dict[str, str | Allot] = {"jaqpot": "jaqpot", "jda_m": "jda_m", "jda_m as printed": jda_m_as_printed}


def figure_12(plans: int, console: Console) -> dict[str, Any]:
    """By reading and shape, allocator and share of saturation: results over saturation's, the mean of several plans
    with freshness 1.5 x the window; ``clock``: what JAQPOT's probes took of the time that all probes take; ``model``:
    its results by the paper's formulas."""
    found: dict[str, Any] = {}
    for (reading, is_by_stream), shape in product(READINGS.items(), SHAPES):
        name = f"{reading}, {shape}"
        shares: dict[str, dict[str, list[float]]] = {one: {} for one in ALLOCATORS}
        clock: dict[str, list[float]] = {}
        model: dict[str, list[float]] = {}
        feasible = 0
        for seed in islice(feasible_seeds(DENSE, shape, FRESHNESS[0], SPARE * LITTLE), plans):
            setting = replace(drawn_setting(DENSE, shape, seed, FRESHNESS[0]), is_by_stream=is_by_stream)
            arrivals = Arrivals(setting, DENSE.seconds)
            all_of_it = saturate(arrivals, DENSE.warm_s)
            for allocator, share in product(ALLOCATORS, SHARES):
                run = run_limited(arrivals, all_of_it, ALLOCATORS[allocator], share, DENSE.warm_s)
                shares[allocator].setdefault(str(share), []).append(run.results_per_s / all_of_it.results_per_s)
                if allocator == "jaqpot":
                    feasible += run.is_feasible
                    clock.setdefault(str(share), []).append(run.spent_s / run.seconds / all_of_it.spent_per_s)
                    problem = setting.problem()
                    limited = problem.with_mu(share * problem.saturation.spent)
                    model.setdefault(str(share), []).append(allocate(limited).of_saturation)
        told = shares | {"clock": clock, "model": model}
        found[name] = {one: {share: fmean(some) for share, some in by.items()} for one, by in told.items()}
        found[name]["plans"] = plans
        found[name]["feasible"] = [feasible, plans * len(SHARES)]
        console.print(f"figure 12, {name}: {_rounded(found[name])}")
    return found


def figure_13(plans: int, console: Console) -> dict[str, Any]:
    """By shape and freshness: the share of stale results of each allocator. Of plans that can be kept fresh, JAQPOT's
    as it plans (``jaqpot``) and as it runs, stale tuples being let go (``kept fresh``), its share for freshness, and
    the others'; ``elsewhere``: those of plans that cannot, twice as many, for they differ by more."""
    found: dict[str, Any] = {shape: {str(times): {} for times in FRESHNESS} for shape in SHAPES}
    for shape in SHAPES:
        for seed, name, times, run in _runs_13(shape, plans):
            cell = found[shape][str(times)]
            cell.setdefault(name, []).append(run.stale / max(run.results, 1))
            if name == "jaqpot":
                cell.setdefault("freshness", []).append(run.freshness_share)
                cell.setdefault("feasible", []).append(float(run.is_feasible))
                cell.setdefault("seeds", []).append(seed)
        for times, cell in found[shape].items():
            count = [int(sum(cell["feasible"])), len(cell["feasible"])]
            seeds = cell.pop("seeds")
            found[shape][times] = {name: fmean(some) for name, some in cell.items()} | {"plans": count, "seeds": seeds}
            console.print(f"figure 13, {shape}, {times}x: {_rounded(found[shape][times])}")
    return found


def _runs_13(shape: str, plans: int) -> Iterator[tuple[int, str, float, LimitedRun]]:
    for are_feasible in (True, False):
        seeds = feasible_seeds(SPARSE, shape, FRESHNESS[0], SPARE * LITTLE, are_feasible=are_feasible)
        for seed in islice(seeds, plans if are_feasible else 2 * plans):
            arrivals = Arrivals(drawn_setting(SPARSE, shape, seed, FRESHNESS[0]), SPARSE.seconds)
            all_of_it = saturate(arrivals, SPARSE.warm_s)
            for times in FRESHNESS:
                if times != FRESHNESS[0]:
                    arrivals = Arrivals(drawn_setting(SPARSE, shape, seed, times), SPARSE.seconds)
                where = "" if are_feasible else " elsewhere"
                for name in ("grepp", "jda_m"):
                    yield seed, name + where, times, run_limited(arrivals, all_of_it, name, LITTLE, SPARSE.warm_s)
                for name, is_enforced in (("jaqpot", False), ("kept fresh", True)) if are_feasible else ():
                    told = (arrivals, all_of_it, "jaqpot", LITTLE, SPARSE.warm_s)
                    yield seed, name, times, run_limited(*told, is_enforced=is_enforced)


def figure_11(console: Console) -> dict[str, Any]:
    """Results over time at 30% of what the first selectivities take, which change after three and seven tenths."""
    found: dict[str, Any] = {}
    for shape in SHAPES:
        (_, first), *rest = SELECTIVITIES
        before = replace(drawn_setting(DENSE, shape, 7), selectivities=first)
        all_of_it = saturate(Arrivals(before, DENSE.seconds), DENSE.warm_s)
        changes = tuple((DENSE.warm_s + part * CHANGED_S, others) for part, others in rest)
        arrivals = Arrivals(replace(before, changes=changes), DENSE.warm_s + CHANGED_S)
        found[shape] = {}
        for name in ("jaqpot", "jda_m"):
            run = run_limited(arrivals, all_of_it, name, 0.3, DENSE.warm_s)
            spent_ms = 1e3 * run.allocation_s / max(run.allocations, 1)
            found[shape][name] = {
                "moments": [[round(at_s - DENSE.warm_s, 2), results] for at_s, results in run.moments],
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
    parser.add_argument("--plans", type=int, default=3, help="of each shape and kind")
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
        "12": lambda: figure_12(options.plans, console),
        "13": lambda: figure_13(max(1, options.plans - 1), console),
    }
    for name in () if options.only_spark else options.figures:
        results[f"figure {name}"] = figures[name]()
        kept.write_text(json.dumps(results, indent=1))
    if not options.no_spark:
        from headrace.lab.overload_on_spark import MODES, Overload, run_modes

        results["spark"] = run_modes(Overload(), options.seconds, options.out)
        budget_ms, needed_ms = results["spark"]["load"]["budget_ms"], results["spark"]["needed_ms"]
        console.print(f"on Spark: a micro-batch's join takes {needed_ms:.0f} ms, and may take {budget_ms}")
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
