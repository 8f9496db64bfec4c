"""The shard inside Spark: restores it, lets it step, keeps what it says, and reports. The thin host of the design.

Segments are immutable, so the local cache needs no coherence: a name is a content.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import pyarrow as pa

from headrace.engine.budget import ProbeBudget
from headrace.engine.dispatching import Pace
from headrace.engine.events import (
    CacheSegment,
    DropSegment,
    EmitCount,
    EmitPanes,
    EmitRows,
    ForgetSegment,
    KeepSegment,
    RejectRows,
    TimesReached,
)
from headrace.engine.packing import EVENTS, Envelope, Kind, dead_letters
from headrace.engine.segments import pack_batch
from headrace.engine.shard import Shard
from headrace.plan.sinks import shared_sinks
from headrace.spark.cache import SegmentCache
from headrace.spark.combine import to_report
from headrace.spark.envelopes import DEAD, ROWS, STAGED, TOLD, Report, from_pandas
from headrace.spark.fresh_rows import FreshCounts, count_fresh, counts_to_json, with_until
from headrace.spark.graph_told import graph_told
from headrace.spark.orders import Orders, Work, batch_number
from headrace.spark.staging import STAGING, StageWriter, batch_name
from headrace.spark.task_told import TaskTold, leaves_of
from headrace.spark.tree_told import tree_events, trees_told
from headrace.spark.withholding import adapting

Key = TypeVar("Key")
"""What is heard of: streams, or sources."""


@dataclass(frozen=True, slots=True)
class HostOptions:
    """What a shard's host needs besides its work, the same for all of a run."""

    labels: tuple[int, ...]
    cache: SegmentCache
    orders: Orders
    out: str
    compression: str
    console_rows: int


@dataclass(frozen=True, slots=True)
class StateSegments:
    """Segments of a restored shard: from the machine's cache, else from Spark's state store."""

    cache: SegmentCache
    segments: Any

    def stored(self, name: str) -> pa.Buffer:
        return self.cache.get(name) or self._remember(name, pa.py_buffer(self.segments.getValue((name,))[0]))

    def derived(self, name: str, rebuild: Callable[[], pa.Buffer]) -> pa.Buffer:
        return self.cache.get(name) or self._remember(name, rebuild())

    def _remember(self, name: str, blob: pa.Buffer) -> pa.Buffer:
        self.cache.put(name, blob)
        return blob


class Step:
    """One micro-batch of one shard, stage by stage, each timed."""

    def __init__(self, work: Work, options: HostOptions, number: int, manifest: Any, segments: Any) -> None:
        self._work = work
        self._plan = work.plan
        self._options = options
        self._budget = _budget(work, options.orders)
        self._pace = _pace(work, options)
        self._number = number
        self._manifest = manifest
        self._segments = segments
        self._stage_ms: dict[str, float] = {}
        self._arrived: dict[str, dict[int, int]] = {}
        self._fresh: dict[str, FreshCounts] = {}
        self._late: dict[str, int] = {}
        self._stepped_us = 0

    def run(self, rows: Iterator[pd.DataFrame]) -> Iterator[Report]:
        envelopes = self._timed("receive", lambda: list(from_pandas(rows, self._number)))
        shard = self._timed("restore", self._restore)
        events = [one.event(self._plan) for one in envelopes if one.kind in EVENTS]
        events.append(self._options.orders.ordering(batch_number()))
        self._stepped_us = _now_us()
        allowed = self._options.orders.allowed(batch_number())
        events += tree_events(allowed, self._halves, self._number, self._stepped_us)
        kept: list[Any] = []
        began = time.perf_counter()
        yield from self._emit(shard.step(events, self._budget, self._pace), kept)
        aside_ms = self._stage_ms.get("emit", 0.0) + self._stage_ms.get("keep", 0.0)
        self._stage_ms["join"] = (time.perf_counter() - began) * 1000 - aside_ms
        self._timed("keep", lambda: self._keep(kept, shard))
        yield from (Report(DEAD, self._number, payload=one.payload) for one in envelopes if one.kind is Kind.DEAD)
        yield Report(TOLD, self._number, detail=json.dumps(self._told(shard, envelopes)))

    @property
    def _halves(self) -> dict[str, int]:
        """Of groups that adapt, how many half-way joins their trees have."""
        return {group.signature: 2 * len(group.sides) - 2 for group in self._plan.groups if group.adapts}

    def _timed(self, stage: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = work()
        self._stage_ms[stage] = self._stage_ms.get(stage, 0.0) + (time.perf_counter() - began) * 1000
        return result

    def _restore(self) -> Shard:
        kept = self._manifest.get() if self._manifest.exists() else None
        source = StateSegments(self._options.cache, self._segments)
        if kept is None:
            return Shard(self._plan, self._work.shard, source)
        return Shard.restore(self._plan, self._work.shard, bytes(kept[0]), source)

    def _emit(self, effects: Iterator[Any], kept: list[Any]) -> Iterator[Report]:
        """Sends results on as the step makes them; what is about segments is put by for ``_keep``."""
        staging = Path(self._options.out) / STAGING / batch_name(batch_number())
        sinks = shared_sinks(self._plan.sinks)
        shared = {query: sink for query, sink in sinks.items() if query in self._work.staged}
        writer = StageWriter(staging, self._number, self._options.compression, shared, adapting(self._plan))
        for effect in effects:
            if isinstance(effect, EmitRows):
                yield from self._timed("emit", lambda: list(self._emit_rows(effect, writer)))  # noqa: B023 - run at once
            elif isinstance(effect, EmitCount):
                self._count(effect)
            elif isinstance(effect, EmitPanes | TimesReached):
                yield self._timed("emit", lambda: to_report(effect, self._number))  # noqa: B023 - run at once
            elif isinstance(effect, RejectRows):
                self._late[effect.stream] = self._late.get(effect.stream, 0) + effect.batch.num_rows
                letters = dead_letters(effect.stream, effect.reason, effect.batch)
                yield Report(DEAD, self._number, payload=pack_batch(letters).to_pybytes())
            elif isinstance(effect, KeepSegment):
                self._timed("keep", lambda: self._store(effect))  # noqa: B023 - run at once, so that memory is free again
            else:
                kept.append(effect)
        for part in self._timed("emit", writer.close):
            yield Report(STAGED, self._number, part.queries, part.rows, part.path)

    def _emit_rows(self, effect: EmitRows, writer: StageWriter) -> Iterator[Report]:
        self._count(effect)
        if any(query in self._work.staged for query in effect.queries):
            writer.write(effect)
        shipped = tuple(query for query in effect.queries if query not in self._work.staged)
        if shipped:
            whole = with_until(effect.batch, effect.fresh)
            shown = whole if self._work.called.intersection(shipped) else whole[: self._options.console_rows]
            yield Report(ROWS, self._number, shipped, effect.batch.num_rows, "", pack_batch(shown).to_pybytes())

    def _count(self, effect: EmitRows | EmitCount) -> None:
        for query in effect.queries:
            counts = self._arrived.setdefault(query, {})
            for arrived_us, rows in effect.arrived:
                counts[arrived_us] = counts.get(arrived_us, 0) + rows
            if effect.fresh is not None:
                count_fresh(self._fresh.setdefault(query, {}), effect.fresh)

    def _store(self, effect: KeepSegment) -> None:
        self._segments.updateValue((effect.name,), (effect.blob.to_pybytes(),))
        self._options.cache.put(effect.name, effect.blob)

    def _keep(self, effects: list[Any], shard: Shard) -> None:
        cache = self._options.cache
        for effect in effects:
            if isinstance(effect, CacheSegment):
                cache.put_batch(effect.name, effect.batch)
            elif isinstance(effect, ForgetSegment):
                cache.drop(effect.name)
            elif isinstance(effect, DropSegment):
                self._segments.removeKey((effect.name,))
                cache.drop(effect.name)
        self._manifest.update((shard.manifest(),))
        cache.trim()

    def _told(self, shard: Shard, envelopes: list[Envelope]) -> dict[str, Any]:
        """The shard's statistics of this micro-batch."""
        held = shard.holdings()
        tallies = [one for one in envelopes if one.kind is Kind.TALLY]
        tasks = [TaskTold.from_payload(one.payload) for one in tallies if len(one.payload)]
        if tallies:
            self._stage_ms["pack"] = max(one.spent_us for one in tallies) / 1000
        for one in envelopes:
            if one.kind is Kind.DEAD and one.rows:
                self._late[one.stream] = self._late.get(one.stream, 0) + one.rows
        return {
            "arrived": {query: sorted(counts.items()) for query, counts in self._arrived.items()},
            "fresh": counts_to_json(self._fresh),
            "read": [[one.stream, one.rows, one.malformed] for one in tallies],
            "late": self._late,
            "held": list(astuple(held)),
            "backlog": shard.backlog(),
            "heard": _heard(envelopes, lambda one: one.stream),
            "heard_from": [[*source, *some] for source, some in sorted(_heard(envelopes, _source).items())],
            "sources": shard.progress.newest_us,
            "reached": shard.reached(),
            "joins": shard.joins(),
            "seen": [one.seen for one in tasks],
            "measured": self._timed("sample", lambda: _measured_to_json(shard)),
            "spent": self._budget.spent,
            "over_limit": self._budget.over_limit,
            "behind": shard.is_behind,
            "graph": graph_told(shard, leaves_of(tasks)),
            "trees": trees_told(shard, self._stepped_us),
            "stage_ms": self._stage_ms,
        }


def _now_us() -> int:
    return time.time_ns() // 1000


def _heard(envelopes: list[Envelope], of: Callable[[Envelope], Key]) -> dict[Key, list[int]]:
    """By stream or source, how many tuples all source tasks read, and their oldest and newest times."""
    heard: dict[Key, list[int]] = {}
    for one in envelopes:
        if one.kind is Kind.HEARTBEAT:
            rows, oldest_us, newest_us = heard.get(of(one), [0, one.oldest_us, one.newest_us])
            heard[of(one)] = [rows + one.rows, min(oldest_us, one.oldest_us), max(newest_us, one.newest_us)]
    return heard


def _source(heartbeat: Envelope) -> tuple[str, str]:
    return heartbeat.stream, heartbeat.partitions[0]


def _measured_to_json(shard: Shard) -> dict[str, Any]:
    return {
        signature: [one.held_rows, [[*pair, *counts] for pair, counts in one.tried.items()]]
        for signature, one in shard.measured().items()
    }


def _budget(work: Work, orders: Orders) -> ProbeBudget:
    """This micro-batch's budget, alike on all shards."""
    if work.probes is None:
        return ProbeBudget()
    return ProbeBudget(orders.probes(batch_number()) or work.probes, work.backlog_limit)


def _pace(work: Work, options: HostOptions) -> Pace:
    """What this micro-batch's operators are taken to be like, alike on all shards, and this task's clocks."""
    facts = {} if work.shard.scheduling is None else options.orders.facts(batch_number())
    return Pace(facts, time.perf_counter, len(options.labels), time.process_time)
