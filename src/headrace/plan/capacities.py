"""How fast operators, paths and segments work and free memory: the equations of paper 003, and Chain's lower envelope.

      size  |*                         one tuple on its way up a path: how large what is left of it is (each output,
            |  \\ *                     times the selectivities so far) by how long it took (each service time, times
            |   \\     *                the selectivities before); the last output goes to the root, which is nothing
            |    *                     The envelope is the lowest way down: from each point the steepest line on. All
            |        - - - *           operators under a line have its slope (Chain, paper 003 section 2.2)
            +------------------ time

Owns :class:`OperatorFacts` and the equations. Time is seconds, or any other unit; sizes are bytes, or any other. All is
pure and linear in the operators given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from headrace.errors import PlanError
from headrace.plan.opgraph import OperatorGraph, OperatorKind, OperatorName


@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """What an operator is like: the time a tuple takes, how many come out for one that goes in (a join's: of either
    side), and the mean sizes of a tuple that goes in and of one that comes out. ``held_bytes``: of the results that a
    join holds for larger windows, for each probe that found them; None: not known. ``per_weight``: how many tuples of a
    stream it takes in a shard for one that heartbeats weigh (a join's: for a probe). ``taken``: how many tuples come to
    it for one that goes into the operator before it; None: all that this one makes. ``copies``: in how many queues each
    tuple goes that comes out, on the average."""

    service_s: float
    selectivity: float
    input_bytes: float = 1.0
    output_bytes: float = 1.0
    held_bytes: float | None = None
    per_weight: float = 1.0
    taken: float | None = None
    copies: float = 1.0

    def __post_init__(self) -> None:
        if not (self.service_s > 0 and self.selectivity >= 0 and self.input_bytes >= 0 and self.output_bytes >= 0):
            raise PlanError(f"an operator cannot be like this: {self}")


def processing_capacity(facts: OperatorFacts) -> float:
    """Tuples in a unit of time (section 2.1)."""
    return 1 / facts.service_s


def release_capacity(facts: OperatorFacts, *, is_last: bool = False) -> float:
    """Memory freed in a unit of time (equation 2.1); what the last operator gives is in no queue.

    >>> release_capacity(OperatorFacts(service_s=1, selectivity=0.2))
    0.8
    """
    return segment_release([facts], is_last=is_last)


def segment_capacity(facts: Iterable[OperatorFacts]) -> float:
    """Tuples that go through several operators in a unit of time (equation 3.1; its last term has the selectivities
    before the last operator, as in 2.2).

    >>> segment_capacity([OperatorFacts(1, 0.2), OperatorFacts(5, 0.8)])
    0.5
    """
    *_, (needed_s, _, _) = _climb(list(facts))
    return 1 / needed_s


def passed_on(one: OperatorFacts, reader: OperatorFacts) -> float:
    """How many tuples come to one that reads an operator's output, for one that goes into that."""
    return one.selectivity if reader.taken is None else reader.taken


def _climb(facts: Sequence[OperatorFacts]) -> Iterator[tuple[float, float, float]]:
    """A tuple's way up several operators, after each of them: the time so far, how many it has become that go on, and
    the memory that those take that went to other readers."""
    needed_s, left, aside_bytes = 0.0, 1.0, 0.0
    for one, reader in zip_longest(facts, facts[1:]):
        needed_s += left * one.service_s
        made, left = left * one.selectivity, left * (one.selectivity if reader is None else passed_on(one, reader))
        if reader is not None:
            aside_bytes += max(0.0, made * one.copies - left) * one.output_bytes
        yield needed_s, left, aside_bytes


def segment_release(facts: Sequence[OperatorFacts], *, is_last: bool) -> float:
    """Memory that a segment frees in a unit of time (equation 3.2); nothing of the last one's output stays. What its
    operators give to others that read them stays before those."""
    *_, (needed_s, left, aside_bytes) = _climb(facts)
    kept_bytes = 0.0 if is_last else facts[-1].output_bytes * facts[-1].copies * left
    return 1 / needed_s * (facts[0].input_bytes - kept_bytes - aside_bytes)


def path_capacity(facts: Iterable[OperatorFacts]) -> float:
    """Tuples that a whole path consumes in a unit of time (equation 2.2)."""
    return segment_capacity(facts)


def path_release(facts: Sequence[OperatorFacts]) -> float:
    """Memory that a whole path frees in a unit of time (equation 2.3)."""
    return segment_release(facts, is_last=True)


def work_upward_s(graph: OperatorGraph, facts: Mapping[OperatorName, OperatorFacts]) -> dict[OperatorName, float]:
    """By operator, how long a tuple that waits before it takes, with all that comes of it up to the root, to every
    reader of an operator's output."""
    found: dict[OperatorName, float] = {}
    for name in reversed(graph.names):
        above_s = sum(passed_on(facts[name], facts[reader]) * found[reader] for reader in graph.consumers[name])
        found[name] = facts[name].service_s + above_s
    return found


def progress_chart(facts: Sequence[OperatorFacts]) -> list[tuple[float, float]]:
    """(time, size) of one tuple of a path before its first operator and after each; nothing is left after the last.

    >>> progress_chart([OperatorFacts(1, 0.2), OperatorFacts(5, 0.8)])
    [(0.0, 1.0), (1.0, 0.2), (2.0, 0.0)]
    """
    points = [(0.0, facts[0].input_bytes)]
    for number, (one, (time_s, left, aside_bytes)) in enumerate(zip(facts, _climb(facts), strict=True), 1):
        mine_bytes = 0.0 if number == len(facts) else left * one.output_bytes
        points.append((time_s, mine_bytes + aside_bytes))
    return points


def envelope_slopes(chart: Sequence[tuple[float, float]]) -> list[float]:
    """By operator, how fast memory is freed along the lower envelope where the operator is: never rising.

    >>> envelope_slopes([(0, 1.0), (1, 0.9), (2, 0.1), (4, 0.0)])
    [0.45, 0.45, 0.05]
    """
    slopes: list[float] = []
    start = 0
    while start < len(chart) - 1:
        ends = range(start + 1, len(chart))
        slope, end = max(((_slope(chart[start], chart[end]), end) for end in ends), key=lambda one: one)
        slopes += [slope] * (end - start)
        start = end
    return slopes


def _slope(one: tuple[float, float], other: tuple[float, float]) -> float:
    taken_s = other[0] - one[0]
    return (one[1] - other[1]) / taken_s if taken_s > 0 else 0.0


def chain_slopes(graph: OperatorGraph, facts: Mapping[OperatorName, OperatorFacts]) -> dict[OperatorName, float]:
    """By operator, its slope in the lower envelope: the steepest of those of its paths."""
    found: dict[OperatorName, float] = {}
    for path in graph.paths:
        slopes = envelope_slopes(progress_chart(facts_of(facts, path)))
        for name, slope in zip(path, slopes, strict=True):
            found[name] = max(slope, found.get(name, slope))
    return found


def release_capacities(graph: OperatorGraph, facts: Mapping[OperatorName, OperatorFacts]) -> dict[OperatorName, float]:
    """By operator, the memory it frees in a unit of time."""
    return {name: release_capacity(facts[name], is_last=graph.is_last[name]) for name in graph.names}


_ASSUMED = {
    OperatorKind.SELECT: OperatorFacts(1e-7, 0.5, 64, 64),
    OperatorKind.PROJECT: OperatorFacts(1e-7, 1.0, 64, 48),
    OperatorKind.SELECT_PROJECT: OperatorFacts(1e-7, 0.5, 64, 48),
    OperatorKind.JOIN: OperatorFacts(1e-6, 1.0, 48, 96),
    OperatorKind.AGGREGATE: OperatorFacts(5e-7, 0.1, 48, 48),
}


def assumed_facts(
    graph: OperatorGraph,
    measured: Mapping[OperatorName, OperatorFacts],
    unknown: Mapping[OperatorKind, OperatorFacts] = _ASSUMED,
) -> dict[OperatorName, OperatorFacts]:
    """What is measured, and a guess for each operator that has done nothing yet: it is like the mean of its kind (of
    those that read a stream, or of the others), or ``unknown`` where none of them was measured; what it takes is as
    large as what it reads is measured to give."""
    leaves = frozenset(graph.leaves)
    kinds: dict[tuple[OperatorKind, bool], list[OperatorFacts]] = {}
    for one in graph.operators:
        if one.name in measured:
            kinds.setdefault((one.kind, one.name in leaves), []).append(measured[one.name])
    found: dict[OperatorName, OperatorFacts] = {}
    for one in graph.operators:
        alike = kinds.get((one.kind, one.name in leaves))
        guess = mean_facts(alike) if alike else unknown[one.kind]
        sizes = [measured[OperatorName(given)].output_bytes for given in one.inputs if given in measured]
        guess = replace(guess, input_bytes=sum(sizes) / len(sizes)) if sizes else guess
        found[one.name] = measured.get(one.name, guess)
    return found


def mean_facts(facts: Sequence[OperatorFacts]) -> OperatorFacts:
    """What operators are like on the average; how much comes to each is its own.

    >>> mean_facts([OperatorFacts(1.0, 0.5, 8.0, 8.0), OperatorFacts(3.0, 1.5, 24.0, 16.0)]).selectivity
    1.0
    """

    def mean(values: Iterable[float]) -> float:
        return sum(values) / len(facts)

    return OperatorFacts(
        mean(one.service_s for one in facts),
        mean(one.selectivity for one in facts),
        mean(one.input_bytes for one in facts),
        mean(one.output_bytes for one in facts),
        per_weight=mean(one.per_weight for one in facts),
        copies=mean(one.copies for one in facts),
    )


def facts_of(facts: Mapping[OperatorName, OperatorFacts], names: Iterable[OperatorName]) -> list[OperatorFacts]:
    return [facts[name] for name in names]
