"""Hypothesis strategies: typed values, expressions, streams and queries.

Values come from small pools of awkward ones (limits, NaN, halves, text that looks like a number, letters of one to
four bytes) mixed with arbitrary ones, so that equal keys, ties and overflows are common. Streams are tied, duplicate,
skewed, empty, late and asynchronous. ``SIGNATURES`` lists argument types for every function; expressions of a wanted
type are built from it.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from itertools import product

from hypothesis import strategies as st

from headrace.model import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    Catalog,
    Column,
    DataType,
    QueryId,
    Schema,
    Stream,
    StreamId,
    TypeKind,
    decimal,
)
from headrace.plan.expressions import ColumnRef, Expression, Literal, Value
from headrace.plan.functions import FUNCTIONS, call, cast
from headrace.plan.queries import Extent, Measure, Output, Query, Source

PRICE = decimal(6, 2)
RATE = decimal(9, 4)
TYPES = (BOOLEAN, INT, BIGINT, DOUBLE, STRING, TIMESTAMP, DATE, PRICE, RATE)
NUMBERS = (INT, BIGINT, DOUBLE, PRICE, RATE)


# --- values

_DOUBLES = (0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1.005, 0.1, 1e16, 1e308, -1e308, 5e-324, 0.49999999999999994)
_ODD_DOUBLES = (math.nan, math.inf, -math.inf)
_WHOLES = (0, 1, -1, 2, 3, -7, 10)
_LETTERS = "abAB %_\\'\n.+-05eéßİΣ漢😀\u0301"
_TEXTS = (
    "", " ", "a", "abc", "%", "a%", "12", " -7 ", "+3", "2147483648", "-9223372036854775808", "9223372036854775808",
    "00000000000000000000042", "1.5", "-0.005", "9999.995", ".5", "5.", "1e3", "1e400", "nan", "-Infinity", "inf ",
    "true", "T", "No", "yes", "0", "2020-02-29", "2021-02-29", "2020-1-2", "0000-01-01", "9999-12-31", "2020-13-01",
    "2020-02-29 23:59:59.999999", "2020-02-29T10:00", "2020-02-29 10:00:00.1234567+05:30", "1969-12-31 23:00:00Z",
    "2020-02-29 24:00:00", "2020-02-29 10:60", "2020-01-01 00:00:00-0130", "2020-01-01 00:00:00+02",
    "2020-01-01 00:00+99", "0001-01-01 00:00:00+01:00", "٣",
)  # fmt: skip
_TIMES = (
    dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
    dt.datetime(2020, 2, 29, 12, 30, 15, 120_000, tzinfo=dt.UTC),
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
)


def _integers(bits: int) -> st.SearchStrategy[Value]:
    most = 2 ** (bits - 1) - 1
    return st.one_of(st.sampled_from((*_WHOLES, most, -most - 1)), st.integers(-5, 5), st.integers(-most - 1, most))


def _decimals(data_type: DataType) -> st.SearchStrategy[Value]:
    most = 10**data_type.precision - 1
    unscaled = st.one_of(st.sampled_from((0, 1, -50, 150, 250, most, -most)), st.integers(-most, most))
    return unscaled.map(lambda number: Decimal(number).scaleb(-data_type.scale))


_KNOWN: dict[DataType, st.SearchStrategy[Value]] = {
    BOOLEAN: st.booleans(),
    INT: _integers(32),
    BIGINT: _integers(64),
    DOUBLE: st.one_of(st.sampled_from(_DOUBLES), st.sampled_from(_ODD_DOUBLES), st.floats()),
    STRING: st.one_of(st.sampled_from(_TEXTS), st.text(_LETTERS, max_size=6)),
    TIMESTAMP: st.one_of(st.sampled_from(_TIMES), st.datetimes(timezones=st.just(dt.UTC))),
    DATE: st.one_of(st.sampled_from([time.date() for time in _TIMES]), st.dates()),
    INTERVAL: st.one_of(_integers(64), st.sampled_from((60_000_000, -86_400_000_000))),
    PRICE: _decimals(PRICE),
    RATE: _decimals(RATE),
}


def values(data_type: DataType) -> st.SearchStrategy[Value]:
    """A value of the type; one in five is NULL."""
    return st.one_of(st.none(), *[_KNOWN[data_type]] * 4)


def literals(data_type: DataType) -> st.SearchStrategy[Literal]:
    if data_type.kind is TypeKind.NULL:
        return st.just(Literal(None, NULL))
    return values(data_type).map(lambda value: Literal(value, data_type))


# --- expressions over one stream with two columns of every type

_NAMES = ("b0 b1", "i0 i1", "n0 n1", "x0 x1", "s0 s1", "t0 ts", "d0 d1", "p0 p1", "r0 r1")
_MIXED_COLUMNS = (Column(name, one) for one, names in zip(TYPES, _NAMES, strict=True) for name in names.split())
MIXED = Stream(StreamId("mixed"), Schema(tuple(_MIXED_COLUMNS)), time="ts")

_ANY = tuple((one, one) for one in (*TYPES, INTERVAL))
_COMPARABLE = (*_ANY, *product(NUMBERS, NUMBERS), (DATE, TIMESTAMP), (TIMESTAMP, DATE), (NULL, BIGINT), (NULL, NULL))
_CHOOSABLE = tuple(pair for pair in _COMPARABLE if INTERVAL not in pair)
_MOVED = ((TIMESTAMP, INTERVAL), (INTERVAL, INTERVAL))
_ONE_NUMBER = (*((one,) for one in NUMBERS), (NULL,))
_TWO_NUMBERS = (*product(NUMBERS, NUMBERS), (NULL, INT))
_ONE_TEXT = ((STRING,), (NULL,))
_TWO_TEXTS = ((STRING, STRING), (NULL, STRING))
_ONE_TIME = ((TIMESTAMP,), (DATE,), (NULL,))

SIGNATURES: dict[str, tuple[tuple[DataType, ...], ...]] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _COMPARABLE),
    "in": (*_COMPARABLE, *((one,) * 4 for one in TYPES)),
    **dict.fromkeys(("and", "or"), ((BOOLEAN, BOOLEAN), (BOOLEAN, NULL), (BOOLEAN,) * 3)),
    "not": ((BOOLEAN,), (NULL,)),
    "is_null": tuple((one,) for one in (*TYPES, INTERVAL, NULL)),
    **dict.fromkeys(("like", "ilike", "concat_op", "starts_with", "contains"), _TWO_TEXTS),
    "+": (*_TWO_NUMBERS, *_MOVED, (INTERVAL, TIMESTAMP)),
    "-": (*_TWO_NUMBERS, *_MOVED, (TIMESTAMP, TIMESTAMP)),
    **dict.fromkeys(("*", "/", "%", "power"), _TWO_NUMBERS),
    "neg": (*_ONE_NUMBER, (INTERVAL,)),
    "case": tuple(
        (BOOLEAN, left, *more, right) for left, right in _CHOOSABLE for more in ((), (BOOLEAN, left), (NULL, right))
    ),
    **dict.fromkeys(("coalesce", "greatest", "least"), (*_CHOOSABLE, *((one,) * 3 for one in TYPES), (STRING,))),
    "nullif": _COMPARABLE,
    **dict.fromkeys(("abs", "sign", "floor", "ceil", "sqrt", "exp", "ln"), _ONE_NUMBER),
    "round": (*_ONE_NUMBER, *((one, INT) for one in NUMBERS), (DOUBLE, BIGINT)),
    **dict.fromkeys(("upper", "lower", "trim", "ltrim", "rtrim", "reverse", "length"), _ONE_TEXT),
    "replace": ((STRING, STRING, STRING),),
    "substring": ((STRING, INT), (STRING, BIGINT), (STRING, INT, INT), (STRING, BIGINT, BIGINT)),
    **dict.fromkeys(("year", "month", "day", "hour", "minute", "second"), _ONE_TIME),
    "date_trunc": ((STRING, TIMESTAMP), (STRING, DATE)),
}
"""Argument types for every function, as SQL would have them before any conversion."""

CASTS = tuple(
    (source, to)
    for source, to in product(TYPES, TYPES)
    if source != to
    and (
        STRING in (source, to)
        or (source.is_numeric and to.is_numeric)
        or {source, to} == {DATE, TIMESTAMP}
        or (BOOLEAN in (source, to) and (source.is_integer or to.is_integer))
    )
)

_GIVING: dict[DataType, list[tuple[str, tuple[DataType, ...]]]] = defaultdict(list)
for _name, _signatures in SIGNATURES.items():
    for _types in _signatures:
        _GIVING[FUNCTIONS[_name].resolve(_types)[1]].append((_name, _types))
for _source, _to in CASTS:
    _GIVING[_to].append(("cast", (_source,)))

UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "milliseconds", "MICROSECOND")


def columns(data_type: DataType, stream: Stream = MIXED, source: int = 0) -> Sequence[ColumnRef]:
    """The stream's columns of that type."""
    return [ColumnRef(source, column.name, column.type) for column in stream.schema if column.type == data_type]


@st.composite
def expressions(draw: st.DrawFn, data_type: DataType, depth: int = 2) -> Expression:
    """An expression of that type over the columns of MIXED, with calls up to ``depth`` deep."""
    leaves = [*(st.just(column) for column in columns(data_type)), literals(data_type)]
    if depth == 0 or draw(st.integers(0, 3)) == 0 or not _GIVING[data_type]:
        return draw(st.one_of(leaves))
    name, types = draw(st.sampled_from(_GIVING[data_type]))
    return draw(calls(name, types, depth - 1, data_type))


@st.composite
def calls(
    draw: st.DrawFn, name: str, types: tuple[DataType, ...], depth: int = 1, to: DataType | None = None
) -> Expression:
    """A call of that function with arguments of those types; ``to`` is what a cast gives."""
    args = [draw(expressions(one, depth)) for one in types]
    if name == "cast":
        assert to is not None
        return cast(args[0], to)
    if name == "date_trunc":
        args[0] = Literal(draw(st.sampled_from(UNITS)), STRING)
    return call(name, *args)


def any_call(name: str) -> st.SearchStrategy[Expression]:
    """A call of that function with any of its signatures."""
    return st.sampled_from(SIGNATURES[name]).flatmap(lambda types: calls(name, types))


def rows(stream: Stream = MIXED, max_size: int = 8) -> st.SearchStrategy[list[dict[str, Value]]]:
    """Rows of the stream, every column arbitrary, event time too."""
    row = st.fixed_dictionaries({column.name: values(column.type) for column in stream.schema})
    return st.lists(row, max_size=max_size)


# --- streams in time

EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SECOND_US = 1_000_000
EVENT = Schema(
    (Column("ts", TIMESTAMP), Column("id", BIGINT), Column("k", INT), Column("name", STRING), Column("x", DOUBLE))
)


def at(seconds: float) -> dt.datetime:
    """A moment so many seconds into the test."""
    return EPOCH + dt.timedelta(seconds=seconds)


@st.composite
def catalogs(draw: st.DrawFn, least: int = 1, most: int = 3) -> Catalog:
    """Streams a, b, ... of EVENT rows, each with its own patience."""
    count = draw(st.integers(least, most))
    delays = [draw(st.sampled_from((0, 0, 2 * SECOND_US, 10 * SECOND_US))) for _ in range(count)]
    return Catalog(tuple(Stream(StreamId("abc"[i]), EVENT, "ts", delay) for i, delay in enumerate(delays)))


@st.composite
def arrivals(draw: st.DrawFn, catalog: Catalog, max_rows: int = 14) -> dict[StreamId, list[dict[str, Value]]]:
    """For each stream its rows in order of arrival: ties, bursts, gaps, stragglers, rows without a time, or nothing."""
    return {stream.name: draw(_arrivals_of_one(max_rows)) for stream in catalog.streams}


@st.composite
def _arrivals_of_one(draw: st.DrawFn, max_rows: int) -> list[dict[str, Value]]:
    now = draw(st.sampled_from((0, 0, 0, 3, 20)))
    arrived: list[dict[str, Value]] = []
    for step in draw(st.lists(st.sampled_from((0, 0, 0, 0, 1, 1, 2, 7, -1, -2, -11, None)), max_size=max_rows)):
        if step is not None and step > 0:
            now += step
        time = None if step is None else at(now + min(step, 0))
        again = draw(st.integers(0, 9)) == 0
        row = dict(arrived[-1]) if again and arrived else draw(_event(len(arrived)))
        arrived.append({**row, "ts": time})
    return arrived


def _event(number: int) -> st.SearchStrategy[dict[str, Value]]:
    return st.fixed_dictionaries(
        {
            "ts": st.none(),
            "id": st.just(number),
            "k": st.sampled_from((1, 1, 1, 1, 2, 3, None)),
            "name": st.sampled_from(("a", "b", "é漢", "", None)),
            "x": st.sampled_from((0.0, 1.0, 1.0, -2.5, math.nan, math.inf, None)),
        }
    )


# --- queries over such streams


WINDOWS_S = (0, 1, 2, 5, 100)
timed = st.sampled_from(WINDOWS_S).map(lambda seconds: Extent(Measure.TIME, seconds * SECOND_US))
counted = st.integers(1, 6).map(lambda rows: Extent(Measure.ROWS, rows))
_EITHER = st.booleans().flatmap(lambda in_time: timed if in_time else counted)


@st.composite
def windows(draw: st.DrawFn, sources: int) -> tuple[Extent, ...]:
    """Every source's window: mostly one time for all, else times of their own, one number of rows, or anything."""
    kind = draw(st.sampled_from(("one time", "one time", "one time", "times", "one count", "anything")))
    if kind in ("one time", "one count"):
        return (draw(timed if kind == "one time" else counted),) * sources
    return tuple(draw(timed if kind == "times" else _EITHER) for _ in range(sources))


@st.composite
def queries(draw: st.DrawFn, catalog: Catalog, sources: int = 2) -> Query:
    """A join of so many streams (perhaps one with itself), mostly on equal keys, with filters; or a filter over one."""
    names = [draw(st.sampled_from(catalog.streams)).name for _ in range(sources)]
    conditions: list[Expression] = []
    for i in range(1, sources):
        conditions += draw(_join_conditions(i))
    conditions += draw(st.lists(st.integers(0, sources - 1).flatmap(_filter), max_size=1))
    outputs = [
        Output(f"{column}{i}", _event_column(i, column)) for i in range(sources) for column in ("ts", "id", "name", "x")
    ]
    outputs.append(Output("computed", call("+", _event_column(0, "k"), _event_column(sources - 1, "id"))))
    return Query(
        QueryId("q"),
        tuple(Source(name, f"s{i}") for i, name in enumerate(names)),
        tuple(conditions),
        tuple(outputs),
        () if sources == 1 and draw(st.booleans()) else draw(windows(sources)),
    )


def _event_column(source: int, name: str) -> ColumnRef:
    column = EVENT.find(name)
    assert column is not None
    return ColumnRef(source, name, column.type)


_EQUAL = (*[("=", "k", "k")] * 4, ("=", "name", "name"), ("=", "k", "id"), ("=", "k", "x"), ("=", "x", "x"))
_UNEQUAL = (("<", "k", "id"), ("<>", "name", "name"), ("<=", "x", "x"), (">", "ts", "ts"))


@st.composite
def _join_conditions(draw: st.DrawFn, source: int) -> list[Expression]:
    """Equal keys of this source and an earlier one, of one type or of two; or a theta join's condition, or none."""
    other = draw(st.integers(0, source - 1))
    kind = draw(st.sampled_from((*["equal"] * 4, "theta", "cross")))
    if kind == "cross":
        return []
    function, left, right = draw(st.sampled_from(_EQUAL if kind == "equal" else _UNEQUAL))
    return [call(function, _event_column(other, left), _event_column(source, right))]


def _filter(source: int) -> st.SearchStrategy[Expression]:
    k, name, x, ts = (_event_column(source, column) for column in ("k", "name", "x", "ts"))
    first = _event_column(0, "x")
    return st.sampled_from(
        (
            call("<", k, Literal(3, INT)),
            call("or", call("like", name, Literal("%a%", STRING)), call("is_null", k)),
            call(">=", x, Literal(0.0, DOUBLE)),
            call("<=", first, x),
            call(">", ts, Literal(at(4), TIMESTAMP)),
            call("in", k, Literal(1, INT), Literal(None, NULL)),
        )
    )


def agree(left: Value, right: Value) -> bool:
    """Equal as SQL sees it: NaN equals itself, and DOUBLEs may differ in their last bits, as C libraries do."""
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or math.isclose(left, right, rel_tol=1e-14)
    return type(left) is type(right) and left == right


def all_agree(left: Sequence[Value], right: Sequence[Value]) -> bool:
    return len(left) == len(right) and all(agree(*pair) for pair in zip(left, right, strict=True))
