"""Streams, queries and ways of running for the engine's tests; what comes of them is compared in ``outcomes.py``.

A :class:`Case` is one input: a catalog, all streams' rows in order of arrival, and queries. A :class:`Way` is how it is
run: how arrivals are cut, how far streams lag each other, how many shards and their options. None changes an answer.
"""

from __future__ import annotations

import datetime as dt
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from itertools import count

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from local_host import LocalHost
from strategies import EPOCH, PRICE, RATE, SECOND_US, WINDOWS_S, at, counted, timed, windows

from headrace.config import JOIN_METHODS
from headrace.engine.arrow_types import arrow_schema
from headrace.engine.choosing import FAIRNESS
from headrace.engine.cutting import BlockCut
from headrace.engine.dispatching import Scheduling
from headrace.engine.output import Cut
from headrace.engine.packing import ORDER, ORDER_SHIFT, Envelope, Packer
from headrace.engine.policy import POLICIES
from headrace.engine.shard import ShardOptions
from headrace.engine.strategies import STRATEGIES
from headrace.model import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Catalog,
    Column,
    QueryId,
    Schema,
    Stream,
    StreamId,
)
from headrace.plan.expressions import ColumnRef, Expression, Literal, Value
from headrace.plan.functions import call
from headrace.plan.queries import Extent, Output, Query, Source, within_us

# The same examples each time are a check that nothing broke, for which half of them do; other ones are a search.
_PARTS = {"search": 1.0, "thorough": 25.0}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 0.5)


def examples(count: int) -> settings:
    """So many examples in a search (``conftest.py``), half of them in the tests that are the same each time."""
    return settings(max_examples=math.ceil(count * _PARTS))


Row = dict[str, Value]
Arrivals = Mapping[StreamId, Sequence[Row]]
Answer = list[tuple[Value, ...]]

WIDE = Schema(
    (
        Column("ts", TIMESTAMP),
        Column("id", BIGINT),
        Column("k", INT),
        Column("n", BIGINT),
        Column("name", STRING),
        Column("x", DOUBLE),
        Column("price", PRICE),
        Column("rate", RATE),
        Column("day", DATE),
        Column("moment", TIMESTAMP),
        Column("flag", BOOLEAN),
    )
)
"""A column of every type that may be a key."""

_POOLS: dict[str, tuple[Value, ...]] = {
    "k": (1, 1, 2, 3, None),
    "n": (1, 2, 1, -(2**63), None),
    "name": ("a", "é漢", "", "b", None),
    "x": (1.0, math.nan, 0.0, -0.0, None),
    "price": (Decimal("1.00"), Decimal("1.00"), Decimal("-2.50"), Decimal("0.00"), None),
    "rate": (Decimal("1.0000"), Decimal("-2.5000"), Decimal("-2.5001"), Decimal("0.0000"), None),
    "day": (dt.date(2026, 1, 1), dt.date(2026, 1, 1), dt.date(1969, 12, 31), dt.date(1, 1, 1), None),
    "moment": (at(0), at(0), at(1), dt.datetime(1, 1, 1, tzinfo=dt.UTC), None),
    "flag": (True, True, False, False, None),
}
"""Values by column, few and tied; one of five is NULL."""


def row(seconds: float | None, number: int, code: int = 0, **columns: Value) -> Row:
    """A row of WIDE at a time; the digits of ``code`` to the base 5 pick the columns, unless they are given."""
    picked: Row = {"ts": None if seconds is None else at(seconds), "id": number}
    for name, pool in _POOLS.items():
        picked[name] = columns.get(name, pool[code % 5])
        code //= 5
    return picked


def column(source: int, name: str) -> ColumnRef:
    found = WIDE.find(name)
    assert found is not None
    return ColumnRef(source, name, found.type)


# --- inputs

_STEPS = (0, 0, 0, 0, 1, 1, 2, 7, -1, -2, -5, -11, None)
"""Seconds from one row to the next: ties, gaps, stragglers (negative), no time at all."""


@st.composite
def catalogs(draw: st.DrawFn, least: int = 2, most: int = 3) -> Catalog:
    """Streams b, a, c (positions are not names' order) of WIDE rows, each with its own patience."""
    delays = draw(st.lists(st.sampled_from((0, 0, 2, 10)), min_size=least, max_size=most))
    parted = draw(st.sampled_from(("", "", "", "b", "a", "bac")))
    streams = [(name, delay, name in parted) for name, delay in zip("bac", delays, strict=False)]
    return Catalog(tuple(_stream(*one) for one in streams))


def _stream(name: str, delay_s: int, has_parts: bool) -> Stream:
    """A stream of WIDE rows, perhaps in parts."""
    stream = Stream(StreamId(name), WIDE, "ts", delay_s * SECOND_US)
    return in_parts(stream) if has_parts else stream


def in_parts(stream: Stream) -> Stream:
    """The stream, its rows from three sources that lag each other."""
    return replace(stream, partition="flag", partitions=3)


def rows_of_one(max_rows: int = 14) -> st.SearchStrategy[list[Row]]:
    return st.sampled_from((0, 0, 0, 0, 3, 20)).flatmap(lambda start: rows_from(start, 0, max_rows))


def rows_from(start: int, number: int, max_rows: int) -> st.SearchStrategy[list[Row]]:
    """Rows that begin about ``start`` seconds into the test, numbered from ``number``."""
    codes = st.one_of(st.just(0), st.just(0), st.integers(0, 4), st.integers(0, 5 ** len(_POOLS) - 1))
    steps = st.lists(st.tuples(st.sampled_from(_STEPS), codes), max_size=max_rows)
    return st.builds(_walk, st.just(start), st.just(number), steps)


def _walk(now: int, first: int, steps: Iterable[tuple[int | None, int]]) -> list[Row]:
    rows = []
    for number, (step, code) in enumerate(steps, first):
        now += max(step or 0, 0)
        rows.append(row(None if step is None else now + min(step, 0), number, code))
    return rows


def seconds_of(time: Value) -> int:
    """The whole seconds into the test."""
    assert isinstance(time, dt.datetime)
    return int((time - EPOCH).total_seconds())


@st.composite
def arrivals(draw: st.DrawFn, catalog: Catalog, max_rows: int = 14) -> dict[StreamId, list[Row]]:
    return {stream.name: draw(rows_of_one(max_rows)) for stream in catalog.streams}


# --- queries

_KEYS = (
    (("k", "k"),),
    (("k", "k"),),
    (("n", "n"),),
    (("k", "n"),),
    (("n", "k"),),
    (("name", "name"),),
    (("x", "x"),),
    (("k", "x"),),
    (("price", "price"),),
    (("price", "rate"),),
    (("n", "price"),),
    (("day", "day"),),
    (("moment", "moment"),),
    (("day", "moment"),),
    (("flag", "flag"),),
    (("k", "k"), ("name", "name")),
    (("k", "n"), ("n", "k")),
    (("x", "x"), ("flag", "flag"), ("price", "price")),
)
"""Equalities between two streams; the first ones are frequent, so that queries share."""

_EXTRA = ("k", "n", "name", "x", "price", "rate", "day", "moment", "flag")


class Kinds(StrEnum):
    """Which joins are drawn."""

    PLAIN = "plain"
    """One window of time for both streams, and an equality."""
    ALL = "all"
    """Windows of any kind, a stream's own too; sometimes no equality."""
    MIXED = "mixed"
    """A window of time for one stream and of rows for the other; sometimes no equality."""


@st.composite
def queries(
    draw: st.DrawFn, catalog: Catalog, name: str = "q", sources: int | None = None, kinds: Kinds | str = Kinds.PLAIN
) -> Query:
    """A filter over one stream or a join of two, perhaps one with itself; the first columns are every source's time."""
    sources = sources or draw(st.sampled_from((1, 2, 2, 2, 2)))
    from_ = [draw(st.sampled_from(catalog.streams)).name for _ in range(sources)]
    conditions = draw(_join_conditions(Kinds(kinds))) if sources == 2 else []
    conditions += draw(st.lists(_filters(sources), max_size=2))
    outputs = [Output(f"{name}{i}", column(i, name)) for name in ("ts", "id") for i in range(sources)]
    extra = draw(st.lists(st.tuples(st.sampled_from(_EXTRA), st.integers(0, sources - 1)), max_size=2, unique=True))
    outputs += [Output(f"{one}{i}", column(i, one)) for one, i in extra]
    if draw(st.booleans()):
        outputs.append(Output("computed", call("+", column(0, "k"), column(sources - 1, "id"))))
    return Query(
        QueryId(name),
        tuple(Source(stream, f"s{i}") for i, stream in enumerate(from_)),
        tuple(draw(st.permutations(conditions))),
        tuple(outputs),
        draw(_windows(sources, Kinds(kinds))),
    )


@st.composite
def _join_conditions(draw: st.DrawFn, kinds: Kinds) -> list[Expression]:
    """Equalities of the two streams; or a theta join's condition, or none."""
    if kinds is not Kinds.PLAIN and draw(st.integers(0, 3)) == 0:
        return draw(st.lists(_thetas, max_size=1))
    return [
        call("=", *pair[:: draw(st.sampled_from((1, -1)))])
        for pair in ((column(0, left), column(1, right)) for left, right in draw(st.sampled_from(_KEYS)))
    ]


_thetas = st.sampled_from(
    (
        call("<", column(0, "id"), column(1, "id")),
        call("<=", column(1, "x"), column(0, "x")),
        call("<>", column(0, "k"), column(1, "n")),
        call(">", column(0, "ts"), column(1, "moment")),
        call("<", call("+", column(0, "k"), column(1, "k")), Literal(4, INT)),
    )
)


def _windows(sources: int, kinds: Kinds) -> st.SearchStrategy[tuple[Extent, ...]]:
    if kinds is not Kinds.PLAIN and sources == 1:
        return st.booleans().flatmap(lambda has: windows(1) if has else st.just(()))
    if kinds is Kinds.ALL:
        return windows(sources)
    if kinds is Kinds.MIXED:
        return st.tuples(timed, counted).flatmap(st.permutations).map(tuple)
    if sources == 1:
        return st.just(())
    return st.sampled_from(WINDOWS_S).map(lambda seconds: within_us(seconds * SECOND_US, sources))


@st.composite
def query_lists(
    draw: st.DrawFn, catalog: Catalog, most: int = 4, prefix: str = "q", kinds: Kinds | str = Kinds.PLAIN
) -> list[Query]:
    """Queries of which some are variants of the first, so that they share: another window, filter or select list."""
    first = draw(queries(catalog, f"{prefix}0", kinds=kinds))
    found = [first]
    for number in range(1, draw(st.integers(1, most))):
        name = QueryId(f"{prefix}{number}")
        if draw(st.booleans()):
            found.append(draw(queries(catalog, name, kinds=kinds)))
        else:
            found.append(replace(draw(variants(first, kinds)), name=name))
    return found


@st.composite
def variants(draw: st.DrawFn, query: Query, kinds: Kinds | str = Kinds.PLAIN) -> Query:
    """The same query with another window, and perhaps other filters, in another order, or another select list."""
    sources = len(query.sources)
    if sources == 2:
        query = replace(query, windows=draw(_windows(2, Kinds(kinds))))
    change = draw(st.sampled_from(("nothing", "more filters", "fewer filters", "other order", "other outputs")))
    if change == "other order":
        return replace(query, conditions=tuple(draw(st.permutations(query.conditions))))
    if change == "more filters":
        return replace(query, conditions=(*query.conditions, draw(_filters(sources))))
    if change == "fewer filters":
        return replace(query, conditions=tuple(one for one in query.conditions if _is_equality(one)))
    if change == "other outputs":
        return replace(query, outputs=(*query.outputs[: 2 * sources], Output("more", column(0, draw(_extra)))))
    return query


_extra = st.sampled_from(_EXTRA)


def _is_equality(condition: Expression) -> bool:
    return getattr(condition, "function", None) == "="


@st.composite
def _filters(draw: st.DrawFn, sources: int) -> Expression:
    """A condition on one side, on both, or on none."""
    side = draw(st.integers(0, sources - 1))
    other = sources - 1 - side
    return draw(
        st.sampled_from(
            (
                call("<", column(side, "k"), Literal(3, INT)),
                call("or", call("like", column(side, "name"), Literal("%a%", STRING)), column(side, "flag")),
                call(">=", column(side, "x"), Literal(0.0, DOUBLE)),
                call("is_null", column(side, "n")),
                call(">", column(side, "ts"), Literal(at(4), TIMESTAMP)),
                call("in", column(side, "k"), Literal(1, INT), Literal(None, INT)),
                call("<=", column(side, "x"), column(other, "x")),
                call("<", column(side, "id"), column(other, "id")),
                call("=", column(side, "flag"), Literal(True, BOOLEAN)),
                Literal(True, BOOLEAN),
                call("or", call("=", column(0, "flag"), column(other, "flag")), call("is_null", column(side, "k"))),
            )
        )
    )


@dataclass(frozen=True)
class Case:
    catalog: Catalog
    arrivals: Arrivals
    queries: tuple[Query, ...]


@st.composite
def cases(draw: st.DrawFn, most_queries: int = 4, max_rows: int = 14, kinds: Kinds | str = Kinds.PLAIN) -> Case:
    catalog = draw(catalogs())
    arrived = draw(arrivals(catalog, max_rows))
    return Case(catalog, arrived, tuple(draw(query_lists(catalog, most_queries, kinds=kinds))))


@st.composite
def busy_cases(draw: st.DrawFn, most_queries: int = 3) -> Case:
    """Many tuples of few keys, in order, and queries that share one join: where scheduling has most to decide."""
    catalog = draw(catalogs(most=2))
    rows = st.lists(st.tuples(st.sampled_from((0, 1, 1, 2)), st.sampled_from((0, 0, 0, 2))), min_size=3, max_size=10)
    arrived = {stream.name: _walk(0, 0, draw(rows)) for stream in catalog.streams}
    sources = tuple(Source(stream.name, f"s{i}") for i, stream in enumerate(catalog.streams))
    outputs = tuple(Output(f"{name}{i}", column(i, name)) for name in ("ts", "id") for i in (0, 1))
    joined = (call("=", column(0, "k"), column(1, "k")),)
    first = Query(QueryId("q0"), sources, joined, outputs, draw(_windows(2, Kinds.ALL)))
    more = draw(st.lists(variants(first, Kinds.ALL), max_size=most_queries - 1))
    return Case(catalog, arrived, (first, *(replace(one, name=QueryId(f"q{i}")) for i, one in enumerate(more, 1))))


# --- ways of running

ONE_SHARD = ShardOptions(cut=Cut.WINDOWS)


@dataclass(frozen=True)
class Way:
    """``blocks`` and ``lags`` go round the streams: rows a chunk, and micro-batches a stream is behind the first.
    ``probes`` and ``backlog_rows`` are a micro-batch's budget."""

    blocks: tuple[int, ...] = (1000,)
    lags: tuple[int, ...] = (0,)
    shards: int = 1
    options: ShardOptions = ONE_SHARD
    restoring: bool = False
    probes: int | None = None
    backlog_rows: int | None = None
    seed: int | None = None
    """For the join orders."""
    filter_order: tuple[bool, ...] = (False,)
    """For one micro-batch after the other, round and round: whether tuples wait for other streams, or results do."""
    silent: tuple[frozenset[int], ...] = (frozenset(),)
    """The same: the streams, by position, that bring nothing. In one of them all must be let through."""
    tree: str | None = None
    """What joins of its streams run by."""


def schedulings() -> st.SearchStrategy[Scheduling]:
    return st.builds(
        Scheduling,
        st.sampled_from(tuple(STRATEGIES)),
        st.sampled_from(tuple(FAIRNESS)),
        st.sampled_from((None, 1, 500, 100_000)),
    )


@st.composite
def ways(draw: st.DrawFn, shards: Sequence[int] = (1, 2, 3), *, budgets: bool = True) -> Way:
    count = draw(st.sampled_from(shards))
    cut = Cut.WINDOWS if count == 1 else draw(st.sampled_from(Cut))
    spans = [BlockCut(), BlockCut(span_us=SECOND_US), BlockCut(span_us=3 * SECOND_US)]
    block = draw(st.sampled_from([*spans, *([BlockCut(rows=1), BlockCut(rows=3)] if count == 1 else [])]))
    options = ShardOptions(
        cut,
        draw(st.sampled_from((2, 4))),
        draw(st.sampled_from(tuple(POLICIES))),
        draw(st.sampled_from(tuple(JOIN_METHODS))),
        block,
        draw(st.sampled_from((0, 0, SECOND_US, 3 * SECOND_US))),
        scheduling=draw(st.one_of(st.none(), schedulings())),
    )
    return Way(
        tuple(draw(st.lists(st.sampled_from((1, 1, 2, 3, 7, 1000)), min_size=1, max_size=3))),
        tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))),
        count,
        options,
        draw(st.booleans()),
        draw(st.sampled_from((None, 1, 2, 5, 20))) if budgets else None,
        draw(st.sampled_from((None, 3, 10))),
        draw(st.integers(0, 99)),
        draw(orderings()),
        draw(interleavings()),
    )


def interleavings() -> st.SearchStrategy[tuple[frozenset[int], ...]]:
    """Streams that pause and go on, in any order."""
    pauses = st.lists(st.frozensets(st.integers(0, 3)), min_size=1, max_size=6)
    return st.one_of(st.just((frozenset[int](),)), pauses.map(lambda some: (*some, frozenset[int]())))


def orderings() -> st.SearchStrategy[tuple[bool, ...]]:
    """Sync-Filter, Filter-Order, and there and back at any time."""
    switching = st.lists(st.booleans(), min_size=2, max_size=6).map(tuple)
    return st.one_of(st.just((False,)), st.just((True,)), switching)


def busy_ways(shards: Sequence[int] = (1, 2)) -> st.SearchStrategy[Way]:
    """Ways on which work is always left for the next micro-batch."""

    def busy(way: Way, probes: int, block: BlockCut) -> Way:
        block = replace(block, rows=None) if way.shards > 1 else block
        options = replace(way.options, block=block)
        return replace(way, blocks=(3,), options=options, probes=probes, backlog_rows=None)

    blocks = st.sampled_from((BlockCut(rows=1), BlockCut(rows=2), BlockCut(span_us=SECOND_US)))
    return st.builds(busy, ways(shards), st.sampled_from((1, 1, 3, 8)), blocks)


def batch_of(rows: Sequence[Row], schema: Schema = WIDE) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(schema))


def micro_batches(case: Case, way: Way) -> Iterator[dict[StreamId, list[Row]]]:
    """The arrivals, cut: at most one chunk a stream in each micro-batch."""
    chunks: list[list[tuple[StreamId, list[Row]] | None]] = []
    for index, stream in enumerate(case.catalog.streams):
        rows, size = case.arrivals[stream.name], way.blocks[index % len(way.blocks)]
        behind = [None] * way.lags[index % len(way.lags)]
        chunks.append([*behind, *((stream.name, list(rows[i : i + size])) for i in range(0, len(rows), size))])
    for number in count():
        if not any(chunks):
            return
        silent = way.silent[number % len(way.silent)]
        together = [some.pop(0) for index, some in enumerate(chunks) if some and index not in silent]
        yield dict(chunk for chunk in together if chunk is not None)


def host_for(case: Case, way: Way) -> LocalHost:
    return LocalHost(
        case.catalog,
        case.queries,
        shards=way.shards,
        options=way.options,
        restoring=way.restoring,
        probes=way.probes,
        backlog_rows=way.backlog_rows,
        seed=way.seed,
        filter_order=way.filter_order,
        tree=way.tree,
    )


def run(case: Case, way: Way = Way()) -> LocalHost:
    """The case to the end of its input."""
    host = host_for(case, way)
    for chunks in micro_batches(case, way):
        arrive(host, chunks)
    host.end()
    return host


def run_with_ends(case: Case, way: Way, ends: Collection[int]) -> tuple[LocalHost, list[dict[StreamId, int]]]:
    """The case to the end of its input, with ends after these micro-batches too; and what had arrived at each."""
    host, told = host_for(case, way), []
    arrived = dict.fromkeys(case.arrivals, 0)
    for number, chunks in enumerate(micro_batches(case, way)):
        arrive(host, chunks)
        arrived.update({name: arrived[name] + len(rows) for name, rows in chunks.items()})
        if number in ends:
            host.end()
            told.append(dict(arrived))
    host.end()
    return host, told


def go_on_to_the_end(host: LocalHost) -> int:
    """Micro-batches without input until nothing is left to do; gives how many it took."""
    steps = 0
    while host.is_behind:
        host.go_on()
        steps += 1
        assert steps < 2000, "the backlog does not end"
    return steps


def arrive(host: LocalHost, chunks: Mapping[StreamId, Sequence[Row]], *, ordered: bool = True) -> None:
    batches = {name: batch_of(rows, host.plan.catalog.get(name).schema) for name, rows in chunks.items()}
    host.arrive(batches, ordered=ordered)


def packed(host: LocalHost, name: StreamId, rows: Sequence[Row], order: int) -> list[Envelope]:
    """A chunk as a source task of its own would send it."""
    batch = batch_of(rows).append_column(ORDER, pa.array([order << ORDER_SHIFT] * len(rows), pa.int64()))
    return list(Packer(host.plan, host.plan.catalog.get(name), len(host.stores)).pack(batch, 0))
