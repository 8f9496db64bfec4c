"""The independent oracle of queries with groups: DuckDB evaluates them at given times, all in one SELECT.

    moment      the times, and a NULL before them, at which every group is empty
    grouped     at each time the groups that have results, folded over the tuples in the windows then
    row_of      at each time every group there ever is
    told        the same with the outputs, and those of the time before

Of ``told`` the rows that pass HAVING, and changed or did not pass before, are the answer, by time and keys.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

import duck
import duckdb
import pyarrow as pa

from headrace.model import Catalog, StreamId, TypeKind
from headrace.plan.aggregates import Aggregate, Fold
from headrace.plan.expressions import ColumnRef, Expression, Value, rewrite
from headrace.plan.queries import Query

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def grouped_answer(
    query: Query,
    catalog: Catalog,
    arrivals: Mapping[StreamId, Sequence[duck.Row]],
    times_us: Sequence[int],
    connection: duckdb.DuckDBPyConnection | None = None,
) -> list[tuple[Value, ...]]:
    """The rows given at these times: the outputs and the time."""
    connection = connection or duck.connect()
    for position, stream in enumerate(catalog.streams):
        duck.load(connection, stream, position, arrivals.get(stream.name, ()))
    connection.register("moment", pa.table({"us": pa.array([None, *times_us], pa.int64())}))
    rows = connection.execute(changes_sql(query)).fetchall()
    connection.unregister("moment")
    types = [one.expression.type for one in query.outputs]
    return [(*map(_value, row[:-1], types), _EPOCH + dt.timedelta(microseconds=row[-1])) for row in rows]


def _value(one: Value, data_type: object) -> Value:
    zoneless = isinstance(one, dt.datetime) and getattr(data_type, "kind", None) is TypeKind.TIMESTAMP
    return one.replace(tzinfo=dt.UTC) if zoneless else one  # type: ignore[union-attr, call-arg]


def changes_sql(query: Query) -> str:
    """The query as one SELECT over the loaded tables and ``moment``."""
    grouping = query.grouping
    assert grouping is not None
    keys = [f"key{i}" for i in range(len(grouping.keys))]
    folded = [f"agg{i}" for i in range(len(grouping.aggregates))]
    outputs = [f"c{i}" for i in range(len(query.outputs))]
    same = " AND ".join(["g.us = m.us", *(f"g.{key} IS NOT DISTINCT FROM k.{key}" for key in keys)])
    columns = [*(f"k.{key}" for key in keys), *map(_or_empty, folded, grouping.aggregates)]
    given = [f"{_over_row(one.expression)} AS {name}" for one, name in zip(query.outputs, outputs, strict=True)]
    kept = "TRUE" if grouping.having is None else f"coalesce({_over_row(grouping.having)}, FALSE)"
    group = f"PARTITION BY {', '.join(keys)} " if keys else ""
    changed = " OR ".join(
        f"{name} IS DISTINCT FROM lag({name}) OVER ({group}ORDER BY us NULLS FIRST)"
        for name in ("present", "kept", *outputs)
    )
    order = ", ".join(["us", *(f"{key} NULLS FIRST" for key in keys)])
    return f"""
        WITH grouped AS ({_grouped_sql(query, keys, folded)}),
        known AS (SELECT DISTINCT {", ".join(keys) or "TRUE AS one"} FROM grouped),
        row_of AS (
            SELECT {", ".join(["m.us", "g.us IS NOT NULL AS present", *columns])}
            FROM moment m CROSS JOIN known k LEFT JOIN grouped g ON {same}
        ),
        told AS (SELECT us, present, {", ".join([*keys, *given])}, {kept} AS kept FROM row_of AS t0),
        compared AS (SELECT *, {changed} AS changed FROM told)
        SELECT {", ".join(outputs)}, us FROM compared WHERE us IS NOT NULL AND changed AND kept ORDER BY {order}"""


def _grouped_sql(query: Query, keys: Sequence[str], folded: Sequence[str]) -> str:
    """At each time the groups of the results all of whose tuples are in their windows."""
    assert query.grouping is not None
    columns = [f"{duck.expression_sql(one)} AS {name}" for one, name in zip(query.grouping.keys, keys, strict=True)]
    columns += [f"{_fold(one)} AS {name}" for one, name in zip(query.grouping.aggregates, folded, strict=True)]
    tables = ", ".join(f'"{source.stream}" AS t{i}' for i, source in enumerate(query.sources))
    conditions = [duck.expression_sql(one) for one in query.conditions]
    conditions += [f"t{i}.__ts_us BETWEEN us - {extent.size} AND us" for i, extent in enumerate(query.windows)]
    groups = ", ".join(["us", *(str(number) for number in range(2, len(keys) + 2))])
    return (
        f"SELECT {', '.join(['us', *columns])} FROM moment, {tables} WHERE {' AND '.join(conditions)} GROUP BY {groups}"
    )


def _fold(aggregate: Aggregate) -> str:
    argument = "*" if aggregate.argument is None else duck.expression_sql(aggregate.argument)
    chosen = "" if aggregate.filter is None else f" FILTER (WHERE {duck.expression_sql(aggregate.filter)})"
    if aggregate.fold is Fold.DISTINCT:
        return f"count(DISTINCT {argument}){chosen}"
    written = f"{aggregate.fold.value}({argument}){chosen}"
    if aggregate.fold is Fold.SUM and aggregate.type.is_integer:
        return f"wrapped({written})"
    return f"CAST({written} AS {aggregate.type})" if aggregate.fold is Fold.SUM else written


def _or_empty(name: str, aggregate: Aggregate) -> str:
    return f"coalesce(g.{name}, 0) AS {name}" if aggregate.fold in (Fold.COUNT, Fold.DISTINCT) else f"g.{name}"


def _over_row(expression: Expression) -> str:
    """An expression over the group's row, which is t0."""
    return duck.expression_sql(rewrite(expression, lambda ref: ColumnRef(0, ref.name, ref.type)))
