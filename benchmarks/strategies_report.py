"""Paper 003's Figures 2 to 4 as measured: targets, a table and the picture, from the stored numbers of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from headrace.lab.experiment import Claim, at_most, equals
from headrace.lab.operator_strategies import MEMORY, latency_claims, memory_claims, threshold_claims

Results = dict[str, Any]

ENOUGH = "threshold, enough"
LIMITS = {**MEMORY, ENOUGH: 0.8}
"""Threshold's memory, as a part of what path capacity needs at most: ``short`` is about what simplified segments need;
``enough`` is more than that, and less than path capacity."""

COLOURS = {
    "fifo": "#8a8f98", "chain": "#c2571a", "path": "#1b7f79", "segment": "#b8860b", "simplified": "#5b4b9a",
    "threshold, short": "#c03070", "threshold, plenty": "#7aa6c2",
    ENOUGH: "#3c78d8",
}  # fmt: skip
COLUMNS = ("strategy", "mean latency", "carried over at most", "on average", "memory limit", "mode changes", "turns")


def checks(results: Results) -> list[dict[str, Any]]:
    """What the paper says, on these numbers. Threshold is compared with the path capacity that ran beside it."""
    runs = results["runs"]
    beside = {**results, "runs": {**runs, "path": results.get("path_again", runs["path"])}}
    claims = [
        *latency_claims(results), *memory_claims(results), *threshold_claims(beside), *_enough_claims(beside["runs"]),
    ]  # fmt: skip
    if results["where"] == "spark":
        claims.append(equals("runs with work left in the end", sum(not one["is_done"] for one in runs.values()), 0))
    return [{"what": one.says, "wanted": one.expected, "measured": one.found, "met": one.holds} for one in claims]


def _enough_claims(runs: Results) -> list[Claim]:
    """Where its memory is enough for those who need little, and not for path capacity."""
    run, path, chain = runs[ENOUGH], runs["path"]["mean_latency_s"], runs["chain"]["mean_latency_s"]
    way = (run["mean_latency_s"] - path) / max(chain - path, 1e-9)
    return [
        at_most("enough memory: largest queues carried over, against the limit",
                run["peak_bytes"] / run["limit_bytes"], 1.0),
        at_most("enough memory: of the way from path capacity's latency to Chain's", way, 0.5),
    ]  # fmt: skip


# --- output


def setting(results: Results) -> str:
    told = results["setting"]
    kinds = ", ".join(f"{count} {kind}" for kind, count in told["kinds"].items())
    where = {"engine": "One shard, without Spark", "spark": "Spark, two shards"}[results["where"]]
    return (
        f"{where}: {told['queries']} queries, {told['operators']} operators ({kinds}); {told['scheduled']} take turns "
        f"in a shard, {told['packing']} run before, in packing, without queues. 5 self-similar streams of 64 "
        f"flows (ON 1.4, OFF 1.2), {round(told['seconds'] / told['speed'])} s; all work takes {results['load']:.0%} of "
        "the time there is, on the average, and more in bursts."
    )


def _rows(results: Results) -> list[list[str]]:
    return [
        [
            name,
            f"{run['mean_latency_s']:.2f} s",
            f"{run['peak_bytes'] / 1e6:.2f} MB",
            f"{run['mean_bytes'] / 1e6:.2f} MB",
            "" if run["limit_bytes"] is None else f"{run['limit_bytes'] / 1e6:.2f} MB",
            str(run["mode_changes"]) if name.startswith("threshold") else "",
            f"{run['turns']:,}",
        ]
        for name, run in _shown(results).items()
    ]


def _shown(results: Results) -> dict[str, Any]:
    again = results.get("path_again")
    return results["runs"] | ({} if again is None else {"path, beside threshold": again})


def show(results: Results, console: Console) -> None:
    console.print(setting(results))
    table = Table(title="Strategies on the same arrivals")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "strategy" else "right")
    for cells in _rows(results):
        table.add_row(*cells)
    console.print(table)
    goals = Table("target", "wanted", "measured", "")
    for check in results["checks"]:
        shown = "met" if check["met"] else "[red]missed"
        goals.add_row(check["what"], check["wanted"], check["measured"], shown)
    console.print(goals)


def markdown(results: Results, stem: str) -> str:
    told = [
        [check["what"], check["wanted"], check["measured"], "met" if check["met"] else "missed"]
        for check in results["checks"]
    ]
    lines = [setting(results), "", *_markdown_table(list(COLUMNS), _rows(results)), ""]
    lines += [*_markdown_table(["target", "wanted", "measured", ""], told), "", f"![Figures 2 to 4]({stem}.png)"]
    return "\n".join(lines) + "\n"


def _markdown_table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def draw(results: Results, path: Path) -> None:
    """Latency, throughput and queue memory over time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 1, figsize=(10, 10), sharex=True)
    for name, run in results["runs"].items():
        if name == "threshold, plenty":
            continue  # it is path capacity
        at_s, given, latency_s, used = (list(column) for column in zip(*run["moments"], strict=True))
        means = [total / count if count else None for total, count in zip(latency_s, given, strict=True)]
        for axis, values in zip(axes, (means, given, [one / 1e6 for one in used]), strict=True):
            axis.plot(at_s, values, color=COLOURS[name], label=name, linewidth=1.2)
    limit_bytes = results["runs"]["threshold, short"]["limit_bytes"]
    axes[2].axhline(limit_bytes / 1e6, color=COLOURS["threshold, short"], linestyle=":", linewidth=1)
    axes[0].set(title="Figure 2: tuple latency", ylabel="s")
    axes[1].set(title="Figure 3: throughput", ylabel="results a micro-batch")
    axes[2].set(title="Figure 4: queue memory (dotted: threshold's limit)", ylabel="MB", xlabel="stream time, s")
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.set_ylim(bottom=0)
    axes[0].legend(ncol=3, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
