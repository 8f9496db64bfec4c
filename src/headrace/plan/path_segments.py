"""Segments of operator paths: what is scheduled together between a single operator and a whole path (paper 003, 3.3).

      path            O1    O2    O3    O4             C^M, the memory an operator frees in a unit of time
      C^M             4     6     5     1
      segments       (O1    O2)  (O3)  (O4)            on as long as C^M does not fall
      simplified     (O1    O2    O3)  (O4)            gamma = 3/4: the first one as long as it does not fall below
                                                       gamma times the one before; all the rest is the second

Owns: cutting a path, and ``segments_of``, the segments of all paths without those that lie within another. The paper
keeps a list up to date, by counting who uses an operator, as queries come and go; here it is made anew of the graph
that there is then, which gives the same: what only a query that is gone had hidden is there again. When what operators
are like has changed, all paths are cut anew anyway.

Invariant: no segment of them lies within another. Cost: a segment is compared with those that share its operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from headrace.plan.opgraph import OperatorGraph, OperatorName, OperatorPath

PathSegment: TypeAlias = tuple[OperatorName, ...]
PathCut: TypeAlias = Callable[[OperatorPath, Mapping[OperatorName, float]], list[PathSegment]]
"""A path as segments, bottom up, given the memory release capacity of each operator."""

GAMMA = 0.75
"""The similarity factor of the paper's experiments."""


def full_segments(path: OperatorPath, release: Mapping[OperatorName, float]) -> list[PathSegment]:
    """The segment construction algorithm: consecutive operators whose memory release capacity never falls."""
    found: list[list[OperatorName]] = [[path[0]]]
    for below, name in pairwise(path):
        if release[below] <= release[name]:
            found[-1].append(name)
        else:
            found.append([name])
    return [tuple(one) for one in found]


def simplified_segments(
    path: OperatorPath, release: Mapping[OperatorName, float], gamma: float = GAMMA
) -> list[PathSegment]:
    """At most two segments: the leaf with the operators after it that are similar, and all the rest."""
    end = 1
    while end < len(path) and _is_similar(release[path[end - 1]], release[path[end]], gamma):
        end += 1
    return [part for part in (path[:end], path[end:]) if part]


def _is_similar(below: float, above: float, gamma: float) -> bool:
    """Whether above / below >= gamma; after an operator that takes memory instead of freeing it, whether less is."""
    return above >= gamma * below if below > 0 else above >= below


def pruned(segments: Iterable[PathSegment]) -> Iterator[PathSegment]:
    """Those that lie within no other, whichever came first; one that does shares its first operator with it."""
    given = list(dict.fromkeys(segments))
    holding: dict[OperatorName, list[PathSegment]] = {}
    for one in given:
        for name in one:
            holding.setdefault(name, []).append(one)
    for one in given:
        if not any(other != one and is_within(one, other) for other in holding[one[0]]):
            yield one


def is_within(part: Sequence[OperatorName], whole: Sequence[OperatorName]) -> bool:
    """Whether every operator of one segment is in another."""
    return len(part) <= len(whole) and set(part) <= set(whole)


def segments_of(
    graph: OperatorGraph, release: Mapping[OperatorName, float], cut: PathCut = full_segments
) -> tuple[PathSegment, ...]:
    """The pruned segments of all paths of a graph."""
    return tuple(pruned(part for path in graph.paths for part in cut(path, release)))
