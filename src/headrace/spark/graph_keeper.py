"""What operators are like, kept by the driver: all shards' measurements together become facts for the next micro-batch.

      end of a micro-batch   shards told what their operators did  ->  sums that fade  ->  facts
      different by a share?  the next micro-batch's tasks read the new facts, all of them the same

Owns :class:`GraphKeeper`. A run that starts on a checkpoint begins with the facts that were written down last; what it
measures itself replaces them, operator by operator. Cost: a few operations for each operator and shard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field

from headrace.config import Settings
from headrace.engine.measuring import Meters, OperatorMeter, QueueSizes
from headrace.engine.strategies import Mode
from headrace.plan.capacities import OperatorFacts, processing_capacity, release_capacity
from headrace.plan.graph_building import leaf_operator
from headrace.plan.opgraph import OperatorGraph, OperatorName
from headrace.plan.shard_graph import running_graph
from headrace.plan.sharing import SharedPlan
from headrace.spark.graph_told import GraphTold
from headrace.stats import GraphStats, OperatorStats

NOTABLE = 0.1
"""By which share a fact must differ from what tasks were told, to be told anew."""


@dataclass(slots=True)
class GraphKeeper:
    """The operators of the plan that runs. ``before``: what earlier runs found out."""

    settings: Settings
    before: Mapping[OperatorName, OperatorFacts] = field(default_factory=dict)
    _graph: OperatorGraph = field(default_factory=OperatorGraph)
    _packing: set[OperatorName] = field(default_factory=set)
    """The operators that run before the shards."""
    _meters: Meters = field(default_factory=Meters)
    _sizes: QueueSizes = field(default_factory=QueueSizes)
    _given: dict[OperatorName, OperatorFacts] = field(init=False)
    _turns: dict[OperatorName, int] = field(default_factory=dict)
    _told: tuple[GraphTold, ...] = ()

    def __post_init__(self) -> None:
        self._given = dict(self.before)

    def adopt(self, plan: SharedPlan) -> None:
        """From now on this plan runs: operators that are gone are forgotten."""
        self._graph = running_graph(plan)
        leaves = (leaf_operator(plan.catalog, one) for group in plan.groups for one in group.inputs)
        self._packing = {leaf.name for leaf in leaves if leaf is not None}
        self._meters.keep_only(self._graph.names)
        self._sizes.keep_only(self._graph.names)
        names = set(self._graph.names)
        self.before = {name: one for name, one in self.before.items() if name in names}
        self._turns = {name: turns for name, turns in self._turns.items() if name in names}

    def learn(self, told: Iterable[GraphTold], at_s: float) -> bool:
        """Takes in what all shards told of a micro-batch; whether tasks should be told what follows from it."""
        self._told = tuple(told)
        for name, meter in self._together().items():
            self._meters.report(name, meter.report(), at_s)
        for one in self._told[:1]:  # all shards take the same turns
            for name, turns in one.turns.items():
                self._turns[name] = self._turns.get(name, 0) + turns
        self._weigh()
        now = self.facts()
        if self._given.keys() == now.keys() and not is_other(self._scheduled(self._given), self._scheduled(now)):
            return False
        self._given = now
        return True

    def _scheduled(self, facts: Mapping[OperatorName, OperatorFacts]) -> dict[OperatorName, OperatorFacts]:
        """Of the operators that take turns: tasks need to know no others."""
        return {name: one for name, one in facts.items() if name not in self._packing}

    def _together(self) -> dict[OperatorName, OperatorMeter]:
        found: dict[OperatorName, OperatorMeter] = {}
        for one in self._told:
            for name, meter in one.meters.items():
                found[name] = found.get(name, OperatorMeter()).plus(meter)
        return found

    def _weigh(self) -> None:
        tuples, queues = Counter[OperatorName](), Counter[OperatorName]()
        for one in self._told:
            tuples.update(one.waiting)
            queues.update(one.queues)
        self._sizes.take(tuples, queues, [one.held for one in self._told])

    def facts(self) -> dict[OperatorName, OperatorFacts]:
        """What is known of each operator now, and of what waits before it."""
        return self._sizes.in_facts({**self.before, **self._meters.facts()})

    def given(self) -> dict[OperatorName, OperatorFacts]:
        """What tasks are to be told."""
        return dict(self._given)

    def stats(self, *, is_throttled: bool = False) -> GraphStats | None:
        """The operators and their queues; None where there is no budget."""
        settings = self.settings
        if settings.budget is None:
            return None
        queues = [one.queues for one in self._told]
        facts = self.facts()
        operators = tuple(
            self._operator(name, sum(one.get(name, 0) for one in queues), facts.get(name)) for name in self._named()
        )
        return GraphStats(
            settings.strategy,
            settings.fairness,
            settings.queue_memory_bytes,
            sum(one.queue_bytes for one in self._told),
            next((one.mode for one in self._told), Mode.NORMAL).value,
            max((one.mode_changes for one in self._told), default=0),
            is_throttled,
            operators,
        )

    def _named(self) -> list[OperatorName]:
        """The operators that are known of, bottom up; those that run in packing have no queue and take no turns."""
        known = {*self._meters.by_name, *(name for one in self._told for name in one.queues)}
        return [name for name in self._graph.names if name in known]

    def _operator(self, name: OperatorName, queue_bytes: int, facts: OperatorFacts | None) -> OperatorStats:
        text, uses, turns = self._graph.by_name[name].text, self._graph.uses(name), self._turns.get(name, 0)
        if facts is None:
            return OperatorStats(name, text, uses, queue_bytes, turns)
        return OperatorStats(
            name,
            text,
            uses,
            queue_bytes,
            turns,
            facts.selectivity,
            facts.service_s * 1e6,
            facts.input_bytes,
            facts.output_bytes,
            processing_capacity(facts),
            release_capacity(facts, is_last=self._graph.is_last[name]),
        )


def is_other(before: Mapping[OperatorName, OperatorFacts], now: Mapping[OperatorName, OperatorFacts]) -> bool:
    """Whether facts differ so much that tasks should be told."""
    if before.keys() != now.keys():
        return True
    pairs = [pair for name, one in now.items() for pair in zip(astuple(before[name]), astuple(one), strict=True)]
    return any(_is_notable(one, other) for one, other in pairs)


def _is_notable(one: float | None, other: float | None) -> bool:
    """None: not known."""
    if one is None or other is None:
        return one is not other
    return abs(one - other) > NOTABLE * max(abs(one), abs(other))
