"""The live table of a run: queries, streams, operators, shards and join orders, redrawn after each micro-batch.

Owns how statistics look on a terminal; :func:`render` is a pure function of a snapshot. Where the output is not a
terminal (a pipe, a log), a plain line is printed every few seconds instead. There is no clock here: time is the
snapshot's ``elapsed_s``.

Invariants: readable at 80 columns, numbers are never cut, and long names end in an ellipsis; a table shows at most
``rows`` rows and says how many it leaves out. Cost: a few milliseconds a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TypeVar

from rich import box
from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.console.trees import add_lines, half_way_table, tree_line
from headrace.stats import (
    GraphStats,
    OperatorStats,
    OrderingStats,
    OrderStats,
    QueryStats,
    RunStats,
    ShardStats,
    StreamStats,
    WindowStats,
)

ROWS = 20
"""Rows of a table; more do not fit on a screen with three of them."""
WIDTH = 80
WORTH_SAYING_MS = 2000.0
"""In the plain line: how far a stream is behind before it is said that others wait for it."""

_T = TypeVar("_T")


def render(stats: RunStats, rows: int = ROWS) -> RenderableType:
    """The snapshot as a header and three tables."""
    tables = [_queries(stats.queries, rows), _streams(stats.streams, rows), _shards(stats.shards, rows)]
    if stats.probes_allowed is not None:
        tables.insert(1, _windows(stats.windows, rows))
    if stats.graph is not None and stats.graph.operators:
        tables.insert(2, _operators(stats.graph.operators, rows))
    if stats.ordering:
        tables.append(_ordering(stats.ordering, rows))
    if stats.orders:
        tables.append(_orders(stats.orders, rows))
    if any(tree.halves for tree in stats.trees):
        empty = _table("half-way join", "offered", "allowed", "probed", "found", "stale")
        tables.append(half_way_table(empty, stats.trees))
    return Constrain(Group(_header(stats), *tables), WIDTH)


def line(stats: RunStats) -> str:
    """The snapshot as one plain line.

    >>> line(RunStats(batches=3, elapsed_s=2.5, batch_ms=412.0))
    '2.5 s: 3 micro-batches, last 412 ms; 0 tuples in (0.0/s), 0 results out (0.0/s), 0 held'
    """
    tuples, tuples_per_s = sum(s.tuples for s in stats.streams), sum(s.tuples_per_s for s in stats.streams)
    results, results_per_s = sum(q.results for q in stats.queries), sum(q.results_per_s for q in stats.queries)
    held = sum(shard.held_tuples + shard.waiting_tuples for shard in stats.shards)
    left_out = _left_out(stats.streams)
    backlog = sum(window.backlog_tuples for window in stats.windows)
    waiting = f", {backlog:,} waiting for their turn" if stats.probes_allowed is not None else ""
    results_held = sum(one.held_results for one in stats.ordering)
    # Of streams that go on, one is always a little behind.
    near = {one.stream for one in stats.streams if one.behind_ms is not None and one.behind_ms < WORTH_SAYING_MS}
    awaited = dict.fromkeys(name for one in stats.ordering for name in one.waits_for if name not in near)
    if awaited and (results_held or any(shard.waiting_tuples for shard in stats.shards)):
        what = f"{results_held:,} results wait" if results_held else "output waits"
        waiting += f", {what} for {', '.join(awaited)}"
    queues = f"; {graph_line(stats.graph)}" if stats.graph is not None else ""
    queues += "".join(f"; {tree_line(tree)}" for tree in stats.trees)
    return (
        f"{format_elapsed(stats.elapsed_s)}: {stats.batches:,} micro-batches, last {format_ms(stats.batch_ms)}; "
        f"{tuples:,} tuples in ({format_rate(tuples_per_s)}/s){left_out}, "
        f"{results:,} results out ({format_rate(results_per_s)}/s), {held:,} held{waiting}{queues}"
    )


def _left_out(streams: Iterable[StreamStats]) -> str:
    late = sum(stream.late for stream in streams)
    malformed = sum(stream.malformed for stream in streams)
    return "".join(f", {count:,} {name}" for count, name in ((late, "late"), (malformed, "malformed")) if count)


# The tables.


def _header(stats: RunStats) -> Text:
    text = Text.assemble(
        ("headrace", "bold"),
        f"   {stats.batches:,} micro-batches   {format_elapsed(stats.elapsed_s)}   last {format_ms(stats.batch_ms)}",
    )
    if stats.probes_allowed is not None:
        throttled = f", {stats.throttled_batches:,} throttled" if stats.throttled_batches else ""
        text.append(f"\n{stats.probes:,} of {stats.probes_allowed:,} probes{throttled}")
    if stats.graph is not None:
        text.append(f"\n{graph_line(stats.graph)}", style="yellow" if stats.graph.is_throttled else "")
    add_lines(text, stats.trees)
    if stats.stage_ms:
        stages = ", ".join(f"{name} {format_ms(ms)}" for name, ms in stats.stage_ms)
        text.append(f"\n{stages}", style="dim")
    if stats.switches:
        text.append(f"\n{stats.switches[-1]}", style="yellow")
    return text


def _queries(queries: Sequence[QueryStats], rows: int) -> Table:
    table = _table("query", "results", "per s", "mean", "p50", "p99", "longest")
    for query in _shown(queries, rows):
        responses = (query.response_mean_ms, query.response_p50_ms, query.response_p99_ms, query.response_max_ms)
        table.add_row(
            query.query, f"{query.results:,}", format_rate(query.results_per_s), *(format_ms(ms) for ms in responses)
        )
    return _with_rest(table, len(queries), rows)


def _streams(streams: Sequence[StreamStats], rows: int) -> Table:
    table = _table("stream", "tuples", "tuples/s", "lag", "late", "malformed", "behind")
    for stream in _shown(streams, rows):
        table.add_row(
            stream.stream,
            f"{stream.tuples:,}",
            format_rate(stream.tuples_per_s),
            "-" if stream.lag_ms is None else format_elapsed(stream.lag_ms / 1000),
            _alarming(stream.late),
            _alarming(stream.malformed),
            "idle" if stream.is_idle else format_ms(stream.behind_ms),
        )
    return _with_rest(table, len(streams), rows)


def _windows(windows: Sequence[WindowStats], rows: int) -> Table:
    table = _table("window", "backlog")
    for window in _shown(windows, rows):
        table.add_row(f"{window.window} of {window.group}", f"{window.backlog_tuples:,}")
    return _with_rest(table, len(windows), rows)


def graph_line(graph: GraphStats) -> str:
    """How operators take turns, in a line.

    >>> graph_line(GraphStats("threshold", "oldest", 2**20, 2048, "saving", 3, is_throttled=True))
    'threshold (saving, 3 changes), 2.0 KiB of 1.0 MiB in queues; sources wait'
    """
    changes = "1 change" if graph.mode_changes == 1 else f"{graph.mode_changes:,} changes"
    mode = f" ({graph.mode}, {changes})" if graph.strategy == "threshold" else ""
    waiting = "; sources wait" if graph.is_throttled else ""
    return f"{graph.strategy}{mode}, {_bytes(graph.queue_bytes)} of {_bytes(graph.limit_bytes)} in queues{waiting}"


def _operators(operators: Sequence[OperatorStats], rows: int) -> Table:
    """Of many, those with the largest queues."""
    table = _table("operator", "queries", "queue", "turns", "select.", "us each")
    shown = operators if len(operators) <= rows else sorted(operators, key=lambda one: -one.queue_bytes)
    for one in _shown(shown, rows):
        table.add_row(
            f"{one.operator}: {one.text}",
            f"{one.uses:,}",
            _bytes(one.queue_bytes),
            f"{one.turns:,}",
            _measured(one.selectivity),
            _measured(one.service_us),
        )
    return _with_rest(table, len(operators), rows)


def _measured(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def _shards(shards: Sequence[ShardStats], rows: int) -> Table:
    table = _table("shard", "held tuples", "waiting", "bytes", "input", "output")
    for shard in _shown(shards, rows):
        table.add_row(*_shard_cells(shard))
    return _with_rest(table, len(shards), rows)


def _ordering(ordering: Sequence[OrderingStats], rows: int) -> Table:
    """How joins keep their results in order, and for whom they wait."""
    table = _table("join", "approach", "held", "expected", "measured", "waits for")
    for one in _shown(ordering, rows):
        expected_ms = one.filter_order_ms if one.approach == "filter-order" else one.sync_filter_ms
        waits = ", ".join(one.waits_for) or "-"
        table.add_row(
            one.group,
            one.approach,
            f"{one.held_results:,}",
            format_ms(expected_ms),
            format_ms(one.response_ms),
            waits if len(waits) <= 20 else f"{waits[:19]}…",
        )
    return _with_rest(table, len(ordering), rows)


def _orders(orders: Sequence[OrderStats], rows: int) -> Table:
    table = _table("new tuples of", "go through")
    for one in _shown(orders, rows):
        others = one.order[1:] if one.order[0] == one.stream else one.order
        table.add_row(one.stream, ", ".join(others))
    return _with_rest(table, len(orders), rows)


def _shard_cells(shard: ShardStats) -> tuple[str, ...]:
    waiting = shard.waiting_tuples + shard.pending_tuples
    sizes = (shard.held_bytes, shard.input_bytes, shard.output_bytes)
    return str(shard.shard), f"{shard.held_tuples:,}", f"{waiting:,}", *(_bytes(size) for size in sizes)


def _table(name: str, *numbers: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, header_style="bold")
    table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=1, min_width=12)
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True, min_width=7)
    return table


def _shown(things: Sequence[_T], rows: int) -> Sequence[_T]:
    return things if len(things) <= rows else things[: rows - 1]


def _with_rest(table: Table, count: int, rows: int) -> Table:
    if count > rows:
        table.add_row(Text(f"and {count - rows + 1:,} more", style="dim"))
    return table


# Numbers.


def format_rate(per_s: float) -> str:
    return f"{per_s:,.1f}" if per_s < 100 else f"{per_s:,.0f}"


def format_ms(ms: float | None) -> str:
    """A latency in milliseconds, or in seconds from ten on.

    >>> format_ms(None), format_ms(3.14), format_ms(431.7), format_ms(12_345.6)
    ('-', '3.1 ms', '432 ms', '12.3 s')
    """
    if ms is None:
        return "-"
    if ms >= 10_000:
        return f"{ms / 1000:,.1f} s"
    return f"{ms:.1f} ms" if ms < 10 else f"{ms:,.0f} ms"


def format_elapsed(seconds: float) -> str:
    """
    >>> format_elapsed(4.25), format_elapsed(75.2), format_elapsed(7_384)
    ('4.2 s', '1 min 15 s', '2 h 03 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def _bytes(count: int) -> str:
    """
    >>> _bytes(900), _bytes(2_500_000), _bytes(3 * 2**40)
    ('900 B', '2.4 MiB', '3,072.0 GiB')
    """
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} B"


def _alarming(count: int) -> Text:
    return Text(f"{count:,}", style="bold red" if count else "")


class LiveView:
    """Shows each snapshot it is given: a table that stays in place, or plain lines where there is no terminal."""

    def __init__(self, console: Console | None = None, every_s: float = 5.0, rows: int = ROWS) -> None:
        self._console = Console() if console is None else console
        self._every_s = every_s
        self._rows = rows
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None
        self._last: RunStats | None = None
        self._printed: RunStats | None = None

    def __enter__(self) -> LiveView:
        if self._live is not None:
            self._live.start()
        return self

    def update(self, stats: RunStats) -> None:
        if self._live is None:
            self._tell_switches(stats)
        self._last = stats
        if self._live is not None:
            self._live.update(render(stats, self._rows), refresh=True)
        elif self._printed is None or stats.elapsed_s - self._printed.elapsed_s >= self._every_s:
            self._print(stats)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
        elif self._last is not None and self._last is not self._printed:
            self._print(self._last)

    def _tell_switches(self, stats: RunStats) -> None:
        """Each change of a join order has a line of its own."""
        told = self._last.switched if self._last is not None else 0
        for switch in stats.switches_after(told):
            self._console.print(switch, soft_wrap=True, highlight=False, markup=False)

    def _print(self, stats: RunStats) -> None:
        self._printed = stats
        self._console.print(line(stats), soft_wrap=True, highlight=False, markup=False)
