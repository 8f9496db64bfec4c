"""Table 8 and Figure 4 as measured: targets, tables and the picture, from the stored numbers of a run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

Results = dict[str, Any]

LEAST_RATIO = 3.0
COLUMNS = ("algorithm", "best plan", "worst plan", "best/worst", "by the clock", "by the model", "the paper's")
COLOURS = ("#8a8f98", "#c2571a", "#1b7f79", "#5b4b9a")
WHY = (
    "What may make shapes differ from the paper's, by how the engine works (it was not measured apart): the paper pays "
    "for every bucket that it looks through for old tuples, so large tables want long intervals. Here windows are "
    "sorted segments, old tuples go a whole segment at a time, and expiry does not touch buckets. Here each "
    "evaluation has a fixed cost, and in it each segment and bucket that is searched. Eager is one evaluation "
    "a unit of time, not one a tuple."
)


def checks(results: Results) -> list[dict[str, Any]]:
    """What was to be shown, on these numbers."""
    rows = results["table_8"]["rows"]
    found = []
    for tau in dict.fromkeys(row["tau"] for row in rows):
        index, scan = (_row(rows, tau, is_index=one) for one in (True, False))
        found.append(_check(f"{index['name']} over {scan['name']}, best plans", "> 1", _ratio(index, scan)))
    found += [_check(f"{row['name']}: best plan over worst", f">= {LEAST_RATIO:g}", row["ratio"]) for row in rows]
    wrong = sum(len(one["wrong"]) for one in results["answers"].values())
    found.append(_check("algorithms with another number of results than DuckDB", "<= 0", wrong))
    return found


def _row(rows: list[dict[str, Any]], tau: int, *, is_index: bool) -> dict[str, Any]:
    return next(row for row in rows if row["tau"] == tau and row["is_index"] == is_index)


def _ratio(one: dict[str, Any], other: dict[str, Any]) -> float:
    return float(round(one["best"]["rate"] / other["best"]["rate"], 2))


def _check(what: str, wanted: str, measured: float) -> dict[str, Any]:
    sign, bound = wanted.split()
    met = {">": measured > float(bound), ">=": measured >= float(bound), "<=": measured <= float(bound)}[sign]
    return {"what": what, "wanted": wanted, "measured": measured, "met": met}


# --- the paper's figures in words


def shapes(results: Results) -> list[tuple[str, bool, str]]:
    """What the paper says about Figure 4, whether it holds here, and the numbers."""
    return [*_shapes_a(results["figure_4a"]), *_shapes_b(results["figure_4b"])]


def _shapes_a(lines: dict[str, list[dict[str, Any]]]) -> list[tuple[str, bool, str]]:
    names = list(lines)
    rates = list(zip(*([point["rate"] for point in lines[name]] for name in names), strict=True))
    taus = [point["at"] for point in lines[names[0]]]
    out_of_order = [tau for tau, some in zip(taus, rates, strict=True) if list(some) != sorted(some)]
    best = {name: _peak(points) for name, points in lines.items()}
    gains = [round(_peak_rate(lines[b]) / _peak_rate(lines[a]), 1) for a, b in pairwise(names)]
    falls = {name: round(points[-1]["rate"] / _peak_rate(points), 2) for name, points in lines.items()}
    return [
        (
            "4(a): NLJ is the slowest, more buckets are faster, at every interval",
            not out_of_order,
            f"not at τ = {', '.join(map(str, out_of_order))}" if out_of_order else "at all intervals",
        ),
        (
            "4(a): the greatest gain is from NLJ to two buckets",
            gains[0] == max(gains),
            f"highest rates, from one line to the next: x {', x '.join(f'{gain:g}' for gain in gains)}",
        ),
        (
            "4(a): the best interval grows with the buckets (2: 4, 10: 15, 30: 30 units)",
            list(best.values()) == sorted(best.values()) and len(set(best.values())) > 1,
            ", ".join(f"{name} {tau}" for name, tau in best.items()),
        ),
        (
            "4(a): rates fall off when the interval is long",
            all(fall < 1 for fall in falls.values()),
            "at the longest, of each line's highest: "
            + ", ".join(f"{name} {fall:.0%}" for name, fall in falls.items()),
        ),
    ]


def _shapes_b(lines: dict[str, list[dict[str, Any]]]) -> list[tuple[str, bool, str]]:
    peaks = {name: _peak(points) for name, points in lines.items()}
    highest = {name: _peak_rate(points) for name, points in lines.items()}
    equal = [point["rate"] for point in lines["Equal"]]
    shared = {point["at"]: point["rate"] for point in lines["5 to slow"]}
    above = [at for at, rate in shared.items() if rate > _at(lines["Equal"], at)]
    below = [point["at"] for point in lines["10 to slow"] if point["rate"] < shared[point["at"]]]
    numbers = ", ".join(f"{name} {rate:,} at {peaks[name]}" for name, rate in highest.items())
    return [
        ("4(b): Equal rises with the buckets", equal == sorted(equal), f"highest rates: {numbers}"),
        ("4(b): 1 to slow has its best at 8 buckets on average", peaks["1 to slow"] == 8, f"at {peaks['1 to slow']}"),
        ("4(b): 5 to slow is above Equal", len(above) == len(shared), f"at {len(above)} of {len(shared)} points"),
        (
            "4(b): 10 to slow is below 5 to slow",
            len(below) == len(lines["10 to slow"]),
            f"at {len(below)} of {len(lines['10 to slow'])} points",
        ),
        _as_modelled(lines),
    ]


def _as_modelled(lines: dict[str, list[dict[str, Any]]]) -> tuple[str, bool, str]:
    """Whether the strategies at the most buckets rank as their costs in the model do."""
    last = {name: points[-1] for name, points in lines.items()}
    model, measured = (
        sorted(last, key=lambda one: last[one]["model_cost"]),
        sorted(last, key=lambda one: -last[one]["rate"]),
    )
    numbers = f"by the model {', '.join(model)}; measured {', '.join(measured)}"
    return (
        "4(b), the paper's cost model: strategies rank by comparisons at the most buckets",
        model == measured,
        numbers,
    )


def _peak(points: list[dict[str, Any]]) -> int:
    return int(max(points, key=lambda point: point["rate"])["at"])


def _peak_rate(points: list[dict[str, Any]]) -> int:
    return int(max(point["rate"] for point in points))


def _at(points: list[dict[str, Any]], at: int) -> int:
    return int(next(point["rate"] for point in points if point["at"] == at))


# --- output


def setting(results: Results) -> str:
    parts = [
        f"{name}: S = {one['scale']}, {one['tuples_per_unit']:,} tuples a unit of time, {one['measured_units']} units "
        f"measured"
        for name, one in results["workloads"].items()
    ]
    rounds = "one round" if results["rounds"] == 1 else f"medians of {results['rounds']} rounds"
    small = " Too small to judge speed by: a step's fixed cost is most of it." if results["quick"] else ""
    return f"{'; '.join(parts)}; {rounds}, all algorithms in turn, {results['run_s']} s in all.{small}"


def show(results: Results, console: Console) -> None:
    console.print(setting(results))
    table = Table(title="Table 8: highest input rate, tuples/s")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "algorithm" else "right")
    for cells in _table_rows(results):
        table.add_row(*cells)
    console.print(table)
    goals = Table("target", "wanted", "measured", "")
    for check in results["checks"]:
        shown = "met" if check["met"] else "[red]missed"
        goals.add_row(check["what"], check["wanted"], f"{check['measured']:g}", shown)
    console.print(goals)
    for said, holds, numbers in shapes(results):
        console.print(
            f"{'[green]as in the paper[/]' if holds else '[yellow]not as in the paper[/]'}  {said}: {numbers}"
        )


def _table_rows(results: Results) -> list[list[str]]:
    rows = [
        [row["name"], f"{row['best']['rate']:,}", f"{row['worst']['rate']:,}", f"{row['ratio']:g}",
         f"{row['clock_ratio']:g}", f"{row['model_ratio']:g}", f"{row['paper'][0] / row['paper'][1]:.2f}"]
        for row in results["table_8"]["rows"]
    ]  # fmt: skip
    defaults = results["table_8"]["defaults"]
    return rows + [[name, f"{one['rate']:,}", "", "", "", "", ""] for name, one in defaults.items()]


def markdown(results: Results) -> str:
    first = results["table_8"]["rows"][0]
    text = [
        setting(results),
        "",
        "Rates and distinct values are the paper's times S: matches for each tuple, and what plans cost relative to "
        "each other, stay the same, and comparisons grow with S squared. Timed is the shard alone, without Spark or "
        "packing, in processor time; *by the clock* is best over worst in the clock's time, with whatever else the "
        "machine did.",
        "",
        "## Table 8: highest input rate, tuples/s",
        "",
        f"By the cost model, nested loops are best with {first['best']['order']} ({first['best']['model_cost']:,} "
        f"comparisons a unit, before S) and worst with {first['worst']['order']} ({first['worst']['model_cost']:,}).",
        "",
        *_markdown_table(list(COLUMNS), _table_rows(results)),
        "",
        "The default is the sorted index with the orders it chooses, a step a unit of time.",
        "",
        *_markdown_table(["target", "wanted", "measured", ""], [_told(check) for check in results["checks"]]),
        "",
        _answered(results),
        "",
        *_scales(results["by_scale"]),
        "",
        "## Figure 4",
        "",
        "![Figure 4](joins.png)",
        "",
        *_figure_table("interval τ", results["figure_4a"]),
        "",
        *_figure_table("average buckets", results["figure_4b"]),
        "",
        "What the cost model says of 4(b), comparisons a unit of time before S; expiry is not in it:",
        "",
        *_figure_table("average buckets", results["figure_4b"], "model_cost"),
        "",
        f"{_spread(results)} The comparisons below take the medians as they are, however close.",
        "",
        *_markdown_table(
            ["the paper", "here", "numbers"],
            [[said, "the same" if holds else "different", numbers] for said, holds, numbers in shapes(results)],
        ),
        "",
        WHY,
    ]
    return "\n".join(text) + "\n"


def _scales(told: dict[str, Any]) -> list[str]:
    rows = [[f"{one[key]:,}" for key in ("scale", "best", "worst", "ratio")] for one in told["scales"]]
    text = f"Best over worst at other scales, for {told['name']}:"
    return [text, "", *_markdown_table(["S", "best plan", "worst plan", "best/worst"], rows)]


def _spread(results: Results) -> str:
    """How far the rounds of one point are apart."""
    figures = (results["figure_4a"], results["figure_4b"])
    points = [point["rates"] for figure in figures for line in figure.values() for point in line]
    apart = [max(rates) / min(rates) - 1 for rates in points]
    return (
        f"Of one point, the fastest round is {median(apart):.0%} above the slowest (median), at most {max(apart):.0%}."
    )


def _told(check: dict[str, Any]) -> list[str]:
    return [check["what"], check["wanted"], f"{check['measured']:g}", "met" if check["met"] else "missed"]


def _answered(results: Results) -> str:
    parts = []
    for name, one in results["answers"].items():
        right = one["algorithms"] - len(one["wrong"])
        parts.append(f"{name}: {right} of {one['algorithms']} algorithms found DuckDB's {one['duckdb']:,} results")
    return "; ".join(parts) + "."


def _figure_table(across: str, lines: dict[str, list[dict[str, Any]]], shown: str = "rate") -> list[str]:
    ats = list(dict.fromkeys(point["at"] for points in lines.values() for point in points))
    rates = {name: {point["at"]: point[shown] for point in points} for name, points in lines.items()}
    rows = [[str(at), *(f"{rates[name][at]:,}" if at in rates[name] else "" for name in lines)] for at in sorted(ats)]
    return _markdown_table([across, *lines], rows)


def _markdown_table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def draw(results: Results, path: Path) -> None:
    """Figure 4(a) and (b), side by side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(12, 4.6))
    for axis, name in zip(axes, ("figure_4a", "figure_4b"), strict=True):
        for (line, points), colour, marker in zip(results[name].items(), COLOURS, "os^D", strict=True):
            rates = [point["rate"] / 1000 for point in points]
            axis.plot([point["at"] for point in points], rates, color=colour, marker=marker, label=line)
        axis.set_ylabel("highest input rate, thousand tuples/s")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend()
    scales = {name: one["scale"] for name, one in results["workloads"].items()}
    title = "Figure 4(a): nested loops and hash tables, S = {}"
    axes[0].set(title=title.format(scales["Figure 4(a)"]), xlabel="re-evaluation and expiry interval τ, units of time")
    title = "Figure 4(b): large tables for fast streams, S = {}"
    axes[1].set(title=title.format(scales["Figure 4(b)"]), xlabel="average number of buckets for each window")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
