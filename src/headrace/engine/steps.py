"""How a multi-way join goes from one side to the next: which index is searched, and what is checked on arrival.

      order  b, c, a          bound {b}      c by the index of its y, from b.y
                              bound {b, c}   a by the index of its x, from b.x;  then check c.v < a.v

Owns: ``steps_of``, which turns an order of the sides into :class:`Step`. A step is prepared once for a scan; it costs
nothing a tuple. Where several indexes would do, an equality is preferred to a range, and a range with two ends to one
with one (paper 002, sections 3.4 and 3.5: hash buckets where there are some, whole windows otherwise).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from headrace.plan.expressions import Expression, sources_of
from headrace.plan.joingraph import JoinGraph
from headrace.plan.ranges import Range


class Access(Enum):
    """How the next side's rows are found."""

    KEY = "key"
    """By an equality with a bound side: the rows of one key, in time order."""
    RANGE = "range"
    """By comparisons with bound sides: a range of an index, in no order of time."""
    TIME = "time"
    """By the window alone, in a side that is in time order."""
    ALL = "all"
    """Every row that is held."""


@dataclass(frozen=True, slots=True)
class Equal:
    """An index of the next side, and the bound side's whose key it must equal."""

    index: int
    bound_side: int
    bound_index: int


@dataclass(frozen=True, slots=True)
class Step:
    """From the bound sides to ``side``."""

    side: int
    access: Access
    key: Equal | None
    ranges: tuple[Range, ...]
    equals: tuple[Equal, ...]
    """Other keys that must agree."""
    predicates: tuple[Expression, ...]
    """What can be checked now and could not before."""


def steps_of(graph: JoinGraph, order: Sequence[int], *, by_ranges: bool = True) -> tuple[Step, ...]:
    """The steps of an order; the first binds a side to whatever it starts from. ``by_ranges``: whether comparisons are
    looked up at all, or every row is compared."""
    steps = []
    for position, side in enumerate(order):
        bound = frozenset(order[:position])
        equals = _equals(graph, bound, side)
        ranges = () if equals or not by_ranges else best_ranges(graph, bound, side)
        steps.append(
            Step(
                side,
                _access(graph, side, equals, ranges),
                equals[0] if equals else None,
                ranges,
                equals[1:],
                _checkable(graph, bound, side),
            )
        )
    return tuple(steps)


def connected_order(graph: JoinGraph, origin: int) -> tuple[int, ...]:
    """An order for when nothing is known: by keys where they lead on, else by ranges, else as it comes."""
    order = [origin]
    while len(order) < len(graph.streams):
        left = [side for side in graph.sides if side not in order]
        order.append(min(left, key=lambda side: _PREFERENCE.index(steps_of(graph, (*order, side))[-1].access)))
    return tuple(order)


_PREFERENCE = (Access.KEY, Access.RANGE, Access.TIME, Access.ALL)


def _access(graph: JoinGraph, side: int, equals: Sequence[Equal], ranges: Sequence[Range]) -> Access:
    if equals:
        return Access.KEY
    if ranges:
        return Access.RANGE
    return Access.ALL if graph.indexes[side] else Access.TIME


def _equals(graph: JoinGraph, bound: frozenset[int], side: int) -> tuple[Equal, ...]:
    """The classes this side shares with a bound one; of one class, one bound side is enough: the others equal it."""
    found = []
    for one in graph.classes:
        others = [other for other in one.sides if other in bound]
        if side in one.sides and others:
            found.append(Equal(one.index_of(side), others[0], one.index_of(others[0])))
    return tuple(found)


def best_ranges(graph: JoinGraph, bound: frozenset[int], side: int) -> tuple[Range, ...]:
    """The comparisons on one index of the side that bound sides can make: those that cut it most."""
    by_index: dict[int, list[Range]] = {}
    for one in graph.ranges:
        if one.side == side and one.bound_sides <= bound:
            by_index.setdefault(one.index, []).append(one)
    most: list[Range] = max(by_index.values(), key=lambda some: (_ends(some), len(some)), default=[])
    return tuple(most)


def _ends(ranges: Sequence[Range]) -> int:
    functions = {one.function[0] for one in ranges}
    return 3 if "=" in functions else len(functions)


def _checkable(graph: JoinGraph, bound: frozenset[int], side: int) -> tuple[Expression, ...]:
    now = bound | {side}
    return tuple(one for one in graph.predicates if side in sources_of(one) and sources_of(one) <= now)
