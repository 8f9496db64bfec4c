"""Which probes trees may make, kept by the driver: what shards measured becomes allowances for the next micro-batch.

      end of a micro-batch   shards told what half-way joins were offered, made and found, and what it took
      moved by a share?      probes are allocated anew (``plan/allocators``); the reason is logged, and in the stats
      next micro-batch       every shard is allowed its part, by its load; all look it up under the micro-batch's number

Time is cut into micro-batches, so rates are by the time from one to the next, and an allowance is a rate times that.
A budget of time is a service rate by what probes cost, as measured, of the shard with the most to do. Beside queries
that defer each kind has half of it, and what the other leaves: neither starves the other. Several trees share what
there is max-min fair, by what each needs for every probe (``plan/service_parts``).

Owns: :class:`AllocationKeeper`. Cost: an allocation, quadratic in the streams, where something moved; its own time is
in the statistics.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isinf

from headrace.config import Settings
from headrace.engine.tree_join import Choice, HalfTally, TreeOptions
from headrace.plan.allocating import (
    NEARLY,
    Allocation,
    AllocationProblem,
    ProbeFacts,
    Retention,
    unlimited_productivity,
)
from headrace.plan.explain_joins import side_names
from headrace.plan.explain_trees import unfresh_text
from headrace.plan.reallocating import reason_to_reallocate
from headrace.plan.service_parts import fair_parts
from headrace.plan.sharing import Group, SharedPlan
from headrace.plan.spare import spare_of
from headrace.plan.tree_choice import TreeChoice
from headrace.plan.tree_drawing import draw_tree
from headrace.plan.tree_plans import (
    FIRST_PROBE_US,
    TreePlan,
    allocated,
    first_period_s,
    first_service,
    plan_tree,
    retention_of,
    tree_problem,
)
from headrace.plan.trees import JoinTree, Sides, half_text
from headrace.spark.joins import JoinKeeper
from headrace.spark.metrics import BatchFacts
from headrace.spark.orders import Work
from headrace.spark.tree_meter import TELLING_PROBES, TreeMeter
from headrace.spark.tree_told import Allowed, TreeTold
from headrace.stats import HalfWayStats, TreeStats

LEAST_SHARE = 0.1
"""Of a budget, for probes, however long all else takes."""
LONGEST_S = 60.0
"""From one micro-batch to the next, with a trigger that is shorter: beyond it nothing came, and nothing was done."""
ASSURED = 0.5
"""Of a budget of time, to those that leave probes out and to those that defer, where there are both."""
LATELY = 5
"""Micro-batches that the time to publication is looked up in."""

log = logging.getLogger("headrace.allocation")


@dataclass(slots=True)
class RunningTree:
    """A group's tree as it runs."""

    group: Group
    names: list[str]
    tree: JoinTree
    choice: TreeChoice | None
    meter: TreeMeter
    allocation: Allocation
    taken: float = 0.0
    """Of what all trees share, what its allowances take."""
    state_rows: dict[Sides, int] = field(default_factory=dict)
    """Where states in between keep a number of tuples: what windows would hold, by what was known at first."""
    allocations: int = 0
    allocation_ms: float = 0.0
    stale: int = 0
    left_out: int = 0
    purged: int = 0
    released_late: int = 0
    last: tuple[HalfTally, ...] = ()
    unreleased: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """A tree's problem with its service rate; of what all trees share, what it needs and what it may have."""

    problem: AllocationProblem
    need: float
    part: float

    @property
    def taken(self) -> float:
        return min(self.need, self.part)


@dataclass(slots=True)
class AllocationKeeper:
    """The trees of the plan that runs. ``joins`` knows what their streams are like."""

    settings: Settings
    joins: JoinKeeper
    trees: dict[str, RunningTree] = field(default_factory=dict)
    moves: list[str] = field(default_factory=list)
    """Each allocation that was worked out again, with its micro-batch and its reason; until it is told."""
    _began_s: float | None = None
    _period_s: float = 0.0
    _defers: bool = False
    """Whether there are queries that defer, too."""
    _deferring_us: float = 0.0
    """What the slowest shard took for them, lately."""
    _is_shared_anew: bool = False
    """Whether there are trees that were not there when the others were allocated their parts."""
    _lags_us: deque[float] = field(default_factory=lambda: deque(maxlen=LATELY))

    def adopt(self, plan: SharedPlan) -> None:
        """From now on this plan runs: trees that were there stay as they are."""
        groups = {group.signature: group for group in plan.groups if group.is_tree}
        self.trees = {name: self.trees.get(name) or self._planted(group) for name, group in groups.items()}
        coming = [name for name, one in self.trees.items() if not one.allocations]
        shares = self._shares({name: one.allocation.problem for name, one in self.trees.items()})
        for name in coming:
            self._allocate(name, shares)
        self._is_shared_anew = bool(coming)
        self._defers = any(not group.adapts for group in plan.groups)

    def _planted(self, group: Group) -> RunningTree:
        """A tree to which nothing is allocated yet."""
        facts = self.joins.joins[group.signature].facts
        tree, choice = plan_tree(group, self.settings, facts)
        problem = tree_problem(group, tree, facts, inf, self.settings)
        meter = TreeMeter([HalfTally() for _ in tree.half_ways])
        nothing = Allocation("none", problem, (0.0,) * len(problem.probes))
        rows = self._state_rows(group, tree, problem)
        return RunningTree(group, side_names(group), tree, choice, meter, nothing, state_rows=rows)

    def applied(self, work: Work) -> Work:
        """The work with the trees as they are run."""
        trees = {
            signature: TreeOptions(one.tree, Choice(self.settings.probe_choice), state_rows=one.state_rows)
            for signature, one in self.trees.items()
            if one.group.adapts
        }
        return replace(work, shard=replace(work.shard, trees=trees))

    def _state_rows(self, group: Group, tree: JoinTree, problem: AllocationProblem) -> dict[Sides, int]:
        if retention_of(group, self.settings) is Retention.WINDOW:
            return {}
        held = dict(zip(tree.states, problem.held, strict=True))
        return {state: max(1, round(held[state] / self.settings.shards)) for state in tree.susceptible}

    # --- what is measured

    def learn(self, facts: BatchFacts) -> bool:
        """Takes in what a micro-batch told; whether the next one should be told what may be probed."""
        if not self.trees:
            return False
        self._time(facts)
        trees = facts.trees()
        self._time_publication(facts, trees)
        if self._defers and self._budget_us:
            self._deferring_us += 0.5 * (self.deferring(facts)[0] - self._deferring_us)
        for signature, shards in trees.items():
            one = self.trees.get(signature)
            if one is not None and shards:
                self._count(one, facts, shards)
        self._reallocate([name for name, shards in trees.items() if name in self.trees and shards], facts.batch)
        return True

    def _time(self, facts: BatchFacts) -> None:
        first = first_period_s(self.settings)
        if self._began_s is not None:
            longest_s = max(LONGEST_S, 2 * self.settings.trigger_us / 1e6)
            passed_s = min(max(facts.began_s - self._began_s, 1e-3), longest_s)
            self._period_s += 0.5 * (passed_s - self._period_s)
        self._period_s = self._period_s or first
        self._began_s = facts.began_s

    def _count(self, one: RunningTree, facts: BatchFacts, shards: Mapping[int, TreeTold]) -> None:
        one.meter.add(shards, self._period_s)
        one.last = tuple(map(_added, zip(*(told.tallies for told in shards.values()), strict=True)))
        one.stale += sum(half.stale for half in one.last)
        one.left_out += sum(half.left_out for half in one.last)
        one.purged += sum(told.purged for told in shards.values())
        one.stale += facts.withheld.left_out.get(one.group.signature, 0)
        one.released_late += one.group.signature in facts.withheld.late

    def _time_publication(self, facts: BatchFacts, trees: Mapping[str, Mapping[int, TreeTold]]) -> None:
        """How long after the first of its steps a micro-batch was published."""
        stepped_us = [told.stepped_us for shards in trees.values() for told in shards.values()]
        if stepped_us:
            self._lags_us.append(max(facts.published_s * 1e6 - min(stepped_us), 0.0))

    @property
    def _budget_us(self) -> float:
        budget = self.settings.budget
        return float(budget.time_us or 0) if budget is not None else 0.0

    def deferring(self, facts: BatchFacts) -> tuple[float, float]:
        """What the slowest shard took for queries that defer in a micro-batch; and what of a budget of time they may
        take in the next: what those that leave probes out did not, and ``ASSURED`` of it at least."""
        adapting = [
            some for name, some in facts.trees().items() if name in self.trees and self.trees[name].group.adapts
        ]
        left_out = {shard: sum(one[shard].spent_us for one in adapting if shard in one) for shard, _ in facts.told}
        others = [1e3 * facts.joined_ms(told) - left_out[shard] for shard, told in facts.told]
        rest_us = self._budget_us - max(left_out.values(), default=0.0)
        return max(others, default=0.0), max(rest_us, ASSURED * self._budget_us)

    @property
    def ahead_us(self) -> int:
        """How long after a step results are taken to be published: as long as lately at most, and a little more."""
        return round(1.2 * max(self._lags_us, default=0.0))

    # --- allocating

    def _reallocate(self, told: Sequence[str], batch: int) -> None:
        """Allocates anew where something moved; and, if all together would then take more than there is, where more is
        taken than a tree's part."""
        before = {name: one.allocation.problem for name, one in self.trees.items()}
        shares = self._shares(before | {name: self._problem(self.trees[name]) for name in told})
        for name in told:
            one = self.trees[name]
            reason = reason_to_reallocate(before[name], shares[name].problem, one.names, self.settings.reallocate)
            self._time_against_freshness(one)
            if reason is None and self._keeps_too_much(one, shares[name]):
                reason = "it needs less of the service rate than its part"
            if reason is not None:
                self._reallocated(name, shares, batch, reason)
        adapting = [one for one in self.trees.values() if one.group.adapts]
        if self._is_shared_anew and sum(one.taken for one in adapting) > self._service * (1 + NEARLY):
            for name in told:
                if self.trees[name].taken > shares[name].taken * (1 + NEARLY):
                    self._reallocated(name, shares, batch, "others need more of the service rate")
        self._is_shared_anew = False

    def _keeps_too_much(self, one: RunningTree, share: Share) -> bool:
        """Whether a tree is allowed more than it needs, so that others are allowed less."""
        several = sum(other.group.adapts for other in self.trees.values()) > 1
        return several and not isinf(share.problem.mu) and one.taken > share.need * (1 + self.settings.reallocate)

    def _reallocated(self, name: str, shares: Mapping[str, Share], batch: int, reason: str) -> None:
        one = self.trees[name]
        left_nothing_out = one.allocation.is_unlimited
        self._allocate(name, shares)
        self._is_shared_anew = True
        if not (left_nothing_out and one.allocation.is_unlimited):
            self.moves.append(f"micro-batch {batch + 1}: probes of {one.tree.text(one.names)} allocated anew: {reason}")
            log.info("%s", self.moves[-1])

    def _allocate(self, name: str, shares: Mapping[str, Share]) -> None:
        one, share = self.trees[name], shares[name]
        began_s = time.perf_counter()
        one.allocation = allocated(one.group, share.problem, self.settings)
        one.allocation_ms = (time.perf_counter() - began_s) * 1e3
        one.allocations += 1
        one.taken = share.taken
        self._report(one)

    def _problem(self, one: RunningTree) -> AllocationProblem:
        """What is known now, without a limit: what was measured by half-way join where that says something,
        samples where not."""
        facts, meter, tree = self.joins.joins[one.group.signature].facts, one.meter, one.tree
        numbers = {half: number for number, half in enumerate(tree.half_ways)}
        rates = [meter.rate(numbers[tree.path(side)[0]]) for side in tree.sides]
        is_timed = self._is_timed and one.group.adapts
        cells = self.settings.shards
        known = tree_problem(one.group, tree, facts, inf, self.settings, rates, cells=cells)
        full, probes = known.full_of, []
        for number, half in enumerate(tree.half_ways):
            told, productivity = meter.halves[number], known.probes[number].productivity
            if told.probed >= TELLING_PROBES:
                came = meter.rate(numbers[next(other for other in tree.half_ways if other.own == half.partner)])
                share = came / full[half.partner] if full[half.partner] else 0.0
                fill = 1.0 if len(half.partner) == 1 or known.retention is Retention.COUNT else min(share, 1.0)
                productivity = unlimited_productivity(told.found / told.probed, fill, productivity)
            probes.append(ProbeFacts(productivity, meter.cost_us(number) if is_timed else 1.0))
        held = known.held
        if known.retention is Retention.COUNT and meter.held:
            held = tuple(map(float, meter.held))
        return replace(known, probes=tuple(probes), held=held)

    def _shares(self, problems: Mapping[str, AllocationProblem]) -> dict[str, Share]:
        """The trees' problems, each with its part of the service rate. What a tree is allowed now is not another's."""
        needs = {name: self._need(self.trees[name], problem) for name, problem in problems.items()}
        adapting = [name for name in problems if self.trees[name].group.adapts]
        parts = fair_parts(self._service, [max(needs[name], self.trees[name].taken) for name in adapting])
        found = {name: Share(problem.with_mu(inf), needs[name], inf) for name, problem in problems.items()}
        for name, part in zip(adapting, parts, strict=True):
            problem = problems[name].with_mu(self._mu(self.trees[name].meter, part))
            found[name] = Share(problem, needs[name], part)
        return found

    @property
    def _is_timed(self) -> bool:
        """Whether costs are in microseconds rather than in probes."""
        return self.settings.service_rate is None and bool(self._budget_us)

    @property
    def _service(self) -> float:
        """What trees share: probes a second, or of a budget of time what a micro-batch may take on the shard with the
        most to do."""
        if not self._is_timed:
            settings, period_s = self.settings, self._period_s or first_period_s(self.settings)
            probes = None if settings.budget is None or settings.service_rate is not None else settings.budget.probes
            return first_service(settings) if probes is None else probes / period_s
        budget_us = self._budget_us
        return max(budget_us - self._deferring_us, ASSURED * budget_us) if self._defers else budget_us

    def _conversion(self, meter: TreeMeter) -> tuple[float, float]:
        """What a tree takes for all but probes, and for a unit of cost a second, of what all trees share."""
        if not self._is_timed:
            return 0.0, 1.0
        period_s = self._period_s or first_period_s(self.settings)
        if not meter.seconds:
            return 0.0, FIRST_PROBE_US * period_s / self.settings.shards
        return meter.other_us, meter.largest_share * period_s

    def _need(self, one: RunningTree, problem: AllocationProblem) -> float:
        """What a tree takes with every probe."""
        other, unit = self._conversion(one.meter)
        probes = problem.saturation.spent * unit
        return min(other + probes, probes / LEAST_SHARE)

    def _mu(self, meter: TreeMeter, part: float) -> float:
        """The service rate of a tree that may have this part."""
        other, unit = self._conversion(meter)
        return max(part - other, LEAST_SHARE * part) / unit

    def _report(self, one: RunningTree) -> None:
        for text in _unfresh(one):
            log.warning("infeasible: %s", text)

    def infeasible(self, one: RunningTree) -> tuple[str, ...]:
        """What cannot be kept fresh, by name of state and stream."""
        return (*_unfresh(one), *one.unreleased)

    def _time_against_freshness(self, one: RunningTree) -> None:
        """Says so in the log as soon as results are too late for a stream, once for as long as they are."""
        before, one.unreleased = one.unreleased, tuple(self._too_slow(one))
        for text in one.unreleased if not before else ():
            log.warning("infeasible: %s", text)

    def _too_slow(self, one: RunningTree) -> list[str]:
        """Streams whose tuples are too old by the time that anything is published."""
        lag_s = max(self._lags_us, default=0.0) / 1e6
        loads = zip(one.names, one.allocation.problem.loads, strict=True)
        return [
            f"results are published {lag_s:.1f} s after their step, later than {name} may be old "
            f"({load.freshness_s:g} s); allow a longer FRESHNESS or a shorter trigger"
            for name, load in loads
            if load.freshness_s < lag_s
        ]

    # --- what is told

    def take_moves(self) -> tuple[str, ...]:
        """Hands over what is new of them, once."""
        new, self.moves = tuple(self.moves), []
        return new

    def allowed(self) -> Allowed:
        """What the next micro-batch may do."""
        period_s = self._period_s or first_period_s(self.settings)
        probes, spare = {}, {}
        for signature, one in self.trees.items():
            if isinf(one.allocation.problem.mu):
                continue
            left = spare_of(one.allocation, self._mu(one.meter, one.taken + self._left))
            if left is not None:
                shares = {shard: self._spare_share(one.meter, shard) for shard in range(self.settings.shards)}
                spare[signature] = {shard: left.times(share * period_s) for shard, share in shares.items()}
            probes[signature] = {
                shard: tuple(
                    allowed * period_s * one.meter.share(shard, number, self.settings.shards)
                    for number, allowed in enumerate(one.allocation.allowances)
                )
                for shard in range(self.settings.shards)
            }
        return Allowed(probes, self.ahead_us, spare)

    @property
    def _left(self) -> float:
        """Of what all trees share, a tree's part of what none of them takes."""
        taken = [one.taken for one in self.trees.values() if one.group.adapts]
        return max(0.0, self._service - sum(taken)) / len(taken)

    def _spare_share(self, meter: TreeMeter, shard: int) -> float:
        """A shard's part of what there is to spare. Each has its own time; probes are shared by load, and by half for
        keys to come where few were."""
        if self._is_timed and meter.seconds:
            return meter.largest_share
        total = sum(map(sum, meter.loads.values()))
        load = sum(meter.loads.get(shard, ())) / total if total else 1 / self.settings.shards
        return (load + 1 / self.settings.shards) / 2

    def plans(self) -> dict[str, TreePlan]:
        """For EXPLAIN."""
        return {name: TreePlan(one.tree, one.choice, one.allocation) for name, one in self.trees.items()}

    def picture(self, signature: str) -> str | None:
        """A group's tree with its allocation as it is now, as SVG; None where no such tree runs."""
        one = self.trees.get(signature)
        return None if one is None else draw_tree(one.allocation, one.names)

    def stats(self) -> tuple[TreeStats, ...]:
        return tuple(self._stats(name, one) for name, one in self.trees.items())

    def _stats(self, name: str, one: RunningTree) -> TreeStats:
        allocation, seconds = one.allocation, self._period_s or 1.0
        root = len(one.tree.joins) - 1
        made = sum(half.found for half, way in zip(one.last, one.tree.half_ways, strict=False) if way.join == root)
        halves = tuple(
            HalfWayStats(
                half_text(half, one.names),
                told.offered,
                told.probed,
                told.found,
                told.stale,
                max(allowed * seconds, told.probed),
            )
            for half, told, allowed in zip(one.tree.half_ways, one.last, allocation.allowances, strict=False)
        )
        return TreeStats(
            name,
            one.tree.text(one.names),
            allocation.allocator,
            halves,
            made / seconds,
            allocation.problem.saturation.throughput,
            allocation.problem.mu,
            allocation.freshness_share,
            one.left_out,
            one.stale,
            one.purged,
            one.released_late,
            self.infeasible(one),
            one.allocations,
            one.allocation_ms,
        )


def _unfresh(one: RunningTree) -> list[str]:
    """What the allocation cannot keep fresh."""
    return [unfresh_text(one.allocation.problem, missed, one.names) for missed in one.allocation.unfresh]


def _added(tallies: Iterable[HalfTally]) -> HalfTally:
    total = HalfTally()
    for one in tallies:
        total.add(one)
    return total
