"""Simulated operators and time: a run without data, for tests and for looking at strategies."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.engine.graphrun import Work
from headrace.engine.queues import Batch
from headrace.engine.strategies import Facts
from headrace.plan.opgraph import OperatorName, OperatorNode


@dataclass(slots=True)
class SimulatedClock:
    """A clock that goes on by the service times of what is done."""

    facts: Facts
    at_s: float = 0.0

    def read_s(self) -> float:
        return self.at_s

    def charge(self, operator: OperatorName, tuples: float) -> None:
        self.at_s += tuples * self.facts[operator].service_s

    def wait_until(self, at_s: float) -> None:
        self.at_s = max(self.at_s, at_s)


def simulated_work(facts: Facts) -> Work:
    """Operators that do nothing but change how many and how large."""

    def work(operator: OperatorNode, batch: Batch) -> Batch:
        of = facts[operator.name]
        tuples = batch.tuples * of.selectivity
        return Batch(tuples, tuples * of.output_bytes, batch.arrived_s)

    return work
