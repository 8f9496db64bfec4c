"""Turns within a micro-batch's budget: which operator of the shard's graph takes what waits before it.

      blocks -> [join] -> items -> [select-project] -> items -> [aggregate]         queues carried over in the state
                    \\_____________ a strategy chooses a unit of these (paper 003) ______/

Owns :class:`Pace` (what operators are like, as all shards are told) and :class:`Dispatcher`. Queues are weighed by what
heartbeats told and by those facts, never by a shard's own rows: so all shards choose alike, and what one of them
completes in a micro-batch all of them do. Time is counted in steps: what counts against the memory limit is what is
carried over from one to the next, and before a step's end what it will be, as far as the budget tells.
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
from headrace.plan.capacities import OperatorFacts, work_upward_s
from headrace.plan.opgraph import OperatorGraph, OperatorName

UNKNOWN_JOIN = OperatorFacts(1e-6, 1.0, 100.0, 100.0)
UNKNOWN = OperatorFacts(2e-7, 1.0, 100.0, 100.0)
"""What operators are taken to be like until they have been measured."""


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
        """What reads a stream, joins and scans: measured, as they are weighed, by what heartbeats told of it."""
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
            unit = scheduler.next_unit(Waiting(float(step), states, kept_bytes))
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
        known = self._pace.facts
        return {name: known.get(name, UNKNOWN_JOIN if name in self._joins else UNKNOWN) for name in self._graph.names}

    def _state(self, name: OperatorName, facts: Mapping[OperatorName, OperatorFacts]) -> QueueState | None:
        """What waits before an operator; None: nothing."""
        if name in self._joins:
            join = self._joins[name]
            if not join.pending:
                return None
            tuples, oldest = float(join.summed().probes), float(join.pending[0].came)
        else:
            stage = self._stages[name].downstream.stages[name]
            if not stage.items:
                return None
            tuples, oldest = stage.weight, float(stage.items[0].came)
        return QueueState(tuples, tuples * facts[name].input_bytes, oldest)

    def _run(self, unit: Unit, budget: ProbeBudget, facts: Mapping[OperatorName, OperatorFacts]) -> Iterator[Effect]:
        """A turn of each of the unit's operators, bottom up, for what waits there or has come up to it. What their
        tuples take is charged, not how many they are: a probe of the budget is as long as the mean join's."""
        for name in filter(self._is_busy, unit.operators):
            selectivity = facts[name].selectivity
            if name in self._joins:
                turn = ProbeBudget(budget.limit)
                yield from self._measured(name, self._joins[name].join_turn(turn, selectivity))
                probes = float(turn.spent)
            else:
                probes = self._stages[name].downstream.stages[name].items[0].weight
                yield from self._measured(name, self._stages[name].downstream.run(name, selectivity))
            budget.charge(round(probes * facts[name].service_s / self._probe_s(facts)))
            self._watch()

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
                taken = one.weight if name in self._leaves else float(one.found)
                report = WorkReport(taken, one.rows_out, one.bytes_in, one.bytes_out, spent_s)
                self.meters.report(name, report, 0.0)
                self.turns[name] = self.turns.get(name, 0) + 1
            else:
                yield one
            began_s = self._pace.worked_s()

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
        joins = [facts[name].service_s for name in self._joins]
        return sum(joins) / len(joins) if joins else UNKNOWN_JOIN.service_s

    # --- without a limit

    def work_off(self, budget: ProbeBudget, pace: Pace) -> Iterator[Effect]:
        """All that waits, operator by operator, bottom up."""
        self._pace = pace
        facts = self._facts()
        self._weigh()
        for name in self._graph.names:
            while self._is_busy(name):
                yield from self._run(Unit((name,), 0.0, (0.0,)), budget, facts)

    def _is_busy(self, name: OperatorName) -> bool:
        if name in self._joins:
            return bool(self._joins[name].pending)
        return bool(self._stages[name].downstream.stages[name].items)

    def waiting_tuples(self) -> dict[OperatorName, float]:
        """What waits before each operator, as all shards weigh it."""
        states = {name: self._state(name, self._facts()) for name in self._graph.names}
        return {name: state.tuples for name, state in states.items() if state is not None}

    def queues(self) -> dict[OperatorName, int]:
        """Bytes that wait before each operator, here."""
        found = {name: sum(block.nbytes for block in join.pending) for name, join in self._joins.items()}
        for group in self._groups:
            found |= group.downstream.size_bytes
        return found


def _size_bytes(states: Mapping[OperatorName, QueueState]) -> float:
    return sum(state.size_bytes for state in states.values())


def _share_left(probes: float, budget: ProbeBudget) -> float:
    """How much of so much work a budget leaves for the next step.

    >>> _share_left(400.0, ProbeBudget(100)), _share_left(400.0, ProbeBudget(500))
    (0.75, 0.0)
    """
    assert budget.limit is not None
    spare = max(0, budget.limit - budget.spent)
    return 1 - spare / probes if probes > spare else 0.0
