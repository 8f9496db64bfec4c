"""How results are kept in order, decided by the driver between micro-batches: paper 004's Adaptive, and idle sources.

      end of a micro-batch   rates from heartbeats, join times from the shards  ->  c|w|l1 l2  ->  a join's approach
                             who was silent for longer than its idle_timeout    ->  sources that nobody waits for

Owns :class:`OrderingKeeper`. What it decides is written down for the next micro-batch before the current one is
committed (``orders``), so all shards do alike and a micro-batch that is run again does the same again. Time is the
driver's clock, looked at here only. Cost: a few operations for each join and source.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field, replace

from headrace.config import Settings
from headrace.engine.events import OrderingChosen
from headrace.engine.progressing import Idle
from headrace.model import Catalog, Stream
from headrace.plan.approaches import Approach, JoinLoad, asked_of, emits_early, first_approach, load_of, why_in_order
from headrace.plan.sharing import Group, SharedPlan
from headrace.spark.arrivals import COUNTS, Arrivals, Source
from headrace.spark.metrics import BatchFacts, JoinTold
from headrace.stats import OrderingStats

WEIGHT = 0.3
"""Of the last micro-batch's responses, against all before it."""

log = logging.getLogger("headrace.ordering")


@dataclass(slots=True)
class OrderingKeeper:
    """The approaches of the plan that runs, and the sources that are idle. ``chosen``: what tasks were told last."""

    settings: Settings
    catalog: Catalog
    started_s: float
    chosen: OrderingChosen = field(default_factory=OrderingChosen)
    switches: list[str] = field(default_factory=list)
    """Each change of an approach, and each source that became idle, with its numbers; until it is told."""
    _groups: dict[str, Group] = field(default_factory=dict)
    _approaches: dict[str, Approach] = field(default_factory=dict)
    _loads: dict[str, JoinLoad] = field(default_factory=dict)
    _responses_ms: dict[str, float] = field(default_factory=dict)
    _arrivals: Arrivals = field(default_factory=Arrivals)
    _spent_s: deque[float] = field(default_factory=lambda: deque(maxlen=COUNTS[-1]))
    """How long the slowest shard joined in each micro-batch that brought something, and those after it that did not."""
    _last: BatchFacts | None = None
    _joins: dict[int, dict[str, JoinTold]] = field(default_factory=dict)
    """What each shard told last of its joins: of malformed rows only one hears."""
    _heard_s: dict[Source, float] = field(default_factory=dict)
    _woken: bool = False

    def _asked(self, group: Group) -> Approach:
        return asked_of(group, self.settings.ordering)

    def adopt(self, plan: SharedPlan) -> None:
        """From now on this plan runs: joins that were there stay with their approach."""
        self._groups = {group.signature: group for group in plan.groups if group.is_join}
        before = self._approaches or dict.fromkeys(self.chosen.filter_order, Approach.FILTER_ORDER)
        self._approaches = {
            name: before.get(name, first) if self._adapts(group) else first
            for name, group in self._groups.items()
            for first in [first_approach(group, self._asked(group))]
        }
        self.chosen = replace(self.chosen, filter_order=self._filter_order())

    def _adapts(self, group: Group) -> bool:
        return self._asked(group) is Approach.ADAPTIVE and why_in_order(group) is None and not emits_early(group)

    def _filter_order(self) -> frozenset[str]:
        return frozenset(name for name, one in self._approaches.items() if one is Approach.FILTER_ORDER)

    # --- deciding

    def learn(self, facts: BatchFacts) -> bool:
        """Takes in what a micro-batch told; whether the next one is to be told something new."""
        self._woken = False
        self._look_back(facts)
        self._last = facts if facts.told else self._last  # of empty files no shard hears anything
        shards = [shard for shard, _ in facts.told]
        self._joins |= dict(zip(shards, facts.joins(), strict=True))
        self._measure_responses(facts)
        for name, group in self._groups.items():
            load = self._load(group)
            if load is not None:
                self._loads[name] = load
                if self._adapts(group):
                    self._adapt(facts.batch + 1, name, load)
        for source in facts.heard_from():
            self._heard_s[source] = facts.published_s
        chosen = OrderingChosen(self._filter_order(), self._silent(self._last, facts.published_s))
        self._tell_idle(facts.batch + 1, chosen.idle)
        before, self.chosen = self.chosen, chosen
        return chosen != before

    def _adapt(self, batch: int, name: str, load: JoinLoad) -> None:
        """Steps B and D of the paper; the hold buffer is emptied by the shards (steps E to L)."""
        better = load.better(self.settings.ordering_alpha)
        if better is not self._approaches[name]:
            self._approaches[name] = better
            self._say(batch, f"{name}: {NAMES[better]} from now on, {load.text(self.settings.ordering_alpha)}")

    def _say(self, batch: int, what: str) -> None:
        log.info("%s", what)
        self.switches.append(f"micro-batch {batch}: {what}")

    def _look_back(self, facts: BatchFacts) -> None:
        """Remembers what tells of rates and costs."""
        spent_s = _spent_s(facts)
        if self._arrivals.take(facts, self.catalog):
            self._spent_s.append(spent_s)
        elif self._spent_s:
            self._spent_s[-1] += spent_s

    def _load(self, group: Group) -> JoinLoad | None:
        """The load of a group by the last micro-batches, as many as tell of all its streams."""
        count = self._arrivals.count_for(str(one.stream) for one in group.inputs)
        return load_of(group, self._arrivals.rows(count), sum(list(self._spent_s)[-count:]))

    def _measure_responses(self, facts: BatchFacts) -> None:
        responses = facts.responses()
        for name, group in self._groups.items():
            mine = [responses[one.query] for cls in group.classes for one in cls.members if one.query in responses]
            rows = sum(one[0] for one in mine)
            if rows:
                mean_ms = sum(one[1] for one in mine) / rows
                before = self._responses_ms.get(name, mean_ms)
                self._responses_ms[name] = before + WEIGHT * (mean_ms - before)

    # --- idle sources

    def _sources(self, stream: Stream, facts: BatchFacts | None) -> list[Source]:
        """The sources of a stream that others wait for: those that were heard of, and, if some were not, the rest."""
        known = list(facts.sources().get(stream.name, {})) if facts is not None else []
        unheard = [None] if len(known) < (stream.partitions or 1) else []
        return [(stream.name, one) for one in (*known, *unheard)]

    def _silent(self, facts: BatchFacts | None, now_s: float) -> Idle:
        """Sources that have been silent for longer than their stream allows."""
        found = set()
        for stream in self.catalog.streams:
            if stream.idle_timeout_us is not None:
                for source in self._sources(stream, facts):
                    since_s = self._heard_s.get(source, self.started_s)
                    if now_s - since_s >= stream.idle_timeout_us / 1e6:
                        found.add(source)
        return frozenset(found)

    def _tell_idle(self, batch: int, idle: Idle) -> None:
        for stream, source in sorted(idle - self.chosen.idle, key=str):
            timeout_s = (self.catalog.get(stream).idle_timeout_us or 0) / 1e6
            which = "" if self.catalog.get(stream).partition is None else f", {_partition_text(source)},"
            self._say(batch, f"{stream}{which} is idle: nothing came for {timeout_s:g} s, so nobody waits for it")

    def wakes(self, now_s: float) -> bool:
        """Whether a micro-batch is needed, without input, because a source has become idle; said once."""
        if self._woken or self._silent(self._last, now_s) <= self.chosen.idle:
            return False
        self._woken = True
        return True

    # --- telling

    def take_switches(self) -> tuple[str, ...]:
        """Hands over what is new of them, once."""
        new, self.switches = tuple(self.switches), []
        return new

    def stats(self) -> tuple[OrderingStats, ...]:
        """Each join's approach, what it holds, and what was expected and measured."""
        last = self._last
        awaited = last.awaited(self._groups) if last is not None else {}
        found = []
        for name, approach in self._approaches.items():
            mine = [one[name] for one in self._joins.values() if name in one]
            load = self._loads.get(name)
            is_returning = approach is Approach.SYNC_FILTER and any(one.is_ahead for one in mine)
            found.append(
                OrderingStats(
                    name,
                    "returning" if is_returning else approach.value,
                    sum(one.held_results for one in mine),
                    sum(one.held_bytes for one in mine),
                    None if load is None else load.busy,
                    None if load is None else load.sync_filter_s * 1000,
                    None if load is None else load.filter_order_s * 1000,
                    None if load is None else load.gain,
                    self._responses_ms.get(name),
                    awaited.get(name, ()),
                    max((one.peak_bytes for one in mine), default=0),
                )
            )
        return tuple(found)


def _partition_text(source: str | None) -> str:
    if source is None:
        return "a partition that was not heard of yet"
    return f"partition {source}" if source else "what has no partition"


def _spent_s(facts: BatchFacts) -> float:
    """How long the slowest shard joined: all joins, because a tuple that has waited waits for those of other joins too
    (the paper's level of multiprogramming)."""
    return max((sum(told.spent_s for told in one.values()) for one in facts.joins()), default=0.0)


NAMES = {Approach.SYNC_FILTER: "Sync-Filter", Approach.FILTER_ORDER: "Filter-Order"}
