"""Groups whose classes are kept apart from their joins, made once for a plan.

A host that restores the shard for every micro-batch has the same plan in its hands each time: what was made for these
very groups serves again. Owns ``apart_from`` and ``graph_from``.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.plan.deferring import deferred_group
from headrace.plan.opgraph import OperatorGraph, OperatorName
from headrace.plan.shard_graph import class_paths, shard_graph
from headrace.plan.sharing import Group

REMEMBERED = 64
"""Groups that stay prepared."""
REMEMBERED_GRAPHS = 4


@dataclass(frozen=True, slots=True)
class Apart:
    """A group whose classes are kept apart from its join, and what their operators are called."""

    group: Group
    names: list[tuple[OperatorName, ...]]


_kept_apart: dict[tuple[int, bool], tuple[Group, Apart | None]] = {}


def apart_from(group: Group, *, is_begun: bool = False) -> Apart | None:
    """The group so; None where it is better together. ``is_begun``: something waits for operators of its own."""
    place = (id(group), is_begun)
    known = _kept_apart.get(place)
    if known is None or known[0] is not group:
        while len(_kept_apart) >= REMEMBERED:
            del _kept_apart[next(iter(_kept_apart))]
        made = deferred_group(group, is_begun=is_begun)
        known = _kept_apart[place] = (group, None if made is group else Apart(made, class_paths(group)))
    return known[1]


Pairs = tuple[tuple[Group, Group], ...]
"""Groups, each with how its classes are kept apart (or itself)."""
_graphs: dict[tuple[int, ...], tuple[Pairs, OperatorGraph]] = {}


def graph_from(groups: Pairs) -> OperatorGraph:
    """The graph of these very groups."""
    place = tuple(id(one) for pair in groups for one in pair)
    if place not in _graphs:  # the groups are kept with it, so that no other one gets their place
        while len(_graphs) >= REMEMBERED_GRAPHS:
            del _graphs[next(iter(_graphs))]
        _graphs[place] = (groups, shard_graph(dict(groups)))
    return _graphs[place][1]
