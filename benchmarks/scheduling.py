"""`make bench-scheduling`: paper 000's response times (Figures 5, 6 and 8) on Spark, by the real clock.

Seven queries whose windows are spread as in Table 1 ("Small-Large", scaled down so that they fill in half a minute)
share one join of two bursty streams (Pareto, expected burst 5). Each policy runs on its own, one after the other, on
the same tuples and with the same budget, which is less than the load while the streams last: work piles up, and is done
after them. A response is the time from when a result's newest tuple was read to when its micro-batch was published;
what was released while the windows were filling is left out, and the run goes on after the last tuple until nothing
waits. Rounds repeat all of it with other tuples.

Writes ``scheduling.json``, ``scheduling.md`` and ``scheduling.png``. Targets are reported, met or missed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from headrace.lab.scheduling_on_spark import POLICIES, Load, run_policy
from headrace.spark.local import local_session

COLOURS = {"lwo": "#8a8f98", "swf": "#c2571a", "mqt": "#1b7f79"}


def checks(policies: dict[str, Any], load: Load) -> list[dict[str, Any]]:
    """What the paper says, on these numbers."""
    lwo, swf, mqt = (policies[name] for name in POLICIES)
    smallest = str(load.windows_ms[0])

    def better(one: dict[str, Any]) -> float:
        return float(round(lwo["queries"][smallest]["mean_ms"] / one["queries"][smallest]["mean_ms"], 2))

    return [
        _check("mean response over all queries, MQT against LWO", "< 1", round(mqt["mean_ms"] / lwo["mean_ms"], 3)),
        _check("mean response over all queries, MQT against SWF", "<= 1", round(mqt["mean_ms"] / swf["mean_ms"], 3)),
        _check("smallest window's mean, LWO against SWF", ">= 5", better(swf)),
        _check("smallest window's mean, LWO against MQT", ">= 5", better(mqt)),
    ]


def _check(what: str, wanted: str, measured: float) -> dict[str, Any]:
    sign, bound = wanted.split()
    met = {"<": measured < float(bound), "<=": measured <= float(bound), ">=": measured >= float(bound)}[sign]
    return {"what": what, "wanted": wanted, "measured": measured, "met": met}


# --- output


def show(results: dict[str, Any], console: Console) -> None:
    windows = results["windows_ms"]
    for number, one in enumerate(results["rounds"], 1):
        table = Table("window", *(name.upper() for name in POLICIES), title=f"Mean response, round {number}")
        for window in windows:
            cells = [f"{one['policies'][name]['queries'][str(window)]['mean_ms'] / 1000:.2f} s" for name in POLICIES]
            table.add_row(f"{window / 1000:g} s", *cells)
        table.add_section()
        table.add_row("all queries", *(f"{one['policies'][name]['mean_ms'] / 1000:.2f} s" for name in POLICIES))
        console.print(table)
        goals = Table("target", "wanted", "measured", "")
        for check in one["checks"]:
            goals.add_row(
                check["what"], check["wanted"], f"{check['measured']:g}", "met" if check["met"] else "[red]missed"
            )
        console.print(goals)
        shares = ", ".join(
            f"{name.upper()} {one['policies'][name]['input_share']:.1%} and {one['policies'][name]['output_share']:.1%}"
            for name in POLICIES
        )
        console.print(f"largest input and output buffers against the join buffers: {shares}")


def markdown(results: dict[str, Any]) -> str:
    load = results["load"]
    lines = [
        f"Two streams of {load['rate']} tuples/s each (Pareto, expected burst {load['burst']:g}), {load['keys']} keys, "
        f"budget {results['probes']:,} probes a micro-batch of {load['trigger_s']:g} s, {load['shards']} shards, "
        f"{load['measured_s']} s measured after {load['warm_s']} s.",
        "",
    ]
    for number, one in enumerate(results["rounds"], 1):
        lines += [f"Round {number}, mean response (longest):", "", "| window | LWO | SWF | MQT |", "|---|---|---|---|"]
        for window in results["windows_ms"]:
            cells = [one["policies"][name]["queries"][str(window)] for name in POLICIES]
            shown = [f"{cell['mean_ms'] / 1000:.2f} s ({cell['longest_ms'] / 1000:.1f} s)" for cell in cells]
            lines.append(f"| {window / 1000:g} s | {' | '.join(shown)} |")
        means = [f"{one['policies'][name]['mean_ms'] / 1000:.2f} s" for name in POLICIES]
        lines += [f"| all queries | {' | '.join(means)} |", "", "| target | wanted | measured | |", "|---|---|---|---|"]
        lines += [
            f"| {check['what']} | {check['wanted']} | {check['measured']:g} | {'met' if check['met'] else 'missed'} |"
            for check in one["checks"]
        ]
        lines.append("")
    return "\n".join(lines)


def draw(results: dict[str, Any], path: Path) -> None:
    """Mean and longest response for each window, and the mean over all queries."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(14, 4.2))
    labels = [f"{window / 1000:g}" for window in results["windows_ms"]]
    for name in POLICIES:
        for kind, axis in (("mean_ms", axes[0]), ("longest_ms", axes[1])):
            rounds = [
                [one["policies"][name]["queries"][str(window)][kind] / 1000 for window in results["windows_ms"]]
                for one in results["rounds"]
            ]
            axis.plot(labels, [mean(column) for column in zip(*rounds, strict=True)], marker="o", color=COLOURS[name],
                      label=name.upper())  # fmt: skip
    axes[0].set(title="Mean response (Figures 6 and 8)", xlabel="window, s", ylabel="s", yscale="log")
    axes[1].set(title="Longest response (Figure 6)", xlabel="window, s", ylabel="s", yscale="log")
    means = [mean(one["policies"][name]["mean_ms"] / 1000 for one in results["rounds"]) for name in POLICIES]
    bars = axes[2].bar([name.upper() for name in POLICIES], means, color=[COLOURS[name] for name in POLICIES])
    axes[2].bar_label(bars, fmt="%.2f s")
    axes[2].set(title="Mean over all queries (Figure 5)", ylabel="s")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/scheduling"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--share", type=float, default=Load().share, help="load as a share of the budget")
    parser.add_argument("--seconds", type=int, default=Load().measured_s, help="how long each policy is measured")
    options = parser.parse_args()
    load = Load(share=options.share, measured_s=options.seconds)
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    spark = local_session(options.out / "spark.log")
    rounds = []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=options.rounds * len(POLICIES))
        for number in range(options.rounds):
            policies = {}
            for policy in POLICIES:
                progress.update(task, description=f"round {number + 1}, {policy.upper()}")
                policies[policy] = run_policy(spark, load, policy, 100 * (number + 1), options.out / "run")
                progress.advance(task)
            rounds.append({"policies": policies, "checks": checks(policies, load)})
    results = {
        "load": asdict(load),
        "windows_ms": load.windows_ms,
        "probes": load.probes,
        "rounds": rounds,
        "measured_at": time.strftime("%Y-%m-%d"),
    }
    (options.out / "scheduling.json").write_text(json.dumps(results, indent=2))
    (options.out / "scheduling.md").write_text(markdown(results))
    draw(results, options.out / "scheduling.png")
    show(results, console)
    shutil.rmtree(options.out / "run", ignore_errors=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
