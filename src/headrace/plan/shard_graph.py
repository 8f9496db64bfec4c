"""The operators that run in a shard, as a graph: what the packing of rows does before is left out.

Owns ``shard_graph``, ``class_paths`` and ``scheduled_graph``, and ``running_graph``, which has the packing too: what
EXPLAIN shows. A group whose classes are not kept apart is one operator: its join. Cost: the plan's size; made once for
a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from headrace.model import QueryId
from headrace.plan.aggregates import Grouping
from headrace.plan.deferring import deferred_group
from headrace.plan.graph_building import class_operators, join_operator, leaf_operator, select_project
from headrace.plan.opgraph import OperatorGraph, OperatorName, OperatorNode
from headrace.plan.sharing import Group, OutputClass, SharedPlan


def grouping_of(cls: OutputClass) -> Grouping | None:
    """What a class folds, if it does."""
    return None if cls.folding is None else Grouping(cls.folding.keys, cls.folding.aggregates)


def join_name(group: Group) -> OperatorName:
    """What a group's join, or scan, is called."""
    return join_operator(group, [one.stream for one in group.inputs]).name


def class_paths(group: Group) -> list[tuple[OperatorName, ...]]:
    """For each class, its operators after the join; before an aggregate also the select-project that it may do without
    now: under an earlier plan, or for an earlier version, something may have waited there."""
    return [_class_path(group, cls, grouping_of(cls)) for cls in group.classes]


def _class_path(group: Group, cls: OutputClass, grouping: Grouping | None) -> tuple[OperatorName, ...]:
    first = select_project(group, cls, ["join"], grouping)
    return tuple(dict.fromkeys(one.name for one in (first, *class_operators(group, cls, ["join"], grouping))))


def shard_graph(groups: Mapping[Group, Group]) -> OperatorGraph:
    """The graph of these groups; each with how its classes are kept apart (or itself)."""
    found: dict[OperatorName, OperatorNode] = {}
    for group, apart in groups.items():
        for one in _operators(group, apart):
            found.setdefault(one.name, one)
    return OperatorGraph(tuple(found.values()))


def _operators(group: Group, apart: Group) -> list[OperatorNode]:
    return list(_after(group, apart, [one.stream for one in group.inputs]))


def _after(group: Group, apart: Group, given: Sequence[str]) -> Iterator[OperatorNode]:
    """A group's join, if it has one, and the operators after it; ``given``: what its inputs come from."""
    inputs: list[str] = list(dict.fromkeys(given))
    if group.is_join:
        join = replace(join_operator(group, given), delivers=_together(apart))
        yield join
        inputs = [join.name]
    for cls, raw in zip(group.classes, apart.classes, strict=True):
        if raw.deferred is not None:
            yield from class_operators(group, cls, inputs, grouping_of(cls))


def _together(apart: Group) -> tuple[QueryId, ...]:
    """The queries whose results are finished where they are found."""
    return tuple(member.query for cls in apart.classes if cls.deferred is None for member in cls.members)


def scheduled_graph(plan: SharedPlan) -> OperatorGraph:
    """The operators that take turns in a shard: what packing does is not among them."""
    return shard_graph({group: deferred_group(group) for group in plan.groups})


def running_graph(plan: SharedPlan) -> OperatorGraph:
    """All operators of a plan as they run where there is a budget, those before the shards first. A stream's rows that
    are taken as they are need none."""
    found: dict[OperatorName, OperatorNode] = {}
    for group in plan.groups:
        apart = deferred_group(group)
        leaves = [leaf_operator(plan.catalog, one) for one in group.inputs]
        given = [one.stream if leaf is None else leaf.name for one, leaf in zip(group.inputs, leaves, strict=True)]
        finished = () if group.is_join else _together(apart)
        below = [replace(leaf, delivers=finished) for leaf in leaves if leaf is not None]
        for one in (*below, *_after(group, apart, given)):
            mine = found.get(one.name)
            delivers = tuple(dict.fromkeys((*(mine.delivers if mine else ()), *one.delivers)))
            found[one.name] = replace(mine or one, delivers=delivers)
    return OperatorGraph(tuple(found.values()))
