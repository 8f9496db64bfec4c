"""One algorithm of a multi-way join on one workload: the engine's own shard in this process, without Spark.

Tuples are made as in paper 002, section 6.1: one an iteration, its stream drawn by the rates, its key uniform over the
stream's values, its time the iteration's number (here a millisecond each). A unit of time has as many iterations as the
rates add up to, so that windows hold rate x time tuples, as in the cost model.

A scale S multiplies rates and distinct values. Matches for each tuple, and so what plans cost relative to each other,
stay as they are; the rows that are compared grow with S squared, until they, and not a step's fixed cost of some
milliseconds, are what is measured.

Windows are filled once for each workload and interval, by the engine's default method; every algorithm then goes on
from that state (a manifest and its segments), on the same tuples. Timed is ``Shard.step`` and nothing else, as
processor time: a shard has one thread, and what else the machine does is none of its work. The clock's time is kept
beside it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from headrace.engine.events import Arrival, EmitCount, EmitRows, Event, ProgressMade
from headrace.engine.packing import EVENTS, ORDER, ORDER_SHIFT, Packer
from headrace.engine.shard import ShardOptions
from headrace.lab.filled import FilledShard
from headrace.model import StreamId
from headrace.plan.costs import Order, StreamFacts, moved_first
from headrace.plan.sharing import SharedPlan, share
from headrace.sql import read_script

STEP_US = 1000
"""Between two iterations."""


@dataclass(frozen=True)
class Workload:
    """Streams in the paper's units, how much larger than there, and for how long."""

    name: str
    streams: tuple[StreamFacts, ...]
    scale: int
    measured_units: int
    seed: int = 1

    @property
    def per_unit(self) -> int:
        """Tuples of all streams in a unit of time."""
        return round(self.scale * sum(one.rate for one in self.streams))

    @property
    def unit_us(self) -> int:
        return self.per_unit * STEP_US

    @property
    def filled_units(self) -> int:
        """Windows are full after the longest; as long again, and tuples leave as fast as they come."""
        return 2 * round(max(one.window for one in self.streams))

    @property
    def measured_tuples(self) -> int:
        return self.measured_units * self.per_unit

    @property
    def names(self) -> list[str]:
        return [f"s{number + 1}" for number in range(len(self.streams))]

    def sql(self, *, counted: bool) -> str:
        """The join; its results are only counted, or made as rows."""
        columns = "(k BIGINT, ts TIMESTAMP) WITH (connector = 'generator', time = 'ts', rate = '1', keys = '1');"
        windows = [round(one.window * self.unit_us) // 1000 for one in self.streams]
        sources = ", ".join(f"{name} [RANGE {ms} ms]" for name, ms in zip(self.names, windows, strict=True))
        equal = " AND ".join(f"s1.k = {name}.k" for name in self.names[1:])
        times = ", ".join(f"{name}.ts AS {name}_ts" for name in self.names)
        into = " INTO (connector = 'count')" if counted else ""
        return (
            "".join(f"CREATE STREAM {name} {columns}" for name in self.names)
            + f"CREATE QUERY q AS SELECT s1.k, {times} FROM {sources} WHERE {equal}{into};"
        )

    @cached_property
    def tuples(self) -> list[pa.Table]:
        """The tuples of each stream, those that fill the windows first."""
        random = np.random.default_rng(self.seed)
        rates = np.array([one.rate for one in self.streams])
        count = (self.filled_units + self.measured_units) * self.per_unit
        of_stream = random.choice(len(rates), size=count, p=rates / rates.sum())
        made = []
        for stream, facts in enumerate(self.streams):
            ts_us = np.flatnonzero(of_stream == stream) * STEP_US + STEP_US // 2
            keys = random.integers(1, round(facts.distinct * self.scale), size=len(ts_us), endpoint=True)
            made.append(pa.table({"k": keys, "ts": pa.array(ts_us).cast(pa.timestamp("us", tz="UTC"))}))
        return made


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A way to do a workload's join. ``order`` is the global one, new tuples go first (None: ``orders``, by origin);
    ``buckets`` of each stream's index (None: as the method has it); ``tau`` units between two evaluations."""

    name: str
    method: str
    tau: int
    order: Order | None = None
    buckets: tuple[int, ...] | None = None
    orders: tuple[Order, ...] = ()
    counted: bool = True
    is_eager: bool = False
    """Whether tuples that left are let go at every step; otherwise every ``tau``, which is the same at each step."""


class Filled:
    """A workload at the point where measuring begins, for one interval between evaluations."""

    def __init__(self, workload: Workload, tau: int, *, counted: bool) -> None:
        self._workload = workload
        self._tau_us = tau * workload.unit_us
        self._plan = _plan(workload, counted=counted)
        steps = list(_steps(self._plan, workload, tau))
        filling = workload.filled_units // tau
        self._steps = steps[filling:]
        self._filled = FilledShard(self._plan, steps[:filling], ShardOptions(reevaluate_us=self._tau_us))

    def run(self, algorithm: Algorithm) -> tuple[float, float, int]:
        """The processor's and the clock's time for the measured tuples, and how many results they have."""
        shard = self._filled.going_on(self._options(algorithm))
        results = 0
        began, started = time.process_time(), time.perf_counter()
        for events in self._steps:
            for effect in shard.step(events):
                match effect:
                    case EmitCount(_, rows):
                        results += rows
                    case EmitRows(_, batch):
                        results += batch.num_rows
        return time.process_time() - began, time.perf_counter() - started, results

    def _options(self, algorithm: Algorithm) -> ShardOptions:
        (group,) = self._plan.groups
        streams = [self._workload.names.index(group.inputs[index].stream) for index in group.sides]
        orders = algorithm.orders or tuple(moved_first(algorithm.order or (), origin) for origin in range(len(streams)))
        buckets = algorithm.buckets
        return ShardOptions(
            method=algorithm.method,
            reevaluate_us=self._tau_us,
            expiry_us={} if algorithm.is_eager else {group.signature: self._tau_us},
            orders={group.signature: tuple(tuple(map(streams.index, orders[one])) for one in streams)},
            buckets={} if buckets is None else {group.signature: tuple(buckets[one] for one in streams)},
        )


def _plan(workload: Workload, *, counted: bool) -> SharedPlan:
    script = read_script(workload.sql(counted=counted))
    return share(script.catalog, script.queries)


def _steps(plan: SharedPlan, workload: Workload, tau: int) -> Iterator[list[Event]]:
    """What the shard is told: the tuples of ``tau`` units a step, and that no others of that time will come."""
    packers = [Packer(plan, plan.catalog.get(StreamId(name)), 1) for name in workload.names]
    times = [table.column("ts").cast(pa.int64()).to_numpy() for table in workload.tuples]
    units = workload.filled_units + workload.measured_units
    assert not workload.filled_units % tau, "windows are filled in whole intervals"
    assert not workload.measured_units % tau, "whole intervals are measured"
    for number, begin in enumerate(range(0, units, tau), 1):
        first_us, end_us = begin * workload.unit_us, (begin + tau) * workload.unit_us
        events: list[Event] = []
        for packer, name, table, ts_us in zip(packers, workload.names, workload.tuples, times, strict=True):
            low, high = np.searchsorted(ts_us, [first_us, end_us]).tolist()
            if high > low:
                envelopes = packer.pack(_batch(table, low, high, number), 0)
                events += [one.event(plan) for one in envelopes if one.kind in EVENTS]
            passed_us = end_us + 1  # an evaluation is due when its time has passed
            events.append(ProgressMade(StreamId(name), Arrival(number, end_us), passed_us, passed_us))
        yield events


def _batch(table: pa.Table, low: int, high: int, number: int) -> pa.RecordBatch:
    (batch,) = table.slice(low, high - low).combine_chunks().to_batches()
    return batch.append_column(ORDER, pa.array(np.full(high - low, number << ORDER_SHIFT)))
