"""The ratios, sentences and picture of ``multiway``: computed from the stored numbers of a run."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean, median
from textwrap import fill
from typing import Any

from benchmarks import report
from benchmarks.report import Results, Target, good

TARGETS: tuple[Target, ...] = (
    ("three streams on a common key: throughput against two chained native joins", "common_throughput", ">=", 5.0),
    ("theta join: join time of a cell, four cells against one",                    "theta_cell_join",   "<",  1.0),
    ("rates that change places: throughput after the switch, adaptive against fixed", "adaptive_throughput", ">=", 1.5),
)  # fmt: skip
CELLS = ("cells-1", "cells-4")
COLOURS = {
    **report.COLOURS, "cells-1": "#8a8f98", "cells-4": "#1b7f79", "adaptive": "#1b7f79", "fixed": "#c2571a",
}  # fmt: skip


def add(results: Results) -> None:
    """Puts the ratios and what became of the targets into the results."""
    results["ratios"] = common_ratios(results) | theta_ratios(results) | adaptive_ratios(results)
    results["targets"] = report.targets(results, TARGETS)


def common_ratios(results: Results) -> dict[str, Any]:
    ours, native = good(results, "common", "headrace"), report.fastest_native(results, "common")
    if not ours or not native:
        return {}
    store, theirs = native
    return {
        "common_native_store": store,
        "common_throughput": round(theirs["total_s"] / ours["total_s"], 3),
        "common_memory": round(ours["peak_mib"] / theirs["peak_mib"], 3),
        "common_later_batches": round(theirs["later_batch_ms"] / ours["later_batch_ms"], 3),
    }


def theta_ratios(results: Results) -> dict[str, Any]:
    """What a cell takes for a micro-batch, when the windows are full."""
    found = {}
    for contender in CELLS:
        entry = good(results, "theta", contender)
        if not entry:
            return {}
        history = entry["history"][results["scenarios"]["theta"]["steady_from"] :]
        cells = [cell for batch in history for cell in batch["shards_ms"]]
        found[f"theta_{contender}_join_ms"] = round(fmean(cell.get("join", 0.0) for cell in cells), 1)
        found[f"theta_{contender}_all_ms"] = round(fmean(sum(cell.values()) for cell in cells), 1)
    one, four = CELLS
    for what in ("join", "all"):
        found[f"theta_cell_{what}"] = round(found[f"theta_{four}_{what}_ms"] / found[f"theta_{one}_{what}_ms"], 3)
    return found


def adaptive_ratios(results: Results) -> dict[str, Any]:
    """The rounds' median of the tuples a second after the switch, whole micro-batches and the join alone."""
    adaptive, fixed = (good(results, "adaptive", contender) for contender in ("adaptive", "fixed"))
    if not adaptive or not fixed:
        return {}
    half = second_half(results)
    switched = after_switch(adaptive, half)
    if switched is None:
        return {}
    pairs = list(zip(rounds(adaptive), rounds(fixed), strict=True))
    found: dict[str, Any] = {"adaptive_switched_in": switched}
    for name, since in (("adaptive", switched), ("adaptive_second_half", half)):
        for what, spent in (("throughput", batch_ms), ("join", join_ms)):
            ratios = [speed(one[since:], spent) / speed(other[since:], spent) for one, other in pairs]
            found[f"{name}_{what}"] = round(median(ratios), 3)
            found[f"{name}_{what}_rounds"] = [round(ratio, 3) for ratio in ratios]
    for name, number in (("adaptive", 0), ("fixed", 1)):
        speeds = [speed(pair[number][switched:], batch_ms) for pair in pairs]
        found[f"adaptive_{name}_tuples_per_s"] = round(median(speeds))
    return found


def second_half(results: Results) -> int:
    """The first micro-batch with the rates of the last part."""
    return sum(results["scenarios"]["adaptive"]["workload"]["part_batches"][:-1])


def rounds(entry: dict[str, Any]) -> list[list[dict[str, Any]]]:
    history: list[list[dict[str, Any]]] = entry.get("rounds_history", [entry["history"]])
    return history


def after_switch(entry: dict[str, Any], half: int) -> int | None:
    """The first micro-batch with the order for the second half: what was new to b went to a first, now to c."""
    for switch in entry.get("switches", ()):
        found = re.match(r"micro-batch (\d+): order for new tuples of b: b, c, a", switch)
        if found and int(found[1]) >= half:
            return int(found[1])
    return None


def batch_ms(batch: dict[str, Any]) -> float:
    return float(batch["batch_ms"])


def join_ms(batch: dict[str, Any]) -> float:
    return float(batch["stage_ms"].get("join", 0.0))


def speed(batches: list[dict[str, Any]], spent: Any) -> float:
    """Tuples a second."""
    return sum(batch["rows"] for batch in batches) * 1000 / max(sum(map(spent, batches)), 1e-3)


# --- text -----------------------------------------------------------------------------------------------------------


def told(results: Results) -> list[str]:
    """What the tables do not show."""
    lines, ratios = [], results["ratios"]
    if "common_memory" in ratios:
        lines.append(
            f"Common key: against {ratios['common_native_store']}, {ratios['common_later_batches']} times the speed in "
            f"later micro-batches, {ratios['common_memory']} times the memory."
        )
    refused = results["scenarios"].get("theta", {}).get("contenders", {}).get("native", {}).get("refused")
    if refused:
        lines.append(f"Theta join: Spark's own join is refused: {refused}")
    if "theta_cell_join" in ratios:
        lines += [
            f"Theta join, {cells[6:]} cell(s): a cell joins for {ratios[f'theta_{cells}_join_ms']} ms a micro-batch, "
            f"and takes {ratios[f'theta_{cells}_all_ms']} ms with all stages."
            for cells in CELLS
        ]
    if "adaptive_throughput" in ratios:
        lines.append(
            f"Rates that change places: from micro-batch {ratios['adaptive_switched_in']} on "
            f"{ratios['adaptive_adaptive_tuples_per_s']:,} tuples/s with and {ratios['adaptive_fixed_tuples_per_s']:,} "
            f"without changing orders (rounds: {', '.join(map(str, ratios['adaptive_throughput_rounds']))}); the join "
            f"alone {ratios['adaptive_join']} times as fast; over the whole second half "
            f"{ratios['adaptive_second_half_throughput']} times."
        )
        lines += results["scenarios"]["adaptive"]["contenders"]["adaptive"]["switches"]
    return lines


def markdown(results: Results) -> str:
    return report.markdown(results) + "\n" + "\n".join(f"- {line}" for line in told(results)) + "\n"


# --- picture --------------------------------------------------------------------------------------------------------


def draw(results: Results, path: Path) -> None:
    """The time of each micro-batch: the whole of it, but of the theta join a cell's join."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = results["scenarios"]
    figure, axes = pyplot.subplots(1, len(shown), figsize=(6 * len(shown), 4.5), squeeze=False)
    for axis, (name, scenario) in zip(axes[0], shown.items(), strict=True):
        for who in scenario["contenders"]:
            entry = good(results, name, who)
            if entry:
                times_ms = cell_times(entry) if name == "theta" else batch_times(entry)
                axis.plot([ms / 1000 for ms in times_ms], color=COLOURS[who], label=who, marker=".")
        axis.set(xlabel="micro-batch", ylabel="join time of a cell, s" if name == "theta" else "s")
        axis.set_ylim(bottom=0)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_title(f"{scenario['title']}\n{fill(scenario['workload']['text'], 90)}", fontsize=7)
        axis.legend(fontsize=8)
        if name == "adaptive":
            axis.axvline(second_half(results) - 0.5, color="black", linewidth=0.5, linestyle=":")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def cell_times(entry: dict[str, Any]) -> list[float]:
    return [fmean(cell.get("join", 0.0) for cell in batch["shards_ms"]) for batch in entry["history"]]


def batch_times(entry: dict[str, Any]) -> list[float]:
    """The median of the rounds."""
    if "history" not in entry:
        return list(entry["batches_ms"])
    return [median(batch["batch_ms"] for batch in same) for same in zip(*rounds(entry), strict=False)]
