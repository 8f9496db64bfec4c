"""Paper 000's setting on a shard by a clock of its own: queries with different windows share a join of two streams.

      arrivals      a    b  ba        a b      a tuple is read when the turn that was under way when it came is over
      turns        |--a---|b|-b-|-a-||-a--|    a policy chooses each; a turn takes as long as what it finds
      results          Q1 Q2  Q1 ...           leave as they are found, and answer to when their newest tuple came

Owns :class:`Setting`, ``recorded`` (its tuples) and ``run_policy``. The shard is the one that runs on Spark: blocks of
one tuple are the paper's algorithms. Windows are full before anything is measured ("fast forwarded"). By the model
clock a turn costs so much for each tuple's probe and for each pair it finds, fixed so that the streams' mean rate takes
``load`` of the time; the same bytes each time. By the wall clock a turn takes the processor's time that it took,
stretched so that the dearest policy has that load; where other work slows the processor, a :class:`Yardstick` tells by
how much.

Cost: about a millisecond for each turn, a turn for each tuple and window at most.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import median

import numpy as np
import pyarrow as pa

from headrace.engine.budget import ProbeBudget
from headrace.engine.cutting import BlockCut
from headrace.engine.events import Effect, EmitCount, EmitRows, Event
from headrace.engine.output import Cut
from headrace.engine.shard import Holdings, ShardOptions
from headrace.lab.feeding import StreamFeed
from headrace.lab.filled import FilledShard
from headrace.plan.sharing import share
from headrace.sql import read_script

STREAMS = ("temperature", "humidity")
TURNS_A_LOOK = 50
"""After so many turns the processor's speed is looked at again."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is asked and what comes. ``queries``: how many have each window; ``load``: of the time, by the mean rate;
    ``probe_share``: the part of LWO's work that does not depend on what is found; ``block_rows``: so many tuples come
    together where one does in the paper, and are scheduled together."""

    windows_s: tuple[float, ...]
    queries: tuple[int, ...] = ()
    rate: float = 100.0
    keys: int = 500
    burst: float = 1.0
    tuples: int = 100_000
    load: float = 0.9
    probe_share: float = 0.01
    block_rows: int = 1
    method: str = "hybrid"
    seed: int = 1
    is_counted: bool = True
    """Whether results are only counted; by the wall clock they are made."""

    @property
    def asked(self) -> tuple[int, ...]:
        return self.queries or (1,) * len(self.windows_s)

    @property
    def fill_s(self) -> float:
        """Until the largest window is full."""
        return max(self.windows_s)

    @property
    def duration_s(self) -> float:
        """Long enough for all tuples to come, bursts being what they are."""
        return self.fill_s + 1.5 * self.tuples / (2 * self.rate) + 5.0

    @property
    def pair_cost_s(self) -> float:
        """What a pair costs, so that all work takes ``load`` of the time there is."""
        pairs = self.rate * self.fill_s / self.keys
        return (1 - self.probe_share) * self.load / (2 * self.rate * pairs)

    @property
    def probe_cost_s(self) -> float:
        """What a turn costs for each tuple, whatever it finds."""
        return self.probe_share * self.load / (2 * self.rate)

    def program(self) -> str:
        arrival = f"pareto', burst = '{self.burst:g}" if self.burst > 1 else "exponential"
        streams = "".join(
            f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (connector = 'generator', arrival = '{arrival}', "
            f"rate = '{self.rate / self.block_rows:g}', keys = '{self.keys}', "
            f"duration = '{round(self.duration_s)} s', time = 'ts', seed = '{self.seed + number}');"
            for number, name in enumerate(STREAMS)
        )
        into = " INTO (connector = 'count')" if self.is_counted else ""
        return streams + "".join(
            f"CREATE QUERY {query_name(window, number)} AS SELECT a.k FROM {STREAMS[0]} a, {STREAMS[1]} b "
            f"WHERE a.k = b.k WINDOW {round(window_s * 1000)} ms{into};"
            for window, (window_s, count) in enumerate(zip(self.windows_s, self.asked, strict=True))
            for number in range(count)
        )


def query_name(window: int, number: int) -> str:
    return f"w{window + 1}q{number + 1}"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A setting's tuples as a shard is told them: it begins with full windows; the measured blocks with when they come,
    in seconds."""

    filled: FilledShard
    times_s: list[float]
    blocks: list[list[Event]]

    def first(self, blocks: int) -> Recorded:
        return replace(self, times_s=self.times_s[:blocks], blocks=self.blocks[:blocks])


def recorded(setting: Setting) -> Recorded:
    script = read_script(setting.program())
    plan = share(script.catalog, tuple(script.queries))
    since_us = round(setting.fill_s * 1e6)
    sides = [StreamFeed(plan, number, name, setting.block_rows) for number, name in enumerate(STREAMS)]
    filling = [event for side in sides for event in side.upto(since_us, 0)]
    new = np.sort(np.concatenate([side.times_us[side.times_us > since_us] for side in sides]))
    ends_us = new[: setting.tuples][setting.block_rows - 1 :: setting.block_rows].tolist()
    blocks = [[event for side in sides for event in side.upto(end, number)] for number, end in enumerate(ends_us)]
    return Recorded(FilledShard(plan, [filling]), [end_us / 1e6 for end_us in ends_us], blocks)


@dataclass(slots=True)
class QueryResponse:
    """Of a query's results: how many, the sum and the largest of their response times in seconds."""

    results: int = 0
    sum_s: float = 0.0
    longest_s: float = 0.0

    @property
    def mean_s(self) -> float:
        return self.sum_s / max(self.results, 1)

    def add(self, results: int, response_s: float) -> None:
        self.results += results
        self.sum_s += results * response_s
        self.longest_s = max(self.longest_s, response_s)


@dataclass(slots=True)
class PolicyRun:
    """What a policy came to: responses by query, turns, the time it worked and how long all of it lasted, and the most
    that buffers held (section 5.4)."""

    responses: dict[str, QueryResponse] = field(default_factory=dict)
    turns: int = 0
    busy_s: float = 0.0
    lasted_s: float = 0.0
    join_bytes: int = 0
    input_bytes: int = 0
    output_bytes: int = 0

    def holds(self, held: Holdings) -> None:
        self.join_bytes = max(self.join_bytes, held.size_bytes)
        self.input_bytes = max(self.input_bytes, held.input_bytes)
        self.output_bytes = max(self.output_bytes, held.output_bytes)

    @property
    def mean_s(self) -> float:
        """Over queries."""
        return sum(one.mean_s for one in self.responses.values()) / max(len(self.responses), 1)


class _TurnClock(ProbeBudget):
    """Time, as turns take it. Asked before each turn whether another may follow, it ends the turn before; a tuple that
    has come by then is read first."""

    def __init__(self, setting: Setting, times_s: Sequence[float]) -> None:
        super().__init__(limit=2**62)
        self.setting, self.times_s = setting, times_s
        self.run = PolicyRun()
        self.now_s = self.until_s = times_s[0]
        self._is_in_turn = False

    def allows(self, waiting_rows: int, is_beyond: bool = False) -> bool:  # noqa: ARG002 - only time counts
        self.end_turn()
        return self.now_s < self.until_s

    def charge(self, probes: int) -> None:  # noqa: ARG002 - a turn is timed, not reckoned
        self._is_in_turn = True
        self.begin()

    def end_turn(self) -> None:
        if self._is_in_turn:
            spent_s = self.spent_s()
            self.now_s += spent_s
            self.run.busy_s += spent_s
            self.run.turns += 1
        self._is_in_turn = False

    def take(self, effect: Effect) -> None:
        """A result that a turn gives: it leaves as it is found."""
        if not isinstance(effect, EmitCount | EmitRows):
            return
        for number, results in effect.arrived:
            response_s = self.now_s + self.found_s(number, results) - self.times_s[number]
            for query in effect.queries:
                self.run.responses.setdefault(query, QueryResponse()).add(results, response_s)

    def begin(self) -> None:
        """A turn begins."""
        raise NotImplementedError

    def found_s(self, number: int, results: int) -> float:
        """How long after the turn began a query has all its results of a block."""
        raise NotImplementedError

    def spent_s(self) -> float:
        """How long the turn took."""
        raise NotImplementedError


class ModelClock(_TurnClock):
    """A turn costs a probe for each tuple, and something for each pair that no turn found before."""

    def __init__(self, setting: Setting, times_s: Sequence[float]) -> None:
        super().__init__(setting, times_s)
        self._pairs: dict[int, int] = {}
        """Of each block, what has been found so far."""
        self._before: dict[int, int] = {}
        self._probe_s = setting.block_rows * setting.probe_cost_s

    def begin(self) -> None:
        self._before = {}

    def found_s(self, number: int, results: int) -> float:
        pairs = self._pairs.get(number, 0)
        before = self._before.setdefault(number, pairs)
        self._pairs[number] = max(pairs, results)
        return self._probe_s + max(0, results - before) * self.setting.pair_cost_s

    def spent_s(self) -> float:
        pairs = sum(self._pairs[number] - before for number, before in self._before.items())
        return self._probe_s + pairs * self.setting.pair_cost_s


class Yardstick:
    """How fast the processor is now, against how fast it was: some fixed work of the kind that turns do. Where other
    work shares memory and caches, the same work takes more of the processor's time."""

    def __init__(self) -> None:
        chance = np.random.default_rng(0)
        self._from = pa.array(np.arange(200_000))
        self._rows = pa.array(chance.integers(0, 200_000, 200_000))
        self._first_s = median(self._timed_s() for _ in range(15))

    def speed(self) -> float:
        """1: as at first; 0.5: work takes twice as long."""
        return self._first_s / max(median(self._timed_s() for _ in range(3)), 1e-9)

    def _timed_s(self) -> float:
        began_s = time.process_time()
        np.sort(self._from.take(self._rows).to_numpy())
        return time.process_time() - began_s


class WallClock(_TurnClock):
    """A turn takes the processor's time that it took, stretched; what the processor became slower by is taken out."""

    def __init__(self, setting: Setting, times_s: Sequence[float], stretch: float, measure: Yardstick) -> None:
        super().__init__(setting, times_s)
        self._stretch, self._began_s = stretch, 0.0
        self._measure, self._speed = measure, measure.speed()

    def end_turn(self) -> None:
        is_due = self._is_in_turn and self.run.turns % TURNS_A_LOOK == 0
        super().end_turn()
        if is_due:
            self._speed = self._measure.speed()

    def begin(self) -> None:
        self._began_s = time.process_time()

    def found_s(self, number: int, results: int) -> float:  # noqa: ARG002 - now, whatever it is
        return self.spent_s()

    def spent_s(self) -> float:
        return (time.process_time() - self._began_s) * self._stretch * self._speed


def run_policy(setting: Setting, rows: Recorded, policy: str, clock: _TurnClock) -> PolicyRun:
    """From full windows on, all blocks that come, until nothing waits."""
    cut = Cut.WINDOWS if setting.is_counted else Cut.BANDS
    options = ShardOptions(cut, policy=policy, method=setting.method, block=BlockCut(rows=setting.block_rows))
    shard = rows.filled.going_on(options)
    taken = 0
    while taken < len(rows.blocks) or shard.is_behind:
        if not shard.is_behind:
            clock.now_s = max(clock.now_s, rows.times_s[taken])
        come = bisect_right(rows.times_s, clock.now_s)
        clock.until_s = rows.times_s[come] if come < len(rows.times_s) else inf
        for effect in shard.step([event for events in rows.blocks[taken:come] for event in events], clock):
            clock.take(effect)
        clock.end_turn()
        clock.run.holds(shard.holdings())
        taken = come
    clock.run.lasted_s = clock.now_s - rows.times_s[0]
    return clock.run
