"""The operator graph as an SVG picture: sources below, the queries on top, one box for each operator.

      layer   the longest way from a source: what an operator reads is always below it
      place   within a layer, about over the middle of what it reads, so that lines seldom cross
      colour  the simplified segment that an operator is in, none where it takes no turns; a thick border: shared, with
              the number of its uses

Owns ``draw_graph``: text in, text out, the standard library only. Cost: the graph's size, and a sort for each layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headrace.plan.capacities import OperatorFacts, assumed_facts, release_capacities
from headrace.plan.drawing import GAP_X, GAP_Y, HEIGHT, MARGIN, WIDTH, Box, box_lines, edge_line, svg_document
from headrace.plan.explain_graph import facts_text
from headrace.plan.opgraph import OperatorGraph, OperatorName
from headrace.plan.path_segments import segments_of, simplified_segments

_QUERIES_SHOWN = 3
_COLOURS = ("#dbe9f6", "#fde8d0", "#ddf1dd", "#f6dbe4", "#e8e0f3", "#fbf3c9", "#d8f0f0", "#ece5dc")


def draw_graph(
    graph: OperatorGraph,
    facts: Mapping[OperatorName, OperatorFacts] | None = None,
    scheduled: OperatorGraph | None = None,
) -> str:
    """An SVG document. ``facts``: what was measured, shown in the boxes; colours follow from it. ``scheduled``: the
    operators that take turns, if these are not all."""
    known = dict(facts or {})
    layers = _layers(graph)
    boxes = _boxes(graph, layers, known, _colours(scheduled or graph, known))
    width = 2 * MARGIN + max((len(layer) for layer in layers), default=1) * (WIDTH + GAP_X) - GAP_X
    height = 2 * MARGIN + len(layers) * (HEIGHT + GAP_Y) - GAP_Y
    drawn = [*_edges(graph, boxes), *(line for box in boxes.values() for line in box_lines(box))]
    return svg_document(width, height, drawn)


def _layers(graph: OperatorGraph) -> list[list[str]]:
    """Names by layer, the sources first and queries above what delivers to them, ordered to keep lines short."""
    depth: dict[str, int] = dict.fromkeys(graph.sources, 0)
    for one in graph.operators:
        depth[one.name] = 1 + max(depth[given] for given in one.inputs)
        if one.delivers:
            depth[_root(one.name)] = depth[one.name] + 1
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for name, number in depth.items():
        layers[number].append(name)
    place = {name: float(number) for number, name in enumerate(layers[0])}
    for layer in layers[1:]:
        wanted = {name: _middle([place[given] for given in _below(graph, name)]) for name in layer}
        layer.sort(key=lambda name: wanted[name])
        place |= {name: max(wanted[name], float(number)) for number, name in enumerate(layer)}
    return layers


def _root(name: str) -> str:
    """What stands for the queries that an operator delivers to."""
    return f"root of {name}"


def _below(graph: OperatorGraph, name: str) -> Sequence[str]:
    return graph.by_name[name].inputs if name in graph.by_name else (name.removeprefix("root of "),)


def _middle(places: Sequence[float]) -> float:
    return sum(places) / len(places)


def _boxes(
    graph: OperatorGraph,
    layers: Sequence[Sequence[str]],
    known: Mapping[OperatorName, OperatorFacts],
    colours: Mapping[OperatorName, str],
) -> dict[str, Box]:
    widest = max((len(layer) for layer in layers), default=1)
    boxes = {}
    for number, layer in enumerate(reversed(layers)):
        left = MARGIN + (widest - len(layer)) * (WIDTH + GAP_X) / 2
        for place, name in enumerate(layer):
            x, y = left + place * (WIDTH + GAP_X), MARGIN + number * (HEIGHT + GAP_Y)
            boxes[name] = _box(graph, name, x, y, known, colours)
    return boxes


def _box(
    graph: OperatorGraph,
    name: str,
    x: float,
    y: float,
    known: Mapping[OperatorName, OperatorFacts],
    colours: Mapping[OperatorName, str],
) -> Box:
    if name in graph.by_name:
        one = graph.by_name[name]
        uses = graph.uses(one.name)
        title = f"{one.name}  x{uses}" if uses > 1 else one.name
        told = (facts_text(known[one.name]),) if one.name in known else ()
        return Box(x, y, (title, one.text, *told), colours.get(one.name, "white"), 2.5 if uses > 1 else 1.0)
    if name in graph.sources:
        return Box(x, y, (name, "stream"), "white", dash="4 3")
    queries = graph.by_name[_below(graph, name)[0]].delivers
    more = f" and {len(queries) - _QUERIES_SHOWN} more" if len(queries) > _QUERIES_SHOWN else ""
    kind = "query" if len(queries) == 1 else f"{len(queries)} queries"
    return Box(x, y, (", ".join(queries[:_QUERIES_SHOWN]) + more, kind), "#f4f4f4", dash="4 3")


def _colours(turns: OperatorGraph, known: Mapping[OperatorName, OperatorFacts]) -> dict[OperatorName, str]:
    """A colour for each operator that takes turns: that of the first simplified segment that it is in."""
    segments = segments_of(turns, release_capacities(turns, assumed_facts(turns, known)), simplified_segments)
    found: dict[OperatorName, str] = {}
    for number, segment in enumerate(segments):
        for name in segment:
            found.setdefault(name, _COLOURS[number % len(_COLOURS)])
    return found


def _edges(graph: OperatorGraph, boxes: Mapping[str, Box]) -> Iterator[str]:
    for name in boxes:
        if name not in graph.sources:
            for given in _below(graph, name):
                yield edge_line(boxes[given].top, boxes[name].bottom)
