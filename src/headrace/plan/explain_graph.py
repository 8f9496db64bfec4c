"""EXPLAIN of the operator graph: operators with their uses, paths and segments, with capacities where facts are known.

Owns ``graph_lines``. Stable: the same graph and facts always print the same. Cost: the graph's size; of many paths only
the first are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headrace.plan.capacities import (
    OperatorFacts,
    assumed_facts,
    facts_of,
    path_capacity,
    processing_capacity,
    release_capacities,
    segment_capacity,
    segment_release,
)
from headrace.plan.opgraph import OperatorGraph, OperatorName, OperatorNode
from headrace.plan.path_segments import PathCut, full_segments, segments_of, simplified_segments
from headrace.plan.switching import number

MOST_SHOWN = 20
"""Paths or segments that are listed; of more, it is said how many there are."""
_SHOWN_TEXT = 100

Facts = Mapping[OperatorName, OperatorFacts]


def graph_lines(graph: OperatorGraph, facts: Facts | None = None) -> Iterator[str]:
    """The operators, the paths, and the segments of both kinds. ``facts``: what was measured so far."""
    known = dict(facts or {})
    shared = sum(graph.uses(name) > 1 for name in graph.names)
    yield f"operators: {len(graph.names)} over {_counted(len(graph.sources), 'stream')}, {shared} shared"
    places = {name: place for place, name in enumerate(graph.names, 1)}
    for one in graph.operators:
        yield from _operator_lines(graph, one, places, known)
    yield f"paths: {len(graph.paths)}"
    yield from _listed([_path_text(path, places, known) for path in graph.paths])
    for title, cut in _CUTS.items():
        yield from _segment_lines(graph, title, cut, places, known)


_CUTS: Mapping[str, PathCut] = {"segments": full_segments, "simplified segments": simplified_segments}


def _operator_lines(
    graph: OperatorGraph, one: OperatorNode, places: Mapping[OperatorName, int], known: Facts
) -> Iterator[str]:
    reads = ", ".join(f"{places[OperatorName(given)]}" if given in places else given for given in one.inputs)
    used = f"for {_counted(graph.uses(one.name), 'query', 'queries')}"
    yield f"  {places[one.name]:<3} {one.name}, of {reads}, {used}"
    yield f"        {shortened(one.text)}"
    if one.name in known:
        yield f"        {facts_text(known[one.name])}"


def facts_text(facts: OperatorFacts) -> str:
    """What an operator is like, in a line.

    >>> facts_text(OperatorFacts(service_s=1e-6, selectivity=0.25, input_bytes=64, output_bytes=48))
    'selectivity 0.25, 1,000,000 tuples/s, 64 -> 48 bytes'
    """
    rate = f"{number(processing_capacity(facts))} tuples/s"
    return f"selectivity {facts.selectivity:.2f}, {rate}, {facts.input_bytes:.0f} -> {facts.output_bytes:.0f} bytes"


def _path_text(path: Sequence[OperatorName], places: Mapping[OperatorName, int], known: Facts) -> str:
    text = _way(path, places)
    if all(name in known for name in path):
        text += f"  {number(path_capacity(facts_of(known, path)))} tuples/s"
    return text


def _segment_lines(
    graph: OperatorGraph, title: str, cut: PathCut, places: Mapping[OperatorName, int], known: Facts
) -> Iterator[str]:
    """Segments as they follow from what was measured, or from guesses where nothing was."""
    facts = assumed_facts(graph, known)
    segments = segments_of(graph, release_capacities(graph, facts), cut)
    guessed = "" if len(known) >= len(graph.names) else " (guessed until every operator has run)"
    yield f"{title}: {len(segments)}{guessed}"
    lines = []
    for one in segments:
        mine = facts_of(facts, one)
        told = ""
        if all(name in known for name in one):
            freed = segment_release(mine, is_last=graph.is_last[one[-1]])
            verb = "takes" if freed < 0 else "frees"
            told = f"  {number(segment_capacity(mine))} tuples/s, {verb} {number(abs(freed))} bytes/s"
        lines.append(_way(one, places) + told)
    yield from _listed(lines)


def _way(names: Sequence[OperatorName], places: Mapping[OperatorName, int]) -> str:
    return " > ".join(str(places[name]) for name in names)


def _listed(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"  {line}" for line in lines[:MOST_SHOWN])
    if len(lines) > MOST_SHOWN:
        yield f"  and {len(lines) - MOST_SHOWN} more"


def shortened(text: str, most: int = _SHOWN_TEXT) -> str:
    """A text that is not too long.

    >>> shortened("abcdefgh", 6), shortened("abc", 6)
    ('abc...', 'abc')
    """
    return text if len(text) <= most else text[: most - 3] + "..."


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
