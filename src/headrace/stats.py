"""What a run tells about itself: plain numbers, gathered by the host once a micro-batch.

Owned by the host that fills them and read by the live table, the demo and the benchmark; no layer computes with them.
Times are seconds or milliseconds as the name says; counts are totals since this run started unless they say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryStats:
    """A query's results; response is from a result's newest tuple's arrival to the release of the micro-batch."""

    query: str
    results: int = 0
    results_per_s: float = 0.0
    response_p50_ms: float | None = None
    response_p99_ms: float | None = None
    response_mean_ms: float | None = None
    response_max_ms: float | None = None


@dataclass(frozen=True, slots=True)
class StreamStats:
    """A stream's tuples; ``late`` and ``malformed`` ones are in the dead letters. ``lag_ms``: how far the newest event
    time is behind the clock (None before the first tuple)."""

    stream: str
    tuples: int = 0
    tuples_per_s: float = 0.0
    late: int = 0
    malformed: int = 0
    lag_ms: float | None = None
    behind_ms: float | None = None
    """How far, in event time, it has come less than the stream that is furthest; None before anything was heard."""
    is_idle: bool = False
    """Whether it was silent for longer than its idle_timeout: nobody waits for it."""


@dataclass(frozen=True, slots=True)
class ShardStats:
    """What a shard holds now: tuples in windows and their bytes (the join buffers); tuples that wait for another
    stream, tuples that wait for their turn, and the bytes of both (the input buffers); the bytes of results that wait
    for a window to be done (the output buffers). ``busy_ms``: its task's work in the last micro-batch."""

    shard: int
    held_tuples: int = 0
    waiting_tuples: int = 0
    held_bytes: int = 0
    pending_tuples: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
    held_results: int = 0
    """Results that were found ahead and wait for other streams; their bytes are among those of the output buffers."""
    busy_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class WindowStats:
    """How many tuples, over all shards, wait to scan a window next."""

    group: str
    window: str
    backlog_tuples: int = 0


@dataclass(frozen=True, slots=True)
class OrderStats:
    """The order in which a multi-way join takes new tuples of one of its streams through the others."""

    group: str
    stream: str
    order: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OrderingStats:
    """How a join's results are kept in order (paper 004). ``approach``: sync-filter, filter-order, or returning, while
    what was held is released on the way back to sync-filter; ``busy``: c|w|l1 l2; what equations 3, 5 and 7 expect of
    its response, and what was measured; ``waits_for``: the streams that its output waits for now; ``open_bytes``: the
    most of the held results that any shard had in memory at once, in the last micro-batch."""

    group: str
    approach: str
    held_results: int = 0
    held_bytes: int = 0
    busy: float | None = None
    sync_filter_ms: float | None = None
    filter_order_ms: float | None = None
    gain: float | None = None
    response_ms: float | None = None
    waits_for: tuple[str, ...] = ()
    open_bytes: int = 0


@dataclass(frozen=True, slots=True)
class OperatorStats:
    """An operator of the graph, over all shards: what waits before it, how often it was its turn, and what it is like
    lately (None until it has done something). ``service_us``: for a tuple; ``input_bytes``, ``output_bytes``: the mean
    sizes of a tuple that goes in and of one that comes out; ``tuples_per_s``: its processing capacity;
    ``freed_bytes_per_s``: its memory release capacity, below zero where it takes more memory than it frees."""

    operator: str
    text: str = ""
    uses: int = 1
    queue_bytes: int = 0
    turns: int = 0
    selectivity: float | None = None
    service_us: float | None = None
    input_bytes: float | None = None
    output_bytes: float | None = None
    tuples_per_s: float | None = None
    freed_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class GraphStats:
    """How operators take turns where there is a budget. ``mode``: the threshold strategy's, normal or saving;
    ``mode_changes``: since the checkpoint began; ``is_throttled``: the last micro-batch overran its budget, so that
    sources waited."""

    strategy: str
    fairness: str
    limit_bytes: int
    queue_bytes: int = 0
    mode: str = "normal"
    mode_changes: int = 0
    is_throttled: bool = False
    operators: tuple[OperatorStats, ...] = ()


@dataclass(frozen=True, slots=True)
class SparkStats:
    """What Spark's listener told of the last micro-batch that had work. ``input_rows`` counts rows of all sources, the
    control stream's too; ``duration_ms``: by Spark's names for the phases of a micro-batch."""

    batch: int
    input_rows: int = 0
    input_rows_per_s: float = 0.0
    processed_rows_per_s: float = 0.0
    state_keys: int = 0
    state_bytes: int = 0
    duration_ms: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class HalfWayStats:
    """A half-way join in the last micro-batch, over all shards: tuples offered to it, those that probed, pairs found,
    those (and tuples) that were too old, and the probes it was allowed."""

    name: str
    offered: int = 0
    probed: int = 0
    found: int = 0
    stale: int = 0
    allowed: float = 0.0


@dataclass(frozen=True, slots=True)
class TreeStats:
    """A join that runs as a tree; its probes may be left out. ``saturation_per_s``: results a second if all were made,
    as estimated; ``mu``: units of cost a second that it may take beside other trees and what they need, infinite
    without a limit, and the share of it that keeps states fresh; ``left_out``, ``stale`` and ``purged`` (tuples in
    between that were let go for their age): since this run started; ``stale`` are tuples and results in the shards, and
    results that were too old to be released; ``released_late``: micro-batches in which a released result was not fresh
    any more when publication was over."""

    group: str
    plan: str
    allocator: str
    halves: tuple[HalfWayStats, ...] = ()
    results_per_s: float = 0.0
    saturation_per_s: float = 0.0
    mu: float = 0.0
    freshness_share: float = 0.0
    left_out: int = 0
    stale: int = 0
    purged: int = 0
    released_late: int = 0
    infeasible: tuple[str, ...] = ()
    allocations: int = 0
    allocation_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class RunStats:
    """A snapshot of a run. ``stage_ms``: time of the last micro-batch by stage (pack, restore, join, emit, keep)."""

    batches: int = 0
    elapsed_s: float = 0.0
    queries: tuple[QueryStats, ...] = ()
    streams: tuple[StreamStats, ...] = ()
    shards: tuple[ShardStats, ...] = ()
    batch_ms: float = 0.0
    stage_ms: tuple[tuple[str, float], ...] = ()
    windows: tuple[WindowStats, ...] = ()
    probes: int = 0
    """Spent by the last micro-batch."""
    probes_allowed: int | None = None
    """Its budget; None: there is none."""
    throttled_batches: int = 0
    """Micro-batches that overran their budget because too much was waiting."""
    orders: tuple[OrderStats, ...] = ()
    """How multi-way joins are carried out now."""
    switches: tuple[str, ...] = ()
    """Each change of a join order, of how order is kept or of an allocation of probes, with its micro-batch and its
    reason; the latest last, of many only those."""
    switched: int = 0
    """How many there were in this run."""
    ordering: tuple[OrderingStats, ...] = ()
    graph: GraphStats | None = None
    """The operators and their queues; None: there is no budget, and nothing waits between them."""
    batch: int | None = None
    """The number of the last micro-batch that was published; it goes on from run to run."""
    spark: SparkStats | None = None
    """None before Spark's listener has told anything."""
    trees: tuple[TreeStats, ...] = ()
    """Joins whose probes may be left out."""

    def switches_after(self, told: int) -> tuple[str, ...]:
        """The switches later than the first so many, as far as they are remembered."""
        new = self.switched - told
        return self.switches[-new:] if new > 0 else ()
