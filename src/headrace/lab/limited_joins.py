"""Paper 001: joins that get less processor than they could use. Figure 8 as printed, the infeasible share by the
paper's model of rates, on random plans with the parameters of its Figure 10 (``random_plans``); Figures 11 to 13 by the
model clock so too, and by the wall clock on a shard (``limited_runs``).

An allocation tells how many results a second its probes make (``plan/allocating``); how old the tuples in them are
follows from how often states are refreshed (``staleness``).

Figures 12 and 13 and the infeasible share count mu as the paper's Equation 3 is printed, in tuples of streams: "mu is
fixed at 300" is a tenth of what there is by it, and next to nothing where every probe counts, as in Equation 6. What
Figure 12 is with every probe is drawn beside it. JDA_M is the paper's, to the letter (``jda_m_as_printed``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf
from statistics import fmean

from headrace.lab.experiment import (
    Chart,
    Claim,
    Experiment,
    Grid,
    Ground,
    Line,
    Numbers,
    Picture,
    Setup,
    above,
    at_least,
    at_most,
    between,
    equals,
    less,
    near,
    number,
    seed_itself,
)
from headrace.lab.limited_runs import (
    CHANGES,
    FIRST,
    MINUTES,
    MU_13,
    PRINTED_TEXT,
    REFRESHED_TEXT,
    TEXT_11,
    WARM_11_S,
    by_freshness,
    of_saturation,
    over_time,
)
from headrace.lab.overload import Allot, allotted, jda_m_as_printed
from headrace.lab.random_plans import by_streams, random_problem
from headrace.lab.staleness import stale_share
from headrace.plan.allocating import AllocationProblem, ProbeFacts, StreamLoad, problem_of
from headrace.plan.allocators import allocate
from headrace.plan.trees import JoinTree, parse_tree

SHAPES = {"linear": parse_tree("(((a b) c) d)", "abcd"), "bushy": parse_tree("((a b) (c d))", "abcd")}
ALLOCATORS: dict[str, str | Allot] = {"JAQPOT": "jaqpot", "GrePP": "grepp", "JDA_M": jda_m_as_printed}
COMPARED = {name: ALLOCATORS[name] for name in ("JAQPOT", "JDA_M")}
"""In the paper's Figures 11 and 12."""
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
FRESHNESS = (1.5, 3.0, 5.0)
SPARSE = 100.0
"""What selectivities are divided by for plans in which probes at the leaves count too."""
BY_STREAMS = "tuples of streams"
FIGURE_10 = {
    "rates": "300 to 1,200 tuples/s",
    "states": "200 to 5,000 tuples",
    "selectivities": "0.01 to 0.1",
    "freshness": "1.5 to 5 x window",
}


def sparse(problem: AllocationProblem, mu_share: float) -> AllocationProblem:
    """The plan with few results a probe."""
    probes = tuple(ProbeFacts(one.productivity / SPARSE, one.cost) for one in problem.probes)
    thin = replace(problem, probes=probes)
    return thin.with_mu(mu_share * thin.saturation.spent)


def plans(tree: JoinTree, seed: int, runs: int, mu_share: float, freshness: float) -> Iterator[AllocationProblem]:
    """Random plans; the same for every service rate and freshness."""
    for run in range(runs):
        yield random_problem(random.Random(f"{seed} {run}"), tree, mu_share, freshness)


# --- Figure 8


def path_table(mu: float = 30, rate: float = 100) -> AllocationProblem:
    """Figures 7 and 8: 15 probes of path a make 4 results, 16 of b make 5, 10 of c make 1."""
    probes = tuple(map(ProbeFacts, (4 / 11, 5 / 11, 1.0, 0.1)))
    return AllocationProblem(parse_tree("((a b) c)", "abc"), mu, (StreamLoad(rate),) * 3, probes, (1.0,) * 4)


def _figure_8(_: Setup) -> Numbers:
    problem = path_table()
    exact, grepp = allocate(path_table(), "exact"), allocate(path_table(), "grepp")
    return {
        "paths": {"ABC"[path.side]: path.productivity for path in problem.paths},
        "exact": exact.throughput,
        "grepp": grepp.throughput,
        "allowances": list(grepp.allowances),
    }


def _grid_8(numbers: Numbers) -> list[Picture]:
    rows = [[f"Path {name}", number(value)] for name, value in numbers["paths"].items()]
    found = [["whole paths, dynamic programming", number(numbers["exact"])], ["GrePP", number(numbers["grepp"])]]
    return [
        Grid("Figure 8: path productivities", ("", "results a probe"), rows),
        Grid("With 30 probes a second", ("allocator", "results a second"), found),
    ]


def _claims_8(numbers: Numbers) -> list[Claim]:
    paths, allowed = numbers["paths"], numbers["allowances"]
    return [
        between("Path A makes 0.266 results a probe", paths["A"], 0.266, 0.267),
        between("Path B makes 0.312", paths["B"], 0.312, 0.313),
        between("Path C makes 0.1", paths["C"], 0.0999, 0.1001),
        equals("the best of whole paths makes 8 results with 30 probes", number(numbers["exact"]), "8"),
        between("GrePP makes 9.38", numbers["grepp"], 9.37, 9.38),
        between("with 20.62 probes of b", allowed[1], 20.62, 20.63),
        between("and 9.38 of a b", allowed[2], 9.37, 9.38),
    ]


# --- Figure 11

SECONDS = 600
RATES_11, SIZE_11, BETWEEN_11 = (600.0, 600.0, 600.0, 600.0), 500.0, 1000.0
SELECTIVITIES_11 = ((0, (0.01, 0.01, 0.05)), (180, (0.03, 0.03, 0.05)), (420, (0.03, 0.03, 0.1)))
"""By second: of the three joins, the root last."""


def _problem_11(tree: JoinTree, selectivities: tuple[float, ...], mu: float) -> AllocationProblem:
    held = {state: SIZE_11 if len(state) == 1 else BETWEEN_11 for state in tree.states}
    fresh = [1.5 * SIZE_11 / rate for rate in RATES_11]
    return problem_of(tree, mu, RATES_11, held, lambda half: selectivities[half.join], fresh)


def _figure_11(setup: Setup) -> Numbers:
    if not setup.is_model:
        return _measured_11(setup)
    runs: dict[str, dict[str, list[float]]] = {}
    for shape, tree in SHAPES.items():
        mu = 0.3 * _problem_11(tree, SELECTIVITIES_11[0][1], inf).saturation.spent
        phases = {}
        for since_s, selectivities in SELECTIVITIES_11:
            problem = _problem_11(tree, selectivities, mu)
            phases[since_s] = {name: allotted(problem, used).throughput for name, used in ALLOCATORS.items()}
        runs[shape] = {name: _cumulative({at: one[name] for at, one in phases.items()}) for name in ALLOCATORS}
    ours = {
        "rates": "600 tuples/s", "states": "500 tuples, 1,000 in between", "mu": "30% of the first phase's saturation",
    }  # fmt: skip
    return {"ours": ours, "minutes": list(range(SECONDS // 60 + 1)), "runs": runs}


def _seeds_11(setup: Setup) -> Sequence[int]:
    return () if setup.is_model else (setup.seed + 6,)


def _measured_11(setup: Setup) -> Numbers:
    seconds = 10.0 if setup.is_quick else 30.0
    phases = (FIRST, *(selectivities for _, selectivities in CHANGES))
    ours = {
        **TEXT_11,
        "selectivities": " then ".join(", ".join(f"{one:g}" for one in phase) for phase in phases),
        "lasts": f"{seconds:.0f} s of stream time, after {WARM_11_S:.0f} s",
        "mu": "30% of the first phase's probes",
    }
    runs = over_time(COMPARED, seconds, *_seeds_11(setup))
    return {"ours": ours, "unit": "tenths of the run", "minutes": list(range(MINUTES + 1)), "runs": runs}


def _cumulative(rates: dict[int, float]) -> list[float]:
    total, found = 0.0, [0.0]
    for minute in range(SECONDS // 60):
        total += 60 * next(rate for since_s, rate in sorted(rates.items(), reverse=True) if since_s <= minute * 60)
        found.append(total)
    return found


def _charts_11(numbers: Numbers) -> list[Picture]:
    return [
        Chart(f"Figure 11: {shape}", f"time, {numbers.get('unit', 'min')}", "results so far, thousands",
              [Line(name, numbers["minutes"], [one / 1e3 for one in runs[name]]) for name in ("JAQPOT", "JDA_M")])
        for shape, runs in numbers["runs"].items()
    ]  # fmt: skip


def _claims_11(numbers: Numbers) -> list[Claim]:
    found = []
    for shape, runs in numbers["runs"].items():
        jaqpot, jda = runs["JAQPOT"], runs["JDA_M"]
        first, second, third = (jaqpot[end] - jaqpot[begin] for begin, end in ((2, 3), (6, 7), (9, 10)))
        found += [
            at_least(f"{shape}: JAQPOT makes far more than JDA_M: at the end, times as many (1.5 at least)",
                     jaqpot[-1] / jda[-1], 1.5),
            less(f"{shape}: its results rise when the lower joins find more", first, second),
            less(f"{shape}: and even more when the root does: times as many, the first change against the second",
                 second / first, third / second),
        ]  # fmt: skip
    return found


# --- Figure 12


def _as_printed(problem: AllocationProblem, mu_share: float) -> AllocationProblem:
    every = by_streams(problem)
    return every.with_mu(mu_share * every.mu)


def _every_probe(problem: AllocationProblem, mu_share: float) -> AllocationProblem:
    return problem.with_mu(mu_share * problem.saturation.spent)


READINGS = {"as printed": _as_printed, "every probe": _every_probe, "sparse": sparse}
"""What becomes of a plan whose mu is a share of saturation."""


@lru_cache(maxsize=8)
def _of_saturation(seed: int, runs: int, reading: str) -> dict[str, dict[str, list[float]]]:
    """By shape and allocator: results over saturation for each share of the service rate, the mean over plans."""
    read = READINGS[reading]
    found: dict[str, dict[str, list[float]]] = {}
    for shape, tree in SHAPES.items():
        lines: dict[str, list[float]] = {name: [] for name in ALLOCATORS}
        for share in SHARES:
            problems = [read(one, share) for one in plans(tree, seed, runs, 1.0, FRESHNESS[0])]
            for name, used in ALLOCATORS.items():
                lines[name].append(fmean(allotted(one, used).of_saturation for one in problems))
        found[shape] = lines
    return found


def _seeds_12(setup: Setup) -> Sequence[int]:
    """One a plan by the wall clock; by the model's all plans are drawn from one."""
    return seed_itself(setup) if setup.is_model or setup.is_quick else range(setup.seed, setup.seed + 4)


def _measured_12(setup: Setup) -> Numbers:
    seeds = _seeds_12(setup)
    shares = (0.2, 0.4, 0.6, 1.0) if setup.is_quick else SHARES
    ours = {**PRINTED_TEXT, "plans": f"{len(seeds)} a point", "freshness": "5 x window", "mu counts": BY_STREAMS}
    return {"ours": ours, "shares": shares, "as printed": of_saturation(COMPARED, shares, seeds)}


def _figure_12(setup: Setup) -> Numbers:
    if not setup.is_model:
        return _measured_12(setup)
    runs = 12 if setup.is_quick else 200
    return {
        "ours": {"plans": f"{runs} a point", "freshness": "1.5 x window", "mu counts": BY_STREAMS},
        "shares": list(SHARES),
        **{reading: _of_saturation(setup.seed, runs, reading) for reading in READINGS},
    }


def _charts_12(numbers: Numbers) -> list[Picture]:
    titles = {
        "as printed": "Figure 12",
        "every probe": "The same, where every probe counts",
        "sparse": "The same, and selectivities / 100",
    }
    return [
        Chart(f"{title}: {shape}", "service rate, % of saturation", "results, % of saturation",
              [Line(name, [100 * one for one in numbers["shares"]], [100 * one for one in numbers[key][shape][name]])
               for name in ALLOCATORS if name in numbers[key][shape]])
        for key, title in titles.items()
        if key in numbers
        for shape in SHAPES
    ]  # fmt: skip


def _claims_12(numbers: Numbers) -> list[Claim]:
    printed, shares = numbers["as printed"], numbers["shares"]
    ratios = {
        shape: [one / max(other, 1e-12) for one, other in zip(lines["JAQPOT"], lines["JDA_M"], strict=True)]
        for shape, lines in printed.items()
    }
    linear = ratios["linear"]
    return [
        *(above(f"{shape}: JAQPOT makes more than JDA_M at every service rate: least times as many", min(some), 1.0)
          for shape, some in ratios.items()),
        near("linear: 3 times as many, on average over service rates", fmean(linear), 3),
        near("bushy: the trends are similar, 3 times as many on average", fmean(ratios["bushy"]), 3),
        near("linear: at most 6.5 times as many, at 40% of saturation: there, if it is the most",
             linear[shares.index(0.4)] if linear[shares.index(0.4)] == max(linear) else None, 6.5),
        above("linear: more than 80% of the results with 60% of the service rate",
              printed["linear"]["JAQPOT"][shares.index(0.6)], 0.8),
        less("JAQPOT is better for the linear plan than for the bushy one: bushy against linear, mean",
             fmean(printed["bushy"]["JAQPOT"]), fmean(printed["linear"]["JAQPOT"])),
    ]  # fmt: skip


# --- Figure 13 and infeasible plans


def _plans_13(tree: JoinTree, seed: int, runs: int, freshness: float) -> Iterator[AllocationProblem]:
    return (by_streams(problem).with_mu(MU_13) for problem in plans(tree, seed, runs, 1.0, freshness))


@lru_cache(maxsize=4)
def _by_freshness(seed: int, runs: int) -> dict[str, Numbers]:
    """Stale results of each allocator, and what JAQPOT spends for freshness: JAQPOT's of feasible plans, and None where
    there is no such plan."""
    found = {}
    for shape, tree in SHAPES.items():
        lines: Numbers = {**{name: [] for name in ALLOCATORS}, "spent": [], "infeasible": []}
        for freshness in FRESHNESS:
            stale: dict[str, list[float]] = {name: [] for name in ALLOCATORS}
            spent, missed = [], 0
            for run, problem in enumerate(_plans_13(tree, seed, runs, freshness)):
                best = allocate(problem)
                missed += not best.is_feasible
                spent += [best.freshness_share] if best.is_feasible else []
                for name, used in ALLOCATORS.items():
                    if best.is_feasible or name != "JAQPOT":
                        chance = random.Random(f"{seed} {run} ages")
                        stale[name].append(stale_share(allotted(problem, used), chance, 100))
            for name, values in stale.items():
                lines[name].append(fmean(values) if values else None)
            lines["spent"].append(fmean(spent) if spent else None)
            lines["infeasible"].append(missed / runs)
        found[shape] = lines
    return found


def _seeds_13(setup: Setup) -> Sequence[int]:
    return seed_itself(setup) if setup.is_model or setup.is_quick else range(setup.seed, setup.seed + 6)


def _measured_13(setup: Setup) -> Numbers:
    seeds = _seeds_13(setup)
    ours = {
        **REFRESHED_TEXT,
        "plans": f"{len(seeds)} a point",
        "mu": f"{MU_13:g}",
        "mu counts": BY_STREAMS,
        "stale tuples": "JAQPOT lets go of them, as it runs; the others do not",
    }
    return {"ours": ours, "freshness": FRESHNESS, "shapes": by_freshness(ALLOCATORS, FRESHNESS, seeds)}


def _figure_13(setup: Setup) -> Numbers:
    if not setup.is_model:
        return _measured_13(setup)
    runs = 20 if setup.is_quick else 200
    ours = {"plans": f"{runs} a point", "mu counts": BY_STREAMS}
    return {"ours": ours, "freshness": list(FRESHNESS), "shapes": _by_freshness(setup.seed, runs)}


def _charts_13(numbers: Numbers) -> list[Picture]:
    x, at = "freshness, x window", numbers["freshness"]
    stale = [
        Chart(f"Figure 13: stale results, {shape}", x, "% of results",
              [Line(name, at, _percent(lines[name])) for name in ALLOCATORS])
        for shape, lines in numbers["shapes"].items()
    ]  # fmt: skip
    used = [Line(shape, at, _percent(lines["spent"])) for shape, lines in numbers["shapes"].items()]
    return [*stale, Chart("Figure 13(c): service rate used for freshness", x, "% of mu", used)]


def _percent(shares: list[float | None]) -> list[float | None]:
    return [None if one is None else 100 * one for one in shares]


def _claims_13(numbers: Numbers) -> list[Claim]:
    linear, bushy = (numbers["shapes"][shape] for shape in SHAPES)
    mine = [one for one in (*linear["JAQPOT"], *bushy["JAQPOT"]) if one is not None]
    relaxed = [one for one in (*linear["spent"][1:], *bushy["spent"][1:]) if one is not None]
    return [
        at_least("JDA_M produces high amounts of stale results (10% at least): linear, 1.5 x", linear["JDA_M"][0], 0.1),
        at_least("without GH-WMSCP GrePP has a substantial amount of them (10% at least): bushy, 1.5 x",
                 bushy["GrePP"][0], 0.1),
        less("more in the bushy plan than in the linear one: GrePP, 1.5 x", linear["GrePP"][0], bushy["GrePP"][0]),
        less("markedly fewer where the predicate is relaxed (a quarter at least): GrePP, linear, 5 x against 1.5 x",
             linear["GrePP"][-1], linear["GrePP"][0], times=0.75),
        at_most("JAQPOT has none in feasible plans: most of all points", max(mine, default=None), 0.0),
        less("relaxed predicates need far less of the service rate (half at most): linear, 5 x against 1.5 x",
             linear["spent"][-1], linear["spent"][0], times=0.5),
        less("the same: bushy", bushy["spent"][-1], bushy["spent"][0], times=0.5),
        near("the bushy plan needs 35% for 1.5 x", bushy["spent"][0], 0.35),
        near("for 5 x the linear plan needs 3%", linear["spent"][-1], 0.03),
        near("for 5 x the bushy plan needs 5%", bushy["spent"][-1], 0.05),
        at_most("most reasonable predicates (3 x and 5 x) need less than 10% on average",
                fmean(relaxed) if relaxed else None, 0.1),
        less("the bushy plan uses larger parts than the linear one: linear against bushy, 1.5 x", linear["spent"][0],
             bushy["spent"][0]),
    ]  # fmt: skip


@lru_cache(maxsize=4)
def infeasible_plans(seed: int, runs: int) -> list[tuple[str, float]]:
    """Of Figure 13's plans, which alone have three kinds of freshness: who cannot be kept fresh."""
    return [
        (shape, freshness)
        for shape, tree in SHAPES.items()
        for freshness in FRESHNESS
        for problem in _plans_13(tree, seed, runs, freshness)
        if not allocate(problem).is_feasible
    ]


def _infeasible(setup: Setup) -> Numbers:
    runs = 150 if setup.is_quick else 1000
    missed = infeasible_plans(setup.seed, runs)
    of = {
        shape: [sum(one == (shape, freshness) for one in missed) / runs for freshness in FRESHNESS] for shape in SHAPES
    }
    return {
        "ours": {"plans": f"{runs} a point", "mu": f"{MU_13:g}", "mu counts": BY_STREAMS},
        "freshness": list(FRESHNESS),
        **of,
    }


def _chart_infeasible(numbers: Numbers) -> list[Picture]:
    lines = [Line(shape, numbers["freshness"], [100 * one for one in numbers[shape]]) for shape in SHAPES]
    return [Chart("Infeasible plans", "freshness, x window", "% of plans", lines)]


def _claims_infeasible(numbers: Numbers) -> list[Claim]:
    linear, bushy = numbers["linear"], numbers["bushy"]
    total = sum(linear) + sum(bushy)
    return [
        near("about 8% of plans are infeasible", total / (2 * len(FRESHNESS)), 0.08),
        near("85% of them with the rigid predicate, 1.5 x", (linear[0] + bushy[0]) / total if total else None, 0.85),
        near("65% of them are bushy", sum(bushy) / total if total else None, 0.65),
    ]


def _experiment(
    name: str,
    title: str,
    shows: str,
    measure: Callable[[Setup], Numbers],
    pictures: Callable[[Numbers], list[Picture]],
    claims: Callable[[Numbers], list[Claim]],
    seeds: Callable[[Setup], Sequence[int]],
    ground: Ground = Ground.ENGINE,
    **papers: str,
) -> Experiment:
    return Experiment(
        name, title, shows, ground, {**FIGURE_10, **papers}, measure, pictures, claims, seeds, by_model=Ground.FORMULAS
    )


LIMITED_EXPERIMENTS = (
    Experiment(
        "001-figure-8", "Figure 8: path productivities",
        "The example of Figure 7: what 30 probes a second are best used for.",
        Ground.FORMULAS, {"mu": "30 probes/s"}, _figure_8, _grid_8, _claims_8,
    ),
    _experiment(
        "001-figure-11", "Figure 11: results while selectivities change",
        "Results so far over ten minutes; joins find more from minute 3 on, the root from minute 7 on.",
        _figure_11, _charts_11, _claims_11, _seeds_11, mu="30% of saturation", freshness="1.5 x window",
    ),
    _experiment(
        "001-figure-12", "Figure 12: results by available processor",
        "Results against saturation, by how much of the processor there is.",
        _figure_12, _charts_12, _claims_12, _seeds_12, mu="0% to 100% of saturation",
    ),
    _experiment(
        "001-figure-13", "Figure 13: freshness",
        "Stale results by allocator, and what it takes to have none.",
        _figure_13, _charts_13, _claims_13, _seeds_13, mu="300",
    ),
    _experiment(
        "001-infeasible", "Infeasible plans",
        "Plans that cannot be kept fresh, whatever is done.",
        _infeasible, _chart_infeasible, _claims_infeasible, seed_itself, Ground.FORMULAS, mu="not told",
    ),
)  # fmt: skip
