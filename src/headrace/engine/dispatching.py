"""Turns within a micro-batch's budget: which operator of the shard's graph takes what waits before it.

      blocks -> [join] -> items -> [select-project] -> items -> [aggregate]         queues carried over in the state
                    \\_____________ a strategy chooses a unit of these (paper 003) ______/

Owns :class:`Pace` (what operators are like, as all shards are told) and :class:`Dispatcher`. Queues are weighed by what
heartbeats told and by those facts, which also say how many tuples a shard has for one that was heard of, and never by a
shard's own rows: so all shards choose alike, and what one of them completes in a micro-batch all of them do. Time is
counted in steps: what counts against the memory limit is what is carried over from one to the next, and before a step's
end what it will be, as far as the budget tells.
Invariant: without a limit all that waits is done. Cost: what waits is added up once a step; then a choice for each
turn, however much waits. The graph is made once for a plan (``apart``), the units once for it and a set of facts
(``strategies``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.engine.budget import ProbeBudget
from headrace.engine.choosing import Scheduler
from headrace.engine.downstream import WorkDone
from headrace.engine.events import Effect
from headrace.engine.measuring import Meters, WorkReport
from headrace.engine.operators import GroupOperator
from headrace.engine.strategies import QueueState, StrategyMemory, StrategyOptions, Unit, Waiting
from headrace.plan.capacities import OperatorFacts, assumed_facts, passed_on, work_upward_s
from headrace.plan.opgraph import OperatorGraph, OperatorKind, OperatorName

UNKNOWN_JOIN = OperatorFacts(1e-6, 1.0, 100.0, 100.0)
UNKNOWN = OperatorFacts(2e-7, 1.0, 100.0, 100.0)
UNMEASURED = dict.fromkeys(OperatorKind, UNKNOWN) | {OperatorKind.JOIN: UNKNOWN_JOIN}
"""What operators are taken to be like until one of their kind has been measured."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What all shards know alike of the operators, the host's clocks, and over how many shards a stream's tuples are
    dealt out. ``processor``: a clock of the processor's time alone, to measure operators by: whatever else the machine
    does makes none of them slower; without one it is ``clock``."""

    facts: Mapping[OperatorName, OperatorFacts] = field(default_factory=dict)
    clock: Callable[[], float] | None = None
    shards: int = 1
    processor: Callable[[], float] | None = None

    def now_s(self) -> float:
        return 0.0 if self.clock is None else self.clock()

    def worked_s(self) -> float:
        return self.now_s() if self.processor is None else self.processor()


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Which strategy, how it is kept from starving anyone, and the memory that queues may take in a shard."""

    strategy: str = "threshold"
    fairness: str = "oldest"
    limit_bytes: int | None = None

    @property
    def options(self) -> StrategyOptions:
        return StrategyOptions(limit_bytes=self.limit_bytes, mean_over_s=20.0, oldest_every_s=1.0)


class Dispatcher:
    """The turns of one shard. ``joins``: by the name of each group's join (or scan), its operator."""

    def __init__(
        self,
        graph: OperatorGraph,
        groups: Mapping[OperatorName, GroupOperator],
        scheduling: Scheduling,
        memory: StrategyMemory,
    ) -> None:
        self._graph = graph
        self._joins = {name: one for name, one in groups.items() if one.group.is_join}
        self._stages = {stage: one for one in groups.values() for stage in one.downstream.stages}
        self._by_name = groups
        self._groups = tuple(groups.values())
        self._leaves = frozenset(graph.leaves)
        """What reads a stream, joins and scans: weighed by what heartbeats told of it."""
        self._scheduling = scheduling
        self._memory = memory
        memory.keep_only(graph.names)
        self.meters = Meters()
        self.turns: dict[OperatorName, int] = {}
        self.most_bytes = 0
        """The most that waited here at any time of the step, with all that came in it."""
        self._pace = Pace()

    def work(self, budget: ProbeBudget, pace: Pace, step: int) -> Iterator[Effect]:
        """Takes turns while the budget allows, or until nothing waits."""
        self._pace = pace
        facts = self._facts()
        scheduler = self._scheduler(facts)
        self._weigh()
        states = {name: state for name in self._graph.names if (state := self._state(name, facts)) is not None}
        work_s = work_upward_s(self._graph, facts)
        # Asked before anything is chosen: what is chosen is remembered as served.
        while states and budget.allows(self._rows(), self._beyond(_size_bytes(states))):
            waits_s = sum(state.tuples * work_s[name] for name, state in states.items())
            kept_bytes = _size_bytes(states) * _share_left(waits_s / self._probe_s(facts), budget)
            unit = scheduler.next_unit(Waiting(float(step), states, kept_bytes, is_forecast=True))
            if unit is None:
                break
            self._watch()
            yield from self._run(unit, budget, facts)
            for name in self._touched(unit):
                states.pop(name, None)
                state = self._state(name, facts)
                if state is not None:
                    states[name] = state
        # What is left is what the next step begins with: a strategy's mode and mean follow it, nothing is chosen.
        scheduler.units(Waiting(step + 1.0, states, _size_bytes(states)))

    def _scheduler(self, facts: Mapping[OperatorName, OperatorFacts]) -> Scheduler:
        how = self._scheduling
        return Scheduler.of(how.strategy, how.fairness, self._graph, facts, how.options, self._memory)

    def _touched(self, unit: Unit) -> Iterable[OperatorName]:
        """The operators before which something else waits after a unit's turn, in the same order on all shards."""
        readers = (reader for name in unit.operators for reader in self._graph.consumers[name])
        return dict.fromkeys((*unit.operators, *readers))

    def _rows(self) -> int:
        return sum(one.backlog_rows for one in self._groups)

    def _beyond(self, size_bytes: float) -> bool:
        """Whether queues take more memory than they may, as far as all shards can tell: then sources have to wait."""
        options = self._scheduling.options
        return options.limit_bytes is not None and size_bytes > options.beta * options.limit_bytes

    def _facts(self) -> dict[OperatorName, OperatorFacts]:
        return assumed_facts(self._graph, self._pace.facts, UNMEASURED)

    def _state(self, name: OperatorName, facts: Mapping[OperatorName, OperatorFacts]) -> QueueState | None:
        """What waits before an operator; None: nothing."""
        if name in self._joins:
            join = self._joins[name]
            if not join.pending:
                return None
            sums, one = join.summed(), facts[name]
            size_bytes = _stored(join, one) * one.input_bytes + sums.scanned * _held_bytes(one)
            return QueueState(sums.probes * one.per_weight, size_bytes, float(join.pending[0].came))
        stage = self._stages[name].downstream.stages[name]
        if not stage.items:
            return None
        tuples = stage.weight * facts[name].per_weight
        return QueueState(tuples, tuples * facts[name].input_bytes, float(stage.items[0].came))

    def _run(self, unit: Unit, budget: ProbeBudget, facts: Mapping[OperatorName, OperatorFacts]) -> Iterator[Effect]:
        """A turn of each of the unit's operators, bottom up, for what waits there or has come up to it. What their
        tuples take is charged, not how many they are: a probe of the budget is as long as the mean join's."""
        for name in filter(self._is_busy, unit.operators):
            one = facts[name]
            if name in self._joins:
                turn = ProbeBudget(self._left(name, budget, facts))
                readers = self._graph.consumers[name]
                parts = {reader: one.per_weight * passed_on(one, facts[reader]) for reader in readers}
                work = self._joins[name].join_turn(turn, parts, is_oldest=unit.is_oldest)
                yield from self._measured(name, work)
                weight = float(turn.spent)
            else:
                weight = self._stages[name].downstream.stages[name].items[0].weight
                made = self._stages[name].downstream.run(name, one.per_weight * one.selectivity)
                yield from self._measured(name, made)
            budget.charge(round(weight * one.per_weight * one.service_s / self._probe_s(facts)))
            self._watch()

    def _left(self, name: OperatorName, budget: ProbeBudget, facts: Mapping[OperatorName, OperatorFacts]) -> int | None:
        """What is left of a budget, in probes of a join's own."""
        if budget.limit is None:
            return None
        left, probe_s = max(0, budget.limit - budget.spent), facts[name].per_weight * facts[name].service_s
        return int(left * self._probe_s(facts) / probe_s) if probe_s else left

    def _weigh(self) -> None:
        for name, group in self._stages.items():
            group.downstream.stages[name].weigh()

    def _watch(self) -> None:
        """Looks at what waits now, between two operators' turns."""
        waiting_bytes = sum(one.summed().size_bytes for one in self._joins.values())
        waiting_bytes += sum(group.downstream.stages[name].size_bytes for name, group in self._stages.items())
        self.most_bytes = max(self.most_bytes, waiting_bytes)

    def _measured(self, name: OperatorName, work: Iterator[Effect | WorkDone]) -> Iterator[Effect]:
        """The effects of a turn; how long it took is told, and not what the host did with them meanwhile."""
        spent_s, began_s = 0.0, self._pace.worked_s()
        for one in work:
            spent_s += self._pace.worked_s() - began_s
            if isinstance(one, WorkDone):
                self._report(name, one, spent_s)
                self.turns[name] = self.turns.get(name, 0) + 1
            else:
                yield one
            began_s = self._pace.worked_s()

    def _report(self, name: OperatorName, done: WorkDone, spent_s: float) -> None:
        heard = done.weight if name in self._leaves else 0.0
        told = (done.rows_in, done.rows_out, done.bytes_in, done.bytes_out, spent_s)
        self.meters.report(name, WorkReport(*told, heard, done.copies_out), 0.0)
        for reader, rows in done.offered.items():
            self.meters.report(reader, WorkReport(offered=rows, offered_of=done.rows_in), 0.0)

    def note_evaluations(self) -> None:
        """Counts, once a step is over, what aggregates gave when their groups were evaluated, and the time that took;
        that of those that are not apart from a join is the join's."""
        for join, group in self._by_name.items():
            stages = group.downstream.stages
            names = {stage.number: name for name, stage in stages.items() if stage.folds}
            for number, report in group.folds.evaluated.items():
                if number in names:
                    self.meters.report(names[number], report, 0.0)
                elif join in self._joins:
                    self.meters.report(join, WorkReport(0, 0, 0, 0, report.spent_s), 0.0)
            group.folds.evaluated = {}

    def _probe_s(self, facts: Mapping[OperatorName, OperatorFacts]) -> float:
        """What a probe takes: the mean over the joins; the unit that the budget is in."""
        joins = [facts[name].per_weight * facts[name].service_s for name in self._joins]
        return sum(joins) / len(joins) if joins else UNKNOWN_JOIN.service_s

    # --- without a limit

    def work_off(self, budget: ProbeBudget, pace: Pace) -> Iterator[Effect]:
        """All that waits, group by group. The topmost operator that has something is next: what a join made in a turn
        is gone before it takes another, so that no more than that is held."""
        self._pace = pace
        facts = self._facts()
        self._weigh()
        for names in self._downward():
            while (name := next(filter(self._is_busy, names), None)) is not None:
                yield from self._run(Unit((name,), 0.0, (0.0,)), budget, facts)

    def _downward(self) -> Iterator[list[OperatorName]]:
        """The operators of each group, the topmost first."""
        for name, group in self._by_name.items():
            mine = [*group.downstream.stages, *((name,) if name in self._joins else ())]
            yield sorted(mine, key=self._graph.above.__getitem__)

    def _is_busy(self, name: OperatorName) -> bool:
        if name in self._joins:
            return bool(self._joins[name].pending)
        return bool(self._stages[name].downstream.stages[name].items)

    def waiting_tuples(self) -> dict[OperatorName, float]:
        """What waits before each operator, as all shards weigh it: what is there, however much is left to do for it."""
        facts = self._facts()
        states = {name: self._state(name, facts) for name in self._graph.names}
        found = {name: state.tuples for name, state in states.items() if state is not None}
        return found | {name: _stored(self._joins[name], facts[name]) for name in found if name in self._joins}

    def held(self) -> dict[OperatorName, tuple[int, int]]:
        """By join, the probes that found results which are held for larger windows, as all shards weigh them, and these
        results' bytes, here."""
        return {name: (join.summed().scanned, join.held_bytes) for name, join in self._joins.items() if join.pending}

    def queues(self) -> dict[OperatorName, int]:
        """Bytes that wait before each operator, here; a join's with the results that it holds for larger windows."""
        found = {name: join.held_bytes + sum(one.nbytes for one in join.pending) for name, join in self._joins.items()}
        for group in self._groups:
            found |= group.downstream.size_bytes
        return found


def _size_bytes(states: Mapping[OperatorName, QueueState]) -> float:
    return sum(state.size_bytes for state in states.values())


def _stored(join: GroupOperator, facts: OperatorFacts) -> float:
    """The tuples of a join's blocks: they are there until they have scanned their last window."""
    return join.summed().rows * len(join.windows) * facts.per_weight


def _held_bytes(join: OperatorFacts) -> float:
    """What results that are held for larger windows weigh for each probe that found them; until that was measured, as
    much as all that it gives."""
    given_bytes = join.per_weight * join.selectivity * join.copies * join.output_bytes
    return given_bytes if join.held_bytes is None else join.held_bytes


def _share_left(probes: float, budget: ProbeBudget) -> float:
    """How much of so much work a budget leaves for the next step.

    >>> _share_left(400.0, ProbeBudget(100)), _share_left(400.0, ProbeBudget(500))
    (0.75, 0.0)
    """
    assert budget.limit is not None
    spare = max(0, budget.limit - budget.spent)
    return 1 - spare / probes if probes > spare else 0.0
