"""Which queued work comes next: the strategies of paper 003. A strategy only chooses; the run acts.

      strategy      unit                     priority                                           section
      fifo          path                     the oldest tuple                                   2.2
      chain         operator                 slope of its lower envelope                        2.2
      path          path                     processing capacity                                3.1
      segment       segment                  memory release capacity                            3.3
      simplified    segment, two a path      memory release capacity                            3.3
      threshold     path, or simplified      as these; which of them, by the memory in use      3.4

A unit is run bottom up: its first operator takes as many tuples as the unit can process in a slice of time, and what
comes out is taken on to the top. Tuples may also wait in the middle of a path or segment, where operators are shared;
from there on it is a unit too. Among units of one priority the one with the oldest tuple is next, and of these the one
with the least way to go.

Owns the strategies and what they remember (:class:`StrategyMemory`, in JSON). A strategy is made for a graph and the
facts measured of it, and made anew when either changes. Time and sizes are inputs. Cost: a choice looks at units from
the best one on, until one has tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache, partial
from math import exp
from typing import Any, Protocol

from headrace.plan.capacities import (
    OperatorFacts,
    chain_slopes,
    facts_of,
    path_capacity,
    release_capacities,
    segment_capacity,
    segment_release,
)
from headrace.plan.opgraph import OperatorGraph, OperatorName, OperatorPath
from headrace.plan.path_segments import GAMMA, PathCut, full_segments, segments_of, simplified_segments

Facts = Mapping[OperatorName, OperatorFacts]
TO = " > "
"""Between the ends of a path or segment, where it is called by them."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """What waits before an operator, in all its input queues: never nothing. ``oldest_s``: when the oldest arrived."""

    tuples: float
    size_bytes: float
    oldest_s: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits everywhere, at a time; operators without tuples are not there. ``size_bytes``: the memory in use;
    within a step of work (``is_forecast``), about what of it would be left at the end."""

    at_s: float
    states: Mapping[OperatorName, QueueState]
    size_bytes: float
    is_forecast: bool = False

    def before(self, operators: Iterable[OperatorName]) -> list[QueueState]:
        """What waits before any of these operators."""
        return [self.states[name] for name in operators if name in self.states]


@dataclass(frozen=True, slots=True)
class Unit:
    """Operators that are scheduled together, bottom up; it is ready when the first has tuples. ``limits``: how many
    tuples each may take of what waits. ``is_whole``: it is a path or segment, not only the end of one. ``is_oldest``:
    it is the turn of the oldest tuple before it, whatever else chooses among what waits there."""

    operators: OperatorPath
    priority: float
    limits: tuple[float, ...]
    is_whole: bool = True
    is_oldest: bool = False

    def is_ready(self, waiting: Waiting) -> bool:
        return self.operators[0] in waiting.states

    def oldest_s(self, waiting: Waiting) -> float:
        """When the oldest tuple before it arrived; it is ready."""
        return waiting.states[self.operators[0]].oldest_s


class Mode(Enum):
    """Of the threshold strategy."""

    NORMAL = "normal"
    SAVING = "saving"


@dataclass(frozen=True, slots=True)
class StrategyOptions:
    """``slice_s``: the unit of time that is scheduled; ``limit_bytes``: the memory that queues may take (the paper's
    M); ``mean_over_s``: how far back the mean queue memory looks; ``oldest_every_s``: the period of 4.2's oldest."""

    slice_s: float = 1.0
    gamma: float = GAMMA
    beta: float = 0.9
    limit_bytes: float | None = None
    mean_over_s: float = 60.0
    oldest_every_s: float = 10.0


@dataclass(slots=True)
class StrategyMemory:
    """What is carried on from turn to turn, and from one micro-batch to the next."""

    mode: Mode = Mode.NORMAL
    mode_changes: int = 0
    mean_bytes: float = 0.0
    seen_s: float | None = None
    oldest_served_s: float | None = None
    served_s: dict[str, float] = field(default_factory=dict)
    """When each path or segment, by its ends, was last served: for priorities that grow."""

    def observe(self, size_bytes: float, at_s: float, over_s: float) -> None:
        """Takes the memory in use into its mean, by how long it was since it was last looked at."""
        if self.seen_s is not None and at_s > self.seen_s:
            self.mean_bytes += (size_bytes - self.mean_bytes) * (1 - exp((self.seen_s - at_s) / over_s))
        self.seen_s = at_s if self.seen_s is None else max(at_s, self.seen_s)

    def enter(self, mode: Mode) -> None:
        self.mode_changes += mode is not self.mode
        self.mode = mode

    def keep_only(self, names: Collection[str]) -> None:
        """Forgets the paths and segments of operators that are gone."""
        gone = [ends for ends in self.served_s if not all(name in names for name in ends.split(TO))]
        for ends in gone:
            del self.served_s[ends]

    def to_json(self) -> dict[str, Any]:
        told = {"mode": self.mode.value, "changes": self.mode_changes, "mean": self.mean_bytes}
        return {**told, "seen": self.seen_s, "oldest": self.oldest_served_s, "served": self.served_s}

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> StrategyMemory:
        mode, served_s = Mode(told["mode"]), dict(told["served"])
        return StrategyMemory(mode, told["changes"], told["mean"], told["seen"], told["oldest"], served_s)


class Strategy(Protocol):
    """Gives the units to choose from, the one with the highest priority first."""

    def __init__(
        self, graph: OperatorGraph, facts: Facts, options: StrategyOptions, memory: StrategyMemory
    ) -> None: ...

    def units(self, waiting: Waiting) -> Sequence[Unit]: ...


def with_ends(
    wholes: Mapping[OperatorPath, float], facts: Facts, slice_s: float, of_end: Callable[[OperatorPath], float]
) -> Iterator[Unit]:
    """Paths or segments with their priorities as units, and with each its ends: these have their own priority or, as
    more of the work is done there, that of a path or segment that they are the end of. Each operator takes what can be
    processed, from it on, in a slice."""
    best = dict(wholes)
    for operators, priority in wholes.items():
        for end in _ends(operators):
            best[end] = max(priority, best[end] if end in best else of_end(end))
    for operators, priority in best.items():
        limits = tuple(slice_s * segment_capacity(facts_of(facts, end)) for end in _ends(operators))
        yield Unit(operators, priority, limits, operators in wholes)


def _ends(operators: OperatorPath) -> Iterator[OperatorPath]:
    """A path or segment from each of its operators on."""
    return (operators[start:] for start in range(len(operators)))


class _Static:
    """Priorities that stay as they are until the facts change."""

    def __init__(self, graph: OperatorGraph, facts: Facts, options: StrategyOptions, memory: StrategyMemory) -> None:
        del memory  # there is nothing to remember
        self._ranked = _ranked(type(self).made, graph, tuple(facts.items()), options)

    @staticmethod
    def made(graph: OperatorGraph, facts: Facts, options: StrategyOptions) -> Iterable[Unit]:
        raise NotImplementedError

    def units(self, waiting: Waiting) -> Sequence[Unit]:
        del waiting  # whatever it is
        return self._ranked


@lru_cache(maxsize=16)
def _ranked(
    made: Callable[[OperatorGraph, Facts, StrategyOptions], Iterable[Unit]],
    graph: OperatorGraph,
    facts: tuple[tuple[OperatorName, OperatorFacts], ...],
    options: StrategyOptions,
) -> tuple[Unit, ...]:
    """A strategy's units, the best first: made once for a graph and a set of facts, for all shards that a task runs.
    Of one priority those come first that have the least way to go: where arrivals are told apart no further than by
    micro-batch, what is further up is of older tuples."""

    def rank(unit: Unit) -> tuple[float, int]:
        return -unit.priority, len(unit.operators) + graph.above[unit.operators[-1]]

    return tuple(sorted(made(graph, dict(facts), options), key=rank))


class Fifo(_Static):
    """Section 2.2: the oldest tuple, along its path to the end. All paths are equal; a turn is at least one tuple."""

    @staticmethod
    def made(graph: OperatorGraph, facts: Facts, options: StrategyOptions) -> Iterable[Unit]:
        for one in with_ends(dict.fromkeys(graph.paths, 1.0), facts, options.slice_s, lambda _: 1.0):
            yield replace(one, limits=tuple(max(1.0, limit) for limit in one.limits), is_oldest=True)


class Chain(_Static):
    """Section 2.2: the operator under the steepest line of the lower envelope."""

    @staticmethod
    def made(graph: OperatorGraph, facts: Facts, options: StrategyOptions) -> Iterable[Unit]:
        slopes = chain_slopes(graph, facts)
        singles: dict[OperatorPath, float] = {(name,): slopes[name] for name in graph.names}
        return with_ends(singles, facts, options.slice_s, singles.__getitem__)


class PathCapacity(_Static):
    """Section 3.1: the path that consumes the most tuples in a unit of time."""

    @staticmethod
    def made(graph: OperatorGraph, facts: Facts, options: StrategyOptions) -> Iterable[Unit]:
        capacities = {path: path_capacity(facts_of(facts, path)) for path in graph.paths}
        return with_ends(capacities, facts, options.slice_s, lambda _: 0.0)


class FullSegment(_Static):
    """Section 3.3: the segment that frees the most memory in a unit of time."""

    @staticmethod
    def made(graph: OperatorGraph, facts: Facts, options: StrategyOptions) -> Iterable[Unit]:
        return _segment_units(graph, facts, full_segments, options.slice_s)


class SimplifiedSegment(_Static):
    """Section 3.3: the same with at most two segments a path, cut where gamma says."""

    @staticmethod
    def made(graph: OperatorGraph, facts: Facts, options: StrategyOptions) -> Iterable[Unit]:
        cut = partial(simplified_segments, gamma=options.gamma)
        return _segment_units(graph, facts, cut, options.slice_s)


def _segment_units(graph: OperatorGraph, facts: Facts, cut: PathCut, slice_s: float) -> Iterable[Unit]:
    def release(operators: OperatorPath) -> float:
        return segment_release(facts_of(facts, operators), is_last=graph.is_last[operators[-1]])

    segments = segments_of(graph, release_capacities(graph, facts), cut)
    return with_ends({one: release(one) for one in segments}, facts, slice_s, release)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Where the modes change (equation 3.3)."""

    most_bytes: float
    least_bytes: float

    @staticmethod
    def of(limit_bytes: float, mean_bytes: float, beta: float) -> Thresholds:
        """For the memory there is and the mean of what is in use.

        >>> Thresholds.of(limit_bytes=100, mean_bytes=20, beta=0.9)
        Thresholds(most_bytes=60.0, least_bytes=20)
        """
        alpha = mean_bytes / max(limit_bytes, 1.0)
        most_bytes = min((1 + alpha) / 2 * limit_bytes, beta * limit_bytes)
        return Thresholds(most_bytes, min(mean_bytes, beta * most_bytes))


class Threshold:
    """Section 3.4: path capacity while memory is plenty, simplified segments from T_max on until it is down to T_min.
    Without a limit memory is always plenty. Where work is done in steps, what would be left is reason enough to save
    memory; saving ends with a step in which there was none: that little is left may be because the step went on past
    its budget until it was so."""

    def __init__(self, graph: OperatorGraph, facts: Facts, options: StrategyOptions, memory: StrategyMemory) -> None:
        self._options = options
        self._memory = memory
        self._was_short = False
        """Whether too much would have been left, in this step."""
        self._by_mode: dict[Mode, Strategy] = {
            Mode.NORMAL: PathCapacity(graph, facts, options, memory),
            Mode.SAVING: SimplifiedSegment(graph, facts, options, memory),
        }

    def units(self, waiting: Waiting) -> Sequence[Unit]:
        limit_bytes = self._options.limit_bytes
        if limit_bytes is not None:
            self._memory.observe(waiting.size_bytes, waiting.at_s, self._options.mean_over_s)
            thresholds = Thresholds.of(limit_bytes, self._memory.mean_bytes, self._options.beta)
            is_short = waiting.size_bytes >= thresholds.most_bytes
            if is_short:
                self._memory.enter(Mode.SAVING)
            elif waiting.size_bytes <= thresholds.least_bytes and not (waiting.is_forecast or self._was_short):
                self._memory.enter(Mode.NORMAL)
            self._was_short = waiting.is_forecast and (self._was_short or is_short)
        return self._by_mode[self._memory.mode].units(waiting)


STRATEGIES: dict[str, type[Strategy]] = {
    "fifo": Fifo,
    "chain": Chain,
    "path": PathCapacity,
    "segment": FullSegment,
    "simplified": SimplifiedSegment,
    "threshold": Threshold,
}
