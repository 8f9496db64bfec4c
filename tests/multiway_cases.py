"""Inputs and queries of joins of three to six streams, for the reference's tests and the engine's.

Streams are short, tied, skewed, perhaps empty, late or patient; keys are few, and some are NULL. A query's conditions
have one of the shapes of :class:`Shape`. Its first columns are every source's time and then every source's id, in FROM
order, so that a row says which tuples it is made of. Ways of running and comparisons are those of ``engine_cases.py``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum

import engine_cases as cases
from engine_cases import Case, Row, column, row
from hypothesis import strategies as st
from strategies import SECOND_US, at

from headrace.model import BIGINT, BOOLEAN, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP, Catalog, QueryId, Stream, StreamId
from headrace.plan.expressions import ColumnRef, Expression, Literal, rewrite
from headrace.plan.functions import call
from headrace.plan.queries import Extent, Measure, Output, Query, Source, within_us

FEWEST, MOST = 3, 6
"""How many streams a catalog has, and a query at least and at most."""

_NAMES = "badcfe"
"""Positions in the catalog are not the order of names."""

_MOST_ROWS = {2: 12, 3: 8, 4: 6, 5: 5, 6: 4}
"""Rows of one stream by the number of streams: a cross join of them all stays small."""


class Shape(StrEnum):
    """What a query's conditions are like."""

    COMMON = "one column of all streams"
    COMPOSITE = "two columns of all streams"
    TYPES = "one key of several types"
    CHAIN = "different columns, each stream with the next"
    STAR = "different columns, all with the first"
    CYCLE = "different columns, round to the first again"
    THETA = "no equality"
    MIXTURE = "equalities here, comparisons there"
    CROSS = "few conditions or none"


# --- inputs


@st.composite
def catalogs(draw: st.DrawFn) -> Catalog:
    """Streams of WIDE rows, some of them patient, some in partitions that lag each other."""
    count = draw(st.integers(FEWEST, MOST))
    delays = draw(st.lists(st.sampled_from((0, 0, 0, 2, 10)), min_size=count, max_size=count))
    parted = draw(st.sampled_from(("", "", "", "b", "ad", _NAMES)))
    streams = _catalog(delays).streams
    return Catalog(tuple(cases.in_parts(one) if one.name in parted else one for one in streams))


def _catalog(delays_s: Sequence[int]) -> Catalog:
    streams = zip(_NAMES, delays_s, strict=False)
    return Catalog(tuple(Stream(StreamId(name), cases.WIDE, "ts", delay * SECOND_US) for name, delay in streams))


_STEPS = (0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 7, -1, -3, None)
"""Seconds from one row to the next: ties, gaps, stragglers (negative), no time at all."""
_ANY_CODE = st.integers(0, 5**9 - 1)
_CODES = (
    st.just(0),
    st.sampled_from((0, 0, 0, 4, 2)),
    st.one_of(st.just(0), st.just(0), st.just(0), st.integers(0, 24), _ANY_CODE),
    _ANY_CODE,
)
"""What picks a stream's values: one key, a few with NULL, mostly one, anything. 0 is the same key in every column."""


@st.composite
def arrivals(draw: st.DrawFn, catalog: Catalog) -> dict[StreamId, list[Row]]:
    most = _MOST_ROWS[len(catalog.streams)]
    codes = draw(st.sampled_from((*_CODES[:3], *_CODES[:3], _CODES[3])))
    return {stream.name: draw(_rows(most, codes)) for stream in catalog.streams}


@st.composite
def _rows(draw: st.DrawFn, most: int, codes: st.SearchStrategy[int]) -> list[Row]:
    """Up to so many rows; a few streams are empty."""
    least = draw(st.sampled_from((*(range(2, most + 1)), most, most, 0)))
    steps = draw(st.lists(st.tuples(st.sampled_from(_STEPS), codes), min_size=least, max_size=most))
    now, found = draw(st.sampled_from((0, 0, 0, 0, 0, 0, 1, 5))), []
    for number, (step, code) in enumerate(steps):
        now += max(step or 0, 0)
        found.append(row(None if step is None else now + min(step, 0), number, code))
    return found


# --- conditions

_COMMON = ("k", "k", "k", "n", "name", "name", "x", "price", "day", "moment", "flag")
_COMPOSITE = (("k", "name"), ("k", "n"), ("name", "flag"), ("price", "day"))
_NUMBERS = ("k", "k", "n", "n", "x", "price", "rate")
_LINKS = (
    ("k", "k"), ("n", "n"), ("name", "name"), ("x", "x"), ("k", "n"), ("n", "k"), ("k", "x"), ("flag", "flag"),
    ("price", "rate"), ("day", "day"), ("day", "moment"), ("rate", "rate"),
)  # fmt: skip
"""Equalities of two streams on different columns than those of two others."""

Edge = tuple[int, int]


@st.composite
def conditions(draw: st.DrawFn, shape: Shape, sources: int) -> list[Expression]:
    """What joins so many streams, in any order."""
    found = draw(_BY_SHAPE[shape](sources))
    return draw(st.permutations(found))


def _chain(sources: int) -> list[Edge]:
    return [(source - 1, source) for source in range(1, sources)]


@st.composite
def _tree(draw: st.DrawFn, sources: int) -> list[Edge]:
    """Every stream with any before it: how a common key may be written."""
    return [(draw(st.integers(0, source - 1)), source) for source in range(1, sources)]


@st.composite
def _equal(draw: st.DrawFn, left: ColumnRef, right: ColumnRef) -> Expression:
    return call("=", *draw(st.sampled_from(((left, right), (right, left)))))


@st.composite
def _common(draw: st.DrawFn, sources: int) -> list[Expression]:
    name = draw(st.sampled_from(_COMMON))
    return [draw(_equal(column(i, name), column(j, name))) for i, j in draw(_tree(sources))]


@st.composite
def _composite(draw: st.DrawFn, sources: int) -> list[Expression]:
    names = draw(st.sampled_from(_COMPOSITE))
    edges = [(name, edge) for name in names for edge in draw(_tree(sources))]
    return [draw(_equal(column(i, name), column(j, name))) for name, (i, j) in edges]


@st.composite
def _types(draw: st.DrawFn, sources: int) -> list[Expression]:
    keys = [column(source, draw(st.sampled_from(_NUMBERS))) for source in range(sources)]
    return [draw(_equal(keys[i], keys[j])) for i, j in draw(_tree(sources))]


@st.composite
def _links(draw: st.DrawFn, edges: Iterable[Edge]) -> list[Expression]:
    found = []
    for i, j in edges:
        left, right = draw(st.sampled_from(_LINKS))
        found.append(draw(_equal(column(i, left), column(j, right))))
    return found


@st.composite
def _theta(draw: st.DrawFn, sources: int) -> list[Expression]:
    """Each stream is compared with one before it; perhaps three with each other."""
    found = [one for edge in draw(_tree(sources)) for one in draw(_comparisons(*edge))]
    three = draw(st.permutations(range(sources)))[:3]
    return [*found, _of_three(*three)] if len(three) == 3 and draw(st.booleans()) else found


def _comparisons(i: int, j: int) -> st.SearchStrategy[list[Expression]]:
    """Comparisons of two streams: ``<``, ``<=``, ``<>``, BETWEEN around a value that is computed, distances, lists."""
    apart = call("-", column(j, "ts"), column(i, "ts"))
    dearer = call("-", column(i, "price"), column(j, "rate"))
    one = Literal(1, BIGINT)
    return st.sampled_from(
        (
            [call("<", column(i, "id"), column(j, "id"))],
            [call("<=", column(j, "id"), column(i, "id"))],
            [call("<=", column(i, "x"), column(j, "x"))],
            [call("<>", column(i, "k"), column(j, "n"))],
            [call(">", column(i, "name"), column(j, "name"))],
            [call("<", column(i, "ts"), column(j, "ts"))],
            [call("<", call("+", column(i, "k"), column(j, "k")), Literal(4, INT))],
            [
                call(">=", column(i, "id"), call("-", column(j, "id"), one)),
                call("<=", column(i, "id"), call("+", column(j, "id"), one)),
            ],
            [
                call(">=", column(j, "x"), call("-", column(i, "x"), Literal(0.5, DOUBLE))),
                call("<=", column(j, "x"), call("+", call("*", column(i, "x"), Literal(2, INT)), column(i, "k"))),
            ],
            [call("<=", call("abs", call("-", column(i, "x"), column(j, "x"))), Literal(0.5, DOUBLE))],
            [call(">=", call("-", column(i, "x"), column(j, "x")), Literal(0, INT))],
            [call("not", call("<", call("-", column(i, "n"), column(j, "n")), one))],
            [call("<=", call("abs", call("-", column(i, "n"), column(j, "k"))), one)],
            [call(">=", dearer, Literal(0, INT)), call("<", dearer, column(i, "x"))],
            [call("in", column(i, "id"), column(j, "id"), call("+", column(j, "id"), one))],
            [
                call(">=", apart, Literal(0, INTERVAL)),
                call("<=", apart, Literal(2 * SECOND_US, INTERVAL)),
            ],
        )
    )


def _of_three(i: int, j: int, last: int) -> Expression:
    total = call("+", column(i, "id"), column(j, "id"))
    return call("<=", total, call("+", column(last, "id"), Literal(2, BIGINT)))


@st.composite
def _mixture(draw: st.DrawFn, sources: int) -> list[Expression]:
    """Each stream has an equality with one before it, a comparison, or both."""
    found: list[Expression] = []
    for edge in draw(_tree(sources)):
        kind = draw(st.sampled_from(("equal", "equal", "compared", "both")))
        if kind != "compared":
            found += draw(_links([edge]))
        if kind != "equal":
            found += draw(_comparisons(*edge))
    return found


@st.composite
def _cross(draw: st.DrawFn, sources: int) -> list[Expression]:
    """Nothing, or an equality of two streams only."""
    pair = draw(st.permutations(range(sources)))[:2]
    return draw(_links([(pair[0], pair[1])])) if draw(st.booleans()) else []


_BY_SHAPE = {
    Shape.COMMON: _common,
    Shape.COMPOSITE: _composite,
    Shape.TYPES: _types,
    Shape.CHAIN: lambda sources: _links(_chain(sources)),
    Shape.STAR: lambda sources: _links([(0, source) for source in range(1, sources)]),
    Shape.CYCLE: lambda sources: _links([*_chain(sources), (sources - 1, 0)]),
    Shape.THETA: _theta,
    Shape.MIXTURE: _mixture,
    Shape.CROSS: _cross,
}


@st.composite
def _filters(draw: st.DrawFn, sources: int) -> Expression:
    """A condition on one stream, or on none."""
    side = draw(st.integers(0, sources - 1))
    return draw(
        st.sampled_from(
            (
                call("<", column(side, "k"), Literal(3, INT)),
                call("or", call("like", column(side, "name"), Literal("%a%", STRING)), column(side, "flag")),
                call(">=", column(side, "x"), Literal(0.0, DOUBLE)),
                call(">", column(side, "id"), Literal(0, BIGINT)),
                call("<=", column(side, "ts"), Literal(at(4), TIMESTAMP)),
                call("in", column(side, "k"), Literal(1, INT), Literal(None, INT)),
                Literal(True, BOOLEAN),
            )
        )
    )


def _few_filters(sources: int) -> st.SearchStrategy[list[Expression]]:
    return st.sampled_from((0, 0, 0, 1, 2)).flatmap(lambda n: st.lists(_filters(sources), min_size=n, max_size=n))


# --- queries


_TIMED = st.sampled_from((0, 1, 2, 5, 5, 100, 100)).map(lambda seconds: Extent(Measure.TIME, seconds * SECOND_US))
_COUNTED = st.sampled_from((1, 2, 3, 4, 6, 8)).map(lambda rows: Extent(Measure.ROWS, rows))


@st.composite
def windows(draw: st.DrawFn, sources: int) -> tuple[Extent, ...]:
    """Every source's window: one time for all, times of their own, one number of rows, or anything."""
    kind = draw(st.sampled_from(("one time", "one time", "times", "one count", "anything")))
    if kind in ("one time", "one count"):
        return (draw(_TIMED if kind == "one time" else _COUNTED),) * sources
    either = _TIMED if kind == "times" else st.one_of(_TIMED, _COUNTED)
    return tuple(draw(either) for _ in range(sources))


@st.composite
def queries(draw: st.DrawFn, catalog: Catalog, name: str = "q", shape: Shape | None = None) -> Query:
    """A join of so many of the catalog's streams, each once or some several times."""
    shape = shape or draw(st.sampled_from(Shape))
    sources = draw(st.integers(min(FEWEST, len(catalog.streams)), len(catalog.streams)))
    names = [stream.name for stream in catalog.streams]
    from_ = draw(st.permutations(names))[:sources]
    if draw(st.integers(0, 3)) == 0:
        again = draw(st.lists(st.integers(1, sources - 1), min_size=1, max_size=2))
        from_ = [from_[0] if source in again else one for source, one in enumerate(from_)]
    joined = draw(conditions(shape, sources)) + draw(_few_filters(sources))
    return Query(
        QueryId(name),
        tuple(Source(stream, f"s{i}") for i, stream in enumerate(from_)),
        tuple(joined),
        (*plain_outputs(sources), *draw(_more_outputs(sources))),
        draw(windows(sources)),
    )


def plain_outputs(sources: int) -> tuple[Output, ...]:
    """Every source's time and every source's id."""
    return tuple(Output(f"{name}{i}", column(i, name)) for name in ("ts", "id") for i in range(sources))


@st.composite
def _more_outputs(draw: st.DrawFn, sources: int) -> list[Output]:
    names = st.tuples(st.sampled_from(("k", "n", "name", "x", "price", "flag")), st.integers(0, sources - 1))
    found = [Output(f"{name}{i}", column(i, name)) for name, i in draw(st.lists(names, max_size=2, unique=True))]
    if draw(st.booleans()):
        found.append(Output("computed", call("+", column(0, "k"), column(sources - 1, "id"))))
    return found


@st.composite
def variants(draw: st.DrawFn, query: Query, name: str) -> Query:
    """The same join with another window, and perhaps other filters, another select list or another order of FROM."""
    sources = len(query.sources)
    query = replace(query, name=QueryId(name), windows=draw(st.one_of(st.just(query.windows), windows(sources))))
    change = draw(st.sampled_from(("nothing", "a filter", "the outputs", "the order of FROM", "the order of FROM")))
    if change == "a filter":
        return replace(query, conditions=(*query.conditions, draw(_filters(sources))))
    if change == "the outputs":
        return replace(query, outputs=(*plain_outputs(sources), *draw(_more_outputs(sources))))
    if change == "the order of FROM":
        return reordered(query, draw(st.permutations(range(sources))))
    return query


def reordered(query: Query, order: Sequence[int]) -> Query:
    """The query with FROM entry ``order[i]`` as its i-th; its outputs are the plain ones."""
    place = {source: i for i, source in enumerate(order)}

    def moved(ref: ColumnRef) -> ColumnRef:
        return ColumnRef(place[ref.source], ref.name, ref.type)

    return replace(
        query,
        sources=tuple(query.sources[source] for source in order),
        conditions=tuple(rewrite(one, moved) for one in query.conditions),
        outputs=plain_outputs(len(order)),
        windows=tuple(query.windows[source] for source in order),
    )


@st.composite
def query_lists(
    draw: st.DrawFn, catalog: Catalog, most: int = 3, prefix: str = "q", shape: Shape | None = None
) -> list[Query]:
    """Queries of which most are variants of the first, so that they share."""
    found = [draw(queries(catalog, f"{prefix}0", shape))]
    for number in range(1, draw(st.integers(1, most))):
        name = f"{prefix}{number}"
        alike = draw(st.integers(0, 2)) > 0
        found.append(draw(variants(found[0], name) if alike else queries(catalog, name)))
    return found


# --- cases


@st.composite
def inputs(draw: st.DrawFn, shape: Shape | None = None, most_queries: int = 3) -> Case:
    catalog = draw(catalogs())
    arrived = draw(arrivals(catalog))
    return Case(catalog, arrived, tuple(draw(query_lists(catalog, most_queries, shape=shape))))


@st.composite
def busy_inputs(draw: st.DrawFn, most_queries: int = 3) -> Case:
    """Tuples of one or two keys, in order, all streams at once, and queries that share one join in several windows."""
    catalog = _catalog((0,) * min(draw(st.sampled_from((3, 3, 4))), MOST))
    sources = len(catalog.streams)
    most = _MOST_ROWS[sources]
    steps = st.lists(st.tuples(st.sampled_from((0, 1, 1, 2)), st.sampled_from((0, 0, 0, 2))), min_size=2, max_size=most)
    arrived = {stream.name: _in_order(draw(steps)) for stream in catalog.streams}
    from_ = tuple(Source(stream.name, f"s{i}") for i, stream in enumerate(catalog.streams))
    shape = draw(st.sampled_from((Shape.COMMON, Shape.CHAIN, Shape.MIXTURE)))
    joined = tuple(draw(conditions(shape, sources)))
    first = Query(QueryId("q0"), from_, joined, plain_outputs(sources), draw(windows(sources)))
    more = [draw(variants(first, f"q{number}")) for number in range(1, draw(st.integers(1, most_queries)))]
    return Case(catalog, arrived, (first, *more))


@st.composite
def longer_inputs(draw: st.DrawFn, most_queries: int = 2) -> Case:
    """Streams of some twenty tuples, many of them at one time, joined by columns that have nothing to do with each
    other: tuples are found by one key that are held by another."""
    catalog, chance = _catalog((0, 0, 0)), random.Random(draw(st.integers(0, 2**32)))
    steps = draw(st.sampled_from(((0, 0, 1), (0, 0, 0, 0, 3), (0, 1, 2))))
    arrived = {
        stream.name: _in_order((chance.choice(steps), chance.randrange(5**9)) for _ in range(chance.randint(12, 24)))
        for stream in catalog.streams
    }
    from_ = tuple(Source(stream.name, f"s{i}") for i, stream in enumerate(catalog.streams))
    columns = draw(st.permutations(("k", "n", "name")))
    joined = tuple(call("=", column(i, columns[i]), column(i + 1, columns[i])) for i in range(2))
    counted = st.sampled_from((1, 2, 3, 5, 8)).map(lambda rows: Extent(Measure.ROWS, rows))
    extents = draw(st.one_of(windows(3), st.tuples(counted, counted, counted)))
    first = Query(QueryId("q0"), from_, joined, plain_outputs(3), extents)
    more = [draw(variants(first, f"q{number}")) for number in range(1, draw(st.integers(1, most_queries)))]
    return Case(catalog, arrived, (first, *more))


@st.composite
def tied_inputs(draw: st.DrawFn) -> Case:
    """Many tuples at one time, all of one key, and queries with windows of each other's results: most of a larger
    window's results have tuples in common with those of a smaller one. Perhaps a stream is there twice."""
    catalog = _catalog((0, 0, 0))
    steps = st.lists(st.tuples(st.sampled_from((0, 0, 2)), st.just(0)), min_size=3, max_size=6)
    arrived = {stream.name: _in_order([*draw(steps), (50, 0)]) for stream in catalog.streams}
    from_ = draw(st.sampled_from(((0, 1, 2), (0, 1, 2), (0, 1, 1), (0, 0, 1), (0, 0, 0))))
    sources = tuple(
        Source(catalog.streams[place].name, f"s{i}") for i, place in enumerate(draw(st.permutations(from_)))
    )
    joined = tuple(draw(conditions(draw(st.sampled_from((Shape.COMMON, Shape.COMMON, Shape.CHAIN, Shape.CROSS))), 3)))
    first = Query(QueryId("any"), sources, joined, plain_outputs(3), draw(windows(3)))
    turned = reordered(first, draw(st.permutations(range(3))))
    sized = [other_window(one, f"{name}{s}", s) for name, one in (("q", first), ("t", turned)) for s in (0, 2, 10)]
    return Case(catalog, arrived, (first, *sized))


def _in_order(steps: Iterable[tuple[int, int]]) -> list[Row]:
    now, found = 0, []
    for number, (step, code) in enumerate(steps):
        now += step
        found.append(row(now, number, code))
    return found


def other_window(query: Query, name: str, seconds: int) -> Query:
    """The same join, everything within so many seconds."""
    return replace(query, name=QueryId(name), windows=within_us(seconds * SECOND_US, len(query.sources)))
