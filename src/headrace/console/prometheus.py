"""A run's statistics in Prometheus' text format, version 0.0.4.

Owns the metrics' names: ``headrace_<what>_<unit>``, times in seconds, ``_total`` for what only grows. What is known
by name is told first; sections of the statistics that are not (they come with new parts of Headrace) follow by their
own names: a number is a gauge, and the texts beside it in a list's entry are its labels. Cost: the statistics' size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeAlias

from headrace.stats import (
    OperatorStats,
    OrderingStats,
    QueryStats,
    RunStats,
    ShardStats,
    SparkStats,
    StreamStats,
    TreeStats,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels: TypeAlias = Mapping[str, str]

KNOWN = frozenset(
    {
        "batches", "elapsed_s", "queries", "streams", "shards", "batch_ms", "stage_ms", "windows", "probes",
        "probes_allowed", "throttled_batches", "orders", "switches", "graph", "batch", "spark", "trees",
        "switched", "ordering",
    }
)  # fmt: skip
"""Fields of the statistics that have names here."""


@dataclass(slots=True)
class _Page:
    """Metrics in the order in which they were first told of."""

    _lines: dict[str, list[str]] = field(default_factory=dict)

    def gauge(self, name: str, text: str, value: float | None, **labels: str) -> None:
        self._add(name, "gauge", text, value, labels)

    def counter(self, name: str, text: str, value: float | None, **labels: str) -> None:
        self._add(f"{name}_total", "counter", text, value, labels)

    def _add(self, name: str, kind: str, text: str, value: float | None, labels: Labels) -> None:
        if value is not None:
            full = f"headrace_{name}"
            head = [f"# HELP {full} {_escaped(text)}", f"# TYPE {full} {kind}"]
            self._lines.setdefault(full, head).append(f"{full}{_label_text(labels)} {_number(value)}")

    def text(self) -> str:
        return "".join(f"{line}\n" for lines in self._lines.values() for line in lines)


def metrics_text(
    stats: RunStats,
    *,
    is_up: bool = True,
    paused: int = 0,
    age_s: float | None = None,
    extra: Iterable[tuple[str, str, float]] = (),
) -> str:
    """The page that a scraper reads. ``age_s``: how old the statistics are; ``extra``: counters of the service itself,
    as (name, text, value)."""
    page = _Page()
    page.gauge("up", "1 while the pipeline runs.", is_up)
    page.gauge("statistics_age_seconds", "Time since the last look at the run.", age_s)
    _tell_run(page, stats)
    page.gauge("paused_queries", "Queries that are paused.", paused)
    for query in stats.queries:
        _tell_query(page, query)
    for stream in stats.streams:
        _tell_stream(page, stream)
    for shard in stats.shards:
        _tell_shard(page, shard)
    for window in stats.windows:
        place = {"group": window.group, "window": window.window}
        page.gauge("window_backlog_tuples", "Tuples that wait to scan a window.", window.backlog_tuples, **place)
    _tell_graph(page, stats)
    for ordering in stats.ordering:
        _tell_ordering(page, ordering)
    for tree in stats.trees:
        _tell_tree(page, tree)
    if stats.spark is not None:
        _tell_spark(page, stats.spark)
    for one in fields(stats):
        if one.name not in KNOWN:
            _tell_unknown(page, one.name, getattr(stats, one.name), {})
    for name, text, value in extra:
        page.counter(name, text, value)
    return page.text()


def _tell_run(page: _Page, stats: RunStats) -> None:
    page.counter("micro_batches", "Micro-batches of this run.", stats.batches)
    page.gauge("last_micro_batch", "The number of the last micro-batch.", stats.batch)
    page.gauge("run_seconds", "Time since this run started.", stats.elapsed_s)
    page.gauge("micro_batch_seconds", "Time of the last micro-batch.", stats.batch_ms / 1000)
    for stage, spent_ms in stats.stage_ms:
        page.gauge("stage_seconds", "Time of a stage, of the slowest shard.", spent_ms / 1000, stage=stage)
    page.gauge("probes", "Probes that the last micro-batch spent.", stats.probes)
    page.gauge("probes_allowed", "Probes that it might spend.", stats.probes_allowed)
    page.counter("throttled_micro_batches", "Micro-batches that overran their budget.", stats.throttled_batches)
    page.counter(
        "join_order_switches", "Changes of join orders, approaches and allocations while running.", stats.switched
    )


def _tell_query(page: _Page, one: QueryStats) -> None:
    page.counter("query_results", "Results of a query in this run.", one.results, query=one.query)
    page.gauge("query_results_per_second", "Results lately.", one.results_per_s, query=one.query)
    responses = {
        "mean": one.response_mean_ms,
        "0.5": one.response_p50_ms,
        "0.99": one.response_p99_ms,
        "1": one.response_max_ms,
    }
    for quantile, spent_ms in responses.items():
        text = "From a result's newest tuple to its release, lately."
        seconds = None if spent_ms is None else spent_ms / 1000
        page.gauge("query_response_seconds", text, seconds, query=one.query, quantile=quantile)


def _tell_stream(page: _Page, one: StreamStats) -> None:
    name = one.stream
    page.counter("stream_tuples", "Tuples read in this run.", one.tuples, stream=name)
    page.gauge("stream_tuples_per_second", "Tuples lately.", one.tuples_per_s, stream=name)
    page.counter("stream_late", "Tuples that came too late.", one.late, stream=name)
    page.counter("stream_malformed", "Rows that could not be read.", one.malformed, stream=name)
    lag_s = None if one.lag_ms is None else one.lag_ms / 1000
    page.gauge("stream_lag_seconds", "How far the newest event time is behind the clock.", lag_s, stream=name)
    behind_s = None if one.behind_ms is None else one.behind_ms / 1000
    page.gauge("stream_behind_seconds", "How far it is behind the stream that is furthest.", behind_s, stream=name)
    page.gauge("stream_idle", "1 while nobody waits for it, as it is silent.", one.is_idle, stream=name)


def _tell_shard(page: _Page, one: ShardStats) -> None:
    name = str(one.shard)
    page.gauge("shard_held_tuples", "Tuples in windows.", one.held_tuples, shard=name)
    page.gauge("shard_held_bytes", "Bytes of tuples in windows.", one.held_bytes, shard=name)
    page.gauge("shard_waiting_tuples", "Tuples that wait for another stream.", one.waiting_tuples, shard=name)
    page.gauge("shard_pending_tuples", "Tuples that wait for their turn.", one.pending_tuples, shard=name)
    page.gauge("shard_input_bytes", "Bytes of tuples that wait.", one.input_bytes, shard=name)
    page.gauge("shard_output_bytes", "Bytes of results that wait.", one.output_bytes, shard=name)
    page.gauge("shard_busy_seconds", "A shard's work in the last micro-batch.", one.busy_ms / 1000, shard=name)


def _tell_graph(page: _Page, stats: RunStats) -> None:
    graph = stats.graph
    if graph is None:
        return
    page.gauge("queue_bytes", "Bytes in operators' queues.", graph.queue_bytes)
    page.gauge("queue_limit_bytes", "What they may take.", graph.limit_bytes)
    page.gauge("queue_saving", "1 while the threshold strategy saves memory.", graph.mode == "saving")
    page.counter("queue_mode_changes", "Changes between the strategy's modes.", graph.mode_changes)
    for one in graph.operators:
        _tell_operator(page, one)


def _tell_operator(page: _Page, one: OperatorStats) -> None:
    name = one.operator
    page.gauge("operator_queue_bytes", "Bytes that wait before an operator.", one.queue_bytes, operator=name)
    page.counter("operator_turns", "How often it was an operator's turn.", one.turns, operator=name)
    page.gauge("operator_selectivity", "Tuples out for a tuple in, lately.", one.selectivity, operator=name)
    service_s = None if one.service_us is None else one.service_us / 1e6
    page.gauge("operator_service_seconds", "Time for a tuple, lately.", service_s, operator=name)
    page.gauge("operator_input_bytes", "Mean size of a tuple in, lately.", one.input_bytes, operator=name)
    page.gauge("operator_output_bytes", "Mean size of a tuple out, lately.", one.output_bytes, operator=name)
    text = "Memory release capacity, in bytes a second."
    page.gauge("operator_freed_bytes_per_second", text, one.freed_bytes_per_s, operator=name)


def _tell_ordering(page: _Page, one: OrderingStats) -> None:
    """A join's results in order; the approach is a value, so that its series go on when it changes."""
    name = one.group
    page.gauge(
        "ordering_filter_order", "1 while results wait, 0 while tuples do.", one.approach != "sync-filter", group=name
    )
    page.gauge("ordering_held_results", "Results that wait for other streams.", one.held_results, group=name)
    page.gauge("ordering_held_bytes", "Bytes of results that wait for other streams.", one.held_bytes, group=name)
    page.gauge("ordering_open_bytes", "The most of them in memory at once.", one.open_bytes, group=name)
    page.gauge(
        "ordering_busy_ratio", "Half of the part of the time that joining takes (c|w|l1 l2).", one.busy, group=name
    )
    page.gauge("ordering_gain_ratio", "What Filter-Order would save of the response.", one.gain, group=name)
    responses = {
        "sync-filter": one.sync_filter_ms,
        "filter-order": one.filter_order_ms,
        "measured": one.response_ms,
    }
    for how, spent_ms in responses.items():
        seconds = None if spent_ms is None else spent_ms / 1000
        text = "A join's response as either approach is expected to have it, and as measured."
        page.gauge("ordering_response_seconds", text, seconds, group=name, how=how)


def _tell_tree(page: _Page, one: TreeStats) -> None:
    """A join whose probes may be left out; labels are what stays when its plan changes."""
    name = one.group
    page.gauge("tree_results_per_second", "Results of the last micro-batch.", one.results_per_s, group=name)
    page.gauge("tree_saturation_per_second", "Results if none were left out.", one.saturation_per_s, group=name)
    page.gauge("tree_service_rate", "Units of cost a second it may take beside others; +Inf: any.", one.mu, group=name)
    page.gauge("tree_freshness_ratio", "The part of them that keeps states fresh.", one.freshness_share, group=name)
    page.gauge("tree_infeasible", "States that cannot be kept fresh.", len(one.infeasible), group=name)
    page.counter("tree_left_out_probes", "Probes that were left out.", one.left_out, group=name)
    page.counter("tree_stale_tuples", "Tuples and pairs that were too old.", one.stale, group=name)
    page.counter("tree_purged_tuples", "Tuples in between let go for their age.", one.purged, group=name)
    page.counter("tree_late_micro_batches", "Published when a result was stale.", one.released_late, group=name)
    page.counter("tree_allocations", "How often probes were allocated.", one.allocations, group=name)
    page.gauge("tree_allocation_seconds", "Time of the last allocation.", one.allocation_ms / 1000, group=name)
    for half in one.halves:
        place = {"group": name, "half_way": half.name}
        page.gauge("half_way_offered", "Tuples offered to a half-way join, last micro-batch.", half.offered, **place)
        page.gauge("half_way_allowed", "Probes that it was allowed.", half.allowed, **place)
        page.gauge("half_way_probed", "Tuples that probed.", half.probed, **place)
        page.gauge("half_way_found", "Pairs that were found.", half.found, **place)
        page.gauge("half_way_stale", "Tuples and pairs that were too old.", half.stale, **place)


def _tell_spark(page: _Page, one: SparkStats) -> None:
    page.gauge("spark_input_rows", "Rows of the last micro-batch with work.", one.input_rows)
    page.gauge("spark_input_rows_per_second", "Rows that arrive, as Spark measures it.", one.input_rows_per_s)
    page.gauge("spark_processed_rows_per_second", "Rows processed, as Spark measures it.", one.processed_rows_per_s)
    page.gauge("spark_state_keys", "Entries in the state store.", one.state_keys)
    page.gauge("spark_state_bytes", "Memory of the state store.", one.state_bytes)
    for phase, spent_ms in one.duration_ms:
        page.gauge("spark_phase_seconds", "A phase of the micro-batch in Spark.", spent_ms / 1000, phase=phase)


def _tell_unknown(page: _Page, name: str, value: Any, labels: Labels) -> None:
    """Numbers by their own names; the texts of a list's entry are labels of its numbers."""
    if isinstance(value, bool | int | float):
        page.gauge(name, f"{name.replace('_', ' ')}.", value, **labels)
    elif is_dataclass(value):
        told = {one.name: getattr(value, one.name) for one in fields(value)}
        texts = {key: some for key, some in told.items() if isinstance(some, str)}
        for key, some in told.items():
            _tell_unknown(page, f"{name}_{key}", some, {**labels, **texts})
    elif isinstance(value, tuple):
        for one in value:
            _tell_unknown(page, name, one, labels)


def _number(value: float) -> str:
    """
    >>> _number(0.25), _number(float("inf")), _number(float("nan"))
    ('0.25', '+Inf', 'NaN')
    """
    if math.isfinite(value):
        return f"{float(value):.12g}"
    return "NaN" if math.isnan(value) else f"{'-' if value < 0 else '+'}Inf"


def _label_text(labels: Labels) -> str:
    told = ",".join(f'{name}="{_escaped(value)}"' for name, value in _sorted(labels))
    return f"{{{told}}}" if told else ""


def _sorted(labels: Labels) -> Iterator[tuple[str, str]]:
    yield from sorted(labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
