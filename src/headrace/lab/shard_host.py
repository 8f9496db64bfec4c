"""Shards in this process, fed with a setting's rows: what the driver does on Spark, without Spark.

Owns :class:`Feed` (rows by when they arrive), ``generated_feed`` and :class:`ShardHost` (a micro-batch of all shards;
what operators are measured to be like goes back to them). Nothing is stored: the shards stay as they are from step to
step.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from headrace.engine.budget import ProbeBudget
from headrace.engine.combining import Combiner
from headrace.engine.dispatching import Pace
from headrace.engine.events import Effect, EmitCount, EmitPanes, EmitRows, TimesReached
from headrace.engine.histories import Points
from headrace.engine.measuring import Meters, QueueSizes
from headrace.engine.packing import EVENTS, ORDER, ORDER_SHIFT, Envelope, Packer
from headrace.engine.shard import Shard, ShardOptions
from headrace.model import Stream
from headrace.plan.capacities import OperatorFacts
from headrace.plan.facts import Measured
from headrace.plan.opgraph import OperatorName
from headrace.plan.sharing import SharedPlan
from headrace.spark.generator import spec_of
from headrace.workload import Position, generate

Facts = Mapping[OperatorName, OperatorFacts]
clock_s = time.process_time
"""The processor's time of this process: what a core of its own would show."""

INTERVAL_S = 1.0
"""Of stream time; a micro-batch each."""
HALF_LIFE_S = 20.0
"""Of what operators are measured to be like, in stream time."""


Rows = tuple[Stream, pa.RecordBatch, np.ndarray]
"""A stream's rows in the order of their event times, and those, in microseconds."""


class Feed:
    """The streams' rows, packed, for each interval of arrivals: the same for every run."""

    def __init__(self, plan: SharedPlan, rows: Sequence[Rows], ends_us: Sequence[int], shards: int) -> None:
        self.shards = shards
        self._plan = plan
        self.intervals: list[list[Envelope]] = []
        taken = [0] * len(rows)
        for number, end_us in enumerate(ends_us):
            packed: list[Envelope] = []
            for at, (stream, batch, times) in enumerate(rows):
                end = int(np.searchsorted(times, end_us))
                packed += self._packed(stream, batch.slice(taken[at], end - taken[at]), number)
                taken[at] = end
            self.intervals.append([one for one in packed if one.kind in EVENTS])

    def _packed(self, stream: Stream, batch: pa.RecordBatch, number: int) -> Iterator[Envelope]:
        """An interval's rows of a stream; on the average they arrive in its middle."""
        order = pa.array(np.full(batch.num_rows, (number + 1) << ORDER_SHIFT))
        packer = Packer(self._plan, stream, self.shards)
        return packer.pack(batch.append_column(ORDER, order), round((number + 0.5) * INTERVAL_S * 1e6))


def generated_feed(plan: SharedPlan, seconds: float, interval_us: int, shards: int) -> Feed:
    """The rows of generated streams."""
    rows = [(stream, *_generated(stream, round(seconds * 1e6))) for stream in plan.catalog.streams]
    count = round(seconds * 1e6 / interval_us)
    return Feed(plan, rows, [(number + 1) * interval_us for number in range(count)], shards)


def _generated(stream: Stream, until_us: int) -> tuple[pa.RecordBatch, np.ndarray]:
    spec = spec_of(stream, 0)
    rows, _ = generate(spec, Position.at_start(spec), until_us)
    return rows, rows.column(stream.time).cast(pa.int64()).to_numpy()


class ShardHost:
    """Shards in this process. ``facts``: what operators are taken to be like before they are measured."""

    def __init__(self, plan: SharedPlan, options: ShardOptions, shards: int, facts: Facts) -> None:
        self._plan = plan
        self._shards = [Shard(plan, options) for _ in range(shards)]
        self._combiner = Combiner(plan, Points(options.reevaluate_us, options.is_eager))
        self._given = facts
        self.meters = Meters(half_life_s=HALF_LIFE_S)
        self._sizes = QueueSizes()
        self.turns: dict[OperatorName, int] = {}
        self.joined_s: Counter[str] = Counter()
        """By join, how long it took so far."""

    @property
    def facts(self) -> dict[OperatorName, OperatorFacts]:
        """As measured lately; of what has not run yet, as given."""
        return self._sizes.in_facts({**self._given, **self.meters.facts()})

    def step(self, envelopes: Sequence[Envelope], at_s: float, probes: int | None) -> MicroBatch:
        """A micro-batch, begun at a time of the stream's clock."""
        found = MicroBatch()
        pace = Pace(self.facts, clock_s, len(self._shards))
        for index, shard in enumerate(self._shards):
            events = [one.event(self._plan) for one in envelopes if one.shard == index]
            budget = ProbeBudget(probes)
            gc.collect()
            gc.disable()  # other runs' objects are nothing that this one should be charged for
            began_s = clock_s()
            for effect in shard.step(events, budget, pace):
                found.take(effect)
            found.spent_s = max(found.spent_s, clock_s() - began_s)
            gc.enable()
            found.probes = budget.spent
            self._measure(shard, at_s)
            self.joined_s.update({name: spent_s for name, (spent_s, *_) in shard.joins().items()})
        self._weigh()
        for effect in self._combiner.step(found.sent):
            found.take(effect)
        return found

    def _weigh(self) -> None:
        tuples, queues = Counter[OperatorName](), Counter[OperatorName]()
        dispatchers = [shard.dispatcher for shard in self._shards if shard.dispatcher is not None]
        for one in dispatchers:
            tuples.update(one.waiting_tuples())
            queues.update(one.queues())
        self._sizes.take(tuples, queues, [one.held() for one in dispatchers])

    def _measure(self, shard: Shard, at_s: float) -> None:
        if shard.dispatcher is None:
            return
        for name, one in shard.dispatcher.meters.by_name.items():
            self.meters.report(name, one.report(), at_s)
        for name, turns in shard.dispatcher.turns.items():
            self.turns[name] = self.turns.get(name, 0) + turns

    @property
    def queue_bytes(self) -> int:
        """What waits in the shard where the most does."""
        return max(
            (sum(one.dispatcher.queues().values()) for one in self._shards if one.dispatcher is not None), default=0
        )

    @property
    def most_bytes(self) -> int:
        """What waited at the most within the last micro-batch, in the shard where the most did."""
        return max(one.dispatcher.most_bytes for one in self._shards if one.dispatcher is not None)

    @property
    def measured(self) -> dict[str, Measured]:
        """By group, what the first shard's multi-way join is like now."""
        return self._shards[0].measured()

    @property
    def mode_changes(self) -> int:
        return self._shards[0].memory.mode_changes

    @property
    def is_behind(self) -> bool:
        return any(one.is_behind for one in self._shards)


class MicroBatch:
    """What a micro-batch gave: by when the newest tuple of a result arrived, how many."""

    def __init__(self) -> None:
        self.sent: list[EmitPanes | TimesReached] = []
        self.arrived_us: dict[int, int] = {}
        self.by_query: dict[str, int] = {}
        self.latencies: dict[str, list[tuple[int, int]]] = {}
        """By query, when the newest tuples of results arrived, and of how many."""
        self.probes = 0
        self.spent_s = 0.0

    def take(self, effect: Effect) -> None:
        if isinstance(effect, EmitPanes | TimesReached):
            self.sent.append(effect)
        elif isinstance(effect, EmitRows | EmitCount):
            rows = sum(count for _, count in effect.arrived)
            for query in effect.queries:
                self.by_query[query] = self.by_query.get(query, 0) + rows
                self.latencies.setdefault(query, []).extend(effect.arrived)
            for arrived_us, count in effect.arrived:
                self.arrived_us[arrived_us] = self.arrived_us.get(arrived_us, 0) + count * len(effect.queries)

    @property
    def results(self) -> int:
        return sum(self.arrived_us.values())

    def latency_s(self, at_s: float) -> float:
        """The sum of the results' latencies, if they leave at that time."""
        return sum((at_s - arrived_us / 1e6) * count for arrived_us, count in self.arrived_us.items())
