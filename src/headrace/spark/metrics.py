"""The run's statistics, gathered from what the shards report with each micro-batch.

Totals are since the run started; rates and latencies are over the last micro-batches (``RECENT``), so that a start-up
backlog does not colour them for ever. Latency is measured from the time a source task read a result's newest tuple to
the time the micro-batch was published.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.stats import QueryStats, RunStats, ShardStats, StreamStats

RECENT = 20
"""Micro-batches that rates and latencies look back on."""


REMEMBERED = 1000
"""Micro-batches whose stage times are kept."""


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """One micro-batch: when it was published, what each shard told, and how long its stages took."""

    batch: int
    began_s: float
    published_s: float
    told: tuple[tuple[int, dict[str, Any]], ...]

    def results(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for _, told in self.told:
            for query, arrived in told["arrived"].items():
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

    def latencies_ms(self, query: str) -> list[tuple[float, int]]:
        """(latency, how many results had it)."""
        published_us = self.published_s * 1_000_000
        pairs = [pair for _, told in self.told for pair in told["arrived"].get(query, ())]
        return [((published_us - arrived_us) / 1000, rows) for arrived_us, rows in pairs]

    def holdings(self) -> dict[int, ShardStats]:
        return {shard: ShardStats(shard, *told["held"]) for shard, told in self.told}

    def stage_ms(self) -> dict[str, float]:
        """The slowest shard's time in each stage."""
        stages: dict[str, float] = {}
        for _, told in self.told:
            for stage, spent_ms in told["stage_ms"].items():
                stages[stage] = max(spent_ms, stages.get(stage, 0.0))
        return stages


@dataclass(slots=True)
class RunMetrics:
    """Fills from the micro-batch callback, read from any thread."""

    queries: tuple[str, ...]
    streams: tuple[str, ...]
    shards: int
    started_s: float
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _recent: deque[BatchFacts] = field(default_factory=lambda: deque(maxlen=RECENT))
    _stages: dict[int, dict[str, float]] = field(default_factory=dict)
    _results: dict[str, int] = field(default_factory=dict)
    _reads: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    _held: dict[int, ShardStats] = field(default_factory=dict)
    _batches: int = 0

    def add(self, facts: BatchFacts) -> None:
        with self._lock:
            self._recent.append(facts)
            self._batches += 1
            self._held.update(facts.holdings())
            self._stages[facts.batch] = facts.stage_ms()
            self._stages.pop(facts.batch - REMEMBERED, None)
            for query, rows in facts.results().items():
                self._results[query] = self._results.get(query, 0) + rows
            late = facts.late()
            for stream in {*facts.reads(), *late}:
                rows, malformed = facts.reads().get(stream, (0, 0))
                before = self._reads.get(stream, (0, 0, 0))
                self._reads[stream] = (before[0] + rows, before[1] + malformed, before[2] + late.get(stream, 0))

    def stages(self) -> dict[int, dict[str, float]]:
        """Stage times by micro-batch."""
        with self._lock:
            return dict(self._stages)

    def waiting_rows(self) -> int | None:
        """Rows that wait in all shards for another stream; None before every shard has been heard."""
        with self._lock:
            heard = len(self._held) == self.shards
            return sum(shard.waiting_tuples for shard in self._held.values()) if heard else None

    def snapshot(self, now_s: float, batch_ms: float) -> RunStats:
        with self._lock:
            recent = list(self._recent)
            span_s = max(now_s - (recent[0].began_s if recent else now_s), 1e-3)
            return RunStats(
                batches=self._batches,
                elapsed_s=now_s - self.started_s,
                queries=tuple(self._query(query, recent, span_s) for query in self.queries),
                streams=tuple(self._stream(stream, recent, span_s) for stream in self.streams),
                shards=tuple(self._held[shard] for shard in sorted(self._held)),
                batch_ms=batch_ms,
                stage_ms=tuple(recent[-1].stage_ms().items()) if recent else (),
            )

    def _query(self, query: str, recent: list[BatchFacts], span_s: float) -> QueryStats:
        latencies = [pair for facts in recent for pair in facts.latencies_ms(query)]
        rows = sum(facts.results().get(query, 0) for facts in recent)
        p50, p99 = weighted_percentiles(latencies, (0.5, 0.99))
        return QueryStats(query, self._results.get(query, 0), rows / span_s, p50, p99)

    def _stream(self, stream: str, recent: list[BatchFacts], span_s: float) -> StreamStats:
        tuples, malformed, late = self._reads.get(stream, (0, 0, 0))
        rows = sum(facts.reads().get(stream, (0, 0))[0] for facts in recent)
        return StreamStats(stream, tuples, rows / span_s, late, malformed)


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
