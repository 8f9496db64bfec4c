"""Paper 003's setting in the engine by a real clock: shards without Spark, a micro-batch after the other, under a budget.

      arrivals of an interval -> pack -> [ shard: joins, select-projects, aggregates with queues ] -> results
                                            a strategy takes turns until the interval is over

Owns ``calibrate`` and ``run_engine``. First everything is done without a limit: this tells what operators are like (the
paper's statistics collection) and how long an interval's work takes on the average. The streams are then played at such
a speed that this is ``load`` of the time there is: an interval lasts ``budget_s`` of the processor's time, and bursts take
more. Times are reported in stream time, in which every interval lasts a second. A micro-batch that takes longer than its
interval makes the next one late, and that one finds more arrivals: the sources waited.

The clock is the processor's time of this process: what a core of its own would show.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.config import Budget
from headrace.engine.cutting import BlockCut
from headrace.engine.dispatching import Scheduling
from headrace.engine.shard import ShardOptions
from headrace.lab.shard_host import INTERVAL_S, Facts, Feed, ShardHost
from headrace.lab.sixteen_queries import Sixteen
from headrace.plan.opgraph import OperatorName
from headrace.plan.sharing import SharedPlan, share
from headrace.spark.pacing import Pacer
from headrace.sql import read_script


@dataclass(frozen=True, slots=True)
class Moment:
    """A micro-batch, when it was done: results and the sum of their latencies, what waits, mode changes so far, the
    processor's time it took, and how many intervals of arrivals it had."""

    at_s: float
    results: int
    latency_s: float
    queue_bytes: int
    mode_changes: int
    spent_s: float
    intervals: int


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
        return max(one.queue_bytes for one in self.moments)

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
    feed = Feed(plan, setting.seconds, setting.interval_us, shards)
    host = ShardHost(plan, _options("fifo", None, shards), shards, {})
    spent_s = [host.step(rows, number * INTERVAL_S, None).spent_s for number, rows in enumerate(feed.intervals)]
    warm = spent_s[len(spent_s) // 10 :]
    return Calibrated(setting, plan, feed, host.facts, sum(warm) / len(warm))


def _options(strategy: str, limit_bytes: int | None, shards: int) -> ShardOptions:
    scheduling = Scheduling(strategy, "static", limit_bytes)
    return ShardOptions(block=BlockCut(), scheduling=scheduling, forwards=shards > 1)


def run_engine(strategy: str, known: Calibrated, load: float, limit_bytes: int | None = None) -> EngineRun:
    """A strategy on the setting's arrivals, until nothing waits. ``load``: the part of the time that all work takes in
    the long run."""
    shards = known.feed.shards
    host = ShardHost(known.plan, _options(strategy, limit_bytes, shards), shards, known.facts)
    budget_s = known.interval_work_s / load
    pacer = Pacer(Budget(time_us=round(budget_s * 1e6)))
    probes = pacer.first_probes()
    run = EngineRun(strategy, limit_bytes, turns=host.turns)
    now_s, taken, intervals = INTERVAL_S, 0, known.feed.intervals
    while taken < len(intervals) or host.is_behind:
        upto = min(int(now_s / INTERVAL_S), len(intervals))
        done = host.step([one for some in intervals[taken:upto] for one in some], now_s, probes)
        assert probes is not None
        probes = pacer.next_probes(done.probes, probes, done.spent_s * 1e6)
        now_s += max(1.0, done.spent_s / budget_s) * INTERVAL_S
        told = (done.results, done.latency_s(now_s), host.queue_bytes, host.mode_changes, done.spent_s)
        run.moments.append(Moment(now_s, *told, upto - taken))
        for query, rows in done.by_query.items():
            run.by_query[query] = run.by_query.get(query, 0) + rows
        taken = upto
    return run
