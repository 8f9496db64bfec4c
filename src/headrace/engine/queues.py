"""Queues between operators: batches in the order in which their tuples arrived in the system, by whatever input.

Owns :class:`Batch`, :class:`OperatorQueue` and how a batch is divided. Cost: O(1) a batch, and a look at those that
arrived later where an input is behind another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from headrace.engine.strategies import QueueState

NOTHING = 1e-12
"""Fewer tuples than this are none: parts of tuples are added and taken away again."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Tuples that go together: how many (a simulated one may be a part), their size, when they arrived in the system,
    and from where; what they are is the operators' business."""

    tuples: float
    size_bytes: float
    arrived_s: float
    payload: Any = None
    origin: str = ""


Divide: TypeAlias = Callable[[Batch, float], tuple[Batch, Batch | None]]
"""A batch in two, the first with about so many tuples."""


def divide_evenly(batch: Batch, tuples: float) -> tuple[Batch, Batch | None]:
    """A simulated batch in two; parts of tuples are parts of them."""
    if tuples >= batch.tuples - NOTHING:
        return batch, None
    part = tuples / batch.tuples
    first = replace(batch, tuples=tuples, size_bytes=batch.size_bytes * part)
    return first, replace(batch, tuples=batch.tuples - tuples, size_bytes=batch.size_bytes * (1 - part))


@dataclass(slots=True)
class OperatorQueue:
    """What waits before one operator, whatever input it came by: oldest arrival first."""

    batches: deque[Batch] = field(default_factory=deque)
    tuples: float = 0.0
    size_bytes: float = 0.0

    def put(self, batch: Batch) -> None:
        """Behind all that arrived before it."""
        place = len(self.batches)
        while place and self.batches[place - 1].arrived_s > batch.arrived_s:
            place -= 1
        self.batches.insert(place, batch)
        self.tuples += batch.tuples
        self.size_bytes += batch.size_bytes

    def take(self, tuples: float, divide: Divide) -> list[Batch]:
        """The oldest tuples, so many at most (or one batch that cannot be divided so finely)."""
        taken: list[Batch] = []
        left = tuples
        while self.batches and left > NOTHING:
            first, rest = divide(self.batches.popleft(), left)
            if rest is not None:
                self.batches.appendleft(rest)
            taken.append(first)
            left -= first.tuples
            self.tuples -= first.tuples
            self.size_bytes -= first.size_bytes
        if not self.batches:
            self.tuples = self.size_bytes = 0.0
        return taken

    def state(self) -> QueueState:
        return QueueState(self.tuples, self.size_bytes, self.batches[0].arrived_s)
