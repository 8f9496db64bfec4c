"""The report of ``benchmarks.overload``: targets, tables and the plot, from stored results."""

from __future__ import annotations

from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

COLOURS = {
    "jaqpot": "#1b7f79",
    "jda_m": "#c2571a",
    "jda_m as printed": "#a89f91",
    "grepp": "#5b6abf",
    "defer": "#8a8f98",
    "adapt": "#1b7f79",
}


def checks(results: dict[str, Any]) -> list[dict[str, Any]]:
    """What the paper says, on these numbers."""
    found = []
    for shape, one in results.get("figure 12", {}).items():
        for name, told in (("jda_m", "JDA_M's"), ("jda_m as printed", "JDA_M's as printed")):
            if name in one:
                pairs = [(one["jaqpot"][share], one[name][share]) for share in one["jaqpot"]]
                ratio = fmean(mine / max(other, 1e-9) for mine, other in pairs)
                found.append(_check(f"figure 12, {shape}: JAQPOT's results over {told}, mean", ">= 2", ratio))
        if shape.endswith("linear"):
            found.append(
                _check(f"figure 12, {shape}: JAQPOT at 60% of mu, of saturation", ">= 0.7", one["jaqpot"]["0.6"])
            )
    for shape, by_times in results.get("figure 13", {}).items():
        for name, how, wanted in (("kept fresh", "as it runs", "<= 0"), ("jaqpot", "as it plans", "<= 0.01")):
            mine = max(cell[name] for cell in by_times.values())
            found.append(_check(f"figure 13, {shape}: JAQPOT's stale results, {how}, feasible plans", wanted, mine))
        least = min(cell["plans"][0] / cell["plans"][1] for cell in by_times.values())
        found.append(_check(f"figure 13, {shape}: plans that stay feasible while they run", ">= 1", least))
        for name in ("grepp", "jda_m"):
            stale = max(by_times["1.5"][name], by_times["1.5"][f"{name} elsewhere"])
            what = f"figure 13, {shape}: {name.upper()}'s stale results at 1.5x, feasible plans or others"
            found.append(_check(what, ">= 0.05", stale))
        spent = by_times["5.0"]["freshness"] / max(by_times["1.5"]["freshness"], 1e-9)
        found.append(_check(f"figure 13, {shape}: share for freshness, 5x against 1.5x", "<= 0.8", spent))
    for shape, one in results.get("figure 11", {}).items():
        ratio = one["jaqpot"]["results"] / max(one["jda_m"]["results"], 1)
        found.append(_check(f"figure 11, {shape}: JAQPOT's results over JDA_M's", ">= 1", ratio))
    if "spark" in results:
        found += _on_spark(results["spark"])
    return found


def _on_spark(told: dict[str, Any]) -> list[dict[str, Any]]:
    def grown(mode: str) -> float:
        """What waits at the end against a third of the way."""
        moments = told[mode]["moments"]
        return float(moments[-1][1] / max(moments[len(moments) // 3][1], 1))

    def slower(mode: str) -> float:
        means = [one[1] for one in told[mode]["responses_s"]]
        if not means:
            return inf
        third = max(1, len(means) // 3)
        return fmean(means[-third:]) / fmean(means[third : 2 * third] or means)

    adapt = told["adapt"]["moments"]
    third = max(1, len(adapt) // 3)
    made = adapt[-1][2] - adapt[-1 - third][2] if len(adapt) > third else adapt[-1][2]
    behind_s = max((behind for one in adapt[-third:] for behind in one[3:]), default=inf)
    return [
        _check("on Spark, DEFER: what waits at the end against a third of the way", ">= 1.5", grown("defer")),
        _check(
            "on Spark, ADAPT: streams behind the clock in the last third, of FRESHNESS",
            "<= 1",
            behind_s / told["load"]["freshness_s"],
        ),
        _check("on Spark, ADAPT: results in the last third", ">= 1", made),
        _check("on Spark, ADAPT: response in the last third against the middle one", "<= 1.3", slower("adapt")),
        _check("on Spark, ADAPT: micro-batches published with a stale result", "<= 0", told["adapt"]["released_late"]),
    ]


def _check(what: str, wanted: str, measured: float) -> dict[str, Any]:
    sign, bound = wanted.split()
    value = round(float(measured), 3)
    met = {"<=": value <= float(bound), ">=": value >= float(bound)}[sign]
    return {"what": what, "wanted": wanted, "measured": value, "met": met}


# --- tables

_FIGURE_12 = {
    "jaqpot": "JAQPOT",
    "jda_m": "JDA_M",
    "jda_m as printed": "JDA_M as printed",
    "model": "JAQPOT by the model",
    "clock": "JAQPOT's time",
}
_FIGURE_13 = {
    "kept fresh": "JAQPOT",
    "jaqpot": "JAQPOT, not let go",
    "grepp": "GrePP",
    "jda_m": "JDA_M",
    "grepp elsewhere": "GrePP, other plans",
    "jda_m elsewhere": "JDA_M, other plans",
}


def _tables(results: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    found = []
    for shape, one in results.get("figure 12", {}).items():
        rows = [
            [f"{float(share):.0%}", *(f"{one[name][share]:.0%}" for name in _FIGURE_12 if name in one)]
            for share in one["jaqpot"]
        ]
        head = ["mu", *(told for name, told in _FIGURE_12.items() if name in one)]
        found.append((f"Figure 12, mu in {shape}: results over saturation", head, rows))
    for shape, by_times in results.get("figure 13", {}).items():
        rows = []
        for times, cell in by_times.items():
            stale = [f"{cell[name]:.1%}" for name in _FIGURE_13]
            feasible = "{} of {}".format(*cell["plans"])
            rows.append([f"{float(times):g}x", *stale, f"{cell['freshness']:.0%}", feasible])
        head = ["freshness", *_FIGURE_13.values(), "of mu for freshness", "feasible as they run"]
        found.append((f"Figure 13, {shape}: stale results with 20% of saturation", head, rows))
    if "figure 11" in results:
        rows = [
            [shape, name.upper(), f"{run['results']:,}", str(run["allocations"]), f"{run['allocation_ms']:.2f} ms"]
            for shape, one in results["figure 11"].items()
            for name, run in one.items()
        ]
        head = ["plan", "allocator", "results", "allocations", "time of one"]
        found.append(("Figure 11: selectivities that change twice", head, rows))
    if "spark" in results:
        rows = []
        for mode in ("defer", "adapt"):
            told = results["spark"][mode]
            means = [one[1] for one in told["responses_s"]]
            last = f"{fmean(means[-5:]):.1f} s" if means else "-"
            waits, made = told["moments"][-1][1:3]
            kept = [f"{told.get('left_out', 0):,}", f"{told.get('stale', 0):,}", str(told.get("released_late", "-"))]
            rows.append([mode.upper(), f"{waits:,}", last, f"{made:,}", *kept])
        head = ["on overload", "waiting at the end", "last responses", "results", "probes left out", "stale, prevented",
                "released stale"]  # fmt: skip
        found.append(("On Spark, the same overload", head, rows))
    return found


def show(results: dict[str, Any], console: Console) -> None:
    for title, head, rows in _tables(results):
        table = Table(*head, title=title)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    goals = Table("target", "wanted", "measured", "")
    for check in results["checks"]:
        goals.add_row(
            check["what"], check["wanted"], f"{check['measured']:g}", "met" if check["met"] else "[red]missed"
        )
    console.print(goals)


def markdown(results: dict[str, Any]) -> str:
    lines: list[str] = []
    for title, head, rows in _tables(results):
        lines += [f"{title}:", "", *(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)), ""]
    lines += ["| target | wanted | measured | |", "|---|---|---|---|"]
    lines += [
        f"| {one['what']} | {one['wanted']} | {one['measured']:g} | {'met' if one['met'] else 'missed'} |"
        for one in results["checks"]
    ]
    return "\n".join(lines) + "\n"


def _line(shape: str) -> str:
    return ":" if "streams" in shape else "-"


def draw(results: dict[str, Any], path: Path) -> None:
    """Figures 12, 11 and 13, for both shapes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(15, 9))
    for shape, one in results.get("figure 12", {}).items():
        column = int(shape.endswith("bushy"))
        for name in [each for each in ("jaqpot", "jda_m", "jda_m as printed") if each in one]:
            shares = [100 * float(share) for share in one[name]]
            made = [100 * part for part in one[name].values()]
            style = {"color": COLOURS[name], "linestyle": _line(shape), "marker": "o"}
            axes[0][column].plot(shares, made, label=f"{name.upper()}, {shape.split(',')[0]}", **style)
        axes[0][column].set(
            title=f"Figure 12: {shape.split()[-1]}", xlabel="mu, % of saturation", ylabel="results, % of saturation"
        )
    for column, (shape, one) in enumerate(results.get("figure 11", {}).items()):
        for name, run in one.items():
            at_s, made = (list(some) for some in zip(*run["moments"], strict=True))
            total = [sum(made[: place + 1]) for place in range(len(made))]
            axes[1][column].plot(at_s, total, color=COLOURS[name], label=name.upper())
        axes[1][column].set(title=f"Figure 11: {shape}", xlabel="stream time, s", ylabel="results, cumulative")
    for row, (shape, by_times) in enumerate(results.get("figure 13", {}).items()):
        bars = [(name, "") for name in ("jaqpot", "grepp", "jda_m")] + [(name, "//") for name in ("grepp", "jda_m")]
        for place, (name, hatch) in enumerate(bars):
            key, label = (f"{name} elsewhere", f"{name.upper()}, other plans") if hatch else (name, name.upper())
            at = [number + 0.16 * place for number in range(len(by_times))]
            stale = [100 * (cell.get(key) or 0) for cell in by_times.values()]
            axes[row][2].bar(at, stale, 0.16, color=COLOURS[name], hatch=hatch, edgecolor="white", label=label)
        axes[row][2].set_xticks([number + 0.32 for number in range(len(by_times))], [f"{one}x" for one in by_times])
        axes[row][2].set(title=f"Figure 13: {shape}", xlabel="freshness", ylabel="stale results, %", ylim=(0, 105))
    _finished(figure, axes.ravel(), path)


def draw_spark(told: dict[str, Any], path: Path) -> None:
    """The two runs on Spark alone."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4))
    _runs_on_spark(told, *axes)
    _finished(figure, axes, path)


def _runs_on_spark(told: dict[str, Any] | None, waits: Any, responses: Any) -> None:
    for mode in ("defer", "adapt") if told is not None else ():
        for axis, kind in ((waits, "moments"), (responses, "responses_s")):
            pairs = [one[:2] for one in told[mode][kind]]
            axis.plot(*zip(*pairs, strict=True), color=COLOURS[mode], label=mode.upper())
    waits.set(title="On Spark: what waits", xlabel="s", ylabel="tuples")
    responses.set(title="On Spark: response", xlabel="micro-batch", ylabel="s, mean")


def _finished(figure: Any, axes: Any, path: Path) -> None:
    from matplotlib import pyplot

    for axis in axes:
        axis.grid(alpha=0.3)
        axis.set_ylim(bottom=0)
        if axis.get_legend_handles_labels()[0]:
            many = len(axis.get_legend_handles_labels()[0]) > 3  # they would hide curves: below
            axis.legend(
                fontsize=8, **({"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncol": 2} if many else {})
            )
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
