"""The run's statistics, gathered from what the shards report with each micro-batch.

Totals are since the run started; rates and response times are over the last micro-batches (``RECENT``), so that a
start-up backlog does not colour them for ever. Response time is measured from the time a source task read a result's
newest tuple to the time the micro-batch was published.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headrace.engine.progressing import KnownSources
from headrace.model import StreamId
from headrace.plan.facts import Measured
from headrace.plan.sharing import Group
from headrace.plan.skew import SeenKeys, seen_from_json, seen_together
from headrace.spark.graph_told import GraphTold
from headrace.spark.tree_told import TreeTold
from headrace.stats import (
    GraphStats,
    OrderingStats,
    OrderStats,
    QueryStats,
    RunStats,
    ShardStats,
    SparkStats,
    StreamStats,
    TreeStats,
    WindowStats,
)

RECENT = 20
"""Micro-batches that rates and response times look back on."""


SWITCHES = 100
"""Those that are remembered: a run goes on for months, and its statistics are read every second."""
REMEMBERED = 20_000
"""Responses that ``Run.history`` tells of: one for each query in a micro-batch."""


@dataclass(frozen=True, slots=True)
class JoinTold:
    """What a shard told of one join: how long it joined, what it holds for other streams to come as far, whether tuples
    are ahead of those, and the most of what it holds that was in memory at once."""

    spent_s: float
    held_results: int
    held_bytes: int
    is_ahead: bool
    peak_bytes: int = 0


@dataclass(frozen=True, slots=True)
class WithheldFacts:
    """By group whose results may be left out: those that were too old to be released; and the groups of which some were
    released all the same, because publication itself took too long."""

    left_out: Mapping[str, int] = field(default_factory=dict)
    late: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """One micro-batch: when it was published, what each shard told, and how long its stages took."""

    batch: int
    began_s: float
    published_s: float
    told: tuple[tuple[int, dict[str, Any]], ...]
    probes_allowed: int | None = None
    combined: Mapping[str, list[tuple[int, int]]] = field(default_factory=dict)
    """What the second stage gave: by query, (arrival time, how many)."""
    withheld: WithheldFacts = field(default_factory=WithheldFacts)

    @property
    def probes(self) -> int:
        """What the micro-batch spent; all shards spend the same."""
        return max((told["spent"] for _, told in self.told), default=0)

    @property
    def is_throttled(self) -> bool:
        return any(told["over_limit"] for _, told in self.told)

    @property
    def is_behind(self) -> bool:
        """Whether blocks or results wait for their turn."""
        return any(told["behind"] for _, told in self.told)

    def graph(self) -> list[GraphTold]:
        """What each shard's operators did, where they take turns."""
        return [GraphTold.from_json(told["graph"]) for _, told in self.told if told["graph"] is not None]

    def joined_ms(self, told: dict[str, Any]) -> float:
        """How long a shard took for what the budget is for."""
        return float(told["stage_ms"].get("join", 0.0) + told["stage_ms"].get("emit", 0.0))

    def heard(self) -> dict[str, tuple[int, int, int]]:
        """By stream, the tuples read, their oldest and their newest time; every shard heard the same."""
        return {stream: tuple(some) for _, told in self.told for stream, some in told["heard"].items()}

    def heard_from(self) -> dict[tuple[StreamId, str | None], tuple[int, int, int]]:
        """The sources that were heard of in this micro-batch: the tuples read, their oldest and their newest time."""
        return {
            (StreamId(stream), source): tuple(some)
            for _, told in self.told
            for stream, source, *some in told["heard_from"]
        }

    def sources(self) -> dict[StreamId, dict[str, int]]:
        """By stream, the newest time of each source that was ever heard of."""
        return {StreamId(stream): some for _, told in self.told for stream, some in told["sources"].items()}

    def reached(self) -> dict[str, tuple[int | None, bool]]:
        """By stream, how far it has come, and whether it is passed over."""
        return {stream: tuple(some) for _, told in self.told for stream, some in told["reached"].items()}

    def known(self) -> dict[StreamId, KnownSources]:
        """By stream, what all shards know of its sources now; nothing where none was told."""
        sources = self.sources()
        return {
            StreamId(stream): KnownSources(sources.get(StreamId(stream), {}), reached_us)
            for stream, (reached_us, _) in self.reached().items()
        }

    def joins(self) -> list[dict[str, JoinTold]]:
        """By shard, what it told of each join."""
        return [{name: JoinTold(*some) for name, some in told["joins"].items()} for _, told in self.told]

    def awaited(self, groups: Mapping[str, Group]) -> dict[str, tuple[str, ...]]:
        """By join, the streams that its output waits for: those that have come least far, where others are further."""
        reached = self.reached()
        found = {}
        for name, group in groups.items():
            streams = list(dict.fromkeys(str(one.stream) for one in group.inputs))
            times = {one: reached.get(one, (None, False))[0] for one in streams}
            unheard = tuple(one for one, time_us in times.items() if time_us is None)
            known = {one: time_us for one, time_us in times.items() if time_us is not None}
            least = min(known.values(), default=0)
            slowest = tuple(one for one, time_us in known.items() if time_us == least < max(known.values()))
            found[name] = unheard or slowest
        return found

    def newest_us(self, streams: Iterable[StreamId]) -> int | None:
        """The newest event time of any of these streams, also of runs before this one."""
        sources = self.sources()
        return max((one for stream in streams for one in sources.get(stream, {}).values()), default=None)

    def seen(self) -> dict[str, dict[tuple[int, int], SeenKeys]]:
        """By group, the keys that many tuples had, by attribute class and side."""
        return seen_together(seen_from_json(one) for _, told in self.told for one in told["seen"])

    def measured(self) -> dict[str, list[Measured]]:
        """By group, what each shard's multi-way join is like."""
        found: dict[str, list[Measured]] = {}
        for _, told in self.told:
            for group, (held, tried) in told["measured"].items():
                pairs = {(i, j): (tuples, partners) for i, j, tuples, partners in tried}
                found.setdefault(group, []).append(Measured(tuple(held), pairs))
        return found

    def trees(self) -> dict[str, dict[int, TreeTold]]:
        """By group whose probes may be left out, what each shard told of its tree."""
        found: dict[str, dict[int, TreeTold]] = {}
        for shard, told in self.told:
            for group, one in told["trees"].items():
                found.setdefault(group, {})[shard] = TreeTold.from_json(one)
        return found

    def backlog(self) -> dict[str, list[int]]:
        """By group, the tuples over all shards that wait to scan each window next."""
        queued: dict[str, list[int]] = {}
        for _, told in self.told:
            for group, rows in told["backlog"].items():
                before = queued.get(group, [0] * len(rows))
                queued[group] = [one + other for one, other in zip(before, rows, strict=True)]
        return queued

    def given(self) -> list[Mapping[str, list[tuple[int, int]]]]:
        """The results of each shard and of the second stage, by query."""
        return [*(told["arrived"] for _, told in self.told), self.combined]

    def responses(self) -> dict[str, tuple[int, float, float]]:
        """For each query that got results: how many, the sum of their response times, and the longest (ms)."""
        published_us = self.published_s * 1_000_000
        found: dict[str, tuple[int, float, float]] = {}
        for given in self.given():
            for query, arrived in given.items():
                count, total_ms, most_ms = found.get(query, (0, 0.0, 0.0))
                for arrived_us, rows in arrived:
                    response_ms = (published_us - arrived_us) / 1000
                    count, total_ms, most_ms = count + rows, total_ms + rows * response_ms, max(most_ms, response_ms)
                found[query] = (count, total_ms, most_ms)
        return found

    def results(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for given in self.given():
            for query, arrived in given.items():
                counts[query] = counts.get(query, 0) + sum(rows for _, rows in arrived)
        return counts

    def reads(self) -> dict[str, tuple[int, int]]:
        counts: dict[str, tuple[int, int]] = {}
        for _, told in self.told:
            for stream, rows, malformed in told["read"]:
                before = counts.get(stream, (0, 0))
                counts[stream] = (before[0] + rows, before[1] + malformed)
        return counts

    def late(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for _, told in self.told:
            for stream, rows in told["late"].items():
                counts[stream] = counts.get(stream, 0) + rows
        return counts

    def responses_ms(self, query: str) -> list[tuple[float, int]]:
        """(response time, how many results had it)."""
        published_us = self.published_s * 1_000_000
        pairs = [pair for given in self.given() for pair in given.get(query, ())]
        return [((published_us - arrived_us) / 1000, rows) for arrived_us, rows in pairs]

    def holdings(self) -> dict[int, ShardStats]:
        return {
            shard: replace(ShardStats(shard, *told["held"]), busy_ms=_busy_ms(told["stage_ms"]))
            for shard, told in self.told
        }

    def stage_ms(self) -> dict[str, float]:
        """The slowest shard's time in each stage."""
        stages: dict[str, float] = {}
        for _, told in self.told:
            for stage, spent_ms in told["stage_ms"].items():
                stages[stage] = max(spent_ms, stages.get(stage, 0.0))
        return stages

    def shards_ms(self) -> list[dict[str, float]]:
        """Each shard's time in each stage."""
        return [dict(told["stage_ms"]) for _, told in sorted(self.told, key=lambda one: one[0])]


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """What is remembered of a micro-batch: its stage times (the slowest shard's, and each shard's), and each query's
    responses (count, sum, longest in ms)."""

    stage_ms: dict[str, float]
    shards_ms: list[dict[str, float]]
    responses: dict[str, tuple[int, float, float]]
    backlog_rows: int
    probes: int
    queue_bytes: int


@dataclass(slots=True)
class RunMetrics:
    """Fills from the micro-batch callback, read from any thread."""

    queries: tuple[str, ...]
    streams: tuple[str, ...]
    windows: dict[str, tuple[str, ...]]
    """The windows of each group, as texts, from the smallest."""
    shards: int
    started_s: float
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _recent: deque[BatchFacts] = field(default_factory=lambda: deque(maxlen=RECENT))
    _records: dict[int, BatchRecord] = field(default_factory=dict)
    _results: dict[str, int] = field(default_factory=dict)
    _reads: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    _held: dict[int, ShardStats] = field(default_factory=dict)
    _backlog: dict[str, list[int]] = field(default_factory=dict)
    _batches: int = 0
    _throttled: int = 0
    _orders: tuple[OrderStats, ...] = ()
    _switches: deque[str] = field(default_factory=lambda: deque(maxlen=SWITCHES))
    """The latest of all kinds, in the order in which they were told."""
    _switched: int = 0
    """How many were told."""
    _graph: GraphStats | None = None
    _ordering: tuple[OrderingStats, ...] = ()
    _queued: int = 0
    _newest_us: dict[str, int] = field(default_factory=dict)
    """By stream, the newest event time."""
    _trees: tuple[TreeStats, ...] = ()

    def change(self, queries: tuple[str, ...], windows: dict[str, tuple[str, ...]]) -> None:
        """From now on these queries run; those that are gone are forgotten."""
        with self._lock:
            self.queries, self.windows = queries, windows
            running = set(queries)
            self._results = {query: rows for query, rows in self._results.items() if query in running}

    def tell_orders(self, orders: tuple[OrderStats, ...], switches: tuple[str, ...]) -> None:
        """How multi-way joins are carried out from now on, and what was changed of that since it was last told."""
        with self._lock:
            self._orders = orders
            self._note(switches)

    def tell_ordering(self, ordering: tuple[OrderingStats, ...], switches: tuple[str, ...]) -> None:
        """How joins keep their results in order, and each change of that since it was last told."""
        with self._lock:
            self._ordering = ordering
            self._note(switches)

    def tell_trees(self, trees: tuple[TreeStats, ...], moves: tuple[str, ...]) -> None:
        """How the joins do whose probes may be left out, and each time since that those were allocated anew."""
        with self._lock:
            self._trees = trees
            self._note(moves)

    def _note(self, switches: tuple[str, ...]) -> None:
        self._switches.extend(switches)
        self._switched += len(switches)

    def tell_graph(self, graph: GraphStats | None) -> None:
        """How the operators do, where they take turns."""
        with self._lock:
            self._graph = graph

    def add(self, facts: BatchFacts) -> None:
        with self._lock:
            queued = facts.graph()
            self._queued = sum(one.items for one in queued)
            self._recent.append(facts)
            self._batches += 1
            self._throttled += facts.is_throttled
            self._held.update(facts.holdings())
            self._backlog = facts.backlog()
            backlog_rows = sum(map(sum, self._backlog.values()))
            self._records[facts.batch] = BatchRecord(
                facts.stage_ms(),
                facts.shards_ms(),
                facts.responses(),
                backlog_rows,
                facts.probes,
                sum(one.queue_bytes for one in queued),
            )
            while len(self._records) > max(RECENT, REMEMBERED // max(len(self.queries), 1)):
                del self._records[next(iter(self._records))]
            for query, rows in facts.results().items():
                self._results[query] = self._results.get(query, 0) + rows
            for stream, (_, _, newest_us) in facts.heard().items():
                self._newest_us[stream] = max(newest_us, self._newest_us.get(stream, newest_us))
            late, reads = facts.late(), facts.reads()
            for stream in {*reads, *late}:
                rows, malformed = reads.get(stream, (0, 0))
                before = self._reads.get(stream, (0, 0, 0))
                self._reads[stream] = (before[0] + rows, before[1] + malformed, before[2] + late.get(stream, 0))

    def records(self) -> dict[int, BatchRecord]:
        """What is remembered, by micro-batch."""
        with self._lock:
            return dict(self._records)

    @property
    def last_batch(self) -> int | None:
        with self._lock:
            return self._recent[-1].batch if self._recent else None

    def unfinished_rows(self) -> int | None:
        """Rows and results that wait in all shards, for another stream or for their turn, and what queues hold; None
        before every shard was heard."""
        with self._lock:
            if len(self._held) < self.shards:
                return None
            waiting = [one.waiting_tuples + one.pending_tuples + one.held_results for one in self._held.values()]
            return self._queued + sum(waiting)

    def snapshot(self, now_s: float, batch_ms: float, spark: SparkStats | None = None) -> RunStats:
        with self._lock:
            recent = list(self._recent)
            last = recent[-1] if recent else None
            span_s = max(now_s - (recent[0].began_s if recent else now_s), 1e-3)
            return RunStats(
                batches=self._batches,
                elapsed_s=now_s - self.started_s,
                queries=self._queries(recent, span_s),
                streams=tuple(self._stream(stream, recent, span_s, now_s) for stream in self.streams),
                shards=tuple(self._held[shard] for shard in sorted(self._held)),
                batch_ms=batch_ms,
                stage_ms=tuple(last.stage_ms().items()) if last else (),
                windows=self._windows(),
                probes=last.probes if last else 0,
                probes_allowed=last.probes_allowed if last else None,
                throttled_batches=self._throttled,
                orders=self._orders,
                switches=tuple(self._switches),
                switched=self._switched,
                ordering=self._ordering,
                graph=self._graph,
                batch=last.batch if last else None,
                spark=spark,
                trees=self._trees,
            )

    def _windows(self) -> tuple[WindowStats, ...]:
        return tuple(
            WindowStats(group, window, rows)
            for group, windows in self.windows.items()
            for window, rows in zip(windows, self._backlog.get(group, [0] * len(windows)), strict=False)
        )

    def _queries(self, recent: list[BatchFacts], span_s: float) -> tuple[QueryStats, ...]:
        responses: dict[str, list[tuple[float, int]]] = {}
        for facts in recent:
            for query in {query for given in facts.given() for query in given}:
                responses.setdefault(query, []).extend(facts.responses_ms(query))
        return tuple(self._query(query, responses.get(query, []), span_s) for query in self.queries)

    def _query(self, query: str, responses: list[tuple[float, int]], span_s: float) -> QueryStats:
        rows = sum(count for _, count in responses)
        p50, p99, most = weighted_percentiles(responses, (0.5, 0.99, 1.0))
        mean = sum(ms * count for ms, count in responses) / rows if rows else None
        return QueryStats(query, self._results.get(query, 0), rows / span_s, p50, p99, mean, most)

    def _stream(self, stream: str, recent: list[BatchFacts], span_s: float, now_s: float) -> StreamStats:
        tuples, malformed, late = self._reads.get(stream, (0, 0, 0))
        rows = sum(facts.reads().get(stream, (0, 0))[0] for facts in recent)
        newest_us = self._newest_us.get(stream)
        lag_ms = None if newest_us is None else now_s * 1000 - newest_us / 1000
        reached = next((facts.reached() for facts in reversed(recent) if facts.told), {})
        mine_us, is_idle = reached.get(stream, (None, False))
        furthest_us = max((one for one, _ in reached.values() if one is not None), default=0)
        behind_ms = None if mine_us is None else (furthest_us - mine_us) / 1000
        return StreamStats(stream, tuples, rows / span_s, late, malformed, lag_ms, behind_ms, is_idle)


def _busy_ms(stage_ms: Mapping[str, float]) -> float:
    """What a shard's own task spent; rows are packed by others."""
    return sum(spent_ms for stage, spent_ms in stage_ms.items() if stage != "pack")


def weighted_percentiles(pairs: Iterable[tuple[float, int]], shares: tuple[float, ...]) -> list[float | None]:
    """The least value that at least this share of the weight is at or below; None where there is none.

    >>> weighted_percentiles([(10.0, 99), (500.0, 1)], (0.5, 0.99, 1.0))
    [10.0, 10.0, 500.0]
    """
    ordered = sorted(pairs)
    if not ordered:
        return [None for _ in shares]
    total = np.cumsum([weight for _, weight in ordered])
    return [ordered[int(np.searchsorted(total, share * total[-1]))][0] for share in shares]
