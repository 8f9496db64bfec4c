"""EXPLAIN of a multi-way join: its predicates, the order for new tuples of each side, and its grid of cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.config import Settings
from headrace.model import format_duration
from headrace.plan.costs import Order
from headrace.plan.expressions import expression_text
from headrace.plan.hypercube import Dimension, Grid
from headrace.plan.joingraph import graph_text, key_text
from headrace.plan.joinplans import JoinPlan, buckets_of, cost_of, expiry_us
from headrace.plan.planes import Plane, plane_for
from headrace.plan.sharing import Group
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
    yield f"    upkeep      {_upkeep_text(group, join, settings, names)}"
    for origin in group.graph.sides if not group.is_tree else ():
        yield f"    new {names[origin]}: {_order_text(join, origin, settings, names)}"
    yield f"  partitioning  {_grid_text(group, join, names)}"
    held = [f"{names[side]} {join.grid.copies(side)}" for side in group.graph.sides]
    yield f"    copies      {', '.join(held)}"
    yield f"    per cell    {_load_text(join)}"


def _load_text(join: JoinPlan) -> str:
    """What a cell holds, as is to be expected or as it was measured."""
    parts = [join.grid.part(side) for side in join.facts.sides]
    if join.is_measured:
        whole = sum(size / part for size, part in zip(join.facts.sizes, parts, strict=True))
        return f"about {number(sum(join.facts.sizes))} tuples held of {number(whole)}, as measured"
    load = sum(size * part for size, part in zip(join.facts.sizes, parts, strict=True))
    return f"about {number(load)} tuples held of {number(sum(join.facts.sizes))}"


def heavy_lines(group: Group, grid: Grid, names: Sequence[str]) -> Iterator[str]:
    """How many keys are split, by the stream whose tuples are dealt out."""
    plane = _plane_of(group, grid)
    if plane is not None and grid.heavy:
        keys = "1 heavy key" if len(grid.heavy) == 1 else f"{len(grid.heavy)} heavy keys"
        yield f"    split       {keys}: over {len(plane.lines)} cells, a tuple to {len(plane.cells[0])} of them"
        return
    for side in sorted({one.split_side for one in grid.heavy}):
        count = sum(one.split_side == side for one in grid.heavy)
        keys = "1 heavy key" if count == 1 else f"{count} heavy keys"
        attributes = {one.attribute for one in grid.heavy if one.split_side == side}
        keyed = {one for dimension in grid.dimensions if dimension.attribute in attributes for one in dimension.sides}
        copied = [names[other] for other in sorted(keyed) if other != side]
        yield f"    split       {keys}: {names[side]} dealt out, {' and '.join(copied)} copied"


def heavy_text(group: Group, grid: Grid, key: HeavyKey, seen: SeenBySide) -> str:
    """What is said when a key becomes heavy."""
    plane = _plane_of(group, grid)
    name = group.inputs[0].stream if plane is not None else side_names(group)[key.split_side]
    of_side = seen.get((key.attribute, key.split_side), SeenKeys())
    part = of_side.keys.get(key.number, 0) / max(of_side.rows, 1)
    cells = next((one.share for one in grid.dimensions if one.attribute == key.attribute), 1)
    cells = cells if plane is None else len(plane.lines)
    return f"a key of {name} with {part:.0%} of its tuples is split over {cells} cells"


def _plane_of(group: Group, grid: Grid) -> Plane | None:
    """How heavy keys of a stream that is joined with itself are spread."""
    return plane_for(grid.cells) if group.sides == (0, 0) else None


def _order_text(join: JoinPlan, origin: int, settings: Settings, names: Sequence[str]) -> str:
    """The order in use, its cost, and the best other one."""
    order, choice = join.orders[origin], join.choices[origin]
    other, cost = (choice.runner_up, choice.runner_up_cost) if order == choice.order else (choice.order, choice.cost)
    text = f"{_listed(order, names)} ({number(cost_of(join, origin, settings))} comparisons a second"
    return f"{text})" if other is None else f"{text}; next {_listed(other, names)}: {number(cost)})"


def _listed(order: Order, names: Sequence[str]) -> str:
    return ", ".join(names[side] for side in order)


def _upkeep_text(group: Group, join: JoinPlan, settings: Settings, names: Sequence[str]) -> str:
    """How often tuples are joined and let go, and how large indexes are, where that is not the default."""
    every = f"every {format_duration(settings.reevaluate_us)}" if settings.reevaluate_us else "at once"
    interval_us = expiry_us(group, settings, join.facts)
    let_go = f"let go every {format_duration(interval_us)}" if interval_us else "let go at once"
    shares = buckets_of(group, settings, join.facts)
    if shares is None:
        return f"joined {every}, {let_go}"
    buckets = ", ".join(f"{name} {share}" for name, share in zip(names, shares, strict=True))
    return f"joined {every}, {let_go}; buckets: {buckets}"


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
