"""The operator graph: what a shard runs, as select, project, join and aggregate operators with queues between them.

      root               q1   q2,q3                 an edge is a queue; the root takes its input at once, so the edges
                          \\   /                     to it hold nothing (paper 003, section 2)
      operators         P     P'
                         \\   /                      an operator path: from a source to the root, both left out:
                          join                      (S, join, P), (S', join, P), (S, join, P'), (S', join, P')
                         /    \\
      leaf operators    S      S'
                        |      |
      sources           a      b

Owns :class:`OperatorNode` and :class:`OperatorGraph`. An operator's name follows from what it does and from nothing
else: equal sub-plans of different queries are one operator, however many use it, and it is found again by its name when
queries come and go, or after a restart.

Invariants (checked): names are unique; operators stand after those that they read; every operator is used by a query.
Cost: everything is derived once, in the size of the graph; there are as many paths as ways from a source to the root.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import NewType, TypeAlias

from headrace.errors import PlanError
from headrace.model import QueryId

OperatorName = NewType("OperatorName", str)
OperatorPath: TypeAlias = tuple[OperatorName, ...]
"""Operators from a leaf to the last one before the root."""


class OperatorKind(Enum):
    SELECT = "select"
    PROJECT = "project"
    SELECT_PROJECT = "select-project"
    """Both in one: a shorter path (section 4.1)."""
    JOIN = "join"
    AGGREGATE = "aggregate"


def operator_name(kind: OperatorKind, identity: Iterable[str]) -> OperatorName:
    """A name for an operator of which this is all there is to know.

    >>> operator_name(OperatorKind.SELECT, ["t", "x > 3"])
    'select 671be36e'
    """
    told = "\n".join(identity)
    return OperatorName(f"{kind.value} {hashlib.blake2b(told.encode(), digest_size=4).hexdigest()}")


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """One operator. ``inputs``: the operators it reads, and streams by name; ``delivers``: the queries that get what it
    gives, which are edges to the root; ``text``: what it does, for people."""

    name: OperatorName
    kind: OperatorKind
    text: str
    inputs: tuple[str, ...]
    delivers: tuple[QueryId, ...] = ()


@dataclass(frozen=True)
class OperatorGraph:
    """All operators of a set of queries, bottom up."""

    operators: tuple[OperatorNode, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        names = {one.name for one in self.operators}
        for one in self.operators:
            if one.name in seen:
                raise PlanError(f"two operators are called {one.name}")
            if any(given in names and given not in seen for given in one.inputs):
                raise PlanError(f"operator {one.name} stands before one that it reads")
            if not one.inputs:
                raise PlanError(f"operator {one.name} reads nothing")
            seen.add(one.name)
        for one in self.operators:
            if not self.queries_of[one.name]:
                raise PlanError(f"operator {one.name} is of no use to any query")

    @cached_property
    def by_name(self) -> Mapping[str, OperatorNode]:
        return {one.name: one for one in self.operators}

    @cached_property
    def names(self) -> tuple[OperatorName, ...]:
        return tuple(one.name for one in self.operators)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The streams that are read."""
        found = [given for one in self.operators for given in one.inputs if given not in self.by_name]
        return tuple(dict.fromkeys(found))

    @cached_property
    def consumers(self) -> Mapping[str, tuple[OperatorName, ...]]:
        """By source or operator, those that read it: a queue each."""
        found: dict[str, list[OperatorName]] = {name: [] for name in (*self.sources, *self.names)}
        for one in self.operators:
            for given in dict.fromkeys(one.inputs):
                found[given].append(one.name)
        return {name: tuple(readers) for name, readers in found.items()}

    @cached_property
    def leaves(self) -> tuple[OperatorName, ...]:
        """The operators that read a source."""
        return tuple(one.name for one in self.operators if any(given not in self.by_name for given in one.inputs))

    @cached_property
    def queries_of(self) -> Mapping[OperatorName, frozenset[QueryId]]:
        """By operator, the queries that use it; how many they are is its use count."""
        found: dict[OperatorName, frozenset[QueryId]] = {}
        for one in reversed(self.operators):
            above = [found[reader] for reader in self.consumers[one.name]]
            found[one.name] = frozenset(one.delivers).union(*above)
        return found

    def uses(self, name: OperatorName) -> int:
        return len(self.queries_of[name])

    @cached_property
    def is_last(self) -> Mapping[OperatorName, bool]:
        """By operator, whether all it gives goes to the root, and so into no queue."""
        return {name: not self.consumers[name] for name in self.names}

    @cached_property
    def above(self) -> Mapping[OperatorName, int]:
        """By operator, how many stand between it and the root, on the longest way."""
        found: dict[OperatorName, int] = {}
        for name in reversed(self.names):
            found[name] = max((1 + found[reader] for reader in self.consumers[name]), default=0)
        return found

    @cached_property
    def paths(self) -> tuple[OperatorPath, ...]:
        """Every operator path, those of the first leaf first."""
        found = [path for leaf in self.leaves for path in self._paths_from(leaf)]
        return tuple(dict.fromkeys(found))

    def _paths_from(self, name: OperatorName) -> Iterator[OperatorPath]:
        if self.by_name[name].delivers:
            yield (name,)
        for reader in self.consumers[name]:
            for path in self._paths_from(reader):
                yield (name, *path)

    @cached_property
    def queries(self) -> tuple[QueryId, ...]:
        found = [query for one in self.operators for query in one.delivers]
        return tuple(dict.fromkeys(found))

    def with_graph(self, other: OperatorGraph) -> OperatorGraph:
        """Both graphs as one: operators of the same name are one operator, used by the queries of both."""
        merged = dict(self.by_name)
        for one in other.operators:
            mine = merged.get(one.name)
            delivers = tuple(dict.fromkeys((*(mine.delivers if mine else ()), *one.delivers)))
            merged[one.name] = replace(mine or one, delivers=delivers)
        return OperatorGraph(tuple(merged.values()))
