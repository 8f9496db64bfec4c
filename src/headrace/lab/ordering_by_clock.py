"""A join fed tuple by tuple, under each of paper 004's approaches: response times by a clock.

      |------- a window is filled -------|-- one by one, not waited for --|-- one by one, as the clock goes --|
                                         -MEASURED_S                      0                             seconds

Every tuple is a step of the shard of its own, taken when it has arrived and the one before it is done; its response is
from its arrival to the last of its results. The arrivals are the same for every approach, and so are the rows. What a
pair of tuples costs is set by the number of patterns that it is held against; windows hold hundreds and thousands of
tuples, so that a tuple costs nearly as its partners are many, which is what the paper's equations are made of.

Two clocks: :class:`RealTime` waits for every tuple, and what else the machine does delays results; under
:class:`ProcessorTime` time passes as this process works, and where it would wait the clock is put forward.

Owns :class:`Load`, :class:`Clocked` (a filled window, and runs from there), the clocks and ``terms_for``. Cost: as long
as it says by the real clock; the processor's time alone by the other.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pyarrow as pa

from headrace.engine.cutting import BlockCut
from headrace.engine.dispatching import Pace
from headrace.engine.events import EmitRows, Event, OrderingChosen
from headrace.engine.output import Cut
from headrace.engine.packing import EVENTS, ORDER, ORDER_SHIFT, Packer
from headrace.engine.shard import Shard, ShardOptions
from headrace.lab.filled import FilledShard
from headrace.model import Stream
from headrace.plan.approaches import Approach, JoinLoad, load_of
from headrace.plan.sharing import SharedPlan, share
from headrace.sql import read_script

WINDOW_S = 100
SELECTED = 0.02
"""The share of pairs that are results."""
MEASURED_S = 8.0
"""How far back Adaptive measures rates and costs: far enough to hear of a slow stream a few times."""
DECIDES_S = 1.0
"""How often it decides."""
TRIED_TERMS, TRIED_PAIRWISE, TRIED_TUPLES = 40, 8, 24
"""By which the cost of a term is found out, and with how many tuples of each stream."""

STREAMS = "".join(
    f"CREATE STREAM {name} (x DOUBLE, live DOUBLE, s STRING, id BIGINT, ts TIMESTAMP) "
    f"WITH (connector = 'files', path = '{name}');"
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
    pairwise: int = 0
    """Where every pair is held against every term, so that a tuple costs nearly as its partners are many: how often a
    text repeats itself, which makes a term dear and few terms enough. 0: only those few pairs are that the join finds
    by x, and a slow tuple costs little more than a fast one."""


@dataclass
class Measured:
    """What a run gave: each tuple's arrival and response, how long tuples took, and Adaptive's switches."""

    responses: list[tuple[float, float]] = field(default_factory=list)
    busy_s: float = 0.0
    results: int = 0
    switches: list[str] = field(default_factory=list)
    last: str = ""

    def mean_s(self, since_s: float) -> float:
        return float(np.mean([response for arrived, response in self.responses if arrived >= since_s]))


def plan_of(load: Load) -> SharedPlan:
    """A theta join whose predicate has so many terms; it holds for ``SELECTED`` of the pairs."""
    # x is uniform, so that |a.x - b.x| < t for a share of 2 t - t * t of the pairs.
    near = 1 - (1 - SELECTED) ** 0.5
    conditions = [f"ABS(a.x - b.x) < {near:.6f}"]
    if load.pairwise:  # no index serves a square; tuples that fill the windows do not meet each other
        conditions = [f"(a.x - b.x) * (a.x - b.x) < {near * near:.9f}", "a.live + b.live > 0.5"]
    conditions += [f"a.s || b.s NOT LIKE '%1%q{number}%'" for number in range(load.terms)]
    query = (
        f"CREATE QUERY q AS SELECT a.id AS a_id, b.id AS b_id FROM slow a, fast b WHERE {' AND '.join(conditions)} "
        f"WINDOW {WINDOW_S} SECONDS;"
    )
    script = read_script(STREAMS + query)
    return share(script.catalog, script.queries)


def arrivals(load: Load, rate: float, chance: np.random.Generator) -> np.ndarray:
    """When tuples of a stream come, from ``-MEASURED_S`` on. The gaps between them are exponential: its quantiles, one
    of each, in any order, so that a run of seconds has the rate and the spread of a long one."""
    span_s = MEASURED_S + load.seconds
    count = round(span_s * rate)
    spread = -np.log1p(-(np.arange(count) + 0.5) / count)
    gaps = np.ones(count) if load.regular else chance.permutation(spread)
    times = np.cumsum(gaps) - gaps[0] * chance.random()
    return np.asarray(times * (span_s / gaps.sum()) - MEASURED_S)


class Feed:
    """A load's tuples as a shard is told of them: a window full at once, then one by one."""

    def __init__(self, load: Load, plan: SharedPlan) -> None:
        self._plan, self._chance = plan, np.random.default_rng(load.seed)
        self._packers = {stream.name: Packer(plan, stream, 1) for stream in plan.catalog.streams}
        self._number = 0
        self._repeated = max(1, load.pairwise)
        pairs = list(zip(plan.catalog.streams, (load.slow, load.fast), strict=True))
        self.filling: list[Event] = []
        filling: list[Event] = []
        for stream, rate in pairs:
            before_s = np.sort(self._chance.random(round(rate * WINDOW_S)) * WINDOW_S) - WINDOW_S - MEASURED_S
            filling += self._events(stream, before_s)
        self.filling = filling
        coming = [(float(at_s), stream) for stream, rate in pairs for at_s in arrivals(load, rate, self._chance)]
        coming.sort(key=lambda one: one[0])
        self.coming = [(at_s, self._events(stream, np.array([at_s]))) for at_s, stream in coming]
        """Each tuple with its time of arrival, which is its event time too."""

    def _events(self, stream: Stream, times_s: np.ndarray) -> list[Event]:
        count = len(times_s)
        times_us = np.round(times_s * 1e6).astype(np.int64)
        numbers = self._number + np.arange(count)
        self._number += count
        x = self._chance.random(count)
        text = [f"{one:.6f}" * self._repeated for one in x]
        live = np.full(count, float(len(self.filling) > 0))
        columns = {"x": x, "live": live, "s": text, "id": numbers}
        times = pa.array(times_us, pa.timestamp("us", "UTC"))
        order = pa.array((numbers + 1) << ORDER_SHIFT)
        rows = pa.RecordBatch.from_pydict({**columns, "ts": times, ORDER: order})
        arrived_us = int(times_us[-1])
        packed = self._packers[stream.name].pack(rows, arrived_us)
        return [one.event(self._plan) for one in packed if one.kind in EVENTS]


class RealTime:
    """Seconds since ``begin``, as they pass."""

    def __init__(self) -> None:
        self._began_s = 0.0

    def work_s(self) -> float:
        """A clock for how long something takes."""
        return time.perf_counter()

    def begin(self) -> None:
        self._began_s = self.work_s()

    def now_s(self) -> float:
        return self.work_s() - self._began_s

    def wait_until(self, at_s: float) -> None:
        wait_s = at_s - self.now_s()
        if wait_s > 0:
            self._pass(wait_s)

    def _pass(self, wait_s: float) -> None:
        time.sleep(wait_s)


class ProcessorTime(RealTime):
    """Seconds that this process worked, and those that it would have waited, at once."""

    def work_s(self) -> float:
        return time.process_time()

    def _pass(self, wait_s: float) -> None:
        self._began_s -= wait_s


class Clocked:
    """A load, its windows filled; each approach begins there."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.plan = plan_of(load)
        self.feed = Feed(load, self.plan)
        self._filled = FilledShard(self.plan, [self.feed.filling])

    def shard(self) -> Shard:
        return self._filled.going_on(ShardOptions(Cut.WINDOWS, block=BlockCut(rows=1)))

    def run(self, approach: Approach, alpha: float, clock: RealTime | None = None) -> Measured:
        return _Runner(self, approach, alpha, clock or RealTime()).run()


class _Runner:
    """One run of one approach."""

    def __init__(self, clocked: Clocked, approach: Approach, alpha: float, clock: RealTime) -> None:
        self._clock = clock
        (self._group,) = clocked.plan.groups
        self._shard, self._coming = clocked.shard(), clocked.feed.coming
        self._approach, self._alpha = approach, alpha
        self._now = Approach.FILTER_ORDER if approach is Approach.FILTER_ORDER else Approach.SYNC_FILTER
        self._spent: deque[tuple[float, float, str]] = deque()
        self._decided_s = -DECIDES_S
        self.measured = Measured()

    def run(self) -> Measured:
        ready = [one for one in self._coming if one[0] < 0]
        for at_s, events in ready:
            self._measure(at_s, self._step(events, lambda: 0.0, {}), events)
        self.measured.results = 0
        last: dict[int, float] = {}
        gc.collect()
        gc.disable()
        self._clock.begin()
        for at_s, events in self._coming[len(ready) :]:
            self._clock.wait_until(at_s)
            spent_s = self._step(events, self._clock.now_s, last)
            self.measured.busy_s += spent_s
            self._measure(at_s, spent_s, events)
        gc.enable()
        self.measured.responses = [(us / 1e6, done_s - us / 1e6) for us, done_s in sorted(last.items()) if us >= 0]
        self.measured.last = self._now.value
        return self.measured

    def _step(self, events: Sequence[Event], clock: Callable[[], float], last: dict[int, float]) -> float:
        """One tuple; gives how long it took. ``last``: by arrival, when the last of its results was there."""
        chosen = OrderingChosen(frozenset([self._group.signature] if self._now is Approach.FILTER_ORDER else []))
        began_s = self._clock.work_s()
        for effect in self._shard.step([*events, chosen], None, Pace(clock=self._clock.work_s)):
            if isinstance(effect, EmitRows):
                for arrived_us, count in effect.arrived:
                    last[arrived_us] = clock()
                    self.measured.results += count if arrived_us >= 0 else 0
        return self._clock.work_s() - began_s

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
        better = load.better(self._alpha)
        if self._approach is Approach.ADAPTIVE and better is not self._now:
            self._now = better
            self.measured.switches.append(f"{at_s:.1f} s: {better.value}, {load.text(self._alpha)}")


def terms_for(load: Load, busy: float) -> int:
    """How many terms make c|w|l1 l2 of the load's rates about so much on this machine, as far as it can be told by a
    few tuples of each stream."""
    most = TRIED_PAIRWISE if load.pairwise else TRIED_TERMS
    bare, tried = (_busy_with(replace(load, terms=terms)) for terms in (0, most))
    return max(0, round((busy - bare) / max(tried - bare, 1e-9) * most))


@cache
def _busy_with(load: Load) -> float:
    """Half of the time that joining takes, by some tuples of each stream."""
    clocked = Clocked(replace(load, seconds=TRIED_TUPLES / load.slow))
    shard = clocked.shard()
    spent: dict[str, list[float]] = {"slow": [], "fast": []}
    for _, events in clocked.feed.coming:
        name = next(str(event.stream) for event in events if hasattr(event, "stream"))
        if len(spent[name]) >= TRIED_TUPLES:
            continue
        began_s = time.process_time()
        for _ in shard.step([*events, OrderingChosen(frozenset(group.signature for group in clocked.plan.groups))]):
            pass
        spent[name].append(time.process_time() - began_s)
    return (load.slow * float(np.median(spent["slow"])) + load.fast * float(np.median(spent["fast"]))) / 2


def whole_load(clocked: Clocked, measured: Measured) -> JoinLoad | None:
    """The load of a whole run, by what its tuples took."""
    load = clocked.load
    span_us = round(load.seconds * 1e6)
    rows = {
        "slow": (round(load.slow * load.seconds), 0, span_us),
        "fast": (round(load.fast * load.seconds), 0, span_us),
    }
    return load_of(clocked.plan.groups[0], rows, measured.busy_s)
