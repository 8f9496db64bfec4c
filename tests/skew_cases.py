"""Grids with heavy keys for the engine's tests: any shares, any keys that were seen, declared between micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import engine_cases as cases
from engine_cases import SECOND_US, Case
from hypothesis import strategies as st
from local_host import LocalHost
from strategies import windows

from headrace.model import QueryId
from headrace.plan.functions import call
from headrace.plan.hypercube import Dimension, Grid, grid_of
from headrace.plan.queries import Output, Query, Source
from headrace.plan.sharing import Group, SharedPlan
from headrace.plan.skew import HeavyKey, seen_together


@st.composite
def grids(draw: st.DrawFn, plan: SharedPlan, shards: int) -> dict[str, Grid]:
    """A grid for each join that can have one: the one it would have, or any."""
    found = {}
    for group in plan.groups:
        own = grid_of(group, shards)
        if own is not None:
            found[group.signature] = draw(st.one_of(st.just(own), any_grid(group, shards)))
    return found


@st.composite
def any_grid(draw: st.DrawFn, group: Group, shards: int) -> Grid:
    """Shares along some attribute classes, and perhaps a side or two dealt out."""
    keyed = [(sides, attribute) for attribute, sides in enumerate(group.key_sides)]
    dealt = [((side,), None) for side in range(len(group.sides))] if group.graph is not None else []
    dimensions, left = [], shards
    for sides, attribute in [*draw(st.permutations(keyed)), *draw(st.permutations(dealt))[:2]]:
        share = draw(st.sampled_from([one for one in (left, 3, 2, 1) if one <= left]))
        left //= share
        if share > 1:
            dimensions.append(Dimension(sides, attribute, share))
    return Grid(tuple(dimensions))


@st.composite
def more_heavy(draw: st.DrawFn, host: LocalHost) -> dict[str, Grid]:
    """The host's grids, with some of the keys heavy that came in its last micro-batch: from now on, or a bit later."""
    found = dict(host.grids)
    for signature, by_side in seen_together(host.heavy_seen).items():
        grid = found.get(signature)
        if grid is None:
            continue
        sides = {one.attribute: one.sides for one in grid.dimensions}
        places = sorted({(attribute, number) for (attribute, _), seen in by_side.items() for number in seen.keys})
        known = {(one.attribute, one.number) for one in grid.heavy}
        fresh = [place for place in places if place not in known]
        for attribute, number in draw(st.lists(st.sampled_from(fresh), max_size=2, unique=True)) if fresh else ():
            since_us = host.newest_us + draw(st.sampled_from((1, 1, 1, SECOND_US)))
            grid = _with(grid, HeavyKey(attribute, number, draw(st.sampled_from(sides[attribute])), since_us))
        found[signature] = grid
    return found


@st.composite
def self_joins(draw: st.DrawFn) -> Case:
    """A stream joined with itself on one key, which most tuples have; queries that share it in several windows."""
    catalog = draw(cases.catalogs(most=2))
    steps = st.lists(
        st.tuples(st.sampled_from((0, 0, 1, 1, 2)), st.sampled_from((0, 0, 0, 2))), min_size=6, max_size=24
    )
    first = catalog.streams[0].name
    arrived = draw(cases.arrivals(catalog))
    if draw(st.integers(0, 3)):
        now, arrived[first] = 0, []
        for number, (step, code) in enumerate(draw(steps)):
            now += step
            arrived[first].append(cases.row(now, number, code))
    key = draw(st.sampled_from(("k", "k", "n", "name")))
    outputs = tuple(Output(f"{name}{i}", cases.column(i, name)) for name in ("ts", "id") for i in (0, 1))
    joined = (call("=", cases.column(0, key), cases.column(1, key)),)
    query = Query(QueryId("q0"), (Source(first, "s"), Source(first, "t")), joined, outputs, draw(windows(2)))
    more = draw(st.lists(cases.variants(query, cases.Kinds.ALL), max_size=2))
    return Case(catalog, arrived, (query, *(replace(one, name=QueryId(f"q{i}")) for i, one in enumerate(more, 1))))


def _with(grid: Grid, key: HeavyKey) -> Grid:
    return replace(grid, heavy=(*grid.heavy, key))


def heavy_count(grids: Mapping[str, Grid]) -> int:
    return sum(len(grid.heavy) for grid in grids.values())
