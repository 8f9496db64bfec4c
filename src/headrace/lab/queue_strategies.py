"""Paper 003's setting in the engine by a real clock: shards without Spark, under a budget that bursts exceed.

      arrivals of an interval -> [ shard: joins, select-projects, aggregates with queues ] -> results
                                   a strategy takes turns until the interval is over

Owns ``calibrate`` and ``run_together``. First everything is done without a limit: this tells what operators are like
(the paper's statistics collection) and how long an interval's work takes on the average. The streams are then played at
such a speed that this is ``load`` of the time there is; bursts take more, and a run may have phases of load. Times are
reported in stream time, in which every interval lasts a second. A micro-batch that takes longer than its interval makes
the next one late, and that one finds more arrivals: the sources waited.

Runs take turns, a micro-batch each: what disturbs the machine disturbs all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.config import Budget
from headrace.engine.cutting import BlockCut
from headrace.engine.dispatching import Scheduling
from headrace.engine.shard import ShardOptions
from headrace.lab.shard_host import INTERVAL_S, Facts, Feed, MicroBatch, ShardHost, generated_feed
from headrace.lab.sixteen_queries import Sixteen
from headrace.plan.opgraph import OperatorName
from headrace.plan.sharing import SharedPlan, share
from headrace.spark.pacing import Pacer
from headrace.sql import read_script

Phases = Sequence[tuple[float, float]]
"""From which part of a run on streams take how much of the time there is."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A micro-batch, when it was done: results and the sum of their latencies, what is carried over, mode changes so
    far, the processor's time it took, how many intervals of arrivals it had, and what waited at the most within it."""

    at_s: float
    results: int
    latency_s: float
    queue_bytes: int
    mode_changes: int
    spent_s: float
    intervals: int
    most_bytes: int


@dataclass(frozen=True, slots=True)
class EngineRun:
    """What a strategy came to."""

    strategy: str
    limit_bytes: int | None = None
    moments: list[Moment] = field(default_factory=list)
    turns: dict[OperatorName, int] = field(default_factory=dict)
    by_query: dict[str, int] = field(default_factory=dict)
    """The results of each query."""

    @property
    def results(self) -> int:
        return sum(one.results for one in self.moments)

    @property
    def mean_latency_s(self) -> float:
        return sum(one.latency_s for one in self.moments) / max(self.results, 1)

    @property
    def peak_bytes(self) -> int:
        """The most that was carried over from one micro-batch to the next."""
        return max(one.queue_bytes for one in self.moments)

    @property
    def most_bytes(self) -> int:
        """The most that waited at any time: within a micro-batch, which all its arrivals begin in."""
        return max(one.most_bytes for one in self.moments)

    @property
    def mean_bytes(self) -> float:
        """Over time."""
        before = [0.0, *(one.at_s for one in self.moments)]
        spans = [one.at_s - since_s for one, since_s in zip(self.moments, before, strict=False)]
        weighed = sum(one.queue_bytes * span for one, span in zip(self.moments, spans, strict=True))
        return weighed / self.moments[-1].at_s

    @property
    def mode_changes(self) -> int:
        return self.moments[-1].mode_changes


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The setting with what was measured of it: the rows, what operators are like, and the time of an interval."""

    setting: Sixteen
    plan: SharedPlan
    feed: Feed
    facts: Facts
    interval_work_s: float


def calibrate(setting: Sixteen, shards: int = 1) -> Calibrated:
    """Does everything at once, interval by interval."""
    script = read_script(setting.program())
    plan = share(script.catalog, tuple(script.queries))
    feed = generated_feed(plan, setting.seconds, setting.interval_us, shards)
    host = ShardHost(plan, _options("fifo", None, shards), shards, {})
    spent_s = [host.step(rows, number * INTERVAL_S, None).spent_s for number, rows in enumerate(feed.intervals)]
    warm = spent_s[len(spent_s) // 10 :]
    return Calibrated(setting, plan, feed, host.facts, sum(warm) / len(warm))


def _options(strategy: str, limit_bytes: int | None, shards: int) -> ShardOptions:
    scheduling = Scheduling(strategy, "static", limit_bytes)
    return ShardOptions(block=BlockCut(), scheduling=scheduling, forwards=shards > 1)


def load_at(phases: Phases, part: float) -> float:
    """The load when a part of the run is over.

    >>> [load_at(((0.0, 0.6), (0.5, 2.0)), part) for part in (0.0, 0.4, 0.5, 1.2)]
    [0.6, 0.6, 2.0, 2.0]
    """
    return next(load for since, load in reversed(phases) if since <= part)


class _Running:
    """One strategy on its way through the arrivals."""

    def __init__(self, strategy: str, known: Calibrated, phases: Phases, limit_bytes: int | None) -> None:
        self._intervals = known.feed.intervals
        self._known, self._phases = known, phases
        self._now_s, self._taken = INTERVAL_S, 0
        shards = known.feed.shards
        self._host = ShardHost(known.plan, _options(strategy, limit_bytes, shards), shards, known.facts)
        self._pacer = Pacer(Budget(time_us=round(self._budget_s * 1e6)))
        self._probes = self._pacer.first_probes()
        self.run = EngineRun(strategy, limit_bytes, turns=self._host.turns)

    @property
    def _budget_s(self) -> float:
        """The time there is for an interval's work now."""
        at = (self._now_s / INTERVAL_S - 1) / len(self._intervals)
        return self._known.interval_work_s / load_at(self._phases, at)

    @property
    def is_done(self) -> bool:
        return self._taken == len(self._intervals) and not self._host.is_behind

    def step(self) -> None:
        """The micro-batch of what has arrived by now."""
        upto = min(int(self._now_s / INTERVAL_S), len(self._intervals))
        arrived = [one for some in self._intervals[self._taken : upto] for one in some]
        budget_s = self._budget_s
        done = self._host.step(arrived, self._now_s, self._probes)
        assert self._probes is not None
        self._now_s += max(1.0, done.spent_s / budget_s) * INTERVAL_S
        self._pacer.budget = Budget(time_us=round(self._budget_s * 1e6))
        self._probes = self._pacer.next_probes(done.probes, self._probes, done.spent_s * 1e6)
        self._note(done, upto - self._taken)
        self._taken = upto

    def _note(self, done: MicroBatch, intervals: int) -> None:
        host, now_s = self._host, self._now_s
        told = (done.results, done.latency_s(now_s), host.queue_bytes, host.mode_changes, done.spent_s)
        self.run.moments.append(Moment(now_s, *told, intervals, host.most_bytes))
        for query, rows in done.by_query.items():
            self.run.by_query[query] = self.run.by_query.get(query, 0) + rows


def run_together(
    strategies: Mapping[str, tuple[str, int | None]], known: Calibrated, load: float | Phases
) -> dict[str, EngineRun]:
    """Strategies, by name with their memory limits, each on the setting's arrivals until nothing waits. ``load``: the
    part of the time that all work takes in the long run, or from which part of the run on it takes how much."""
    phases = ((0.0, load),) if isinstance(load, float) else load
    runs = {name: _Running(strategy, known, phases, limit) for name, (strategy, limit) in strategies.items()}
    while behind := [one for one in runs.values() if not one.is_done]:
        for one in behind:
            one.step()
    return {name: one.run for name, one in runs.items()}
