"""Ratios, targets, tables and the picture: computed from the stored numbers of a run, never by running anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

Results = dict[str, Any]
Target = tuple[str, str, str, float]

TARGETS = (
    #  what                                                          the ratio it needs      at least / below
    ("six queries: throughput against six native queries",           "six_throughput",       ">=", 6.0),
    ("six queries: memory against six native queries",               "six_memory",           "<",  0.25),
    ("one query: throughput against a native query",                 "one_throughput",       ">=", 1.5),
    ("larger size, counted in the shard: throughput against the ceiling", "large_ceiling",   ">=", 0.5),
    ("micro-batch time, window three times as long, same output",    "window_growth",        "<",  1.25),
)  # fmt: skip
STORES = ("native-hdfs", "native-rocksdb")


def good(results: Results, scenario: str, contender: str) -> dict[str, Any] | None:
    """A contender's numbers if it ran and its answers were right; a wrong answer has no speed."""
    entry = results["scenarios"].get(scenario, {}).get("contenders", {}).get(contender)
    return entry if entry and not entry["failure"] and not entry["wrong"] and "refused" not in entry else None


def fastest_native(results: Results, scenario: str) -> tuple[str, dict[str, Any]] | None:
    ran = [(store, entry) for store in STORES if (entry := good(results, scenario, store))]
    return min(ran, key=lambda one: one[1]["total_s"], default=None)


def ratios(results: Results) -> dict[str, Any]:
    """Headrace over the other; native is the store with the better time, and its own memory."""
    found: dict[str, Any] = {}
    for scenario in ("one", "six"):
        ours, native = good(results, scenario, "headrace"), fastest_native(results, scenario)
        if ours and native:
            store, theirs = native
            found[f"{scenario}_native_store"] = store
            found[f"{scenario}_throughput"] = round(theirs["total_s"] / ours["total_s"], 3)
            found[f"{scenario}_memory"] = round(ours["peak_mib"] / theirs["peak_mib"], 3)
            found[f"{scenario}_later_batches"] = _ratio(theirs["later_batch_ms"], ours["later_batch_ms"])
        for store in STORES:
            theirs = good(results, scenario, store)
            if ours and theirs:
                found[f"{scenario}_throughput_{store}"] = round(theirs["total_s"] / ours["total_s"], 3)
                found[f"{scenario}_memory_{store}"] = round(ours["peak_mib"] / theirs["peak_mib"], 3)
    for scenario, contender, name in (
        ("one", "headrace", "one_ceiling"),
        ("six", "headrace", "six_ceiling"),
        ("large", "headrace", "large_ceiling_all_columns"),
        ("large", "headrace-counts", "large_ceiling"),
    ):
        ours, ceiling = good(results, scenario, contender), good(results, scenario, "ceiling")
        if ours and ceiling:
            rounds = [theirs / mine for theirs, mine in zip(times_s(ceiling), times_s(ours), strict=False)]
            found[name] = round(median(rounds), 3)
            if len(rounds) > 1:
                found[f"{name}_rounds"] = [round(one, 3) for one in rounds]
            found[f"{name}_later_batches"] = _ratio(ceiling["later_batch_ms"], ours["later_batch_ms"])
    return found | growth(results)


def times_s(entry: dict[str, Any]) -> list[float]:
    """The times of all rounds of a contender."""
    return entry.get("rounds_s", [entry["total_s"]])


def growth(results: Results) -> dict[str, Any]:
    """Median time of the micro-batches in which both windows are full, long over short."""
    short, long = good(results, "short", "headrace"), good(results, "long", "headrace")
    if not short or not long:
        return {}
    steady = slice(results["scenarios"]["long"]["steady_from"], results["scenarios"]["long"]["workload"]["batches"])
    if not short["batches_ms"][steady] or not long["batches_ms"][steady]:
        return {}
    short_ms, long_ms = median(short["batches_ms"][steady]), median(long["batches_ms"][steady])
    return {
        "window_short_ms": round(short_ms, 1),
        "window_long_ms": round(long_ms, 1),
        "window_growth": _ratio(long_ms, short_ms),
    }


def _ratio(above: float | None, below: float | None) -> float | None:
    return round(above / below, 3) if above and below else None


def targets(results: Results, wanted: Sequence[Target] = TARGETS) -> list[dict[str, Any]]:
    found = []
    for what, name, sign, bound in wanted:
        measured = results["ratios"].get(name)
        met = None if measured is None else measured >= bound if sign == ">=" else measured < bound
        found.append({"what": what, "wanted": f"{sign} {bound:g}", "measured": measured, "met": met})
    return found


def faults(results: Results) -> list[str]:
    """Everything that failed, answered wrongly or was not a fair comparison."""
    found = []
    for scenario in results["scenarios"].values():
        codecs = {}
        for contender, entry in scenario["contenders"].items():
            if "beaten_s" in entry:
                continue
            problems = [entry["failure"]] if entry["failure"] else entry["wrong"]
            found += [f"{scenario['title']}, {contender}: {problem}" for problem in problems]
            if entry.get("codec"):
                codecs[contender] = entry["codec"]
        if len(set(codecs.values())) > 1:
            found.append(f"{scenario['title']}: results were compressed differently: {codecs}")
    return found


def added(stages: dict[str, dict[str, float]]) -> dict[str, float]:
    """Stage times summed over the queries of a contender, largest first; of queries side by side they overlap."""
    totals: dict[str, float] = {}
    for one in stages.values():
        for name, ms in one.items():
            totals[name] = totals.get(name, 0.0) + ms
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


# --- text -----------------------------------------------------------------------------------------------------------

HEADINGS = ("scenario", "contender", "time", "tuples/s", "later batch", "first batch", "memory", "results", "right")


NOTE = (
    "Times are from a session that is there to the end of the streaming query, without JVM and session start. Later "
    "batch: the median without the first. Stage times are summed over micro-batches and queries; queries side by side "
    "overlap. Memory: peak of RSS (JVM) plus PSS (Python) of the process tree; every JVM has the same heap limit and "
    "grows into it as it likes. A native store is stopped once it has taken longer than the other. Right: DuckDB gives "
    "the same counts, and the same rows where they were written. Contenders that took turns several times show their "
    "median run; their ratio is the median of the rounds'."
)


def cells(scenario: dict[str, Any], contender: str, entry: dict[str, Any]) -> tuple[str, ...]:
    if "beaten_s" in entry:
        return (scenario["title"], contender, f"over {entry['beaten_s']} s", "", "", "", "", "", "stopped")
    if "refused" in entry:
        return (scenario["title"], contender, "refused", "", "", "", "", "", "")
    if entry["failure"]:
        return (scenario["title"], contender, "failed", "", "", "", "", "", "no")
    return (
        scenario["title"],
        contender,
        f"{entry['total_s']:.1f} s",
        f"{entry['tuples_per_s']:,}",
        f"{(entry['later_batch_ms'] or 0) / 1000:.2f} s",
        f"{(entry['first_batch_ms'] or 0) / 1000:.2f} s",
        f"{entry['peak_mib'] / 1024:.2f} GiB",
        f"{entry['results']:,}" if "results" in entry else "",
        "no" if entry["wrong"] else "yes",
    )


def rows(results: Results) -> list[tuple[str, ...]]:
    return [
        cells(scenario, contender, entry)
        for scenario in results["scenarios"].values()
        for contender, entry in scenario["contenders"].items()
    ]


def line(contender: str, entry: dict[str, Any]) -> Text:
    """One finished contender, for the terminal."""
    if "beaten_s" in entry:
        return Text(f"  {contender:16} stopped after {entry['beaten_s']} s: slower than Spark's other store")
    if "refused" in entry:
        return Text(f"  {contender:16} refuses: {entry['refused']}")
    if entry["failure"]:
        return Text(f"  {contender:16} failed: {entry['failure']}", style="red")
    speed = f"{entry['total_s']:7.1f} s {entry['tuples_per_s']:>9,} tuples/s"
    told = f"  {contender:16} {speed} {entry['peak_mib'] / 1024:6.2f} GiB"
    if entry["wrong"]:
        return Text(f"{told}  wrong: {'; '.join(entry['wrong'])}", style="red")
    return Text(told)


def verdict(met: bool | None) -> str:
    return "not measured" if met is None else "met" if met else "missed"


def show(results: Results, console: Console) -> None:
    table = Table(*HEADINGS, title="Benchmark")
    for row in rows(results):
        table.add_row(*row)
    console.print(table)
    stages = Table("scenario", "contender", "time per stage, summed over micro-batches (and queries, which overlap)")
    for scenario in results["scenarios"].values():
        for contender, entry in scenario["contenders"].items():
            if entry.get("stages_ms"):
                stages.add_row(scenario["title"], contender, stage_text(entry["stages_ms"]))
    console.print(stages)
    goals = Table("target", "wanted", "measured", "", title="Targets")
    for one in results["targets"]:
        style = {True: "green", False: "red", None: "dim"}[one["met"]]
        goals.add_row(one["what"], one["wanted"], f"{one['measured']}", Text(verdict(one["met"]), style=style))
    console.print(goals)
    for fault in faults(results):
        console.print(Text(f"fault: {fault}", style="bold red"))


def stage_text(stages_ms: dict[str, float]) -> str:
    return ", ".join(f"{name} {ms / 1000:.1f} s" for name, ms in stages_ms.items() if ms >= 50)


def markdown(results: Results) -> str:
    """The tables as a page of documentation."""
    facts = results["machine"]
    lines = [
        f"Measured on {facts['cores']} cores ({facts['processor']}), {facts['memory_gib']} GiB; "
        f"Spark {facts['pyspark']} on `local[{facts['spark_cores']}]`, Python {facts['python']}, "
        f"heap limit {results['driver_memory']}, results as Parquet ({results['codec']}).",
        "",
        *(
            ["These are the quick sizes: they show that everything works, not how fast it is.", ""]
            if results["quick"]
            else []
        ),
        *(f"- {one['title']}: {one['workload']['text']}" for one in results["scenarios"].values()),
        "",
        *markdown_table(HEADINGS, rows(results)),
        "",
        *markdown_table(
            ("target", "wanted", "measured", ""),
            [(one["what"], one["wanted"], str(one["measured"]), verdict(one["met"])) for one in results["targets"]],
        ),
        "",
        *markdown_table(
            ("scenario", "contender", "time per stage"),
            [
                (scenario["title"], contender, stage_text(entry["stages_ms"]))
                for scenario in results["scenarios"].values()
                for contender, entry in scenario["contenders"].items()
                if entry.get("stages_ms")
            ],
        ),
        "",
        NOTE,
    ]
    return "\n".join(lines) + "\n"


def markdown_table(headings: tuple[str, ...], body: list[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (headings, ("---",) * len(headings), *body)]


# --- picture --------------------------------------------------------------------------------------------------------

COLOURS = {
    "headrace": "#1b7f79", "headrace-counts": "#58b3ac", "native-hdfs": "#c2571a", "native-rocksdb": "#e59a5c",
    "ceiling": "#8a8f98",
}  # fmt: skip


def draw(results: Results, path: Path) -> None:
    """Throughput, memory, and the time of each micro-batch."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    compared = {name: one for name, one in results["scenarios"].items() if name in ("one", "six", "large")}
    figure, axes = pyplot.subplots(3, max(len(compared), 1), figsize=(5 * max(len(compared), 1), 10), squeeze=False)
    for column, (name, scenario) in enumerate(compared.items()):
        ran = {who: entry for who in scenario["contenders"] if (entry := good(results, name, who))}
        throughput, memory, times = axes[:, column]
        _bars(throughput, {who: entry["tuples_per_s"] / 1000 for who, entry in ran.items()}, "thousand tuples/s")
        _bars(memory, {who: entry["peak_mib"] / 1024 for who, entry in ran.items()}, "peak memory, GiB")
        for who, entry in ran.items():
            times.plot([ms / 1000 for ms in entry["batches_ms"]], color=COLOURS[who], label=who, marker=".")
        times.set(xlabel="micro-batch", ylabel="s", yscale="log")
        times.xaxis.get_major_locator().set_params(integer=True)
        times.yaxis.set_major_formatter("{x:g}")
        times.yaxis.set_minor_formatter("{x:g}")
        if ran:
            times.legend(fontsize=8)
        throughput.set_title(f"{scenario['title']}\n{scenario['workload']['text']}", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _bars(axis: Any, values: dict[str, float], label: str) -> None:
    bars = axis.barh(list(values), list(values.values()), color=[COLOURS[who] for who in values])
    axis.bar_label(bars, fmt="%.3g", padding=3, fontsize=8)
    axis.margins(x=0.15)
    axis.invert_yaxis()
    axis.set_xlabel(label)
