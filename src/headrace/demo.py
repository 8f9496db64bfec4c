"""The demo: a data centre's sensors, seven queries, one shared join, a minute of your time.

Owns the example of paper 000 as a program: temperature and humidity at 500 places, bursts of five at 100 tuples a
second, and the seven windows *Small-Large* of its Table 1. The streams bring ten minutes of history at once, as the
paper's experiments do ("fast forwarded"), so the largest window is full from the start; then they follow the clock. The
larger a query's window, the higher its thresholds: each query gives from about 15 to 300 results a second.

A run is watched for so many seconds of the wall clock. Any object with the few methods of :class:`DemoEngine` can run
it. Cost: the first micro-batch has about 120,000 tuples, later ones what has come meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.console.live import LiveView, format_ms, format_rate
from headrace.console.stopping import stop_asked
from headrace.errors import HeadraceError, SinkError
from headrace.spark.staging import check_writable
from headrace.stats import QueryStats, RunStats

SECONDS = 60.0
START_S = 300.0
"""How long the first micro-batch may take before the demo gives up."""
POLL_S = 0.25
PLOT_FILE = "demo.png"


@dataclass(frozen=True, slots=True)
class DemoQuery:
    """Places that are both warm and damp within a window."""

    name: str
    window_s: int
    above_celsius: int
    above_percent: int

    @property
    def window(self) -> str:
        return f"{self.window_s} s"

    def sql(self) -> str:
        return f"""
CREATE QUERY {self.name} AS
SELECT a.location_id, a.value AS celsius, b.value AS percent
FROM temperature a, humidity b
WHERE a.location_id = b.location_id AND a.value > {self.above_celsius} AND b.value > {self.above_percent}
WINDOW {self.window_s} SECONDS;
"""


QUERIES = (
    DemoQuery("mild_1s", 1, 20, 40),
    DemoQuery("warm_5s", 5, 25, 55),
    DemoQuery("warm_15s", 15, 30, 65),
    DemoQuery("hot_300s", 300, 35, 80),
    DemoQuery("hot_510s", 510, 37, 83),
    DemoQuery("alarm_570s", 570, 38, 85),
    DemoQuery("alarm_600s", 600, 39, 87),
)
"""Windows *Small-Large* of Table 1 in paper 000, in seconds: 1, 5, 15, 300, 510, 570, 600."""

DEMO_SQL = """\
-- A data centre: sensors of temperature (degrees Celsius) and humidity (percent) at 500 places.
CREATE STREAM temperature (location_id BIGINT, value DOUBLE, ts TIMESTAMP)
  WITH (connector = 'generator', time = 'ts', rate = '100', keys = '500', low = '10', high = '40',
        arrival = 'pareto', burst = '5', history = '10 minutes');
CREATE STREAM humidity (location_id BIGINT, value DOUBLE, ts TIMESTAMP)
  WITH (connector = 'generator', time = 'ts', rate = '100', keys = '500', low = '20', high = '90',
        arrival = 'pareto', burst = '5', history = '10 minutes');
""" + "".join(query.sql() for query in QUERIES)
"""The whole program, as ``headrace run`` would take it from a file."""


class DemoRun(Protocol):
    """A running program."""

    def stats(self) -> RunStats: ...

    def wait(self, timeout_s: float) -> bool:
        """Whether the run has ended, after waiting for that at most so long."""
        ...

    def stop(self) -> None: ...


class DemoEngine(Protocol):
    """What starts a program."""

    def sql(self, text: str) -> object: ...

    def start(self, out: str) -> DemoRun: ...


def check_own(out_dir: Path) -> None:
    """Refuses a directory that cannot be written to or has something in it; makes it if it is not there."""
    check_writable(out_dir)
    if any(out_dir.iterdir()):
        raise SinkError(f"{out_dir} is not empty: give the demo a directory of its own")


def run_demo(
    engine: DemoEngine, out_dir: Path, seconds: float = SECONDS, console: Console | None = None
) -> tuple[RunStats, ...]:
    """Runs the program for so long with a live table, prints the summary, and gives a snapshot per micro-batch."""
    check_own(out_dir)
    console = Console() if console is None else console
    engine.sql(DEMO_SQL)
    run = engine.start(out=str(out_dir))
    try:
        history = _watch(run, seconds, console)
    finally:
        run.stop()
    console.print(summary(history, out_dir))
    return history


def _watch(run: DemoRun, seconds: float, console: Console) -> tuple[RunStats, ...]:
    """Snapshots until the time is over, the run ends, or the user interrupts it. The time counts from the first
    micro-batch: how long Spark takes to start is the machine's affair."""
    history: list[RunStats] = []
    end_s = time.monotonic() + START_S
    with stop_asked() as asked, LiveView(console) as view:
        try:
            ended = False
            while not ended and not asked.is_set() and time.monotonic() < end_s:
                ended = run.wait(POLL_S)
                stats = run.stats()
                view.update(stats)
                if stats.batches and not history:
                    end_s = time.monotonic() + seconds
                if stats.batches and (not history or stats.batches != history[-1].batches):
                    history.append(stats)
            if not history and not ended and not asked.is_set():
                raise HeadraceError(f"no micro-batch ended in {START_S:.0f} seconds: is the machine busy? Try again")
        except KeyboardInterrupt:
            pass  # enough seen: what there is gets summed up
    return tuple(history)


def summary(history: Sequence[RunStats], out_dir: Path) -> RenderableType:
    """The run in a table, and as a plot in ``demo.png``; the first snapshot is the history's, and counts apart."""
    if not history:
        return Text("No micro-batch ended: there is nothing to sum up. Give the demo more seconds.")
    return Group(_table(history), _facts(history), Text(_plot(history, out_dir), overflow="fold"))


def _table(history: Sequence[RunStats]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("query")
    table.add_column("window", justify="right")
    for name in ("results", "results/s", "p50", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    for query in QUERIES:
        last = _query(history[-1], query.name)
        table.add_row(
            query.name,
            query.window,
            f"{last.results:,}",
            format_rate(_results_per_s(history, query.name)),
            format_ms(last.response_p50_ms),
            format_ms(last.response_p99_ms),
        )
    return table


def _facts(history: Sequence[RunStats]) -> Text:
    first, last = history[0], history[-1]
    tuples = sum(stream.tuples for stream in last.streams)
    return Text(
        f"{tuples:,} tuples in {last.batches:,} micro-batches; seven queries shared one join. "
        f"results/s: since the history's micro-batch, which ended after {first.elapsed_s:.1f} s."
    )


def _query(stats: RunStats, name: str) -> QueryStats:
    return next((query for query in stats.queries if query.query == name), QueryStats(name))


def _results_per_s(history: Sequence[RunStats], name: str) -> float:
    first, last = history[0], history[-1]
    seconds = last.elapsed_s - first.elapsed_s
    results = _query(last, name).results - _query(first, name).results
    return results / seconds if seconds > 0 else 0.0


# The plot.

_COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7")
"""Okabe and Ito's palette without yellow: told apart by colour-blind readers too."""
_DASHES = ("-", "--", "-.", ":", "-", "--", "-.")


def _plot(history: Sequence[RunStats], out_dir: Path) -> str:
    """Draws the plot; gives the sentence that says where it is, or why it is not."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "No plot: matplotlib is not installed. For one: pip install 'headrace[plot]'"
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _plot_results(left, history)
    _plot_latency(right, history[-1])
    path = out_dir / PLOT_FILE
    figure.savefig(path, dpi=150)
    return f"Plot: {path}"


def _plot_results(axes: Any, history: Sequence[RunStats]) -> None:
    elapsed_s = [stats.elapsed_s for stats in history]
    for query, colour, dashes in zip(QUERIES, _COLOURS, _DASHES, strict=True):
        before = _query(history[0], query.name).results
        results = [_query(stats, query.name).results - before for stats in history]
        axes.plot(elapsed_s, results, color=colour, linestyle=dashes, linewidth=1.8, label=query.window)
    axes.set_title("Results of each query since the history's micro-batch")
    axes.set_xlabel("time since the run started (s)")
    axes.set_ylabel("results (rows)")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(title="window")


def _plot_latency(axes: Any, last: RunStats) -> None:
    places = range(len(QUERIES))
    queries = [_query(last, query.name) for query in QUERIES]
    p50_s = [_in_seconds(query.response_p50_ms) for query in queries]
    p99_s = [_in_seconds(query.response_p99_ms) for query in queries]
    axes.vlines(places, p50_s, p99_s, color="#999999", linewidth=2, zorder=1)
    axes.scatter(places, p50_s, color="#0072B2", marker="o", s=50, label="median", zorder=2)
    axes.scatter(places, p99_s, color="#D55E00", marker="^", s=50, label="99th percentile", zorder=2)
    axes.set_xticks(list(places), [str(query.window_s) for query in QUERIES])
    axes.set_title("From a tuple's arrival to its results")
    axes.set_xlabel("window (s)")
    axes.set_ylabel("latency (s)")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)
    axes.legend()


def _in_seconds(ms: float | None) -> float:
    return float("nan") if ms is None else ms / 1000
