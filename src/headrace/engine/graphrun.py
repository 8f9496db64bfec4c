"""An operator graph at work: queues of batches, turns as a scheduler chooses them, and a record of what happened.

      offer(source, batch)      a batch into the queue of every operator that reads the source
      accepts(size_bytes)       whether so much more may be offered: beyond the queue memory limit sources wait
      work(until_s)             turn after turn until that time, or until nothing waits

What an operator does is a function from batch to batch, what that takes a clock says: simulated service times or a real
clock, the run cannot tell. An operator's output goes into the queue of every operator that reads it; what goes to the
root is delivered at once. A turn is never broken off, but batches may be offered between two of its operators.

Invariants (``validate``): the sizes told are the sums over the queues; batches of a queue are in arrival order for each
of its inputs. Cost: a choice and a few operations for each batch that an operator takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Protocol, TypeAlias

from headrace.engine.choosing import Scheduler
from headrace.engine.measuring import Meters, WorkReport
from headrace.engine.queues import NOTHING, Batch, Divide, OperatorQueue, divide_evenly
from headrace.engine.runrecords import Delivered, OperatorRecord, RunRecord
from headrace.engine.strategies import Facts, QueueState, Unit, Waiting
from headrace.errors import InvariantError
from headrace.plan.opgraph import OperatorGraph, OperatorName, OperatorNode

Work: TypeAlias = Callable[[OperatorNode, Batch], Batch]
"""What an operator makes of a batch; ``arrived_s`` is that of the batch."""


class Clock(Protocol):
    """Tells the time, and hears what was done (a simulated one goes on by that)."""

    def read_s(self) -> float: ...

    def charge(self, operator: OperatorName, tuples: float) -> None: ...

    def wait_until(self, at_s: float) -> None: ...


KEPT_FREE = 0.1
"""The part of the memory limit that sources leave free, for operators that give more than they take."""
LEAST_PART = 0.01
"""Of a turn or of the memory: less than this is not worth a turn."""


class GraphRun:
    """An operator graph with its queues. ``facts``: as the scheduler has them; the memory limit is kept by them."""

    def __init__(
        self,
        graph: OperatorGraph,
        scheduler: Scheduler,
        facts: Facts,
        work: Work,
        clock: Clock,
        *,
        divide: Divide = divide_evenly,
        limit_bytes: float | None = None,
        meters: Meters | None = None,
    ) -> None:
        self.graph = graph
        self.scheduler = scheduler
        self.meters = meters or Meters()
        self.record = RunRecord({name: OperatorRecord() for name in graph.names})
        self._work = work
        self._clock = clock
        self._divide = divide
        self._limit_bytes = limit_bytes
        self._growth = {
            name: facts[name].selectivity * facts[name].output_bytes * len(graph.consumers[name])
            - facts[name].input_bytes
            for name in graph.names
        }
        self._facts = facts
        self._queues = {name: OperatorQueue() for name in graph.names}
        self._states: dict[OperatorName, QueueState] = {}
        self._size_bytes = 0.0
        self._watched_s = clock.read_s()
        self._turn: deque[tuple[OperatorName, float]] = deque()
        self._risen = 0.0

    @property
    def size_bytes(self) -> float:
        """All that waits."""
        return self._size_bytes

    @property
    def tuples(self) -> float:
        return sum(state.tuples for state in self._states.values())

    @property
    def queues(self) -> Mapping[OperatorName, QueueState]:
        """What waits, by operator; those without are not there."""
        return self._states

    def waiting(self) -> Waiting:
        return Waiting(self._clock.read_s(), self._states, self._size_bytes)

    # --- taking in

    def accepts(self, source: str, size_bytes: float) -> bool:
        """Whether so much more of a source fits beside what waits."""
        return size_bytes <= self.room_bytes(source)

    def room_bytes(self, source: str) -> float:
        """How much of a source fits: it goes into a queue for each of its readers."""
        if self._limit_bytes is None:
            return inf
        free_bytes = (1 - KEPT_FREE) * self._limit_bytes - self._size_bytes
        return max(0.0, free_bytes / len(self.graph.consumers[source]))

    def offer(self, source: str, batch: Batch) -> None:
        """Takes a batch of a stream."""
        self._watch()
        for reader in self.graph.consumers[source]:
            self._put(reader, batch)

    # --- working

    def work(self, until_s: float | None = None) -> bool:
        """Works until that time, or until nothing waits; gives whether anything is left. What is begun then is
        finished: of a turn, the operator that is at it."""
        while until_s is None or self._clock.read_s() < until_s - NOTHING:
            if not self._turn and not self._begin():
                if until_s is not None:
                    self._clock.wait_until(until_s)
                self._watch()
                return False
            self._run(*self._turn.popleft())
        return bool(self._states)

    def _begin(self) -> bool:
        unit = self.scheduler.next_unit(self.waiting())
        if unit is None:
            return False
        self.record.turns += 1
        self._turn.extend(self._fitting(unit))
        self._risen = 0.0
        return True

    def _fitting(self, unit: Unit) -> Sequence[tuple[OperatorName, float]]:
        """A unit's operators with their limits; less than these where it may outgrow the memory limit."""
        steps = list(zip(unit.operators, unit.limits, strict=True))
        if self._limit_bytes is None:
            return steps
        growth_bytes = sum(max(0.0, limit * self._growth[name]) for name, limit in steps)
        room_bytes = self._limit_bytes - self._size_bytes
        if growth_bytes <= room_bytes:
            return steps
        if room_bytes < LEAST_PART * growth_bytes:
            return self._draining(LEAST_PART * self._limit_bytes)
        return [(name, limit * room_bytes / growth_bytes) for name, limit in steps]

    def _draining(self, size_bytes: float) -> Sequence[tuple[OperatorName, float]]:
        """A little of what waits closest to the root, all the way up: what frees memory whatever the operators do."""
        name = next(one for one in reversed(self.graph.names) if one in self._states)
        steps = [(name, size_bytes / max(self._facts[name].input_bytes, 1.0))]
        while readers := self.graph.consumers[name]:
            name = readers[0]
            steps.append((name, 0.0))
        return steps

    def _run(self, name: OperatorName, limit: float) -> None:
        """One operator of a turn: what has come up in it, or what is allowed if more waits here."""
        taken = self._queues[name].take(max(limit, self._risen), self._divide)
        self._risen = 0.0
        if not taken:
            return
        self._told(name)
        began_s = self._clock.read_s()
        self.record.operators[name].note_turn(began_s, leaves_some=name in self._states)
        made = [self._one(name, batch) for batch in taken]
        self._account(name, taken, made, self._clock.read_s() - began_s)
        self._watch()
        for batch in made:
            self._give(name, batch)

    def _one(self, name: OperatorName, batch: Batch) -> Batch:
        made = self._work(self.graph.by_name[name], batch)
        self._clock.charge(name, batch.tuples)
        return made

    def _give(self, name: OperatorName, batch: Batch) -> None:
        """What an operator made: to those that read it, and to the root."""
        if batch.tuples <= NOTHING:
            return
        self._risen += batch.tuples
        for reader in self.graph.consumers[name]:
            self._put(reader, batch)
        if self.graph.by_name[name].delivers:
            at_s = self._clock.read_s()
            self.record.deliveries.append(Delivered(name, at_s, batch.tuples, at_s - batch.arrived_s))

    def _account(self, name: OperatorName, taken: list[Batch], made: list[Batch], spent_s: float) -> None:
        tuples_in, tuples_out = sum(one.tuples for one in taken), sum(one.tuples for one in made)
        bytes_in, bytes_out = sum(one.size_bytes for one in taken), sum(one.size_bytes for one in made)
        record = self.record.operators[name]
        record.turns += 1
        record.tuples_in += tuples_in
        record.tuples_out += tuples_out
        record.spent_s += spent_s
        report = WorkReport(tuples_in, tuples_out, bytes_in, bytes_out, spent_s)
        self.meters.report(name, report, self._clock.read_s())

    # --- what is there

    def _put(self, name: OperatorName, batch: Batch) -> None:
        self._queues[name].put(batch)
        self._told(name)
        self.record.operators[name].note_tuples(self._clock.read_s())
        self.record.operators[name].most_bytes = max(
            self.record.operators[name].most_bytes, self._queues[name].size_bytes
        )
        self.record.most_bytes = max(self.record.most_bytes, self._size_bytes)

    def _told(self, name: OperatorName) -> None:
        """Brings what is told of a queue up to date."""
        queue = self._queues[name]
        before = self._states.pop(name, None)
        self._size_bytes += queue.size_bytes - (0.0 if before is None else before.size_bytes)
        if queue.batches:
            self._states[name] = queue.state()
        if not self._states:
            self._size_bytes = 0.0

    def _watch(self) -> None:
        """Adds up the memory in use since it was last looked at."""
        at_s = self._clock.read_s()
        self.record.byte_seconds += self._size_bytes * (at_s - self._watched_s)
        self.record.watched_s += at_s - self._watched_s
        self._watched_s = at_s

    def validate(self) -> None:
        """Checks the invariants; for tests."""
        for name, queue in self._queues.items():
            arrived = [batch.arrived_s for batch in queue.batches]
            if arrived != sorted(arrived):
                raise InvariantError(f"the queue of {name} is not in arrival order")
            if abs(sum(batch.tuples for batch in queue.batches) - queue.tuples) > 1e-6 * max(1.0, queue.tuples):
                raise InvariantError(f"the queue of {name} does not hold what it tells")
        total = sum(queue.size_bytes for queue in self._queues.values())
        if abs(total - self._size_bytes) > 1e-6 * max(1.0, total):
            raise InvariantError("the queues do not hold what they tell")
