"""Paper 004's setting on a shard by a clock of its own: a slow and a fast stream that wait for each other.

      slow   s . . . . . . . . . s       a tuple is taken in when it has come and the one before it is done;
      fast   f f f f f f f f f f f       its response: from there to the last of its results

Owns :class:`Streams`, ``recorded`` (their tuples) and ``run_approach``. A tuple is a step of the shard of its own. A
tuple's join costs c for each tuple of the other stream's window (by a real clock: ``ordering_by_clock``). Adaptive
looks back over ``MEMORY_S`` of stream time, as often as ``DECIDES_S``, and decides by the paper's condition.
Cost: a millisecond or two for each tuple.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.engine.budget import ProbeBudget
from headrace.engine.cutting import BlockCut
from headrace.engine.events import EmitRows, Event, OrderingChosen
from headrace.engine.output import Cut
from headrace.engine.shard import ShardOptions
from headrace.lab.feeding import StreamFeed
from headrace.lab.filled import FilledShard
from headrace.plan.approaches import Approach, load_of
from headrace.plan.sharing import share
from headrace.sql import read_script

SLOW, FAST = "slow", "fast"
MEMORY_S, DECIDES_S = 30.0, 5.0


@dataclass(frozen=True, slots=True)
class Streams:
    """Tuples a second, the window, what a pair costs, and for how long."""

    slow: float = 1.0
    fast: float = 10.0
    window_s: float = 60.0
    pair_s: float = 0.0005
    seconds: float = 1200.0
    seed: int = 1
    keys: int = 5

    def program(self) -> str:
        duration_s = round(self.window_s + self.seconds)
        streams = "".join(
            f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (connector = 'generator', arrival = 'exponential', "
            f"rate = '{rate:g}', keys = '{self.keys}', duration = '{duration_s} s', time = 'ts', "
            f"seed = '{self.seed + at}');"
            for at, (name, rate) in enumerate(((SLOW, self.slow), (FAST, self.fast)))
        )
        return streams + (
            f"CREATE QUERY q AS SELECT a.ts AS s, b.ts AS f FROM {SLOW} a, {FAST} b WHERE a.k = b.k "
            f"WINDOW {round(self.window_s)} s;"
        )


@dataclass(frozen=True, slots=True)
class Recorded:
    """Tuples one by one: when each comes, of which stream it is, how many of the other's are in its window, and what
    the shard is told."""

    filled: FilledShard
    times_s: list[float]
    names: list[str]
    partners: list[int]
    told: list[list[Event]]


def recorded(streams: Streams) -> Recorded:
    script = read_script(streams.program())
    plan = share(script.catalog, tuple(script.queries))
    feeds = [StreamFeed(plan, number, name) for number, name in enumerate((SLOW, FAST))]
    since_us, window_us = round(streams.window_s * 1e6), round(streams.window_s * 1e6)
    filling = [event for feed in feeds for event in feed.upto(since_us, 0)]
    coming = sorted(
        (int(at_us), side) for side, feed in enumerate(feeds) for at_us in feed.times_us[feed.times_us > since_us]
    )
    partners = [
        int(np.diff(np.searchsorted(feeds[1 - side].times_us, [at_us - window_us, at_us]))[0]) for at_us, side in coming
    ]
    told = [list(feeds[side].upto(at_us, number)) for number, (at_us, side) in enumerate(coming)]
    names = [(SLOW, FAST)[side] for _, side in coming]
    return Recorded(FilledShard(plan, [filling]), [at_us / 1e6 for at_us, _ in coming], names, partners, told)


@dataclass(slots=True)
class ApproachRun:
    """What an approach came to: each tuple's response in seconds, the time joining took, the approaches that Adaptive
    had, and the most results that were held."""

    responses_s: dict[int, float] = field(default_factory=dict)
    busy_s: float = 0.0
    switches: list[tuple[float, str]] = field(default_factory=list)
    held_results: int = 0
    last: str = ""

    @property
    def mean_s(self) -> float:
        return sum(self.responses_s.values()) / max(len(self.responses_s), 1)


class JoinClock(ProbeBudget):
    """Time, as joins take it: tuples are joined in the order in which they came."""

    def __init__(self, rows: Recorded) -> None:
        super().__init__()
        self._rows = rows
        self.joined = self.due = 0
        """Tuples that have been joined, and those that may be by now: a turn beyond them has none."""
        self.now_s = rows.times_s[0]

    def charge(self, probes: int) -> None:  # noqa: ARG002 - joins are timed, not reckoned
        self.end_join()
        if self.joined < self.due:
            self.begin(self.joined)
            self.joined += 1

    def begin(self, number: int) -> None:
        """A tuple's join begins."""
        raise NotImplementedError

    def end_join(self) -> None:
        """It is over."""


class ModelClock(JoinClock):
    """A join costs so much for each tuple of the other window."""

    def __init__(self, rows: Recorded, pair_s: float) -> None:
        super().__init__(rows)
        self._pair_s = pair_s

    def begin(self, number: int) -> None:
        self.now_s += self._pair_s * self._rows.partners[number]


def run_approach(rows: Recorded, approach: Approach, alpha: float, clock: JoinClock) -> ApproachRun:
    """All tuples, one by one; results that nobody was let to wait for at the end are left out."""
    shard = rows.filled.going_on(ShardOptions(Cut.WINDOWS, block=BlockCut(rows=1)))
    (group,) = rows.filled.plan.groups
    run, adaptive = ApproachRun(), _Adaptive(rows, alpha)
    now = Approach.FILTER_ORDER if approach is Approach.FILTER_ORDER else Approach.SYNC_FILTER
    reached = {SLOW: 0, FAST: 0}
    for number, (at_s, events) in enumerate(zip(rows.times_s, rows.told, strict=True)):
        clock.now_s = began_s = max(clock.now_s, at_s)
        reached[rows.names[number]] = number + 1
        clock.due = max(clock.due, number + 1 if now is Approach.FILTER_ORDER else min(reached.values()))
        chosen = OrderingChosen(frozenset([group.signature] if now is Approach.FILTER_ORDER else []))
        for effect in shard.step([*events, chosen], clock):
            if isinstance(effect, EmitRows):
                clock.end_join()
                for arrived, _ in effect.arrived:
                    run.responses_s[arrived] = clock.now_s - rows.times_s[arrived]
        clock.end_join()
        run.busy_s += clock.now_s - began_s
        run.held_results = max(run.held_results, shard.held_results)
        better = adaptive.better(number, clock.now_s - began_s)
        if approach is Approach.ADAPTIVE and better not in (None, now):
            now = better or now
            run.switches.append((at_s, now.value))
    run.last = now.value
    return run


class _Adaptive:
    """Steps B and D, by what was measured lately."""

    def __init__(self, rows: Recorded, alpha: float) -> None:
        self._rows, self._alpha = rows, alpha
        (self._group,) = rows.filled.plan.groups
        self._lately: deque[tuple[float, float, str]] = deque()
        self._decided_s = rows.times_s[0]

    def better(self, number: int, spent_s: float) -> Approach | None:
        at_s = self._rows.times_s[number]
        self._lately.append((at_s, spent_s, self._rows.names[number]))
        while self._lately[0][0] < at_s - MEMORY_S:
            self._lately.popleft()
        if at_s - self._decided_s < DECIDES_S:
            return None
        self._decided_s = at_s
        span_us = round(min(MEMORY_S, at_s - self._rows.times_s[0]) * 1e6)
        counts = {name: sum(one[2] == name for one in self._lately) for name in (SLOW, FAST)}
        told = {name: (count, 0, span_us) for name, count in counts.items() if count}
        load = load_of(self._group, told, sum(one[1] for one in self._lately))
        return None if load is None else load.better(self._alpha)


def mean_of_fast(run: ApproachRun, rows: Recorded, names: Sequence[str] = (FAST,)) -> float:
    """The mean response of the streams' tuples that had results: the paper's equations are of the fast stream."""
    chosen = [one for number, one in run.responses_s.items() if rows.names[number] in names]
    return sum(chosen) / max(len(chosen), 1)
