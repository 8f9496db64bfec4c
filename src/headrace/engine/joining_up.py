"""Pairs that a half-way join found as joined tuples, for the state in between that keeps them.

      0:k 0:ts ... | 2:k 2:ts ... | key of the join above | until, newest, fresh      one row a pair

Owns ``joined_rows``. Rows whose tuples were collected in different ways are segments of their own. Cost: the pairs'
columns are gathered once, and sorted by (key, until).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.engine.halfway import Found, Probe, arrivals_of
from headrace.engine.keys import Int64s
from headrace.engine.relations import (
    FRESH,
    JOINED_LAYOUT,
    NEWEST,
    NEWEST_US,
    UNTIL,
    Relation,
    SideFacts,
    carried_columns,
    class_column,
    joined_collection,
)
from headrace.engine.segments import KEY, NUMBER, build_segment
from headrace.engine.spaces import NewRows
from headrace.engine.window import Collected
from headrace.plan.joingraph import JoinGraph
from headrace.plan.trees import Sides


@dataclass(frozen=True, slots=True)
class StateForm:
    """How a state in between is kept: the class that the join above searches it by (None: there is none), the classes
    that joins further up compare, and, where it is measured in joined tuples, how many."""

    sides: Sides
    key: int | None
    classes: tuple[int, ...]
    rows: int | None = None

    @property
    def is_counted(self) -> bool:
        """Whether it keeps a number of joined tuples, rather than those that are in their windows."""
        return self.rows is not None


def form_of(graph: JoinGraph, sides: Sides, key: int | None, rows: int | None) -> StateForm:
    own = set(sides)
    reaching = [number for number, one in enumerate(graph.classes) if own & {*one.sides} and {*one.sides} - own]
    return StateForm(sides, key, tuple(reaching), rows)


def newest_of(probe: Probe, found: Found, facts: Sequence[SideFacts]) -> tuple[np.ndarray, Int64s]:
    """The side and the time of each pair's newest tuple: the probe's, unless it came late."""
    side, newest_us = probe.own.newest_side(found.mine), probe.own.newest_us(found.mine)
    if not probe.is_late:
        return side, newest_us
    other, other_us = probe.partner.newest_side(found.theirs), probe.partner.newest_us(found.theirs)
    positions = np.array([one.position for one in facts])
    mine = (newest_us, positions[side], arrivals_of(probe.own, found.mine, NUMBER))
    theirs = (other_us, positions[other], arrivals_of(probe.partner, found.theirs, NUMBER))
    is_newer = theirs[2] > mine[2]
    for one, another in ((theirs[1], mine[1]), (theirs[0], mine[0])):
        is_newer = (one > another) | ((one == another) & is_newer)
    return np.where(is_newer, other, side).astype(np.int8), np.where(is_newer, other_us, newest_us)


def joined_rows(probe: Probe, found: Found, form: StateForm, numbers: Int64s | None = None) -> list[NewRows]:
    """The pairs as rows of a state; ``numbers``: how many it has been given before each, where that is its measure."""
    kinds = (probe.own.kinds(found.mine), probe.partner.kinds(found.theirs))
    codes = kinds[0][1] * len(kinds[1][0]) + kinds[1][1]
    made_here = []
    for code in np.unique(codes).tolist():
        mine, theirs = kinds[0][0][code // len(kinds[1][0])], kinds[1][0][code % len(kinds[1][0])]
        are_all = len(found) and (codes == code).all()
        some = found if are_all else found.where(codes == code)
        given = numbers if numbers is None or are_all else numbers[codes == code]
        made_here.append(_rows(probe, some, form, {**mine, **theirs}, given))
    return made_here


def _rows(
    probe: Probe, found: Found, form: StateForm, collections: dict[int, Collected], numbers: Int64s | None
) -> NewRows:
    columns: dict[str, pa.Array] = {}
    sides = sorted(collections)
    for side in sides:
        relation, addresses = _where(probe, found, side)
        for name, joined, kind in carried_columns(relation, side, collections[side]):
            columns[joined] = relation.view(side).column(name, kind, addresses)
    newest, newest_us = newest_of(probe, found, probe.facts)
    for number in form.classes:
        columns[class_column(number)] = pa.array(_class_numbers(probe, found, number))
    if form.key is None:
        columns[KEY] = pa.array(np.zeros(len(found), dtype=np.int64))
    else:
        columns[KEY] = columns[class_column(form.key)]
    if numbers is not None and form.rows is not None:
        until = numbers + form.rows
    else:
        until = np.minimum(probe.own.until(found.mine), probe.partner.until(found.theirs))
    fresh = np.minimum(probe.own.fresh_us(found.mine), probe.partner.fresh_us(found.theirs))
    marks = {UNTIL: until, NEWEST: newest.astype(np.int8), NEWEST_US: newest_us, FRESH: fresh}
    columns |= {name: pa.array(values) for name, values in marks.items()}
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    order = np.argsort(until, kind="stable")
    segment, by_key = build_segment(batch.take(pa.array(order)), JOINED_LAYOUT)
    ordered = {side: collections[side] for side in sides}
    return NewRows(segment, found.ranks[order][by_key], joined_collection(ordered))


def _where(probe: Probe, found: Found, side: int) -> tuple[Relation, Int64s]:
    return (probe.own, found.mine) if side in probe.own.sides else (probe.partner, found.theirs)


def _class_numbers(probe: Probe, found: Found, number: int) -> Int64s:
    of = probe.graph.classes[number]
    side = next(side for side in of.sides if side in probe.link.half.result)
    relation, addresses = _where(probe, found, side)
    return relation.class_numbers(number, of, addresses)
