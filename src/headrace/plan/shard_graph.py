"""The operators that run in a shard, as a graph: what the packing of rows does before is left out.

Owns ``shard_graph`` and ``class_paths``. A group whose classes are not kept apart is one operator: its join. Cost: the
plan's size; made once for a plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.plan.aggregates import Grouping
from headrace.plan.graph_building import class_operators, join_operator
from headrace.plan.opgraph import OperatorGraph, OperatorName, OperatorNode
from headrace.plan.sharing import Group, OutputClass


def grouping_of(cls: OutputClass) -> Grouping | None:
    """What a class folds, if it does."""
    return None if cls.folding is None else Grouping(cls.folding.keys, cls.folding.aggregates)


def join_name(group: Group) -> OperatorName:
    """What a group's join, or scan, is called."""
    return join_operator(group, [one.stream for one in group.inputs]).name


def class_paths(group: Group) -> list[tuple[OperatorName, ...]]:
    """For each class, its operators after the join."""
    return [tuple(one.name for one in class_operators(group, cls, ["join"], grouping_of(cls))) for cls in group.classes]


def shard_graph(groups: Mapping[Group, Group]) -> OperatorGraph:
    """The graph of these groups; each with how its classes are kept apart (or itself)."""
    found: dict[OperatorName, OperatorNode] = {}
    for group, apart in groups.items():
        for one in _operators(group, apart):
            found.setdefault(one.name, one)
    return OperatorGraph(tuple(found.values()))


def _operators(group: Group, apart: Group) -> list[OperatorNode]:
    streams = [one.stream for one in group.inputs]
    made: list[OperatorNode] = []
    inputs: list[str] = list(dict.fromkeys(streams))
    if group.is_join:
        join = join_operator(group, streams)
        together = [member.query for cls in apart.classes if cls.deferred is None for member in cls.members]
        made.append(OperatorNode(join.name, join.kind, join.text, join.inputs, tuple(together)))
        inputs = [join.name]
    for cls, raw in zip(group.classes, apart.classes, strict=True):
        if raw.deferred is not None:
            made += class_operators(group, cls, inputs, grouping_of(cls))
    return made
