"""The setting of paper 003's experiments: 16 queries with more than 100 operators over 5 self-similar streams.

A query reads one to five streams. Each is selected and projected, then joined with what was joined before, and what is
left is selected once more: from the simplest select query to four joins over five streams. Selections of a stream are
shared where two queries ask for the same. Selectivities are spread over 0 to 1, a few joins are above 1. As in
the paper, leaf operators are much faster than all others. A tuple gives about as many results whatever its path: the
paper's proof that path capacity has the best latency counts tuples, not results, and so takes this for granted. The
operators are simulated; what they are like follows from the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from headrace.lab.bursts import Bursts
from headrace.model import QueryId
from headrace.plan.capacities import OperatorFacts
from headrace.plan.opgraph import OperatorGraph, OperatorKind, OperatorName, OperatorNode

STREAMS = ("a", "b", "c", "d", "e")
RATES = (60.0, 100.0, 140.0, 180.0, 220.0)
"""Tuples a second of the five streams, for a load of 1."""
STREAMS_OF_QUERY = (1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 5)
TUPLE_BYTES = 64.0
SELECTIONS, PROJECTIONS = 24, 3
"""Of each stream and of each selection, those that queries choose from: a few of them are shared."""
RESULTS = 0.1
"""What a tuple of a stream gives, about, on each of its paths."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Operators and what they are like, and the streams they read."""

    graph: OperatorGraph
    facts: dict[OperatorName, OperatorFacts]
    streams: dict[str, Bursts]

    @property
    def load(self) -> float:
        """The time that the tuples of a second take, in the long run."""
        passing: dict[str, float] = {name: one.rate for name, one in self.streams.items()}
        busy_s = 0.0
        for one in self.graph.operators:
            taken = sum(passing[given] for given in one.inputs)
            busy_s += taken * self.facts[one.name].service_s
            passing[one.name] = taken * self.facts[one.name].selectivity
        return busy_s


def many_operators(load: float, seed: int = 7) -> Setting:
    """The setting, with service times such that the streams' mean rates take this part of the time there is."""
    drawing = _Drawing(np.random.default_rng(seed))
    graph = OperatorGraph()
    for number, reads in enumerate(STREAMS_OF_QUERY, 1):
        graph = graph.with_graph(OperatorGraph(tuple(drawing.query(number, reads))))
    facts = {name: drawing.facts[name] for name in graph.names}
    streams = {
        name: Bursts(rate, shortest_on_s=2.0, shortest_off_s=2.0) for name, rate in zip(STREAMS, RATES, strict=True)
    }
    factor = load / Setting(graph, facts, streams).load
    return Setting(graph, {name: _slower(one, factor) for name, one in facts.items()}, streams)


def _slower(facts: OperatorFacts, factor: float) -> OperatorFacts:
    return OperatorFacts(facts.service_s * factor, facts.selectivity, facts.input_bytes, facts.output_bytes)


class _Drawing:
    """Draws queries, bottom up."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.facts: dict[OperatorName, OperatorFacts] = {}
        self._rng = rng

    def query(self, number: int, streams: int) -> Iterator[OperatorNode]:
        """A query over so many streams: each but the first has a join where it comes in."""
        chosen = [STREAMS[place] for place in self._rng.permutation(len(STREAMS))[:streams]]
        joins = [self._join() for _ in chosen[1:]]
        last = self._facts(20.0, self._rng.uniform(0.3, 0.9), TUPLE_BYTES * 0.6, TUPLE_BYTES * 0.5)
        joined = ""
        for step, stream in enumerate(chosen):
            passing = prod(one.selectivity for one in joins[max(step - 1, 0) :]) * last.selectivity
            select = self._select(stream, passing)
            yield select
            project = self._project(select)
            yield project
            if not step:
                joined = project.name
                continue
            name = OperatorName(f"join q{number}.{step}")
            yield self._node(name, OperatorKind.JOIN, (joined, project.name), joins[step - 1])
            joined = name
        name = OperatorName(f"select-project q{number}")
        yield self._node(name, OperatorKind.SELECT_PROJECT, (joined,), last, (QueryId(f"q{number}"),))

    def _select(self, stream: str, passing: float) -> OperatorNode:
        """A selection that leaves about as many results of a tuple as any other, after what is still to come."""
        name = OperatorName(f"select {stream}{self._rng.integers(SELECTIONS)}")
        selectivity = min(0.95, RESULTS / passing * self._rng.uniform(0.8, 1.25))
        return self._node(name, OperatorKind.SELECT, (stream,), self._facts(1.0, selectivity, TUPLE_BYTES, TUPLE_BYTES))

    def _project(self, below: OperatorNode) -> OperatorNode:
        name = OperatorName(f"project {below.name.split()[1]}.{self._rng.integers(PROJECTIONS)}")
        drawn = self._facts(0.8, 1.0, TUPLE_BYTES, TUPLE_BYTES * 0.6)
        return self._node(name, OperatorKind.PROJECT, (below.name,), drawn)

    def _join(self) -> OperatorFacts:
        is_wide = self._rng.uniform() < 0.15
        selectivity = self._rng.uniform(1.0, 1.4) if is_wide else self._rng.uniform(0.4, 0.9)
        return self._facts(8.0, selectivity, TUPLE_BYTES * 0.6, TUPLE_BYTES * 0.6)

    def _facts(self, service: float, selectivity: float, input_bytes: float, output_bytes: float) -> OperatorFacts:
        return OperatorFacts(service * self._rng.uniform(0.5, 2.0), selectivity, input_bytes, output_bytes)

    def _node(
        self,
        name: OperatorName,
        kind: OperatorKind,
        inputs: tuple[str, ...],
        drawn: OperatorFacts,
        delivers: tuple[QueryId, ...] = (),
    ) -> OperatorNode:
        """An operator; what it is like is drawn once for a name."""
        facts = self.facts.setdefault(name, drawn)
        return OperatorNode(name, kind, f"{name}, selectivity {facts.selectivity:.2f}", inputs, delivers)
