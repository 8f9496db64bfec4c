"""Shared sinks: files that hold the rows of many queries, with a first column that says whose each row is.

Owns which queries share a sink (``shared = 'name'`` in INTO, or the setting ``shared_sink`` for all without INTO) and
the rule that makes it possible: the queries of a sink have the same columns, and none is called ``query``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from itertools import zip_longest

from headrace.errors import PlanError, query_parts
from headrace.model import Options, QueryId
from headrace.plan.queries import Query

QUERY_COLUMN = "query"
"""The column of a shared sink that names each row's query."""


def sink_of(into: Options) -> str | None:
    """The shared sink that a query's rows go to, if any."""
    return dict(into).get("shared")


def shared_sinks(sinks: Iterable[tuple[QueryId, Options]]) -> dict[str, str]:
    """The sink of every query that shares one."""
    return {query: sink for query, into in sinks if (sink := sink_of(into)) is not None}


def with_shared_sink(queries: Iterable[Query], sink: str | None, apart: Container[str] = ()) -> tuple[Query, ...]:
    """The queries, those without INTO with this sink; those ``apart`` have another way out."""
    if sink is None:
        return tuple(queries)
    into = (("connector", "parquet"), ("shared", sink))
    return tuple(one if one.into or one.name in apart else replace(one, into=into) for one in queries)


def check_shared(queries: Iterable[Query]) -> None:
    """Refuses queries whose rows could not be in the same files."""
    first: dict[str, Query] = {}
    for query in queries:
        sink = sink_of(query.into)
        if sink is None:
            continue
        if query.schema.find(QUERY_COLUMN) is not None:
            raise PlanError(
                f"query {query.name} has a column {QUERY_COLUMN}, as the shared sink {sink} calls the column that says "
                "whose a row is",
                "give it another name with AS",
                query_parts(query.name),
            )
        other = first.setdefault(sink, query)
        difference = None if other is query else _difference(other, query)
        if difference is not None:
            raise PlanError(
                f"queries {other.name} and {query.name} share the sink {sink}, but {difference}",
                "make them the same, or give one of the queries another sink",
                query_parts(query.name, other.name),
            )


def _difference(one: Query, other: Query) -> str | None:
    paths = [_path_text(dict(query.into)) for query in (one, other)]
    if paths[0] != paths[1]:
        return f"{one.name} has {paths[0]} and {other.name} has {paths[1]}"
    for number, (mine, theirs) in enumerate(zip_longest(one.schema, other.schema), 1):
        if mine is None or theirs is None:
            counts = [len(tuple(query.schema)) for query in (one, other)]
            return f"{one.name} has {counts[0]} columns and {other.name} has {counts[1]}"
        if mine != theirs:
            return f"column {number} is {mine} in {one.name} and {theirs} in {other.name}"
    return None


def _path_text(into: Mapping[str, str]) -> str:
    return f"path = {into['path']!r}" if "path" in into else "no path"
