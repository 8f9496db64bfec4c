"""From a strategy's units to the next one to run; with a promise that none starves, or without (paper 003, 4.2).

      static    the highest priority that has tuples; among equals the oldest tuple
      oldest    the same, but every so often the path with the oldest tuple of all, whatever the strategy's units
      aging     priority C f with f = tau Q: the age of the oldest tuple and the tuples waiting, each as a part of the
                largest of any unit that has tuples

Who waits within a join is the window policy's choice, which may leave its oldest tuples for ever: so a unit that is
chosen for its oldest tuple is marked, and a join's turn is that tuple's then.

Owns the three choosers and :class:`Scheduler`, which any strategy works with. Cost: static looks from the best unit on
until one has tuples, the others look at every unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Protocol

from headrace.engine.strategies import (
    STRATEGIES,
    TO,
    Facts,
    Fifo,
    QueueState,
    Strategy,
    StrategyMemory,
    StrategyOptions,
    Unit,
    Waiting,
)
from headrace.plan.opgraph import OperatorGraph

LEAST_SIZE = 0.1
"""The least that a queue counts for in the second form, as a part of the largest: in a long overload others grow and
grow, and few tuples would wait for ever behind them."""
_LEAST_PART = 1e-3
"""Of the span of all priorities: what the lowest gets where some are not above zero, as factors need."""


class Chooser(Protocol):
    """Chooses among units, the one with the highest priority first; None: nothing waits."""

    def __init__(
        self, graph: OperatorGraph, facts: Facts, options: StrategyOptions, memory: StrategyMemory
    ) -> None: ...

    def choose(self, units: Sequence[Unit], waiting: Waiting) -> Unit | None: ...


class HighestPriority:
    """The strategies as they are: a unit with a low priority may wait for ever."""

    def __init__(self, graph: OperatorGraph, facts: Facts, options: StrategyOptions, memory: StrategyMemory) -> None:
        """Nothing to remember."""

    def choose(self, units: Sequence[Unit], waiting: Waiting) -> Unit | None:
        ready = (one for one in units if one.is_ready(waiting))
        best = next(ready, None)
        if best is None:
            return None
        return _oldest([best, *takewhile(lambda one: one.priority == best.priority, ready)], waiting)


class PeriodicallyOldest:
    """Section 4.2, the first form: once in a while it is the turn of the path with the oldest tuple, from there to the
    end, as ``fifo`` has it. One operator or segment would leave the tuple before the next one, until a later period:
    on a long path it would wait for as many periods."""

    def __init__(self, graph: OperatorGraph, facts: Facts, options: StrategyOptions, memory: StrategyMemory) -> None:
        self._every_s = options.oldest_every_s
        self._memory = memory
        self._otherwise = HighestPriority(graph, facts, options, memory)
        self._paths = Fifo(graph, facts, options, memory)

    def choose(self, units: Sequence[Unit], waiting: Waiting) -> Unit | None:
        served_s = self._memory.oldest_served_s
        if served_s is not None and waiting.at_s < served_s + self._every_s:
            return self._otherwise.choose(units, waiting)
        self._memory.oldest_served_s = waiting.at_s
        return self._otherwise.choose(self._paths.units(waiting), waiting)


class DynamicPriority:
    """Section 4.2, the second form: the priorities of whole paths or segments grow with how long the oldest tuple on
    them has waited and with all that waits on them. In an overload that lasts all tuples are old: what counts is how
    long they waited since anything of their path was done. What has waited at all is chosen for its age, and so it is
    the oldest tuple's turn there: or else a join, served ever so often, would take its new tuples each time."""

    def __init__(self, graph: OperatorGraph, facts: Facts, options: StrategyOptions, memory: StrategyMemory) -> None:
        del graph, facts, options
        self._served_s = memory.served_s
        self._units: Sequence[Unit] = ()
        self._wholes: list[tuple[Unit, float, str]] = []
        """The paths or segments among the units, with their priorities, all above zero, and what they are called."""

    def choose(self, units: Sequence[Unit], waiting: Waiting) -> Unit | None:
        if units is not self._units:
            wholes = [one for one in units if one.is_whole]
            priorities = _above_zero([one.priority for one in wholes]) if wholes else []
            self._units = units
            self._wholes = [(one, some, _ends_text(one)) for one, some in zip(wholes, priorities, strict=True)]
        ready = [(one, some) for one in self._wholes if (some := waiting.before(one[0].operators))]
        if not ready:
            return None
        ages = _normalised([waiting.at_s - self._since_s(ends, some) for (_, _, ends), some in ready])
        sizes = _normalised([sum(one.tuples for one in some) for _, some in ready])
        values = [
            priority * age * max(size, LEAST_SIZE)
            for ((_, priority, _), _), age, size in zip(ready, ages, sizes, strict=True)
        ]
        place = values.index(max(values))
        (best, _, ends), some = ready[place]
        has_waited = self._since_s(ends, some) < waiting.at_s
        self._served_s[ends] = waiting.at_s
        return replace(best, is_oldest=True) if has_waited else best

    def _since_s(self, ends: str, states: Sequence[QueueState]) -> float:
        """Since when a unit waits: it was served, or the oldest tuple came."""
        oldest_s = min(one.oldest_s for one in states)
        return max(oldest_s, self._served_s.get(ends, oldest_s))


def _ends_text(unit: Unit) -> str:
    return f"{unit.operators[0]}{TO}{unit.operators[-1]}"


def _oldest(units: Sequence[Unit], waiting: Waiting) -> Unit:
    return min(units, key=lambda one: one.oldest_s(waiting))


def _normalised(values: Sequence[float]) -> list[float]:
    """Each as a part of the largest.

    >>> _normalised([1, 4]), _normalised([0, 0])
    ([0.25, 1.0], [1.0, 1.0])
    """
    most = max(values)
    return [value / most if most > 0 else 1.0 for value in values]


def _above_zero(priorities: Sequence[float]) -> list[float]:
    """The same order with all above zero: memory may be taken instead of freed, and a factor must not turn that round.

    >>> _above_zero([3.0, 1.0]), _above_zero([1.0, -1.0])
    ([3.0, 1.0], [2.002, 0.002])
    """
    least, most = min(priorities), max(priorities)
    if least > 0:
        return list(priorities)
    extra = _LEAST_PART * (most - least) or 1.0
    return [priority - least + extra for priority in priorities]


FAIRNESS: dict[str, type[Chooser]] = {
    "static": HighestPriority,
    "oldest": PeriodicallyOldest,
    "aging": DynamicPriority,
}


class Scheduler:
    """A strategy and how it is kept from starving anyone."""

    def __init__(self, strategy: Strategy, chooser: Chooser) -> None:
        self._strategy = strategy
        self._chooser = chooser

    @staticmethod
    def of(
        name: str,
        fairness: str,
        graph: OperatorGraph,
        facts: Facts,
        options: StrategyOptions,
        memory: StrategyMemory,
    ) -> Scheduler:
        given = (graph, facts, options, memory)
        return Scheduler(STRATEGIES[name](*given), FAIRNESS[fairness](*given))

    def units(self, waiting: Waiting) -> Sequence[Unit]:
        """What there is to choose from, the highest priority first."""
        return self._strategy.units(waiting)

    def next_unit(self, waiting: Waiting) -> Unit | None:
        """What to run now; None: nothing waits."""
        return self._chooser.choose(self._strategy.units(waiting), waiting)
