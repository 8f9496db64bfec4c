"""Paper 004's Figures 7 to 10 as measured: targets, a table and the picture, from the stored numbers of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

Results = dict[str, Any]
Point = dict[str, Any]

COLOURS = {"sync-filter": "#c2571a", "filter-order": "#1b7f79", "adaptive": "#5b4b9a"}
COLUMNS = ("slow", "fast", "c|w|l1 l2", "Sync-Filter", "Filter-Order", "Adaptive", "less", "expected", "Adaptive with")
NEAR = 0.02
"""Two responses that differ by less are the same."""


def response(point: Point, approach: str) -> float:
    return float(point["runs"][approach]["response_s"])


def gain(point: Point) -> float:
    """By which share Filter-Order's response is better."""
    return 1 - response(point, "filter-order") / response(point, "sync-filter")


def series(results: Results, name: str) -> list[Point]:
    return [point for point in results["points"] if point["series"] == name]


def checks(results: Results) -> list[dict[str, Any]]:
    """What the paper says, on these numbers."""
    alpha = results["setting"]["alpha"]
    figures = results["points"]
    cost, regular = series(results, "cost"), series(results, "regular")
    worst = max(response(one, "filter-order") / response(one, "sync-filter") for one in results["points"])
    better = [min(response(one, "filter-order"), response(one, "sync-filter")) for one in figures]
    adaptive = max(response(one, "adaptive") / least for one, least in zip(figures, better, strict=True))
    # A load within a quarter of alpha may be measured on either side of it.
    clear = [one for one in figures if abs(one["busy"] / alpha - 1) > 0.25]
    as_predicted = [
        one for one in clear if (one["busy"] >= alpha) == (one["runs"]["adaptive"]["last"] != "sync-filter")
    ]
    is_same = all(len({run["results"] for run in one["runs"].values()}) == 1 for one in results["points"])
    return [
        _check("Filter-Order's response against Sync-Filter's, at worst", f"<= {1 + NEAR:g}", worst),
        _check("Figure 8: the gap at the largest cost against that at the smallest", "> 1",
               gain(cost[-1]) / max(gain(cost[0]), 1e-9)),
        _check("evenly spaced: the gap against equation 7, at least", ">= 0.8",
               min(gain(one) / one["gain_expected"] for one in regular)),
        _check("Adaptive's response against the better one, at worst", "<= 1.1", adaptive),
        _check("Adaptive's switch as predicted, of the clear points", ">= 1", len(as_predicted) / max(len(clear), 1)),
        _check("all approaches have the same number of results", ">= 1", float(is_same)),
    ]  # fmt: skip


def _check(what: str, wanted: str, value: float) -> dict[str, Any]:
    sign, bound = wanted.split()
    shown, limit = round(value, 3), float(bound)
    met = {">": shown > limit, "<=": shown <= limit, ">=": shown >= limit}[sign]
    return {"what": what, "wanted": wanted, "measured": shown, "met": met}


def _rows(points: list[Point]) -> list[list[str]]:
    found = []
    for one in points:
        found.append(
            [
                f"{one['slow']:g}/s",
                f"{one['fast']:g}/s",
                f"{one['busy']:.3f}",
                f"{response(one, 'sync-filter'):.3f} s",
                f"{response(one, 'filter-order'):.3f} s",
                f"{response(one, 'adaptive'):.3f} s",
                f"{gain(one):.0%}",
                f"{one['gain_expected']:.0%}",
                one["runs"]["adaptive"]["last"],
            ]
        )
    return found


TITLES = {
    "cost": "Figures 7 and 8: the cost of a tuple",
    "rate": "Figures 9 and 10: the rate of the slow stream",
    "regular": "Evenly spaced arrivals",
}


def markdown(results: Results) -> str:
    lines = []
    for name, title in TITLES.items():
        head = [column.replace("|", "\\|") for column in COLUMNS]
        lines += [f"{title}:", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in _rows(series(results, name))]
        lines.append("")
    lines += ["| target | wanted | measured | |", "|---|---|---|---|"]
    lines += [
        f"| {one['what']} | {one['wanted']} | {one['measured']:g} | {'met' if one['met'] else 'missed'} |"
        for one in results["checks"]
    ]
    return "\n".join(lines) + "\n"


def show(results: Results, console: Console) -> None:
    for name, title in TITLES.items():
        table = Table(title=title)
        for column in COLUMNS:
            table.add_column(column, justify="right")
        for row in _rows(series(results, name)):
            table.add_row(*row)
        console.print(table)
    for one in results["checks"]:
        console.print(f"{'met   ' if one['met'] else 'MISSED'} {one['what']}: {one['measured']:g} ({one['wanted']})")


def draw(results: Results, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(10, 7))
    for column, (name, key, label) in enumerate(
        (("cost", "busy", "c |w| l1 l2"), ("rate", "slow", "slow stream, tuples/s"))
    ):
        points = series(results, name)
        at = [one[key] for one in points]
        for approach, colour in COLOURS.items():
            seconds = [response(one, approach) for one in points]
            axes[0, column].plot(at, seconds, marker="o", color=colour, label=approach)
            relative = [response(one, approach) / response(one, "sync-filter") for one in points]
            axes[1, column].plot(at, relative, marker="o", color=colour)
        expected = [1 - one["gain_expected"] for one in points]
        axes[1, column].plot(at, expected, linestyle=":", color="#8a8f98", label="equation 7")
        axes[0, column].set_ylabel("mean response (s)")
        axes[1, column].set_ylabel("relative to Sync-Filter")
        axes[1, column].set_ylim(0, 1.15)
        for axis in axes[:, column]:
            axis.set_xlabel(label)
            axis.grid(alpha=0.3)
    axes[0, 0].legend()
    axes[1, 0].legend()
    for axis, number in zip(axes.ravel(), (7, 9, 8, 10), strict=True):
        axis.set_title(f"as Figure {number} of paper 004", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
