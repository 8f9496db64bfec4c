"""`headrace lab mine`: a user's own queries over a recorded sample of their streams, under all that can be chosen.

      sample/<stream>/*.parquet   -> micro-batches of equal time -> shards in this process, once for each choice
                                     policy: by responses where the budget is short of bursts
                                     method: by the processor's time that all joins take
                                     plans and strategies: ``mine_plans``
                                     approach: by the paper's condition, with rates and costs as measured

Owns ``mine`` and :class:`Findings`. Rows are taken to have arrived in the order of their event times. Responses are
counted in micro-batches and told in the sample's time; budgets are in probes, so that policies come out the same each
time. Methods are timed: the least of several rounds.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.engine.arrow_types import arrow_schema
from headrace.engine.cutting import BlockCut
from headrace.engine.shard import ShardOptions
from headrace.errors import SourceError
from headrace.lab.experiment import Chart, Grid, Kind, Line, Picture, number
from headrace.lab.mine_plans import PlanTimes, StrategyRun, limited_run, try_plans, try_strategies
from headrace.lab.shard_host import INTERVAL_S, Feed, Rows, ShardHost
from headrace.model import Stream
from headrace.plan.approaches import JoinLoad, load_of, why_in_order
from headrace.plan.methods import SCANNING
from headrace.plan.sharing import Group, SharedPlan

POLICIES = ("lwo", "swf", "mqt")
METHODS = ("hybrid", "eager")
"""An index where there is one, and scans."""
INTERVALS = 40
BLOCKS = 4
"""In a micro-batch."""
LOAD = 0.9
"""Of the budget, on the average: only bursts exceed it."""
ROUNDS = 2
NEAR = 0.02
"""Who is better by less is no better; then the default stays."""
ALPHA = 0.3
FORMATS = (".parquet", ".csv", ".json", ".jsonl", ".ndjson", ".arrow", ".feather")


@dataclass(slots=True)
class Findings:
    """By choice: what it came to. ``responses_s``: of each policy, by query; ``spent_s``: of each method. ``untimed``:
    rows by stream that have no event time, which are left out as they would be in a run."""

    queries: list[str]
    rows: dict[str, int]
    seconds: float
    untimed: dict[str, int] = field(default_factory=dict)
    responses_s: dict[str, dict[str, float]] = field(default_factory=dict)
    spent_s: dict[str, float] = field(default_factory=dict)
    joins: dict[str, JoinLoad] = field(default_factory=dict)
    in_order: dict[str, str] = field(default_factory=dict)
    plans: list[PlanTimes] = field(default_factory=list)
    strategies: dict[str, StrategyRun] = field(default_factory=dict)

    def mean_s(self, policy: str) -> float:
        return _mean(self.responses_s[policy])

    @property
    def policy(self) -> str:
        return _least({name: self.mean_s(name) for name in self.responses_s}, "mqt")

    @property
    def method(self) -> str:
        return _least(self.spent_s, "hybrid")

    @property
    def ordering(self) -> str:
        chosen = {load.better(ALPHA).value for load in self.joins.values()}
        return chosen.pop() if len(chosen) == 1 else "adaptive"

    @property
    def strategy(self) -> str:
        return _least({name: _mean(one.responses_s) for name, one in self.strategies.items()}, "threshold")

    @property
    def tree(self) -> str | None:
        """The fastest tree, where there is one join that has one and the engine's own is slower."""
        trees = [one for one in self.plans if one.is_tree]
        if len(trees) != 1 or _least(trees[0].spent_s, trees[0].own) == trees[0].own:
            return None
        return trees[0].best

    def settings(self) -> list[str]:
        """What to write into the program."""
        named = {"policy": self.policy, "strategy": self.strategy, "join_method": self.method}
        named |= {"plan": self.tree} if self.tree else {}
        named["ordering"] = self.ordering
        return [f"SET {name} = '{value}';" for name, value in named.items()]


def _mean(responses_s: Mapping[str, float]) -> float:
    found = [one for one in responses_s.values() if one < inf]
    return sum(found) / max(len(found), 1)


def _least(costs: Mapping[str, float], default: str) -> str:
    best = min(costs, key=lambda name: costs[name])
    return default if default in costs and costs[default] <= costs[best] * (1 + NEAR) else best


def mine(plan: SharedPlan, sample: Path) -> Findings:
    read = {str(stream.name): recorded(stream, sample) for stream in _used(plan)}
    rows = [one for one, _ in read.values()]
    begin_us = min(int(times[0]) for _, _, times in rows)
    end_us = max(int(times[-1]) for _, _, times in rows) + 1
    span_us = max(1, -(-(end_us - begin_us) // INTERVALS))
    feed = Feed(plan, rows, [begin_us + (number + 1) * span_us for number in range(INTERVALS)], 1)
    counts = {str(stream.name): batch.num_rows for stream, batch, _ in rows}
    untimed = {name: left_out for name, (_, left_out) in read.items() if left_out}
    found = Findings([str(query) for query in plan.queries], counts, (end_us - begin_us) / 1e6, untimed)
    gc.collect()
    gc.freeze()  # what is there already need not be looked through for every step that is timed
    probes, joined_s = _time_methods(plan, feed, found)
    for policy in POLICIES:
        options = ShardOptions(policy=policy, block=BlockCut(span_us=max(1, span_us // BLOCKS)))
        limit = max(1, round(probes / len(feed.intervals) / LOAD))
        host = ShardHost(plan, options, 1, {})
        found.responses_s[policy] = dict(limited_run(plan, feed, host, limit, span_us / 1e6).responses_s)
    found.strategies = try_strategies(plan, feed, found.policy, span_us, LOAD)
    rates = {name: count / max(found.seconds, 1e-6) for name, count in counts.items()}
    found.plans = try_plans(plan, feed, found.method, rates)
    for group in plan.groups:
        _weigh(group, rows, joined_s, found)
    gc.unfreeze()
    return found


def _used(plan: SharedPlan) -> list[Stream]:
    names = {input.stream for group in plan.groups for input in group.inputs}
    return [stream for stream in plan.catalog.streams if stream.name in names]


def recorded(stream: Stream, sample: Path) -> tuple[Rows, int]:
    """A stream's recorded rows, in the order of their times; and how many others have none."""
    files = _files(stream, sample)
    kind = {".jsonl": "json", ".ndjson": "json"}.get(files[0].suffix, files[0].suffix[1:])
    try:
        table = ds.dataset([str(file) for file in files], format=kind).to_table(columns=list(stream.schema.names))
        wanted = arrow_schema(stream.schema)
        columns = [
            _times(one) if pa.types.is_timestamp(kind) else one for one, kind in zip(table, wanted.types, strict=True)
        ]
        table = pa.table(columns, names=wanted.names).cast(wanted)
    except (pa.ArrowException, OSError) as error:
        told = str(error).strip().splitlines()[0]
        raise SourceError(f"stream {stream.name}: cannot read {files[0].parent} as it is declared: {told}") from None
    if not table.num_rows:
        raise SourceError(f"stream {stream.name}: there are no rows in {files[0].parent}")
    timed = table.filter(pc.is_valid(table.column(stream.time))).sort_by(stream.time).combine_chunks()
    if not timed.num_rows:
        raise SourceError(f"stream {stream.name}: no row in {files[0].parent} has an event time ({stream.time})")
    times = timed.column(stream.time).cast(pa.int64()).to_numpy()
    return (stream, timed.to_batches()[0], np.asarray(times)), table.num_rows - timed.num_rows


def _times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times that are text as times: in UTC where they name no zone, as a run reads them."""
    if not pa.types.is_string(column.type):
        return column
    has_zone = pc.match_substring_regex(column, r":.*([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)$")
    nothing = pa.scalar(None, pa.string())
    zoned = pc.if_else(has_zone, column, nothing).cast(pa.timestamp("us", "UTC"))
    others = pc.if_else(has_zone, nothing, column).cast(pa.timestamp("us"))
    return pc.coalesce(zoned, pc.assume_timezone(others, "UTC"))


def _files(stream: Stream, sample: Path) -> list[Path]:
    folder = sample / stream.name
    found = sorted(folder.iterdir()) if folder.is_dir() else sorted(sample.glob(f"{stream.name}.*"))
    files = [file for file in found if file.suffix in FORMATS and not file.name.startswith((".", "_"))]
    if not files:
        known = ", ".join(FORMATS[:3])
        raise SourceError(
            f"stream {stream.name}: the sample has no {folder} with files ({known}) and no {folder}.parquet; "
            "record some of each stream, under its name"
        )
    return files


def _time_methods(plan: SharedPlan, feed: Feed, found: Findings) -> tuple[int, dict[str, float]]:
    """Times all joins by each method; gives the probes of all, and what each join takes by the best method."""
    probes = 0
    joined: dict[str, dict[str, float]] = {}
    for method in METHODS if any(group.is_join for group in plan.groups) else METHODS[:1]:
        for _ in range(ROUNDS):
            host = ShardHost(plan, ShardOptions(method=method), 1, {})
            done = [host.step(rows, at * INTERVAL_S, None) for at, rows in enumerate(feed.intervals)]
            spent_s = sum(one.spent_s for one in done)
            if spent_s < found.spent_s.get(method, inf):
                found.spent_s[method], joined[method] = spent_s, dict(host.joined_s)
            probes = sum(one.probes for one in done)
    return probes, joined[found.method]


def _weigh(group: Group, rows: list[Rows], joined_s: Mapping[str, float], found: Findings) -> None:
    """The paper's condition for a join, or why it has no choice."""
    if not group.is_join:
        return
    name = " x ".join(dict.fromkeys(str(input.stream) for input in group.inputs))
    reason = why_in_order(group)
    if reason is not None:
        found.in_order[name] = reason
        return
    told = {str(stream.name): (batch.num_rows, int(times[0]), int(times[-1])) for stream, batch, times in rows}
    load = load_of(group, told, joined_s.get(group.signature, 0.0))
    if load is not None:
        names = {str(input.stream) for input in group.inputs}
        rates = {stream: rate for stream, rate in load.rates.items() if stream in names}
        found.joins[name] = replace(load, rates=rates)


# --- telling


def pictures_of(found: Findings) -> list[Picture]:
    shown = [query for query in found.queries if any(one[query] < inf for one in found.responses_s.values())]
    lines = [
        Line(policy.upper(), shown, [None if one[query] == inf else one[query] for query in shown])
        for policy, one in found.responses_s.items()
    ]
    methods = [Line(name, ["all joins"], [spent]) for name, spent in found.spent_s.items()]
    strategies = [
        Line(name, shown, [None if one.responses_s[query] == inf else one.responses_s[query] for query in shown])
        for name, one in found.strategies.items()
    ]
    plans = [
        Chart(f"{'Trees' if one.is_tree else 'Orders'} of {one.join}", "plan", "processor, s",
              [Line(one.join, list(one.spent_s), list(one.spent_s.values()))], Kind.BARS)
        for one in found.plans
    ]  # fmt: skip
    return [
        Chart("Mean response, where bursts do not fit", "query", "seconds of the sample", lines, Kind.BARS),
        Chart("The same by operator strategy", "query", "seconds of the sample", strategies, Kind.BARS),
        Chart("Time of the whole sample, by join method", "", "processor, s", methods, Kind.BARS),
        *plans,
        *grids_of(found),
    ]


def grids_of(found: Findings) -> list[Grid]:
    policies = [
        [name, number(found.mean_s(name)), "best" if name == found.policy else ""] for name in found.responses_s
    ]
    methods = [
        [name + (" (scans)" if name in SCANNING else " (index)"), number(spent), "best" if name == found.method else ""]
        for name, spent in found.spent_s.items()
    ]
    joins = [
        [name, load.better(ALPHA).value, f"{number(load.sync_filter_s)} s", f"{number(load.filter_order_s)} s",
         f"{load.busy:.2g} {'>=' if load.busy >= ALPHA else '<'} {ALPHA:g}"]
        for name, load in found.joins.items()
    ]  # fmt: skip
    joins += [[name, "sync-filter", "", "", reason] for name, reason in found.in_order.items()]
    strategies = [
        [name, number(_mean(one.responses_s)), f"{one.queue_bytes:,}", "best" if name == found.strategy else ""]
        for name, one in found.strategies.items()
    ]
    plans = [
        [one.join, name, number(spent), _remark(one, name)]
        for one in found.plans
        for name, spent in one.spent_s.items()
    ]
    return [
        Grid("Scheduler", ("policy", "mean response, s", ""), policies),
        Grid("Operators", ("strategy", "mean response, s", "largest queues, bytes", ""), strategies),
        Grid("Plan", ("join method", "processor, s", ""), methods),
        *([Grid("Orders and trees", ("join", "plan", "processor, s", ""), plans)] if plans else []),
        Grid("Ordering", ("join", "approach", "expected, sync-filter", "expected, filter-order", "c|w|l1 l2"), joins),
    ]


def _remark(times: PlanTimes, name: str) -> str:
    told = ["best"] if name == _least(times.spent_s, times.own) else []
    return ", ".join([*told, "the engine's"] if name == times.own else told)
