"""Paper 001's Figures 11 to 13 on a shard: by the wall clock, and told in the numbers that the formulas give.

      Figure 11    selectivities change after 3 and 7 tenths of a run; probes are allocated anew as that is noticed
      Figure 12    results over those of a run in which every probe is made, by the share of all tuples that may probe
      Figure 13    stale results with few probes: JAQPOT as the engine runs it, letting go of what is too old; with
                   the others nothing but the allocation keeps them away

``overload`` has the settings and the runs. Figure 11 has the paper's selectivities. So that all results can be made
and counted, Figures 12 and 13 have smaller rates, windows and selectivities of the paper's Figure 10 (``PRINTED``,
``REFRESHED``). Mu is of tuples of streams there, as the paper's Equation 3 is printed.

Cost: some seconds for each run, of which there is one for each plan, allocator and point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean
from typing import TypeAlias

from headrace.lab.experiment import Numbers
from headrace.lab.overload import (
    NAMES,
    SHAPES,
    Allot,
    Arrivals,
    Family,
    LimitedRun,
    Setting,
    drawn_setting,
    run_limited,
    saturate,
)
from headrace.plan.allocators import DEFAULT_ALLOCATOR
from headrace.plan.trees import parse_tree

Allocators: TypeAlias = Mapping[str, str | Allot]
"""By what a report calls them."""
PRINTED = Family((300.0, 600.0), (200, 400), (200, 400), (0.015, 0.035), 0.1, 4.0, 1.5)
"""Of the paper's Figure 10, what a probe finds some results by, as nearly all of its plans do: the last half-way join
then has most of the work, and JDA_M's equal parts waste theirs."""
RATE_11, SIZE_11, BETWEEN_11, STEP_11_S, WARM_11_S = 600.0, 500, 1000, 0.02, 3.0
FIRST = (0.01, 0.01, 0.05)
CHANGES = ((0.3, (0.03, 0.03, 0.05)), (0.7, (0.03, 0.03, 0.1)))
"""Of Figure 11: selectivities at first, and from which part of the run on they are others, as in the paper."""
MINUTES = 10
REFRESHED = Family((300.0, 600.0), (500, 1000), (200, 400), (0.01, 0.02), 0.1, 16.0, 6.0)
"""Of the paper's Figure 10, what takes about as large a part of mu to be kept fresh as its whole ranges do, by the
formulas. So long that tuples become older than five windows."""
MU_13 = 300.0
"""Tuples of streams a second: the service rate of Figure 13, as printed."""
RELAXED = 5.0
"""Freshness of Figure 12, in windows: there only results count."""


def _text(family: Family) -> dict[str, str]:
    """What plans on a shard have of Figure 10."""
    (slow, fast), (few, many), (low, high) = family.rates, family.sizes, family.selectivities
    return {
        "rates": f"{slow:,.0f} to {fast:,.0f} tuples/s",
        "states": f"{few:,} to {many:,} tuples",
        "selectivities": f"{low:g} to {high:g}",
    }


PRINTED_TEXT, REFRESHED_TEXT = _text(PRINTED), _text(REFRESHED)
TEXT_11 = {"rates": f"{RATE_11:g} tuples/s", "states": f"{SIZE_11} tuples, {BETWEEN_11} in between"}


def over_time(allocators: Allocators, seconds: float, seed: int) -> dict[str, dict[str, list[int]]]:
    """By shape and allocator: results so far after each tenth of a run whose selectivities change twice."""
    found: dict[str, dict[str, list[int]]] = {}
    for shape in SHAPES:
        first = _setting_11(shape, seed)
        changes = tuple((WARM_11_S + part * seconds, others) for part, others in CHANGES)
        whole = saturate(Arrivals(first, 2 * WARM_11_S), WARM_11_S)
        arrivals = Arrivals(replace(first, changes=changes), WARM_11_S + seconds)
        found[shape] = {
            name: _so_far(run_limited(arrivals, whole, used, 0.3, WARM_11_S), seconds)
            for name, used in allocators.items()
        }
    return found


def _setting_11(shape: str, seed: int) -> Setting:
    states = parse_tree(SHAPES[shape], NAMES).states
    sizes = {state: SIZE_11 if len(state) == 1 else BETWEEN_11 for state in states}
    return Setting(shape, (RATE_11,) * len(NAMES), sizes, FIRST, seed=seed, step_s=STEP_11_S)


def _so_far(run: LimitedRun, seconds: float) -> list[int]:
    ends = [WARM_11_S + seconds * part / MINUTES for part in range(MINUTES + 1)]
    return [sum(results for at_s, results in run.moments if at_s < end - 1e-9) for end in ends]


def of_saturation(
    allocators: Allocators, shares: Sequence[float], seeds: Sequence[int]
) -> dict[str, dict[str, list[float]]]:
    """By shape and allocator: results over saturation's for each share of all tuples, the mean over plans."""
    return {shape: _by_share(PRINTED, shape, allocators, shares, seeds) for shape in SHAPES}


def _by_streams(family: Family, shape: str, seed: int, freshness: float) -> Setting:
    return replace(drawn_setting(family, shape, seed, freshness), is_by_stream=True)


def _by_share(
    family: Family, shape: str, allocators: Allocators, shares: Sequence[float], seeds: Sequence[int]
) -> dict[str, list[float]]:
    made: dict[tuple[str, float], list[float]] = {one: [] for one in product(allocators, shares)}
    for seed in seeds:
        arrivals = Arrivals(_by_streams(family, shape, seed, RELAXED), family.seconds)
        whole = saturate(arrivals, family.warm_s)
        for name, share in made:
            run = run_limited(arrivals, whole, allocators[name], share, family.warm_s)
            made[name, share].append(run.results_per_s / whole.results_per_s)
    return {name: [fmean(made[name, share]) for share in shares] for name in allocators}


def by_freshness(allocators: Allocators, freshness: Sequence[float], seeds: Sequence[int]) -> dict[str, Numbers]:
    """By shape: the share of stale results of each allocator, what JAQPOT spends for freshness and the share of plans
    that cannot be kept fresh. JAQPOT's are of the others, and None where there are none."""
    return {shape: _stale(shape, allocators, freshness, seeds) for shape in SHAPES}


def _stale(shape: str, allocators: Allocators, freshness: Sequence[float], seeds: Sequence[int]) -> Numbers:
    plans = [_with_little(shape, allocators, freshness, seed) for seed in seeds]
    lines: Numbers = {**{name: [] for name in allocators}, "spent": [], "infeasible": []}
    for place in range(len(freshness)):
        runs = [plan[place] for plan in plans]
        feasible = [run for run in runs if run["JAQPOT"].is_feasible]
        for name in allocators:
            counted = feasible if name == "JAQPOT" else runs
            lines[name].append(_mean([run[name].stale / max(run[name].results, 1) for run in counted]))
        lines["spent"].append(_mean([run["JAQPOT"].freshness_share for run in feasible]))
        lines["infeasible"].append(1 - len(feasible) / len(runs))
    return lines


def _with_little(
    shape: str, allocators: Allocators, freshness: Sequence[float], seed: int
) -> list[dict[str, LimitedRun]]:
    """One plan's runs for each freshness, by allocator; what everything takes does not depend on freshness."""
    found, whole = [], None
    for times in freshness:
        arrivals = Arrivals(_by_streams(REFRESHED, shape, seed, times), REFRESHED.seconds)
        whole = whole or saturate(arrivals, REFRESHED.warm_s)
        mu_share = MU_13 / whole.probes_per_s
        runs = {
            name: run_limited(arrivals, whole, used, mu_share, REFRESHED.warm_s, is_enforced=used == DEFAULT_ALLOCATOR)
            for name, used in allocators.items()
        }
        found.append(runs)
    return found


def _mean(values: list[float]) -> float | None:
    return fmean(values) if values else None
