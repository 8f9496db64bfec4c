"""`python -m benchmarks.allocation`: the allocators of paper 001 on random plans, without Spark.

Plans are trees of 3 to 8 streams with the parameters of the paper's figure 10 (``lab/random_plans.py``); every other
one is odd: silent streams, probes that find nothing, probes of different cost. Linear programs by scipy tell what is
best (``benchmarks/allocation_programs.py``).

  optimum       GrePP's results over the most that any allocation makes; has to be 1, always
  cover         what GH-WMSCP's refresh rates cost, over the least; has to be at most 1 + ln m for m states
  time          of a JAQPOT allocation by streams, the least of several; has to grow no faster than quadratically
  figure 12     results over saturation by service rate and allocator, of the linear and the bushy plan of four streams;
                then with fewer results a probe, with states that are by window instead of by count, and with a
                service rate that only tuples of streams count for, as the paper's equation 3 is printed
  figure 13     stale results, and the share of the service rate for freshness, by predicate
  infeasible    plans whose freshness predicates cannot be kept

Exits with 1 if one of the first three is missed. Figures are of the model, not measured in a running join; apart from
times the same seed prints the same tables.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from math import ceil, log
from statistics import fmean, median
from time import perf_counter
from typing import TypeAlias

from rich.console import Console
from rich.table import Table

from benchmarks.allocation_programs import least_cost, most_fresh_results, most_results
from headrace.lab.limited_joins import FRESHNESS, SHAPES, SHARES, SPARSE, infeasible_plans, sparse
from headrace.lab.random_plans import by_streams, random_problem, random_tree
from headrace.lab.staleness import stale_share
from headrace.plan.allocating import AllocationProblem, Retention
from headrace.plan.allocators import allocate
from headrace.plan.covering import cost_of, greedy_cover
from headrace.plan.freshness import refresh_rates
from headrace.plan.trees import JoinTree

SAME = 1e-6
"""Results that differ by a smaller share are the same: solvers round."""
STREAMS = (4, 8, 16, 32)
QUADRATIC = 2.0
"""The power of the number of streams that a time may grow by."""
MOST_TIMES = 100.0


def plans(count: int, seed: int) -> Iterable[tuple[AllocationProblem, random.Random]]:
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        tree = random_tree(chance, chance.randint(3, 8))
        yield (
            random_problem(chance, tree, chance.uniform(0.02, 1.0), chance.choice(FRESHNESS), is_odd=number % 2 == 1),
            chance,
        )


# --- optimum and cover


def distribution(title: str, ratios: Sequence[float], best: str) -> Table:
    table = Table(title=title)
    for column in ("plans", "best", "least", "1st percentile", "median", "99th percentile", "most"):
        table.add_column(column, justify="right")
    ranked = sorted(ratios)
    places = (0, ceil(0.01 * len(ranked)) - 1, len(ranked) // 2, ceil(0.99 * len(ranked)) - 1, len(ranked) - 1)
    table.add_row(f"{len(ranked):,}", best, *(f"{ranked[max(0, place)]:.6f}" for place in places))
    return table


def check_optimum(console: Console, count: int, seed: int) -> bool:
    ratios = []
    for problem, _ in plans(count, seed):
        best = most_results(problem)
        ratios.append(allocate(problem, "grepp").throughput / best if best > SAME else 1.0)
    equal = sum(abs(ratio - 1) <= SAME for ratio in ratios)
    console.print(distribution("results of GrePP / the most (linear program)", ratios, f"{equal:,} equal"))
    return equal == len(ratios)


def check_cover(console: Console, count: int, seed: int) -> bool:
    ratios, over, together = [], 0, []
    for problem, _ in plans(count, seed):
        needs = [one for one in refresh_rates(problem) if one.rate <= problem.full_of[one.state]]
        least = least_cost(problem, needs) if needs else None
        if least is None:
            continue
        ratios.append(cost_of(problem, greedy_cover(problem, needs)) / least)
        over += ratios[-1] > (1 + log(len(needs))) * (1 + SAME)
        best = most_fresh_results(problem, refresh_rates(problem))
        found = allocate(problem)
        if best is not None and found.is_feasible:
            together.append(found.throughput / best if best > SAME else 1.0)
    equal = sum(ratio <= 1 + SAME for ratio in ratios)
    console.print(distribution("cost of GH-WMSCP's cover / the least (linear program)", ratios, f"{equal:,} equal"))
    console.print(f"covers beyond 1 + ln m times the least: {over}")
    near = sum(ratio >= 0.99 for ratio in together)
    title = "results of JAQPOT / the most that whole paths make with all predicates kept (linear program)"
    console.print(distribution(title, together, f"{near:,} within 1%"))
    return not over


# --- time


def check_times(console: Console, seed: int, repeats: int) -> bool:
    table = Table(title="time of an allocation")
    for column in ("streams", "jaqpot, by count", "growth", "jaqpot, by window", "growth"):
        table.add_column(column, justify="right")
    kinds = (Retention.COUNT, Retention.WINDOW)
    times = {kind: [_time(seed, streams, kind, repeats) for streams in STREAMS] for kind in kinds}
    for at, streams in enumerate(STREAMS):
        cells = []
        for kind in kinds:
            growth = f"x{times[kind][at] / times[kind][at - 1]:.1f}" if at else ""
            cells.extend((f"{times[kind][at] * 1e3:.2f} ms", growth))
        table.add_row(str(streams), *cells)
    exponents = [_exponent(times[kind]) for kind in kinds]
    table.add_row("grows by the power of", f"{exponents[0]:.2f}", "", f"{exponents[1]:.2f}", "")
    console.print(table)
    return max(exponents) <= QUADRATIC


def _exponent(times: Sequence[float]) -> float:
    """The slope of the time over the streams, both as logarithms: 2 is quadratic."""
    across = [log(streams) for streams in STREAMS]
    up = [log(time) for time in times]
    middle = fmean(across)
    return sum((x - middle) * y for x, y in zip(across, up, strict=True)) / sum((x - middle) ** 2 for x in across)


def _time(seed: int, streams: int, retention: Retention, repeats: int) -> float:
    """The median over several plans of the least time of several allocations; what a tree knows of itself is known."""
    taken = []
    for number in range(9):
        chance = random.Random(f"{seed} {number}")
        problem = sparse(random_problem(chance, random_tree(chance, streams), 0.4, 3.0), 0.4)
        problem = replace(problem, retention=retention)
        taken.append(min(_once(problem) for _ in range(repeats)))
    return median(taken)


def _once(problem: AllocationProblem) -> float:
    fresh = replace(problem)
    begin = perf_counter()
    allocate(fresh)
    return perf_counter() - begin


# --- the paper's figures, by the model


Shaped: TypeAlias = Callable[[AllocationProblem, float], AllocationProblem]
"""What becomes of a plan with the parameters of figure 10, for a share of its saturation."""
NAMES = ("jaqpot", "grepp", "jda_m")


def as_it_is(problem: AllocationProblem, share: float) -> AllocationProblem:  # noqa: ARG001
    return problem


def by_window(problem: AllocationProblem, share: float) -> AllocationProblem:
    return replace(sparse(problem, share), retention=Retention.WINDOW)


def streams_only(problem: AllocationProblem, share: float) -> AllocationProblem:
    """Equation 3 as printed: of all probes, only those by tuples of streams take anything."""
    every = by_streams(problem)
    return every.with_mu(share * every.mu)


def told_linear(seed: int, runs: int, share: float = 0.6, wanted: float = 0.7) -> str:
    """How many linear plans can have more than a share of the results at all: GrePP makes the most."""
    found = _of_saturation(seed, runs, SHAPES["linear"], share, "grepp", as_it_is)
    over = sum(one > wanted for one in found)
    told = (
        f"{over} of {runs} linear plans can have more than {wanted:.0%} of the results with {share:.0%} of saturation"
    )
    return f"figure 12: {told}; the most of any is {max(found):.1%}"


def figure_12(seed: int, runs: int, shaped: Shaped, title: str) -> Table:
    table = Table(title=title)
    table.add_column("mu / saturation", justify="right")
    for kind in SHAPES:
        for column in (*NAMES, "jaqpot / jda_m"):
            table.add_column(f"{kind} {column}", justify="right")
    gains: dict[str, list[float]] = {kind: [] for kind in SHAPES}
    for share in SHARES:
        cells = []
        for kind, tree in SHAPES.items():
            found = {name: _of_saturation(seed, runs, tree, share, name, shaped) for name in NAMES}
            gains[kind].append(fmean(map(ratio, found["jaqpot"], found["jda_m"])))
            cells.extend([*(f"{fmean(found[name]):.0%}" for name in NAMES), f"x{gains[kind][-1]:.1f}"])
        table.add_row(f"{share:.0%}", *cells)
    told = "; ".join(f"{kind} x{fmean(found):.1f}, at most x{max(found):.1f}" for kind, found in gains.items())
    table.caption = f"results / saturation, mean of {runs} plans, freshness 1.5 x window; jaqpot / jda_m: {told}"
    return table


def ratio(mine: float, other: float) -> float:
    """How many times as much, at most a hundred times: some plans make next to nothing with the other."""
    return min(MOST_TIMES, mine / other) if other else MOST_TIMES if mine else 1.0


def _of_saturation(seed: int, runs: int, tree: JoinTree, share: float, name: str, shaped: Shaped) -> list[float]:
    problems = (shaped(random_problem(random.Random(f"{seed} {run}"), tree, share, 1.5), share) for run in range(runs))
    return [allocate(problem, name).of_saturation for problem in problems]


def figure_13(seed: int, runs: int, shaped: Shaped, mu: str, title: str) -> Table:
    """``mu``: a share of saturation, or a number of probes a second."""
    table = Table(title=title, caption=f"{runs} plans a row, mu {mu}; stale: of results, jaqpot's of feasible plans")
    table.add_column("freshness", justify="right")
    for kind in SHAPES:
        for column in (*(f"{kind} stale {name}" for name in NAMES), "mu for freshness", "infeasible"):
            table.add_column(column, justify="right")
    for freshness in FRESHNESS:
        cells = []
        for tree in SHAPES.values():
            cells.extend(_freshness_cells(seed, runs, tree, freshness, shaped, mu))
        table.add_row(f"{freshness:g} x", *cells)
    return table


def _freshness_cells(seed: int, runs: int, tree: JoinTree, freshness: float, shaped: Shaped, mu: str) -> list[str]:
    stale: dict[str, list[float]] = {name: [] for name in NAMES}
    spent, infeasible = [], 0
    for run in range(runs):
        chance = random.Random(f"{seed} {run}")
        problem = shaped(random_problem(chance, tree, 1.0, freshness), 1.0)
        problem = problem.with_mu(float(mu[:-1]) / 100 * problem.mu if mu.endswith("%") else float(mu))
        is_feasible = allocate(problem).is_feasible
        infeasible += not is_feasible
        if is_feasible:
            spent.append(allocate(problem).freshness_share)
        for name in NAMES:
            if is_feasible or name != "jaqpot":
                stale[name].append(stale_share(allocate(problem, name), chance, 100))
    shares = [f"{fmean(stale[name]):.1%}" if stale[name] else "-" for name in NAMES]
    return [*shares, f"{fmean(spent):.1%}" if spent else "-", f"{infeasible / runs:.0%}"]


def told_300(seed: int, runs: int) -> str:
    """What the mu of figure 13 is, by the two ways to count it."""
    shares: list[list[float]] = [[], []]
    for run, tree in product(range(runs), SHAPES.values()):
        problem = random_problem(random.Random(f"{seed} {run}"), tree, 1.0)
        for found, counted in zip(shares, (problem, streams_only(problem, 1.0)), strict=True):
            found.append(300 / counted.mu)
    every, streams = map(median, shares)
    return (
        f"figure 13: mu = 300 is {every:.4%} of saturation where every probe counts, {streams:.0%} where tuples of "
        f"streams alone do (medians of {len(shares[0])} plans)"
    )


def told_infeasible(seed: int, runs: int) -> str:
    """Plans with the parameters of figure 10, mu as printed for figure 13: who cannot be kept fresh."""
    missed = infeasible_plans(seed, runs)
    share = len(missed) / (runs * len(SHAPES) * len(FRESHNESS))
    rigid = sum(freshness == FRESHNESS[0] for _, freshness in missed) / max(1, len(missed))
    bushy = sum(kind == "bushy" for kind, _ in missed) / max(1, len(missed))
    of_those = f"of those {rigid:.0%} with 1.5 x, {bushy:.0%} bushy"
    return f"infeasible: {share:.1%} of plans, mu = 300 tuples of streams; {of_those}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plans", type=int, default=1000, help="how many random plans")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    options = parser.parse_args()
    count, runs = (options.plans // 10, 20) if options.quick else (options.plans, 200)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(f"{count:,} random plans of 3 to 8 streams, seed {options.seed}")
    kept = [
        check_optimum(console, count, options.seed),
        check_cover(console, count, options.seed),
        check_times(console, options.seed, 3 if options.quick else 9),
    ]
    sparser = f"selectivities / {SPARSE:g}"
    console.print(figure_12(options.seed, runs, as_it_is, "figure 12"))
    console.print(told_linear(options.seed, runs))
    console.print(figure_12(options.seed, runs, sparse, f"figure 12, {sparser}"))
    console.print(figure_12(options.seed, runs, by_window, f"states by window, {sparser}"))
    console.print(figure_12(options.seed, runs, streams_only, "figure 12, mu in tuples of streams (equation 3)"))
    console.print(figure_13(options.seed, runs, as_it_is, "10%", "figure 13"))
    console.print(figure_13(options.seed, runs, sparse, "300", f"figure 13, {sparser}"))
    console.print(told_300(options.seed, runs))
    console.print(figure_13(options.seed, runs, streams_only, "300", "figure 13, mu in tuples of streams"))
    console.print(told_infeasible(options.seed, runs))
    verdicts = ("GrePP is optimal", "covers are within 1 + ln m", "times grow no faster than quadratically")
    for verdict, is_kept in zip(verdicts, kept, strict=True):
        console.print(f"{verdict}: {'yes' if is_kept else 'NO'}")
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
