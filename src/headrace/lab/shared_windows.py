"""Paper 000: seven windows share a join. Figures 2(b) and 3(b) by the paper's formulas, Figures 5 to 9 and section 5.4
on a shard (``window_runs``).

Quick runs have fewer tuples, and of Figures 7 and 9 only the points that the paper speaks of. What is measured once is
shown in every figure that it belongs to: Figure 6 looks into Figure 5, and Figure 8 into Figure 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.lab.experiment import (
    Chart,
    Claim,
    Experiment,
    Grid,
    Ground,
    Kind,
    Line,
    Numbers,
    Picture,
    Setup,
    above,
    at_least,
    at_most,
    between,
    less,
    near,
    over,
    rises,
    seed_a_stream,
)
from headrace.lab.window_policies import POLICIES, TABLE_1, WALL_LOAD, ours_of, runs_of, setting_of
from headrace.lab.window_runs import Setting

FIGURE_6 = ("Uniform", "Mostly-Small")
BURSTS = (1, 2, 3, 4, 5)
POOL = 30
"""Queries of Figure 9."""
COMMON = {"rate": "100 tuples/s a stream", "selectivity": "0.002", "windows": "1 s to 10 min (Table 1)"}
MEASURED = {**COMMON, "new tuples": "100,000", "clock": "a Sun Enterprise 450"}


# --- Figures 2(b) and 3(b): formulas

TP_S, RATE, BURST = 1e-6, 100, 50


def lwo_response_s(window_s: float, largest_s: float, burst: int = BURST) -> float:
    """Equation (1)."""
    return TP_S / 2 * ((RATE * window_s + 1) + (burst - 1) * RATE * largest_s)


def isolated_response_s(window_s: float, burst: int = BURST) -> float:
    return TP_S / 2 * (burst * RATE * window_s + 1)


def swf_response_s(windows_s: Sequence[float], at: int, burst: int = BURST) -> float:
    """Equation (2)."""
    before = RATE * windows_s[at - 1] if at else 0.0
    return TP_S * (burst * before + (burst + 1) / 2 * (RATE * windows_s[at] - before))


def _formulas(_: Setup) -> Numbers:
    windows = TABLE_1["Small-Large"]
    return {
        "ours": {"windows": "Small-Large of Table 1", "new tuples at once": str(BURST)},
        "windows_s": list(windows),
        "LWO": [lwo_response_s(one, windows[-1]) for one in windows],
        "SWF": [swf_response_s(windows, at) for at in range(len(windows))],
        "isolated": [isolated_response_s(one) for one in windows],
    }


def _formula_chart(title: str, names: Sequence[str]) -> Callable[[Numbers], Sequence[Picture]]:
    def pictures(numbers: Numbers) -> list[Picture]:
        lines = [Line(name, numbers["windows_s"], [1000 * one for one in numbers[name]]) for name in names]
        return [Chart(title, "window, s", "average response, ms", lines, log_x=True, log_y=True)]

    return pictures


def _claims_2b(numbers: Numbers) -> list[Claim]:
    lwo, alone = numbers["LWO"], numbers["isolated"]
    return [
        at_least("the smallest window is severely penalised: LWO over isolated", lwo[0] / alone[0], 100),
        at_most("LWO is about the same for all windows: largest over smallest", lwo[-1] / lwo[0], 1.05),
        between("the largest window is as fast as alone: LWO over isolated", lwo[-1] / alone[-1], 0.999, 1.001),
    ]


def _claims_3b(numbers: Numbers) -> list[Claim]:
    swf, alone, lwo = numbers["SWF"], numbers["isolated"], numbers["LWO"]
    return [
        at_most("the smallest window is about as fast as alone: SWF over isolated", swf[0] / alone[0], 1.05),
        at_most("small windows gain: SWF over LWO, smallest window", swf[0] / lwo[0], 0.01),
        between("at the expense of the large ones: SWF over isolated, largest window", swf[-1] / alone[-1], 1.2, 2.0),
        rises("SWF rises from window to window", swf),
    ]


# --- Figures 5 to 9: a shard


def _by_distribution(setup: Setup) -> Numbers:
    return {
        "ours": ours_of(setup),
        "windows_s": {name: list(windows) for name, windows in TABLE_1.items()},
        "runs": {name: runs_of(setting_of(setup, name), setup.clock) for name in TABLE_1},
    }


def _figure_5(numbers: Numbers) -> list[Picture]:
    lines = [
        Line(policy, list(TABLE_1), [1000 * numbers["runs"][name][policy]["mean_s"] for name in TABLE_1])
        for policy in POLICIES
    ]
    rows = [[name, *(f"{numbers['runs'][name][policy]['busy']:.0%}" for policy in POLICIES)] for name in TABLE_1]
    return [
        Chart("Figure 5: all windows", "window distribution", "average response, ms", lines, Kind.BARS),
        Grid("The part of the time that each policy worked", ("windows", *POLICIES), rows),
    ]


def _claims_5(numbers: Numbers) -> list[Claim]:
    means = {name: {policy: run["mean_s"] for policy, run in runs.items()} for name, runs in numbers["runs"].items()}
    best = [
        less(
            f"{name}: MQT has the best average response, or within 5%",
            one["MQT"],
            min(one["LWO"], one["SWF"]),
            times=1.05,
        )
        for name, one in means.items()
    ]
    second = [
        less(f"{name}: LWO is second, before SWF", one["LWO"], one["SWF"])
        for name, one in means.items()
        if name != "Mostly-Small"
    ]
    small = means["Mostly-Small"]
    return [*best, *second, less("Mostly-Small: SWF is second, before LWO", small["SWF"], small["LWO"])]


def _figure_6(numbers: Numbers) -> list[Picture]:
    return [
        Chart(
            f"Figure 6: {name}, {told}",
            "window, s",
            f"{told} response, ms",
            [
                Line(policy, [f"{one:g}" for one in numbers["windows_s"][name]], [
                    None if one is None else 1000 * one for one in numbers["runs"][name][policy][key]
                ])
                for policy in POLICIES
            ],
            log_y=True,
        )
        for name in FIGURE_6
        for told, key in (("average", "means_s"), ("longest", "longest_s"))
    ]  # fmt: skip


def _worst(values: Sequence[float | None]) -> float | None:
    """The largest, if all were found."""
    known = [one for one in values if one is not None]
    return max(known) if len(known) == len(values) else None


def _least(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return min(known) if len(known) == len(values) else None


def _claims_6(numbers: Numbers) -> list[Claim]:
    found, slopes, flat, longer = [], [], [], []
    for name in FIGURE_6:
        lwo, swf, mqt = (numbers["runs"][name][policy]["means_s"] for policy in POLICIES)
        longest = {policy: numbers["runs"][name][policy]["longest_s"] for policy in POLICIES}
        slopes.append(over(lwo[-1], lwo[0]))
        flat.append(over(longest["LWO"][-1], longest["LWO"][0]))
        longer.append(over(longest["MQT"][-1], longest["SWF"][-1]))
        found += [
            less(f"{name}: SWF is faster for the smallest window than LWO", swf[0], lwo[0]),
            less(f"{name}: MQT is faster for the smallest window than LWO", mqt[0], lwo[0]),
            less(f"{name}: SWF is faster for small windows than for large ones", swf[0], swf[-1]),
            less(f"{name}: MQT is faster than SWF for the largest window", mqt[-1], swf[-1]),
        ]
    # What the paper says in one sentence of all its windows is one claim.
    found += [
        at_most("LWO is stable across windows: largest over smallest, the most", _worst(slopes), 1.6),
        above("LWO rises slightly with the window: largest over smallest, the least", _least(slopes), 1.0),
        at_most("LWO's longest response is the same for all windows: largest over smallest, the most",
                _worst([*flat, *(over(1.0, one) for one in flat)]), 1.6),
        less("also in its longest response, with both kinds of windows: MQT over SWF, the worse", _worst(longer), 1.0),
    ]  # fmt: skip
    small, even = (numbers["runs"][name]["SWF"]["means_s"][-1] for name in ("Mostly-Small", "Uniform"))
    found.append(near("SWF's largest window: Mostly-Small takes half as long as Uniform", over(small, even), 0.5))
    swf, mqt = (numbers["runs"]["Uniform"][policy]["means_s"][:-1] for policy in ("SWF", "MQT"))
    both = [(one, other) for one, other in zip(swf, mqt, strict=True) if one and other]
    apart = max((max(one / other, other / one) for one, other in both), default=None)
    found.append(
        at_most("Uniform: MQT and SWF are alike in all but the largest window: times apart, at most", apart, 1.5)
    )
    worst = max(
        one / mean
        for name in FIGURE_6
        for run in numbers["runs"][name].values()
        for one, mean in zip(run["longest_s"], run["means_s"], strict=True)
        if one is not None
    )
    found.append(at_least("the longest response may be an order of magnitude above the average", worst, 10))
    return found


def _by_burst(setup: Setup) -> Numbers:
    bursts = (1, 3, 5) if setup.is_quick else BURSTS
    runs = {str(burst): runs_of(setting_of(setup, "Small-Large", burst=burst), setup.clock) for burst in bursts}
    return {"ours": ours_of(setup), "windows_s": list(TABLE_1["Small-Large"]), "runs": runs}


def _figure_7(numbers: Numbers) -> list[Picture]:
    runs = numbers["runs"]
    lines = [
        Line(policy, [int(burst) for burst in runs], [1000 * one[policy]["mean_s"] for one in runs.values()])
        for policy in POLICIES
    ]
    return [Chart("Figure 7: Small-Large windows", "expected burst, tuples", "average response, ms", lines, log_y=True)]


def _claims_7(numbers: Numbers) -> list[Claim]:
    means = {burst: {policy: one["mean_s"] for policy, one in runs.items()} for burst, runs in numbers["runs"].items()}
    found = [
        less(
            f"burst of {burst}: MQT has the best average response, or within 5%",
            one["MQT"],
            min(one["LWO"], one["SWF"]),
            times=1.05,
        )
        for burst, one in means.items()
    ]
    gains = {policy: 1 - means["3"]["MQT"] / means["3"][policy] for policy in ("LWO", "SWF")}
    first, last = means[min(means)], means[max(means)]
    return [
        *found,
        near("bursts of three: MQT's gain on LWO is as high as 60%", gains["LWO"], 0.6),
        near("bursts of three: MQT's gain on SWF is as high as 30%", gains["SWF"], 0.3),
        less("scheduling matters more with larger bursts: LWO behind MQT, smallest against largest burst",
             first["LWO"] - first["MQT"], last["LWO"] - last["MQT"]),
        *(rises(f"{policy}'s response rises with the burst", [one[policy] for one in means.values()])
          for policy in POLICIES),
    ]  # fmt: skip


def _figure_8(numbers: Numbers) -> list[Picture]:
    runs = numbers["runs"][max(numbers["runs"])]
    windows = [f"{one:g}" for one in numbers["windows_s"]]
    lines = [
        Line(policy, windows, [None if one is None else 1000 * one for one in runs[policy]["means_s"]])
        for policy in POLICIES
    ]
    return [Chart("Figure 8: bursts of five", "window, s", "average response, ms", lines, log_y=True)]


def _claims_8(numbers: Numbers) -> list[Claim]:
    runs = numbers["runs"][max(numbers["runs"])]
    lwo, swf, mqt = (runs[policy]["means_s"] for policy in POLICIES)
    return [
        near("largest window: SWF takes four times as long as MQT (4 s against 1 s)", over(swf[-1], mqt[-1]), 4),
        less("smallest window: MQT is faster than LWO", mqt[0], lwo[0]),
        less("smallest window: SWF is faster than LWO", swf[0], lwo[0]),
        less("largest window: LWO is faster than SWF", lwo[-1], swf[-1]),
    ]


def clustered(at: int, windows: int = 7) -> tuple[int, ...]:
    """80% of the pool share a window, the others are spread over the rest."""
    many = round(0.8 * POOL)
    return tuple(many if window == at else (POOL - many) // (windows - 1) for window in range(windows))


def _by_skew(setup: Setup) -> Numbers:
    places = (0, 3, 6) if setup.is_quick else range(7)
    runs = {
        f"w{at + 1}": runs_of(setting_of(setup, "Small-Large", queries=clustered(at)), setup.clock) for at in places
    }
    return {"ours": {**ours_of(setup), "queries": f"{POOL}"}, "runs": runs}


def _figure_9(numbers: Numbers) -> list[Picture]:
    runs = numbers["runs"]
    lines = [Line(policy, list(runs), [1000 * one[policy]["mean_s"] for one in runs.values()]) for policy in POLICIES]
    told = "average response over all queries, ms"
    return [Chart("Figure 9: 80% of 30 queries at one window", "window of most queries", told, lines, Kind.BARS)]


def _claims_9(numbers: Numbers) -> list[Claim]:
    means = {at: {policy: one["mean_s"] for policy, one in runs.items()} for at, runs in numbers["runs"].items()}
    found = [
        less(
            f"most queries at {at}: MQT has the lowest average, or within 5%",
            one["MQT"],
            min(one["LWO"], one["SWF"]),
            times=1.05,
        )
        for at, one in means.items()
    ]
    first, last = means[min(means)], means[max(means)]
    return [
        *found,
        less("most queries at the smallest window: SWF is before LWO", first["SWF"], first["LWO"]),
        less("most queries at the largest window: LWO is before SWF", last["LWO"], last["SWF"]),
    ]


def _by_burst_for_memory(setup: Setup) -> Numbers:
    """By the wall clock with the paper's tuples, windows and selectivity: what is held depends on them. A turn then
    costs what it costs to begin one, and there are fewer new tuples."""
    if setup.is_model:
        return _by_burst(setup)
    tuples = 100 if setup.is_quick else 1500
    settings = {
        burst: Setting(TABLE_1["Small-Large"], burst=burst, tuples=tuples, load=WALL_LOAD, seed=setup.seed,
                       is_counted=False)
        for burst in (1, 5)
    }  # fmt: skip
    ours = {
        "new tuples": f"{tuples:,}",
        "load": f"{WALL_LOAD:.0%} of the time, by the mean rate",
        "clock": "processor time, stretched so that the dearest policy has the load",
    }
    runs = {str(burst): runs_of(setting, setup.clock) for burst, setting in settings.items()}
    return {"ours": ours, "windows_s": list(TABLE_1["Small-Large"]), "runs": runs}


def _memory(numbers: Numbers) -> list[Picture]:
    runs = numbers["runs"]
    charts = []
    for told, key in (("input buffer", "input_share"), ("output buffer", "output_share")):
        lines = [
            Line(name, [int(one) for one in runs], [100 * runs[one][name][key] for one in runs]) for name in POLICIES
        ]
        charts.append(Chart(f"Section 5.4: largest {told}", "expected burst, tuples", "% of the join buffers", lines))
    return list(charts)


def _claims_memory(numbers: Numbers) -> list[Claim]:
    runs = numbers["runs"]
    exponential = runs[min(runs)]
    found = [at_most("SWF: input buffer below 10% of the join buffers", exponential["SWF"]["input_share"], 0.10)]
    found += [
        at_most(f"{name}: output buffer below 3% of the join buffers", exponential[name]["output_share"], 0.03)
        for name in ("SWF", "MQT")
    ]
    worst = max(one["input_share"] for burst in runs.values() for one in burst.values())
    return [*found, at_most("also in bursts of five: input buffer at most 20%", worst, 0.20)]


# --- the experiments


_BY_WALL = (
    "By the processor's time a turn has a fixed cost of about a millisecond, whatever it finds, where the paper's "
    "policies make the same scans in another order: SWF and MQT take up to a fifth more of the processor's time than "
    "LWO, and wait the longer the nearer that is to all of it."
)


def _engine(
    name: str,
    title: str,
    shows: str,
    measure: Callable[[Setup], Numbers],
    pictures: Callable[[Numbers], Sequence[Picture]],
    claims: Callable[[Numbers], Sequence[Claim]],
    **papers: str,
) -> Experiment:
    told = {**MEASURED, **papers}
    return Experiment(
        name, title, shows, Ground.ENGINE, told, measure, pictures, claims, seed_a_stream, by_wall=_BY_WALL
    )


WINDOW_EXPERIMENTS = (
    Experiment(
        "000-figure-2b",
        "Figure 2(b): LWO against isolated execution",
        "What 50 tuples that come at once wait for, by equation (1).",
        Ground.FORMULAS,
        {**COMMON, "time of a comparison": "1 us", "new tuples at once": "50"},
        _formulas,
        _formula_chart("Figure 2(b): equation (1)", ("LWO", "isolated")),
        _claims_2b,
    ),
    Experiment(
        "000-figure-3b",
        "Figure 3(b): SWF against isolated execution",
        "The same by equation (2): small windows gain, large ones pay.",
        Ground.FORMULAS,
        {**COMMON, "time of a comparison": "1 us", "new tuples at once": "50"},
        _formulas,
        _formula_chart("Figure 3(b): equation (2)", ("SWF", "isolated", "LWO")),
        _claims_3b,
    ),
    _engine(
        "000-figure-5",
        "Figure 5: response for four window distributions",
        "Seven queries share a join; the average over their windows of what a result waits, for each policy.",
        _by_distribution, _figure_5, _claims_5, arrivals="exponential",
    ),
    _engine(
        "000-figure-6",
        "Figure 6: response window by window",
        "The same runs, each window on its own: averages and the longest.",
        _by_distribution, _figure_6, _claims_6, arrivals="exponential",
    ),
    _engine(
        "000-figure-7",
        "Figure 7: response as streams become bursty",
        "Pareto bursts with an expected size of one to five, at the same mean rate.",
        _by_burst, _figure_7, _claims_7, arrivals="Pareto bursts",
    ),
    _engine(
        "000-figure-8",
        "Figure 8: response window by window in bursts of five",
        "The last point of Figure 7, each window on its own.",
        _by_burst, _figure_8, _claims_8, arrivals="Pareto bursts",
    ),
    _engine(
        "000-figure-9",
        "Figure 9: where most queries have one window",
        "80% of 30 queries share one of the seven windows.",
        _by_skew, _figure_9, _claims_9, arrivals="exponential", queries="30",
    ),
    _engine(
        "000-section-5.4",
        "Section 5.4: memory",
        "The most that waiting tuples (input buffer) and held results (output buffer) take, against the join buffers.",
        _by_burst_for_memory, _memory, _claims_memory, arrivals="Pareto bursts",
    ),
)  # fmt: skip
