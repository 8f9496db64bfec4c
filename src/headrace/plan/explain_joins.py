"""EXPLAIN of a multi-way join: its predicates, the order for new tuples of each side, and its grid of cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.config import Settings
from headrace.plan.costs import Order
from headrace.plan.hypercube import Dimension, Grid
from headrace.plan.joingraph import graph_text, key_text
from headrace.plan.joinplans import JoinPlan
from headrace.plan.sharing import Group, expression_text
from headrace.plan.skew import HeavyKey, SeenBySide, SeenKeys
from headrace.plan.switching import number


def side_names(group: Group) -> list[str]:
    """What EXPLAIN calls the sides: their streams, numbered where one is there more than once."""
    streams = [group.input_of(side).stream for side in range(len(group.sides))]
    return [
        f"{stream}#{streams[: side + 1].count(stream)}" if streams.count(stream) > 1 else str(stream)
        for side, stream in enumerate(streams)
    ]


def join_lines(group: Group, join: JoinPlan, settings: Settings, names: Sequence[str]) -> Iterator[str]:
    assert group.graph is not None
    yield f"  joins on      {graph_text(group.graph, names) or 'nothing: every combination'}"
    for side, indexes in enumerate(group.graph.indexes):
        keys = ["(" + ", ".join(expression_text(key) for key in one.keys) + ")" for one in indexes]
        yield f"    searched    {names[side]} by {', '.join(keys) if keys else 'time'}"
    for origin, order in enumerate(join.orders):
        yield f"    new {names[origin]}: {_order_text(join, origin, order, settings, names)}"
    yield f"  partitioning  {_grid_text(group, join, names)}"
    held = [f"{names[side]} {join.grid.copies(side)}" for side in group.graph.sides]
    yield f"    copies      {', '.join(held)}"
    load = sum(size * join.grid.part(side) for side, size in enumerate(join.facts.sizes))
    yield f"    per cell    about {number(load)} tuples held of {number(sum(join.facts.sizes))}"


def heavy_lines(group: Group, grid: Grid, names: Sequence[str]) -> Iterator[str]:
    """How many keys are split, by the stream whose tuples are dealt out."""
    for side in sorted({one.split_side for one in grid.heavy}):
        count = sum(one.split_side == side for one in grid.heavy)
        keys = "1 heavy key" if count == 1 else f"{count} heavy keys"
        copied = [names[other] for other in range(len(group.sides)) if other != side]
        yield f"    split       {keys}: {names[side]} dealt out, {' and '.join(copied)} copied"


def heavy_text(group: Group, grid: Grid, key: HeavyKey, seen: SeenBySide) -> str:
    """What is said when a key becomes heavy."""
    name = side_names(group)[key.split_side]
    of_side = seen.get((key.attribute, key.split_side), SeenKeys())
    part = of_side.keys.get(key.number, 0) / max(of_side.rows, 1)
    cells = next((one.share for one in grid.dimensions if one.attribute == key.attribute), 1)
    return f"a key of {name} with {part:.0%} of its tuples is split over {cells} cells"


def _order_text(join: JoinPlan, origin: int, order: Order, settings: Settings, names: Sequence[str]) -> str:
    listed = ", ".join(names[side] for side in order)
    choice = join.choices[origin]
    if settings.join_method in ("naive", "general"):
        return listed
    text = f"{listed} ({number(choice.cost)} comparisons a second"
    if choice.runner_up is None:
        return f"{text})"
    runner_up = ", ".join(names[side] for side in choice.runner_up)
    return f"{text}; next best {runner_up}: {number(choice.runner_up_cost)})"


def _grid_text(group: Group, join: JoinPlan, names: Sequence[str]) -> str:
    dimensions = join.grid.dimensions
    if not dimensions:
        return "one cell"
    shape = " x ".join(str(one.share) for one in dimensions)
    parts = [_dimension_text(group, one, names) for one in dimensions]
    return f"hypercube of {shape} {'cells' if join.grid.cells > 1 else 'cell'}: {'; '.join(parts)}"


def _dimension_text(group: Group, one: Dimension, names: Sequence[str]) -> str:
    if one.attribute is None:
        return f"{names[one.sides[0]]} dealt out over {one.share}"
    assert group.graph is not None
    attribute = group.graph.classes[one.attribute]
    keys = [key_text(names[side], key) for side, key in zip(attribute.sides, attribute.keys, strict=True)]
    return f"hash of {' = '.join(keys)} over {one.share}"
