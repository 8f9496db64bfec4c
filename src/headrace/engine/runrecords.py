"""What happened in a run of an operator graph, in numbers: what statistics and figures are made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.engine.queues import NOTHING
from headrace.plan.opgraph import OperatorName


@dataclass(slots=True)
class OperatorRecord:
    """What one operator did, the most that waited before it, and for how long."""

    turns: int = 0
    tuples_in: float = 0.0
    tuples_out: float = 0.0
    spent_s: float = 0.0
    most_bytes: float = 0.0
    waits_since_s: float | None = None
    """Since when tuples wait: they came, or there was a turn that left some; None: there are none."""
    _longest_wait_s: float = 0.0

    def note_tuples(self, at_s: float) -> None:
        """Some have come."""
        self.waits_since_s = at_s if self.waits_since_s is None else self.waits_since_s

    def note_turn(self, at_s: float, *, leaves_some: bool) -> None:
        self._longest_wait_s = self.longest_wait_s(at_s)
        self.waits_since_s = at_s if leaves_some else None

    def longest_wait_s(self, at_s: float) -> float:
        """The longest that it had tuples and no turn, up to now."""
        now_s = 0.0 if self.waits_since_s is None else at_s - self.waits_since_s
        return max(self._longest_wait_s, now_s)


@dataclass(frozen=True, slots=True)
class Delivered:
    """Result tuples that reached the root: when, how many, and how long after their arrival."""

    operator: OperatorName
    at_s: float
    tuples: float
    latency_s: float


@dataclass(slots=True)
class RunRecord:
    """A run in numbers."""

    operators: dict[OperatorName, OperatorRecord]
    turns: int = 0
    most_bytes: float = 0.0
    byte_seconds: float = 0.0
    watched_s: float = 0.0
    deliveries: list[Delivered] = field(default_factory=list)

    @property
    def mean_bytes(self) -> float:
        """The queue memory in use, over time."""
        return self.byte_seconds / self.watched_s if self.watched_s else 0.0

    @property
    def delivered(self) -> float:
        return sum(one.tuples for one in self.deliveries)

    @property
    def mean_latency_s(self) -> float:
        """Of a result tuple."""
        return sum(one.tuples * one.latency_s for one in self.deliveries) / max(self.delivered, NOTHING)
