"""A simulated run of an operator graph over bursty streams: the same arrivals under each strategy.

Tuples that arrive within a tick come together. Those that do not fit below the memory limit wait outside, with all of
their stream after them; their latency counts from their arrival all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.engine.choosing import Scheduler
from headrace.engine.graphrun import GraphRun
from headrace.engine.queues import Batch, divide_evenly
from headrace.engine.runrecords import RunRecord
from headrace.engine.simulated import SimulatedClock, simulated_work
from headrace.engine.strategies import StrategyMemory, StrategyOptions
from headrace.lab.bursts import arrival_times, counts
from headrace.lab.many_operators import TUPLE_BYTES, Setting

Arrivals = Mapping[str, np.ndarray]
"""By stream, how many tuples arrive in each tick."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a run came to."""

    record: RunRecord
    memory: StrategyMemory
    left_tuples: float
    throttled_ticks: int
    used_bytes: list[float] = field(default_factory=list)
    """The queue memory in use at the end of each tick."""
    ended_s: float = 0.0

    @property
    def longest_wait_s(self) -> float:
        """The longest that any operator had tuples and no turn."""
        return max(one.longest_wait_s(self.ended_s) for one in self.record.operators.values())


def bursty_arrivals(setting: Setting, seconds: float, tick_s: float, seed: int) -> dict[str, np.ndarray]:
    return {
        name: counts(arrival_times(bursts, seconds, seed + number), seconds, tick_s)
        for number, (name, bursts) in enumerate(setting.streams.items())
    }


def in_phases(arrivals: Arrivals, phases: Sequence[tuple[float, float]], seed: int) -> dict[str, np.ndarray]:
    """The same with so many times as many tuples from a part of the run on, each (part, times); drawn one by one."""
    chance = np.random.default_rng(seed)
    most = int(np.ceil(max(times for _, times in phases)))
    found = {}
    for name, tuples in arrivals.items():
        at = (np.arange(len(tuples)) + 0.5) / len(tuples)
        phase = np.searchsorted([since for since, _ in phases], at, side="right") - 1
        found[name] = chance.binomial(most * tuples, np.array([times for _, times in phases])[phase] / most)
    return found


def simulate(
    setting: Setting,
    arrivals: Arrivals,
    tick_s: float,
    strategy: str,
    *,
    fairness: str = "static",
    options: StrategyOptions | None = None,
    drain: bool = True,
) -> Simulated:
    """Runs a strategy on these arrivals; ``drain``: on until nothing waits."""
    chosen = options or StrategyOptions(slice_s=tick_s)
    memory = StrategyMemory()
    scheduler = Scheduler.of(strategy, fairness, setting.graph, setting.facts, chosen, memory)
    run = GraphRun(
        setting.graph,
        scheduler,
        setting.facts,
        simulated_work(setting.facts),
        SimulatedClock(setting.facts),
        limit_bytes=chosen.limit_bytes,
    )
    sources = _Sources(run)
    used_bytes = []
    for tick in range(max(len(one) for one in arrivals.values())):
        run.work(until_s=tick * tick_s)
        for name, tuples in arrivals.items():
            if tuples[tick]:
                sources.add(name, Batch(float(tuples[tick]), tuples[tick] * TUPLE_BYTES, tick * tick_s))
        sources.offer()
        used_bytes.append(run.size_bytes)
    while drain and (run.work(run.waiting().at_s + tick_s) or sources.held):
        sources.offer()
    return Simulated(run.record, memory, run.tuples, sources.throttled, used_bytes, run.waiting().at_s)


class _Sources:
    """Batches that have come, and wait outside when there is no room."""

    def __init__(self, run: GraphRun) -> None:
        self._run = run
        self._waiting: dict[str, deque[Batch]] = {}
        self.throttled = 0

    @property
    def held(self) -> bool:
        return any(self._waiting.values())

    def add(self, source: str, batch: Batch) -> None:
        self._waiting.setdefault(source, deque()).append(batch)

    def offer(self) -> None:
        for source, batches in self._waiting.items():
            while batches and (room := self._run.room_bytes(source)) >= TUPLE_BYTES:
                first, rest = divide_evenly(batches.popleft(), room / TUPLE_BYTES)
                self._run.offer(source, first)
                if rest is not None:
                    batches.appendleft(rest)
        self.throttled += self.held
