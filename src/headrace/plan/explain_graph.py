"""EXPLAIN of the operator graph: operators with their uses, paths and segments with their capacities.

Owns ``graph_lines``. Paths and segments are those that strategies choose among: of the operators that take turns.
Where an operator was not measured, capacities follow from a guess, and it is said so. Stable: the same graph and facts
always print the same. Cost: the graph's size; of many operators, paths or segments only the first are shown, of many
operators those that a shown path or segment names, and shared ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from headrace.plan.capacities import (
    OperatorFacts,
    assumed_facts,
    facts_of,
    path_capacity,
    path_release,
    processing_capacity,
    release_capacities,
    release_capacity,
    segment_capacity,
    segment_release,
)
from headrace.plan.opgraph import OperatorGraph, OperatorName, OperatorNode, OperatorPath
from headrace.plan.path_segments import full_segments, segments_of, simplified_segments
from headrace.plan.switching import number

MOST_SHOWN = 128
"""Operators, paths or segments that are listed; of more, it is said how many there are."""
_SHOWN_TEXT = 100

Facts = Mapping[OperatorName, OperatorFacts]


def graph_lines(
    graph: OperatorGraph,
    facts: Facts | None = None,
    scheduled: OperatorGraph | None = None,
    running: OperatorGraph | None = None,
) -> Iterator[str]:
    """The operators, the paths, and the segments of both kinds. ``facts``: what was measured so far; ``scheduled``: the
    operators that take turns, if these are not all; ``running``: all that run, if these are a part of them: who uses an
    operator and what reads it is told of all."""
    turns, running = scheduled or graph, running or graph
    measured = {name: one for name, one in (facts or {}).items() if name in graph.by_name}
    known = {**assumed_facts(graph, measured), **assumed_facts(turns, measured)}
    places = {name: place for place, name in enumerate(graph.names, 1)}
    shared = [one for one in graph.operators if running.uses(one.name) > 1]
    yield f"operators: {len(graph.names)} over {_counted(len(graph.sources), 'stream')}, {len(shared)} shared"
    releases = release_capacities(turns, known)
    whole, simple = (segments_of(turns, releases, cut) for cut in (full_segments, simplified_segments))
    ways = [*turns.paths[:MOST_SHOWN], *whole[:MOST_SHOWN], *simple[:MOST_SHOWN]]
    yield from _operators_shown(graph, running, {name for way in ways for name in way}, places, measured)
    if not measured:
        yield "  capacities are guessed until operators have run under a budget"
    elif guessed := len(graph.names) - len(measured):
        yield f"  capacities of {_counted(guessed, 'operator')} are guessed: not measured"
    before = len(graph.names) - len(turns.names)
    yield f"paths: {len(turns.paths)}{f' of operators that take turns; {before} others run before' if before else ''}"
    yield from _listed([_path_text(path, places, known) for path in turns.paths[:MOST_SHOWN]], len(turns.paths))
    yield f"segments: {len(whole)}"
    yield from _segment_lines(turns, whole, places, known)
    yield f"simplified segments: {'the same' if simple == whole else len(simple)}"
    if simple != whole:
        yield from _segment_lines(turns, simple, places, known)


def _operators_shown(
    graph: OperatorGraph,
    running: OperatorGraph,
    named: Collection[OperatorName],
    places: Mapping[OperatorName, int],
    measured: Facts,
) -> Iterator[str]:
    """All of a few; of many, those that a path or segment below names, and some of the shared ones."""
    shared = [one.name for one in graph.operators if running.uses(one.name) > 1][:MOST_SHOWN]
    is_short = len(graph.names) <= MOST_SHOWN
    shown = [one for one in graph.operators if is_short or one.name in named or one.name in shared]
    for one in shown:
        yield from _operator_lines(running, one, places, measured)
    if len(shown) < len(graph.names):
        yield f"  and {len(graph.names) - len(shown)} more"


def _operator_lines(
    running: OperatorGraph, one: OperatorNode, places: Mapping[OperatorName, int], measured: Facts
) -> Iterator[str]:
    reads = ", ".join(f"{places[OperatorName(given)]}" if given in places else given for given in one.inputs)
    used = f"for {_counted(running.uses(one.name), 'query', 'queries')}"
    yield f"  {places[one.name]:<3} {one.name}, of {reads}, {used}"
    yield f"        {shortened(one.text)}"
    if one.name in measured:
        mine = measured[one.name]
        freed = release_capacity(mine, is_last=running.is_last[one.name])
        copies = f", each in {number(mine.copies)} queues" if mine.copies > 1 else ""
        yield f"        {facts_text(mine)}{copies}, {_freed_text(freed)}"


def facts_text(facts: OperatorFacts) -> str:
    """What an operator is like, in a line.

    >>> facts_text(OperatorFacts(service_s=1e-6, selectivity=0.25, input_bytes=64, output_bytes=48))
    'selectivity 0.25, 1,000,000 tuples/s, 64 -> 48 bytes'
    """
    rate = f"{number(processing_capacity(facts))} tuples/s"
    return f"selectivity {facts.selectivity:.2f}, {rate}, {facts.input_bytes:.0f} -> {facts.output_bytes:.0f} bytes"


def _path_text(path: Sequence[OperatorName], places: Mapping[OperatorName, int], known: Facts) -> str:
    mine = facts_of(known, path)
    return f"{_way(path, places)}  {_capacities_text(path_capacity(mine), path_release(mine))}"


def _segment_lines(
    graph: OperatorGraph, segments: Sequence[OperatorPath], places: Mapping[OperatorName, int], known: Facts
) -> Iterator[str]:
    yield from _listed([_segment_text(graph, one, places, known) for one in segments[:MOST_SHOWN]], len(segments))


def _segment_text(
    graph: OperatorGraph, segment: Sequence[OperatorName], places: Mapping[OperatorName, int], known: Facts
) -> str:
    mine = facts_of(known, segment)
    freed = segment_release(mine, is_last=graph.is_last[segment[-1]])
    return f"{_way(segment, places)}  {_capacities_text(segment_capacity(mine), freed)}"


def _capacities_text(processed: float, freed: float) -> str:
    """Processing and memory release capacity.

    >>> _capacities_text(1000.0, -2.0)
    '1,000 tuples/s, takes 2 bytes/s'
    """
    return f"{number(processed)} tuples/s, {_freed_text(freed)}"


def _freed_text(freed: float) -> str:
    return f"{'takes' if freed < 0 else 'frees'} {number(abs(freed))} bytes/s"


def _way(names: Sequence[OperatorName], places: Mapping[OperatorName, int]) -> str:
    return " > ".join(str(places[name]) for name in names)


def _listed(lines: Sequence[str], count: int) -> Iterator[str]:
    """The first of so many."""
    yield from (f"  {line}" for line in lines)
    if count > len(lines):
        yield f"  and {count - len(lines)} more"


def shortened(text: str, most: int = _SHOWN_TEXT) -> str:
    """A text that is not too long.

    >>> shortened("abcdefgh", 6), shortened("abc", 6)
    ('abc...', 'abc')
    """
    return text if len(text) <= most else text[: most - 3] + "..."


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
