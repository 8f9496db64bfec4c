"""Inputs and queries with groups, for the reference's tests and the engine's.

Streams are tied, duplicate, late, patient or empty, with amounts that are awkward to add: NaN, infinities, negative
zero, whole numbers that wrap round; sums of the others are exact in any order. A list of queries begins with one; the
others are over the same join and differ from it in their windows, their grouping, or their outputs and HAVING alone, or
are over another join.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace

import engine_cases as cases
from engine_cases import Case, Row, column
from hypothesis import strategies as st
from strategies import EPOCH, SECOND_US, WINDOWS_S

from headrace.model import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Catalog, DataType, QueryId, StreamId, TypeKind
from headrace.plan.aggregates import Aggregate, Fold, Grouping, aggregate_ref, key_ref
from headrace.plan.expressions import ColumnRef, Expression, Literal, Value
from headrace.plan.functions import call
from headrace.plan.queries import Extent, Measure, Output, Query, Source

_MOST_ROWS = {1: 14, 2: 9, 3: 6}
"""Rows of one stream by the number of streams in a query."""

# --- inputs

_STEPS = (0, 0, 0, 1, 1, 1, 2, 7, -1, -5, None)
"""Seconds from one row to the next: ties, gaps, stragglers (negative), no time at all."""
_POOLS: dict[str, tuple[Value, ...]] = {
    "k": (1, 1, 1, 2, 2, None),
    "name": ("a", "b", "", "é漢", "NaN", None),
    "x": (1.0, 0.5, -2.5, 4.0, 1.0, 0.0, -0.0, math.nan, math.inf, -math.inf, None),
    "n": (1, 2, -7, 3, 1, 2**62, -(2**63), None),
}


@st.composite
def arrivals(draw: st.DrawFn, catalog: Catalog, max_rows: int = 10) -> dict[StreamId, list[Row]]:
    """Every stream's rows in order of arrival; now and then a stream is empty."""
    empty = st.sampled_from((*[False] * 9, True))
    return {stream.name: [] if draw(empty) else draw(_rows(max_rows)) for stream in catalog.streams}


def _rows(max_rows: int) -> st.SearchStrategy[list[Row]]:
    amounts = st.fixed_dictionaries({name: st.sampled_from(pool) for name, pool in _POOLS.items()})
    code = st.sampled_from((0, 0, 5**4, 5**5, 2 * 5**6, 5**7, 2 * 5**8, 5**8 + 5**4))
    one = st.tuples(st.sampled_from(_STEPS), code, amounts)
    starts = st.sampled_from((0, 0, 0, 3))
    return st.builds(_walk, starts, st.lists(one, min_size=max_rows // 2, max_size=max_rows))


def _walk(now: int, steps: list[tuple[int | None, int, Row]]) -> list[Row]:
    rows = []
    for number, (step, code, amounts) in enumerate(steps):
        now += max(step or 0, 0)
        rows.append(cases.row(None if step is None else now + min(step, 0), number, code, **amounts))
    return rows


# --- joins and windows


@st.composite
def times(draw: st.DrawFn, sources: int) -> tuple[Extent, ...]:
    """A window of time for all streams, or one for each."""
    seconds = st.sampled_from(WINDOWS_S)
    sizes = [draw(seconds)] * sources if draw(st.booleans()) else [draw(seconds) for _ in range(sources)]
    return tuple(Extent(Measure.TIME, size * SECOND_US) for size in sizes)


_KEYS = (*[("=", "k", "k")] * 5, ("=", "name", "name"), ("=", "k", "n"), ("=", "price", "rate"), ("=", "x", "x"))
_THETAS = (("<", "id", "id"), ("<=", "x", "x"), ("<>", "name", "name"))


@st.composite
def joins(draw: st.DrawFn, catalog: Catalog, sources: int) -> Query:
    """A join of so many streams, perhaps one with itself, without groups: one stream only is filtered or not."""
    streams = [draw(st.sampled_from(catalog.streams)).name for _ in range(sources)]
    conditions: list[Expression] = []
    for i in range(1, sources):
        shape = draw(st.sampled_from((*[_KEYS] * 4, _THETAS, ())))
        if shape:
            function, left, right = draw(st.sampled_from(shape))
            conditions.append(call(function, column(draw(st.integers(0, i - 1)), left), column(i, right)))
    if draw(st.integers(0, 3)) == 0:
        conditions.append(draw(_conditions(sources)))
    return Query(
        QueryId("q"),
        tuple(Source(stream, f"s{i}") for i, stream in enumerate(streams)),
        tuple(conditions),
        (Output("id", column(0, "id")),),
        draw(times(sources)),
    )


def _conditions(sources: int) -> st.SearchStrategy[Expression]:
    """Conditions on one stream or two, for WHERE and for FILTER."""
    last = sources - 1
    return st.sampled_from(
        (
            call("<", column(0, "k"), Literal(3, INT)),
            call(">=", column(last, "x"), Literal(0.0, DOUBLE)),
            call("or", call("like", column(0, "name"), Literal("%a%", STRING)), column(last, "flag")),
            call("is_null", column(last, "n")),
            call("<=", column(0, "x"), column(last, "x")),
            call("<", column(0, "id"), column(last, "id")),
            column(last, "flag"),
        )
    )


# --- groupings

_ANY = ("k", "n", "x", "name", "price", "rate", "day", "moment", "flag", "ts")
_NUMBERS = ("k", "n", "x", "x", "price", "rate")


@st.composite
def groupings(draw: st.DrawFn, sources: int) -> Grouping:
    """GROUP BY of up to three keys and up to four aggregates, some of them filtered; no HAVING."""
    keys = draw(st.lists(_keys(sources), max_size=draw(st.sampled_from((0, 1, 1, 1, 2, 3))), unique=True))
    least = 0 if keys else 1
    return Grouping(tuple(keys), tuple(draw(st.lists(aggregates(sources), min_size=least, max_size=4, unique=True))))


@st.composite
def _keys(draw: st.DrawFn, sources: int) -> Expression:
    i = draw(st.integers(0, sources - 1))
    return draw(
        st.sampled_from(
            (
                *[column(i, "k")] * 3,
                *(column(i, name) for name in _ANY),
                call("%", column(i, "id"), Literal(2, INT)),
                call("+", column(0, "k"), column(sources - 1, "k")),
                call("is_null", column(i, "name")),
                call("date_trunc", Literal("minute", STRING), column(i, "ts")),
            )
        )
    )


@st.composite
def aggregates(draw: st.DrawFn, sources: int) -> Aggregate:
    """Any fold of what it can fold, for all results or for some."""
    fold = draw(st.sampled_from((Fold.COUNT, *Fold)))
    argument = draw(_arguments(sources, numbers=fold in (Fold.SUM, Fold.AVG)))
    if fold is Fold.COUNT and draw(st.booleans()):
        argument = None
    filtered = draw(st.integers(0, 2)) == 0
    chosen = draw(st.one_of(_conditions(sources), st.just(Literal(False, BOOLEAN))) if filtered else st.none())
    return Aggregate(fold, argument, chosen)


@st.composite
def _arguments(draw: st.DrawFn, sources: int, *, numbers: bool) -> Expression:
    i, last = draw(st.integers(0, sources - 1)), sources - 1
    name = draw(st.sampled_from(_NUMBERS if numbers else _ANY))
    plain = column(i, name)
    computed = (call("+", column(0, "k"), column(last, "n")), call("-", column(0, "x"), column(last, "x")))
    return draw(st.sampled_from((plain, plain, plain, *computed, call("*", column(i, "price"), Literal(2, INT)))))


# --- outputs and HAVING


def refs(grouping: Grouping) -> list[ColumnRef]:
    """The columns of the group's row: keys, then aggregates."""
    keys = [key_ref(i, one) for i, one in enumerate(grouping.keys)]
    return keys + [aggregate_ref(i, one) for i, one in enumerate(grouping.aggregates)]


@st.composite
def shown(draw: st.DrawFn, query: Query, grouping: Grouping) -> Query:
    """The query with this grouping, some HAVING, and outputs: mostly all columns of the group's row, perhaps more."""
    if draw(st.integers(0, 2)) == 0:
        grouping = draw(_with_having(grouping))
    found = refs(grouping)
    if draw(st.integers(0, 3)) == 0:
        found = draw(st.lists(st.sampled_from(found), min_size=1, unique=True))
    outputs = [Output(one.name, one) for one in found]
    outputs += [Output(f"computed{i}", one) for i, one in enumerate(draw(st.lists(_computed(grouping), max_size=2)))]
    return replace(query, outputs=tuple(outputs), grouping=grouping)


@st.composite
def _with_having(draw: st.DrawFn, grouping: Grouping) -> Grouping:
    """HAVING of the group's row; of COUNT(*) too, whether it is an output or not."""
    if Aggregate(Fold.COUNT) not in grouping.aggregates:
        grouping = replace(grouping, aggregates=(*grouping.aggregates, Aggregate(Fold.COUNT)))
    number = grouping.aggregates.index(Aggregate(Fold.COUNT))
    count = aggregate_ref(number, grouping.aggregates[number])
    tests = [
        *(call(one, count, Literal(size, INT)) for one, size in ((">", 1), ("=", 0), ("<>", 2), (">=", 0))),
        *(call("is_null", one) for one in refs(grouping)),
        *(call(">", one, Literal(1, INT)) for one in refs(grouping) if one.type.is_numeric),
        *(call("or", call("=", one, one), call("=", count, Literal(0, INT))) for one in refs(grouping)),
    ]
    return replace(grouping, having=draw(st.sampled_from(tests)))


@st.composite
def _computed(draw: st.DrawFn, grouping: Grouping) -> Expression:
    """An expression over aggregates and keys."""
    every = draw(st.sampled_from(refs(grouping)))
    numbers = [one for one in refs(grouping) if one.type.is_numeric]
    if not numbers or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from((call("is_null", every), call("coalesce", every, every), Literal(7, BIGINT))))
    left, right = draw(st.sampled_from(numbers)), draw(st.sampled_from(numbers))
    function = draw(st.sampled_from(("+", "-", "/", "greatest", ">")))
    return _without_overflow(function, left, right)


def _without_overflow(function: str, left: ColumnRef, right: ColumnRef) -> Expression:
    """A call; of DECIMALs as DOUBLEs where two types meet."""
    kinds: set[DataType] = {left.type, right.type}
    if len(kinds) > 1 and any(one.kind is TypeKind.DECIMAL for one in kinds):
        return call("/", left, right)
    return call(function, left, right)


# --- queries


@st.composite
def grouped_queries(
    draw: st.DrawFn, catalog: Catalog, most: int = 4, prefix: str = "g", sources: int | None = None
) -> list[Query]:
    """Queries with groups of which most share the first one's join; they are over one to three streams."""
    first = draw(_one(catalog, sources))
    found = [first]
    for _ in range(draw(st.integers(0, most - 1))):
        other = draw(st.integers(0, 3)) == 0
        found.append(draw(_one(catalog, sources) if other else grouped_variants(first)))
    return [replace(query, name=QueryId(f"{prefix}{number}")) for number, query in enumerate(found)]


@st.composite
def _one(draw: st.DrawFn, catalog: Catalog, sources: int | None) -> Query:
    joined = draw(joins(catalog, sources or draw(st.sampled_from((1, 2, 2, 2, 3)))))
    return draw(shown(joined, draw(groupings(len(joined.sources)))))


@st.composite
def grouped_variants(draw: st.DrawFn, query: Query) -> Query:
    """The same query with other windows, another grouping, other aggregates (perhaps over another window too), or other
    outputs and HAVING; or with another filter too, or the same ones in another order."""
    assert query.grouping is not None
    change = draw(st.sampled_from(("windows", "windows", "grouping", "aggregates", "outputs", "filter", "order")))
    if change == "order":
        return replace(query, conditions=tuple(draw(st.permutations(query.conditions))))
    if change == "windows":
        return replace(query, windows=draw(times(len(query.sources))))
    if change == "filter":
        return replace(query, conditions=(*query.conditions, draw(_conditions(len(query.sources)))))
    grouping = replace(query.grouping, having=None)
    if change == "aggregates" and draw(st.booleans()):
        query = replace(query, windows=draw(times(len(query.sources))))
    if change != "outputs":
        other = draw(groupings(len(query.sources)))
        same_keys = change == "aggregates" and bool(other.aggregates or grouping.keys)
        grouping = replace(other, keys=grouping.keys) if same_keys else other
    return draw(shown(query, grouping))


@st.composite
def grouped_cases(
    draw: st.DrawFn, most_queries: int = 3, sources: int | None = None, max_rows: int | None = None
) -> Case:
    """A catalog, arrivals and queries with groups."""
    catalog = draw(cases.catalogs())
    queries = draw(grouped_queries(catalog, most_queries, sources=sources))
    widest = max(len(query.sources) for query in queries)
    return Case(catalog, draw(arrivals(catalog, max_rows or _MOST_ROWS[widest])), tuple(queries))


EPOCH_US = int(EPOCH.timestamp()) * SECOND_US
"""When the tests begin."""


def newest_us(arrived: cases.Arrivals) -> int:
    """The newest event time of all rows, or the beginning of the test."""
    times = (row["ts"] for rows in arrived.values() for row in rows)
    newest = max((time for time in times if isinstance(time, dt.datetime)), default=EPOCH)
    return EPOCH_US + (newest - EPOCH) // dt.timedelta(microseconds=1)
