"""How multi-way joins are carried out, kept by the driver: orders that follow what is measured, grids that stay.

      end of a micro-batch   shards told what they hold and how many partners samples have  ->  facts  ->  best orders
      better by a share?     the next micro-batch has the new orders; the reason is logged, and in the statistics
      a key has too many     from a time on that none has reached, its tuples are split over the cells

Owns: :class:`JoinKeeper`. A group's grid is chosen when the group comes and written down in the checkpoint, because it
decides where tuples are held (keys that became heavy likewise, before a tuple is sent by it). Orders may change between
any two micro-batches; a later run begins with those that this one had come to (``join_records``). Cost: for joins of
three or more streams, a search over orders when a fact has moved since the last one; it takes seconds for more than a
dozen streams, so there it has a share of the time at most.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import TypeAlias

from headrace.config import Settings
from headrace.model import Catalog
from headrace.plan.costs import JoinFacts, Order
from headrace.plan.explain_joins import heavy_text, side_names
from headrace.plan.facts import Measured, declared_facts, measured_facts
from headrace.plan.hypercube import Grid, grid_of
from headrace.plan.joinplans import JoinPlan, buckets_of, expiry_us, plan_joins, with_buckets
from headrace.plan.methods import choices_for, cost_for, repriced
from headrace.plan.ordering import EXACT_SIDES, Choice
from headrace.plan.sharing import Group, SharedPlan
from headrace.plan.skew import LEAST_ROWS, SeenBySide, added_up, heavy_keys
from headrace.plan.switching import Switch, find_switch, is_better, main_change
from headrace.spark import arrivals
from headrace.spark.arrivals import Arrivals
from headrace.spark.join_records import JoinRecord, read_records, write_records
from headrace.spark.metrics import BatchFacts
from headrace.spark.orders import Work
from headrace.stats import OrderStats

COUNTS = (3, *arrivals.COUNTS)
"""Micro-batches that the rate of a stream is measured over."""

NOTABLE_UPKEEP = 1.5
"""By how much an interval or an index must differ to be changed."""
Upkeep: TypeAlias = tuple[dict[str, int], dict[str, tuple[int, ...]]]

SEARCHING = 0.05
"""The share of the time that may go into searches over the orders of a join of many streams."""

log = logging.getLogger("headrace.joins")


@dataclass(frozen=True, slots=True)
class Searched:
    """The facts that orders were last searched by, and when they may be again."""

    facts: JoinFacts
    again_s: float


@dataclass(slots=True)
class JoinKeeper:
    """The joins of the plan that runs. ``grids``: where they are written down."""

    settings: Settings
    grids: Path
    clock: Callable[[], float] = time.monotonic
    joins: dict[str, JoinPlan] = field(default_factory=dict)
    switches: list[str] = field(default_factory=list)
    """What was changed while running, and why; until it is told."""
    known: dict[str, Grid] = field(default_factory=dict)
    """The grids of all joins, also of such as were here before."""
    _groups: dict[str, Group] = field(default_factory=dict)
    _catalog: Catalog = field(default_factory=lambda: Catalog(()))
    _arrivals: Arrivals = field(default_factory=lambda: Arrivals(COUNTS))
    _then: dict[str, JoinFacts] = field(default_factory=dict)
    """What was measured when a group's orders last changed."""
    _most: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """The most that a group's windows were seen to hold."""
    _searched: dict[str, Searched] = field(default_factory=dict)
    _seen: dict[str, SeenBySide] = field(default_factory=dict)
    """By group, the keys of sides that too few tuples were seen of to judge by them."""
    _records: dict[str, JoinRecord] = field(default_factory=dict)
    _upkeep: Upkeep = field(default_factory=lambda: ({}, {}))
    """Intervals of expiry and sizes of indexes as they were last handed out."""

    def adopt(self, plan: SharedPlan) -> None:
        """From now on this plan runs: joins that were there stay as they are."""
        self._catalog = plan.catalog
        self.known = self.known or read_grids(self.grids)
        before, self.joins = self.joins, plan_joins(plan, self.settings, self.known, self.joins)
        self._searched = {signature: one for signature, one in self._searched.items() if signature in self.joins}
        self._then = {signature: facts for signature, facts in self._then.items() if signature in self.joins}
        self._most = {signature: most for signature, most in self._most.items() if signature in self.joins}
        self._groups = {group.signature: group for group in plan.groups if group.is_join}
        self._seen = {signature: seen for signature, seen in self._seen.items() if signature in self._groups}
        self._resume(self.joins.keys() - before.keys())
        found = {signature: one.grid for signature, one in self.joins.items()}
        for signature, group in self._groups.items():
            grid = None if group.graph is not None else grid_of(group, self.settings.shards)
            if grid is not None:
                found[signature] = self.known.get(signature, grid)
        self._keep(self.known | found)

    def _resume(self, signatures: Iterable[str]) -> None:
        """Joins that are new here begin with the orders that a run on this checkpoint had come to, if one had."""
        self._records = self._records or read_records(self._records_file)
        for signature in signatures:
            group, one = self._groups[signature], self._records.get(signature)
            if one is None or group.graph is None or group.is_tree:
                continue
            if one.fits(group.graph, self.settings.join_method):
                facts = one.facts(group, self.settings)
                choices = choices_for(self.settings.join_method, facts, self._tau_s)
                plan = self.joins[signature]
                self.joins[signature] = replace(plan, facts=facts, orders=one.orders, choices=choices, is_measured=True)
                self._then[signature] = facts
                if facts.most:
                    self._most[signature] = facts.most

    @property
    def _records_file(self) -> Path:
        return self.grids.with_name("joins.json")

    def _record(self, signature: str, orders: tuple[Order, ...], facts: JoinFacts) -> None:
        """Writes down the orders of a join as they are from now on."""
        self._records[signature] = JoinRecord.of(self.settings.join_method, orders, facts)
        write_records(self._records_file, self._records)

    def _keep(self, grids: dict[str, Grid]) -> None:
        if grids != self.known:
            self.known = grids
            write_grids(self.grids, grids)

    def applied(self, work: Work) -> Work:
        """The work with the joins as they are carried out now."""
        self._upkeep = expiry, buckets = self._chosen_upkeep()
        orders = {signature: one.orders for signature, one in self.joins.items()}
        options = replace(work.shard, orders=orders, expiry_us=expiry, buckets=buckets)
        grids = {name: self.known[name] for name in self._groups if name in self.known}
        return replace(work, shard=options, grids=grids)

    def _chosen_upkeep(self) -> Upkeep:
        """By group, the interval of expiry and the sizes of indexes, by what is known now."""
        expiry: dict[str, int] = {}
        buckets: dict[str, tuple[int, ...]] = {}
        for name, group in self._groups.items():
            facts = self.joins[name].facts if name in self.joins else None
            interval_us, shares = expiry_us(group, self.settings, facts), buckets_of(group, self.settings, facts)
            expiry |= {name: interval_us} if interval_us else {}
            buckets |= {name: shares} if shares else {}
        return expiry, buckets

    def learn(self, facts: BatchFacts) -> bool:
        """Takes in what a micro-batch told; whether anything has changed by it."""
        self._arrivals.take(facts, self._catalog)
        said = [*self._reordered(facts), *self._split(facts)]
        for reason in said:
            log.info("%s", reason)
            self.switches.append(f"micro-batch {facts.batch + 1}: {reason}")
        return bool(said) or _is_other(self._upkeep, self._chosen_upkeep())

    def take_switches(self) -> tuple[str, ...]:
        """Hands over what is new of them, once."""
        new, self.switches = tuple(self.switches), []
        return new

    def _reordered(self, facts: BatchFacts) -> Iterator[str]:
        """Leaves orders for better ones; why."""
        threshold = self.settings.order_switch
        for signature, shards in facts.measured().items():
            group = self._groups.get(signature)
            if group is not None and group.is_tree:
                self._switched(group, shards, inf)  # it has no orders, but what is known of it counts
            elif group is not None:
                switches = self._switched(group, shards, inf if threshold is None else threshold)
                yield from (switch.reason for switch in switches)

    def _split(self, facts: BatchFacts) -> Iterator[str]:
        """Splits keys that too many tuples have, from a time on that no tuple of the join has reached; which."""
        for signature, new in facts.seen().items():
            seen = added_up(self._seen.get(signature, {}), new)
            self._seen[signature] = {place: one for place, one in seen.items() if one.rows < LEAST_ROWS}
            grid, group = self.known.get(signature), self._groups.get(signature)
            if grid is None or group is None or group.is_tree:
                continue
            newest_us = facts.newest_us(one.stream for one in group.inputs)
            if newest_us is None:
                continue
            heavy = heavy_keys(seen, grid, newest_us, grid.heavy)
            if heavy != grid.heavy:
                split = replace(grid, heavy=heavy)
                self._keep(self.known | {signature: split})
                if signature in self.joins:
                    self.joins[signature] = replace(self.joins[signature], grid=split)
                yield from (heavy_text(group, split, one, seen) for one in heavy if one not in grid.heavy)

    def orders(self) -> tuple[OrderStats, ...]:
        """The orders in use, by name."""
        found = []
        for signature, join in self.joins.items():
            if self._groups[signature].is_tree:
                continue
            names = side_names(self._groups[signature])
            for origin, order in enumerate(join.orders):
                found.append(OrderStats(signature, names[origin], tuple(names[side] for side in order)))
        return tuple(found)

    def _switched(self, group: Group, shards: list[Measured], threshold: float) -> list[Switch]:
        """The orders of a group that are left for better ones."""
        join, names = self.joins[group.signature], side_names(group)
        rates = self._rates(group, join.grid)
        if rates is None or not any(sum(one.held_rows) for one in shards):
            return []
        now = with_buckets(group, self.settings, measured_facts(group, rates, shards))
        now = replace(now, most=self._most_of(group, join.grid, now.sizes))
        method, tau_s = self.settings.join_method, self._tau_s
        choices = self._choices(group, now)
        costs = [cost_for(method, now, origin, order, tau_s) for origin, order in enumerate(join.orders)]
        if method == "naive":  # one order for all: it is left as a whole
            is_worth_it = is_better(sum(costs), sum(choice.cost for choice in choices), threshold)
            threshold = -inf if is_worth_it else inf
        # What was only declared is no ground for telling what changed.
        then = self._then.setdefault(group.signature, now)
        found = [
            find_switch(choice, order, then, now, threshold, names, cost)
            for choice, order, cost in zip(choices, join.orders, costs, strict=True)
        ]
        switches = [one for one in found if one is not None]
        orders = tuple(old if one is None else one.after for old, one in zip(join.orders, found, strict=True))
        if switches:
            self._then[group.signature] = now
            self._record(group.signature, orders, now)
        self.joins[group.signature] = replace(join, facts=now, orders=orders, choices=choices, is_measured=True)
        return switches

    def _most_of(self, group: Group, grid: Grid, sizes: tuple[float, ...]) -> tuple[float, ...]:
        """The most that each window of a cell was seen to hold; of one that was always empty, what is declared."""
        before = self._most.get(group.signature, sizes)
        self._most[group.signature] = seen = tuple(map(max, before, sizes))
        declared = declared_facts(group, self._catalog).sizes
        return tuple(most or declared[side] * grid.part(side) for side, most in enumerate(seen))

    def _choices(self, group: Group, now: JoinFacts) -> tuple[Choice, ...]:
        """The best orders by what is known now. They are searched for if a fact has moved notably since that was last
        done; those found then cost something else now."""
        method, signature, begun_s = self.settings.join_method, group.signature, self.clock()
        last = self._searched.get(signature)
        if group.is_tree or (last is not None and not self._is_due(last, now, side_names(group), begun_s)):
            return tuple(repriced(method, now, one, self._tau_s) for one in self.joins[signature].choices)
        found = choices_for(method, now, self._tau_s)
        ended_s = self.clock()
        rest_s = (ended_s - begun_s) / SEARCHING if len(group.sides) > EXACT_SIDES else 0.0
        self._searched[signature] = Searched(now, ended_s + rest_s)
        return found

    @staticmethod
    def _is_due(last: Searched, now: JoinFacts, names: list[str], now_s: float) -> bool:
        return now_s >= last.again_s and main_change(last.facts, now, names) is not None

    @property
    def _tau_s(self) -> float:
        return self.settings.reevaluate_us / 1e6

    def _rates(self, group: Group, grid: Grid) -> tuple[float, ...] | None:
        """Tuples a second of event time that come to a cell, by side: of each stream, by the last micro-batches that
        tell enough of it, over the time that it brought itself, as the others may be anywhere. One whose tuples are all
        of one time is taken to have come in the others'. None before there is such a time."""
        streams = [str(group.input_of(side).stream) for side in range(len(group.sides))]
        known = [self._arrivals.rows(self._arrivals.count_for([one])).get(one, (0, 0, 0)) for one in streams]
        spans_us = [newest_us - oldest_us for _, oldest_us, newest_us in known]
        longest_us = max(spans_us)
        if not longest_us:
            return None
        return tuple(
            rows * 1e6 / (span_us or longest_us) * grid.part(side)
            for side, ((rows, _, _), span_us) in enumerate(zip(known, spans_us, strict=True))
        )


def _is_other(before: Upkeep, now: Upkeep) -> bool:
    """Whether upkeep is so different that tasks should be told."""
    if before[0].keys() != now[0].keys() or before[1].keys() != now[1].keys():
        return True
    pairs = [(one, now[0][name]) for name, one in before[0].items()]
    pairs += [pair for name, some in before[1].items() for pair in zip(some, now[1][name], strict=True)]
    return any(max(pair) > NOTABLE_UPKEEP * min(pair) for pair in pairs)


def read_grids(path: Path) -> dict[str, Grid]:
    """The grids that were written down; none where there is no such file."""
    if not path.exists():
        return {}
    return {signature: Grid.from_json(told) for signature, told in json.loads(path.read_text()).items()}


def write_grids(path: Path, grids: Mapping[str, Grid]) -> None:
    aside = path.with_name(f".{path.name}")
    aside.write_text(json.dumps({signature: grid.to_json() for signature, grid in grids.items()}, indent=1) + "\n")
    aside.rename(path)
