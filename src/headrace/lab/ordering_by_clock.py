"""A join fed tuple by tuple as the clock goes, under each of paper 004's approaches: response times as they are.

Every tuple is a step of the shard of its own, taken when it has arrived and the one before it is done; its response is
from its arrival to the last of its results. The arrivals are the same for every approach, and so are the rows. What a
tuple costs is set by the length of the join's predicate.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.engine.cutting import BlockCut
from headrace.engine.dispatching import Pace
from headrace.engine.events import EmitRows, Event, OrderingChosen
from headrace.engine.output import Cut
from headrace.engine.packing import EVENTS, ORDER, ORDER_SHIFT, Packer
from headrace.engine.shard import Shard, ShardOptions
from headrace.model import Stream
from headrace.plan.approaches import Approach, JoinLoad, load_of
from headrace.plan.sharing import SharedPlan, share
from headrace.sql import read_script

WINDOW_S = 15
SELECTED = 0.2
"""The share of pairs that are results."""
TERMS_TOGETHER = 40
MEASURED_S = float(WINDOW_S)
"""How far back Adaptive measures rates and costs: far enough to hear of a slow stream a few times."""
DECIDES_S = 1.0
"""How often it decides."""
BEFORE_S = WINDOW_S + MEASURED_S
"""Of tuples before the clock starts."""

STREAMS = "".join(
    f"CREATE STREAM {name} (x DOUBLE, id BIGINT, ts TIMESTAMP) WITH (connector = 'files', path = '{name}');"
    for name in ("slow", "fast")
)


@dataclass(frozen=True)
class Load:
    """Tuples a second of each stream, the terms of the predicate, how long, and whether arrivals are evenly spaced."""

    slow: float
    fast: float
    terms: int
    seconds: float
    regular: bool = False
    seed: int = 4


@dataclass
class Measured:
    """What a run gave: each tuple's arrival and response, how long tuples took, and Adaptive's switches."""

    responses: list[tuple[float, float]] = field(default_factory=list)
    busy_s: float = 0.0
    results: int = 0
    load: JoinLoad | None = None
    switches: list[str] = field(default_factory=list)
    last: str = ""

    def mean_s(self, since_s: float) -> float:
        return float(np.mean([response for arrived, response in self.responses if arrived >= since_s]))


def plan_of(load: Load) -> SharedPlan:
    """A theta join whose predicate has so many terms; it holds for ``SELECTED`` of the pairs."""
    # x is uniform, so that a.x * b.x > t for a share of 1 - t + t ln t of the pairs.
    grid = np.linspace(1e-6, 1, 10_000)
    bound = float(grid[np.argmin(np.abs(1 - grid + grid * np.log(grid) - SELECTED))])
    conditions = [f"a.x * b.x > {bound:.6f}"]
    for begin in range(0, load.terms, TERMS_TOGETHER):
        terms = range(begin, min(begin + TERMS_TOGETHER, load.terms))
        conditions.append(" + ".join(f"sqrt(a.x * b.x + {number})" for number in terms) + " > 0")
    query = (
        f"CREATE QUERY q AS SELECT a.id AS a_id, b.id AS b_id FROM slow a, fast b WHERE {' AND '.join(conditions)} "
        f"WINDOW {WINDOW_S} SECONDS;"
    )
    script = read_script(STREAMS + query)
    return share(script.catalog, script.queries)


def _times(load: Load, rate: float, chance: np.random.Generator) -> np.ndarray:
    count = int(load.seconds * rate * 3) + 10
    gaps = np.full(count, 1 / rate) if load.regular else chance.exponential(1 / rate, count)
    times = np.cumsum(gaps)
    return times[times < load.seconds]


def feed_of(load: Load, plan: SharedPlan) -> list[tuple[float, list[Event]]]:
    """Each tuple as a shard is told of it, with its time of arrival, which is its event time too. Before the first
    there are two windows full of others: one so that a tuple costs the same from the beginning, and one by which
    Adaptive knows rates and costs from the beginning."""
    chance = np.random.default_rng(load.seed)
    arrivals: list[tuple[float, Stream]] = []
    for stream, rate in zip(plan.catalog.streams, (load.slow, load.fast), strict=True):
        arrivals += [(float(at_s), stream) for at_s in _times(load, rate, chance)]
        before = -np.sort(chance.random(round(rate * BEFORE_S)) * BEFORE_S)[::-1]
        arrivals += [(float(at_s), stream) for at_s in before]
    arrivals.sort(key=lambda one: one[0])
    packers = {stream.name: Packer(plan, stream, 1) for stream in plan.catalog.streams}
    found = []
    for number, (at_s, stream) in enumerate(arrivals):
        at_us = round(at_s * 1e6)
        columns = {"x": [chance.random()], "id": [number], "ts": pa.array([at_us], pa.timestamp("us", "UTC"))}
        rows = pa.RecordBatch.from_pydict({**columns, ORDER: [(number + 1) << ORDER_SHIFT]})
        events = [one.event(plan) for one in packers[stream.name].pack(rows, at_us) if one.kind in EVENTS]
        found.append((at_s, events))
    return found


class Runner:
    """One run of one approach."""

    def __init__(self, load: Load, approach: Approach, alpha: float) -> None:
        self._plan = plan_of(load)
        (self._group,) = self._plan.groups
        self._shard = Shard(self._plan, ShardOptions(Cut.WINDOWS, block=BlockCut(rows=1)))
        self._feed = feed_of(load, self._plan)
        self._approach, self._alpha = approach, alpha
        self._now = Approach.FILTER_ORDER if approach is Approach.FILTER_ORDER else Approach.SYNC_FILTER
        self._spent: deque[tuple[float, float, str]] = deque()
        self._decided_s = -DECIDES_S
        self.measured = Measured()

    def run(self) -> Measured:
        ready = [one for one in self._feed if one[0] < 0]
        for at_s, events in ready:
            spent_s = self._step(events, lambda: 0.0, {})
            if at_s >= -MEASURED_S:
                self._measure(at_s, spent_s, events)
        last: dict[int, float] = {}
        gc.collect()
        gc.disable()
        began_s = time.perf_counter()
        for at_s, events in self._feed[len(ready) :]:
            wait_s = began_s + at_s - time.perf_counter()
            if wait_s > 0:
                time.sleep(wait_s)
            spent_s = self._step(events, lambda: time.perf_counter() - began_s, last)
            self.measured.busy_s += spent_s
            self._measure(at_s, spent_s, events)
        gc.enable()
        self.measured.responses = [(us / 1e6, done_s - us / 1e6) for us, done_s in sorted(last.items()) if us >= 0]
        self.measured.last = self._now.value
        return self.measured

    def _step(self, events: Sequence[Event], clock: Callable[[], float], last: dict[int, float]) -> float:
        """One tuple; gives how long it took. ``last``: by arrival, when the last of its results was there."""
        chosen = OrderingChosen(frozenset([self._group.signature] if self._now is Approach.FILTER_ORDER else []))
        began_s = time.perf_counter()
        for effect in self._shard.step([*events, chosen], None, Pace(clock=time.perf_counter)):
            if isinstance(effect, EmitRows):
                for arrived_us, count in effect.arrived:
                    last[arrived_us] = clock()
                    self.measured.results += count
        return time.perf_counter() - began_s

    def _measure(self, at_s: float, spent_s: float, events: Sequence[Event]) -> None:
        stream = next(str(event.stream) for event in events if hasattr(event, "stream"))
        self._spent.append((at_s, spent_s, stream))
        while self._spent[0][0] < at_s - MEASURED_S:
            self._spent.popleft()
        if at_s < 0 or at_s - self._decided_s < DECIDES_S:
            return
        self._decided_s = at_s
        span_us = round(MEASURED_S * 1e6)
        names = {name for _, _, name in self._spent}
        rows = {name: (sum(one[2] == name for one in self._spent), 0, span_us) for name in names}
        load = load_of(self._group, rows, sum(one[1] for one in self._spent))
        if load is None:
            return
        self.measured.load = load
        better = load.better(self._alpha)
        if self._approach is Approach.ADAPTIVE and better is not self._now:
            self._now = better
            self.measured.switches.append(f"{at_s:.1f} s: {better.value}, {load.text(self._alpha)}")


def whole_load(load: Load, measured: Measured) -> JoinLoad | None:
    """The load of a whole run, by what its tuples took."""
    plan = plan_of(load)
    span_us = round(load.seconds * 1e6)
    rows = {
        "slow": (round(load.slow * load.seconds), 0, span_us),
        "fast": (round(load.fast * load.seconds), 0, span_us),
    }
    return load_of(plan.groups[0], rows, measured.busy_s)
