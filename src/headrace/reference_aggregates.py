"""The slow, obvious evaluator of queries with groups: what every other way of running them must equal.

At each evaluation time every group is folded anew over the join results that are in the windows then, and a row is
given for each group that passes HAVING and whose value is not what it was at the time before, or that did not pass
then. Nothing is kept from one time to the next but the values. Cost: the number of times by the number of results.

      T            ----1----2----3----4----5----6---->      FROM a [RANGE 2], b [RANGE 3], one group
      a                a1                                   a1 is in its window up to 3
      b                     b2                              b2 is in its window up to 5
      COUNT(*)         0    1    1    0    0    0           so (a1, b2) counts from 2 up to 3, and no longer
      given                 1         0

What is folded, where SQL engines disagree (``docs/semantics.md``):
  SUM, AVG     of DOUBLE: the exact sum, rounded once (too large: infinity; NaN, or both infinities: NaN)
  SUM          of whole numbers wraps round to 64 bits; of DECIMAL is NULL when it has more than 38 digits
  AVG          is the sum as a DOUBLE / count; of DECIMAL, the sum of the unscaled numbers / count / 10^scale
  MIN, MAX     NaN is above all numbers          no key and no aggregate is -0.0: it is 0.0
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from headrace.model import Catalog, DataType, StreamId, TypeKind
from headrace.plan.aggregates import Aggregate, Fold, Grouping
from headrace.plan.expressions import ColumnRef, Expression, Value
from headrace.plan.queries import Query
from headrace.reference import Row, Tuple, accepted, columns_in, matches, value

Key = tuple[Value, ...]
Folded = tuple[Value, ...]
"""A group's aggregates, in the order of its query's grouping."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NAN: Any = object()
"""Stands for NaN where values are compared."""
_EXACT = decimal.Context(prec=100)


@dataclass(frozen=True, slots=True)
class Counted:
    """A join result: its group, from when to when it counts, and for each aggregate its value (None: not for it)."""

    key: Key
    first_us: int
    last_us: int
    arguments: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group at some time. ``exists`` says whether it has any results."""

    key: Key
    exists: bool
    folded: Folded


# --- times


def evaluation_times(
    query: Query,
    catalog: Catalog,
    arrivals: Mapping[StreamId, Sequence[Row]],
    last_us: int,
    every_us: int | None = None,
) -> list[int]:
    """When to evaluate, up to ``last_us``. Eager: every time at which a value can change, which is when a result comes
    and one microsecond after its last moment. Lazy: each multiple of ``every_us`` from the first result on."""
    results = counted(query, catalog, arrivals)
    if every_us is None:
        times = {time for one in results for time in (one.first_us, one.last_us + 1)}
        return sorted(time for time in times if time <= last_us)
    first = -(-min((one.first_us for one in results), default=last_us + 1) // every_us)
    return [number * every_us for number in range(first, last_us // every_us + 1)]


def counted(query: Query, catalog: Catalog, arrivals: Mapping[StreamId, Sequence[Row]]) -> list[Counted]:
    """Every result of the query's join, as its groups see it."""
    taken = accepted(catalog, arrivals)
    return [_counted(query, match) for match in matches(query, [taken[one.stream].tuples for one in query.sources])]


def _counted(query: Query, match: tuple[Tuple, ...]) -> Counted:
    assert query.grouping is not None
    columns = columns_in(match)
    times = [one.place.ts_us for one in match]
    leaving = [time + extent.size for time, extent in zip(times, query.windows, strict=True)]
    key = tuple(plain(value(one, columns)) for one in query.grouping.keys)
    arguments = tuple(_argument(one, columns) for one in query.grouping.aggregates)
    return Counted(key, max(times), min(leaving), arguments)


def _argument(aggregate: Aggregate, columns: Callable[[ColumnRef], Value]) -> Value:
    """What a result gives to an aggregate; nothing, if it is filtered out."""
    if aggregate.filter is not None and value(aggregate.filter, columns) is not True:
        return None
    return True if aggregate.argument is None else value(aggregate.argument, columns)


# --- answers


def grouped_answer(
    query: Query, catalog: Catalog, arrivals: Mapping[StreamId, Sequence[Row]], times_us: Sequence[int]
) -> list[tuple[Value, ...]]:
    """All rows given at these times, which ascend: the outputs and the time. Those of one time are in the order of
    their groups' keys, NULLs first."""
    assert query.grouping is not None
    groups: dict[Key, list[Counted]] = defaultdict(list)
    for one in counted(query, catalog, arrivals):
        groups[_alike(one.key)].append(one)
    before: dict[Key, tuple[Value, ...]] = {}
    rows: list[tuple[Value, ...]] = []
    for time_us in times_us:
        for key in sorted(groups, key=_key_order):
            group = _group_at(query.grouping, groups[key], time_us)
            now = _told(query, group)
            if now != before.get(key, _told(query, _emptied(query.grouping, group))):
                before[key] = now
                if passes(query.grouping, group):
                    rows.append((*outputs_of(query, group), _EPOCH + dt.timedelta(microseconds=time_us)))
    return rows


def _told(query: Query, group: Group) -> tuple[Value, ...]:
    """What a change of gives a row, if HAVING holds. Its truth is a part of it: to begin to hold is a change."""
    assert query.grouping is not None
    return _alike((group.exists, passes(query.grouping, group), *outputs_of(query, group)))


def _group_at(grouping: Grouping, results: Sequence[Counted], time_us: int) -> Group:
    """A group, of all its results, at a time."""
    members = [one for one in results if one.first_us <= time_us <= one.last_us]
    return Group(results[0].key, bool(members), _folds(grouping, members))


def outputs_of(query: Query, group: Group) -> tuple[Value, ...]:
    return tuple(value(one.expression, _columns(group)) for one in query.outputs)


def passes(grouping: Grouping, group: Group) -> bool:
    """Whether HAVING holds."""
    return grouping.having is None or value(grouping.having, _columns(group)) is True


def _columns(group: Group) -> Callable[[ColumnRef], Value]:
    """The columns of a group's row."""
    names = [f"key{i}" for i in range(len(group.key))] + [f"agg{i}" for i in range(len(group.folded))]
    row = dict(zip(names, (*group.key, *group.folded), strict=True))
    return lambda column: row[column.name]


def _emptied(grouping: Grouping, group: Group) -> Group:
    return Group(group.key, False, _folds(grouping, ()))


def _folds(grouping: Grouping, members: Sequence[Counted]) -> Folded:
    return tuple(
        fold(aggregate, [one.arguments[i] for one in members]) for i, aggregate in enumerate(grouping.aggregates)
    )


# --- folds


def fold(aggregate: Aggregate, arguments: Iterable[Value]) -> Value:
    """The aggregate of these values, of which the NULLs do not count."""
    found: list[Any] = [one for one in arguments if one is not None]
    if aggregate.fold is Fold.COUNT:
        return len(found)
    if aggregate.fold is Fold.DISTINCT:
        return len(set(_alike(found)))
    if not found:
        return None
    if aggregate.fold in (Fold.MIN, Fold.MAX):
        return plain((min if aggregate.fold is Fold.MIN else max)(found, key=_order))
    assert aggregate.argument is not None
    return (_sum if aggregate.fold is Fold.SUM else _average)(found, aggregate.argument, aggregate.type)


def _sum(found: list[Any], argument: Expression, to: DataType) -> Value:
    if to.kind is TypeKind.DOUBLE:
        return _exact_sum(found)
    if to.kind is TypeKind.DECIMAL:
        unscaled = _unscaled(found, argument.type.scale)
        return _decimal(unscaled, to.scale) if abs(unscaled) < 10**38 else None
    return int((sum(found) + 2**63) % 2**64 - 2**63)


def _average(found: list[Any], argument: Expression, _to: DataType) -> Value:
    if argument.type.kind is TypeKind.DOUBLE:
        return plain(_exact_sum(found) / len(found))
    if argument.type.kind is TypeKind.DECIMAL:
        scale = argument.type.scale
        return float(_unscaled(found, scale)) / len(found) / float(10**scale)
    return float(sum(found)) / len(found)


def _exact_sum(found: list[float]) -> float:
    """Rounded once: no order of adding gives anything else."""
    odd = {one for one in found if not math.isfinite(one)}
    if odd:
        return odd.pop() if len(odd) == 1 else math.nan
    exact = sum(map(Fraction, found))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _unscaled(found: list[Decimal], scale: int) -> int:
    return sum(int(one.scaleb(scale, _EXACT)) for one in found)


def _decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


# --- equality and order of values


def plain(one: Value) -> Value:
    """The value without a negative zero."""
    return 0.0 if isinstance(one, float) and one == 0 else one


def _alike(values: Iterable[Value]) -> tuple[Value, ...]:
    """Values that are equal in Python where they are alike: NaN is NaN, -0.0 is 0.0."""
    return tuple(_NAN if isinstance(one, float) and math.isnan(one) else one for one in values)


def _order(one: Any) -> tuple[Any, ...]:
    """NaN above all numbers."""
    return (1,) if isinstance(one, float) and math.isnan(one) else (0, one)


def _key_order(key: Key) -> tuple[Any, ...]:
    """NULL below everything, NaN above."""
    return tuple((0,) if one is None else (2,) if one is _NAN else (1, one) for one in key)
