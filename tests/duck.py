"""The independent oracle: DuckDB runs a bound query over whole streams.

Owns how Headrace's expressions are said to DuckDB. Where the two mean different things on purpose (integers that wrap
round, roots of negative numbers, letters reversed one by one, what text a CAST reads), the expression is written out in
DuckDB's terms here; everything else is the text of ``render``. Late and malformed rows are found with SQL too.

    x INTERVAL          is BIGINT microseconds            TIMESTAMP     has no zone and is UTC
    t0, t1, ...         are the entries of FROM           seq, place    come with every row, and nth: which of its
                                                                        stream's accepted tuples it is, in time
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence

import duckdb
import pyarrow as pa

from headrace.engine.arrow_types import arrow_type
from headrace.model import BIGINT, Catalog, DataType, Stream, StreamId, TypeKind
from headrace.plan.expressions import Call, ColumnRef, Expression, Literal, Value, render
from headrace.plan.queries import Extent, Measure, Query, Source

Row = Mapping[str, Value]

_MACROS = (
    "wrapped(x) AS CAST((((x + 9223372036854775808) % 18446744073709551616) + 18446744073709551616)"
    " % 18446744073709551616 - 9223372036854775808 AS BIGINT)",
    "time_of(us) AS CASE WHEN us BETWEEN -62135596800000000 AND 253402300799999999"
    " THEN make_timestamp(CAST(us AS BIGINT)) END",
    "letters_reversed(s) AS array_to_string(list_transform(range(length(s), 0, -1), lambda i: substring(s, i, 1)), '')",
    "clamped(n) AS CAST(CASE WHEN n < -1000000 THEN -1000000 WHEN n > 1000000 THEN 1000000 ELSE n END AS INTEGER)",
    "without(places, i) AS places[:i - 1] || places[i + 1:]",
)


def connect() -> duckdb.DuckDBPyConnection:
    """An empty database on one thread, with the macros the rendered SQL needs."""
    connection = duckdb.connect(config={"threads": 1})
    for macro in _MACROS:
        connection.execute(f"CREATE MACRO {macro}")
    return connection


def answer(
    query: Query,
    catalog: Catalog,
    arrivals: Mapping[StreamId, Sequence[Row]],
    connection: duckdb.DuckDBPyConnection | None = None,
) -> list[tuple[Value, ...]]:
    """The query's output in the order of the semantics."""
    connection = connection or connect()
    for position, stream in enumerate(catalog.streams):
        load(connection, stream, position, arrivals.get(stream.name, ()))
    rows = connection.execute(query_sql(query)).fetchall()
    types = [output.expression.type for output in query.outputs]
    return [tuple(_value(one, of) for one, of in zip(row, types, strict=True)) for row in rows]


def values(
    expressions: Sequence[Expression],
    stream: Stream,
    rows: Sequence[Row],
    connection: duckdb.DuckDBPyConnection | None = None,
) -> list[list[Value]]:
    """For each expression its value in each row, in order of arrival."""
    connection = connection or connect()
    load(connection, stream, 0, rows, keep_all=True)
    outputs = ", ".join(f"{expression_sql(one)} AS c{i}" for i, one in enumerate(expressions))
    table = connection.execute(f'SELECT {outputs} FROM "{stream.name}" AS t0 ORDER BY t0.__seq').fetchall()
    return [[_value(row[i], one.type) for row in table] for i, one in enumerate(expressions)]


# --- streams


def load(
    connection: duckdb.DuckDBPyConnection, stream: Stream, position: int, rows: Sequence[Row], *, keep_all: bool = False
) -> None:
    """The stream as a table of its columns, seq, place and nth, without late and malformed rows unless asked for."""
    arrays = {
        column.name: pa.array([row[column.name] for row in rows], _naive(column.type)) for column in stream.schema
    }
    arrived = pa.table({**arrays, "__seq": pa.array(range(len(rows)), pa.int64())})
    connection.register("arrived", arrived)
    time = f'epoch_us("{stream.time}")'
    parted = f'PARTITION BY "{stream.partition}" ' if stream.partition else ""
    newest = f"max({time}) OVER ({parted}ORDER BY __seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    taken = f"QUALIFY {time} IS NOT NULL AND coalesce({time} >= {newest} - {stream.max_delay_us}, TRUE)"
    place = f"{time} AS __ts_us, [{time}, {position}, __seq] AS __place"
    accepted = f"SELECT *, {place} FROM arrived {'' if keep_all else taken}"
    connection.execute(
        f'CREATE OR REPLACE TABLE "{stream.name}" AS '
        f"SELECT *, row_number() OVER (ORDER BY __ts_us, __seq) AS __nth FROM ({accepted})"
    )
    connection.unregister("arrived")


def _naive(data_type: DataType) -> pa.DataType:
    return pa.timestamp("us") if data_type.kind is TypeKind.TIMESTAMP else arrow_type(data_type)


def _value(one: Value, data_type: DataType) -> Value:
    if data_type.kind is TypeKind.TIMESTAMP and isinstance(one, dt.datetime):
        return one.replace(tzinfo=dt.UTC)
    return one


# --- queries


def query_sql(query: Query) -> str:
    """The query as one SELECT over the loaded tables."""
    names = [f"t{i}" for i in range(len(query.sources))]
    outputs = ", ".join(f"{expression_sql(one.expression)} AS c{i}" for i, one in enumerate(query.outputs))
    tables = ", ".join(f'"{source.stream}" AS {name}' for source, name in zip(query.sources, names, strict=True))
    places = f"[{', '.join(f'{name}.__place' for name in names)}]"
    newest = f"list_max({places})"
    which = f"list_position({places}, {newest})"
    conditions = [expression_sql(condition) for condition in query.conditions]
    for i, extent in enumerate(query.windows):
        conditions.append(f"({which} = {i + 1} OR {_window(f't{i}', query.sources[i], extent, newest)})")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    others = f"without({places}, {which})"
    return f"SELECT {outputs} FROM {tables}{where} ORDER BY {newest}, {others}, {places}"


def _window(name: str, source: Source, extent: Extent, newest: str) -> str:
    """That a source's tuple is in its window when the newest, another source's, comes."""
    if extent.measure is Measure.TIME:
        return f"{name}.__ts_us >= {newest}[1] - {extent.size}"
    before = f'(SELECT count(*) FROM "{source.stream}" AS u WHERE u.__place < {newest})'
    return f"({name}.__place < {newest} AND {name}.__nth > {before} - {extent.size})"


# --- expressions


def expression_sql(expression: Expression) -> str:
    """The expression as DuckDB has to be asked for it."""
    if isinstance(expression, ColumnRef):
        return f't{expression.source}."{expression.name}"'
    if isinstance(expression, Literal):
        return _literal(expression)
    args = [expression_sql(arg) for arg in expression.args]
    special = _SPECIAL.get(expression.function)
    written = special(expression, *args) if special else None
    return written or _plain(expression, args)


def _plain(call: Call, args: Sequence[str]) -> str:
    """What ``render`` writes, around arguments that are already SQL."""
    written = tuple(ColumnRef(0, text, arg.type) for text, arg in zip(args, call.args, strict=True))
    return render(Call(call.function, written, call.type), lambda column: column.name)


def _literal(literal: Literal) -> str:
    if literal.type.kind is TypeKind.NULL:
        return "NULL"
    if literal.type.kind is TypeKind.INTERVAL:
        return f"CAST({'NULL' if literal.value is None else literal.value} AS BIGINT)"
    return f"CAST({render(literal, lambda column: column.name)} AS {literal.type})"


def _arithmetic(call: Call, left: str, right: str) -> str | None:
    kind = call.type.kind
    operator = call.function
    if kind is TypeKind.TIMESTAMP:
        time, by = (left, right) if call.args[0].type.kind is TypeKind.TIMESTAMP else (right, left)
        return f"time_of(CAST(epoch_us({time}) AS HUGEINT) {operator} {by})"
    if kind is TypeKind.INTERVAL and call.args[0].type.kind is TypeKind.TIMESTAMP:
        return f"(epoch_us({left}) - epoch_us({right}))"
    if kind in (TypeKind.BIGINT, TypeKind.INTERVAL):
        return f"wrapped(CAST({left} AS HUGEINT) {operator} CAST({right} AS HUGEINT))"
    if kind is TypeKind.DECIMAL:
        # Wide enough for 128 bits, as DuckDB does not leave 64 of its own accord and would overflow.
        sides = zip((left, right), call.args, strict=True)
        wide = [f"CAST({text} AS DECIMAL({max(arg.type.precision, 19)}, {arg.type.scale}))" for text, arg in sides]
        return f"CAST({wide[0]} {operator} {wide[1]} AS {call.type})"
    return None


def _remainder(call: Call, left: str, right: str) -> str | None:
    if call.type == BIGINT:
        return f"CAST(CAST({left} AS HUGEINT) % NULLIF({right}, 0) AS BIGINT)"
    return None


def _negate(call: Call, arg: str) -> str | None:
    return f"wrapped(- CAST({arg} AS HUGEINT))" if call.type.kind in (TypeKind.BIGINT, TypeKind.INTERVAL) else None


def _absolute(call: Call, arg: str) -> str | None:
    return f"wrapped(abs(CAST({arg} AS HUGEINT)))" if call.type == BIGINT else None


def _whole(call: Call, arg: str, *places: str) -> str | None:
    """Rounding: whole numbers stay as they are, and so do infinities, which DuckDB rounds to tens as 0."""
    if call.type == BIGINT:
        return arg
    if places:
        return (
            f"CASE WHEN isfinite({arg}) OR {places[0]} IS NULL THEN round({arg}, clamped({places[0]})) ELSE {arg} END"
        )
    return None


def _substring(_: Call, text: str, start: str, length: str | None = None) -> str:
    if length is None:
        return f"substring({text}, clamped({start}))"
    # A start far before the text must stay as far before it.
    return (
        f"CASE WHEN {length} <= 0 AND {start} IS NOT NULL AND {text} IS NOT NULL THEN '' "
        f"ELSE substring({text}, clamped({start}), clamped(CAST({length} AS HUGEINT) + {start} - clamped({start}))) END"
    )


def _in_domain(condition: str) -> Callable[..., str]:
    return lambda call, arg: f"CASE WHEN {arg} {condition} THEN NULL ELSE {call.function}({arg}) END"


def _cast(call: Call, arg: str) -> str | None:
    source, to = call.args[0].type, call.type
    if source.kind is TypeKind.STRING:
        return _read(f"trim({arg})", to)
    if source.kind is TypeKind.DOUBLE and to.is_integer:
        return f"TRY_CAST(round({arg}) AS {to})"
    if source.kind is TypeKind.DECIMAL and to.kind is TypeKind.STRING:
        return f"CAST(CAST({arg} AS DECIMAL(38, {source.scale})) AS VARCHAR)"
    return None


_DIGITS = r"([0-9]+\.?[0-9]*|\.[0-9]+)"
_DAY = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = r"([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
_ZONE = r"([zZ]|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
_READABLE = {
    TypeKind.BOOLEAN: ".*",
    TypeKind.INT: "[+-]?[0-9]+",
    TypeKind.BIGINT: "[+-]?[0-9]+",
    TypeKind.DOUBLE: rf"[+-]?{_DIGITS}([eE][+-]?[0-9]+)?|(?i)[+-]?(inf|infinity)|nan",
    TypeKind.DECIMAL: rf"[+-]?{_DIGITS}",
    TypeKind.DATE: _DAY,
    TypeKind.TIMESTAMP: rf"{_DAY}([ T]{_CLOCK}{_ZONE}?)?",
}


def _read(text: str, to: DataType) -> str:
    """Text as a value, when it is written as Headrace wants it."""
    if to.kind is TypeKind.TIMESTAMP:
        zoned = f"regexp_full_match({text}, '.*:.*{_ZONE}')"
        instant = f"epoch_us(TRY_CAST(CASE WHEN {zoned} THEN {text} ELSE {text} || '{{}}' END AS TIMESTAMPTZ))"
        whole = f"CASE WHEN contains({text}, ':') THEN {instant.format('Z')} ELSE {instant.format(' 00:00:00Z')} END"
        converted = f"time_of({whole})"
    elif to.kind is TypeKind.DATE:
        converted = f"CASE WHEN year(TRY_CAST({text} AS DATE)) >= 1 THEN TRY_CAST({text} AS DATE) END"
    else:
        converted = f"TRY_CAST({text} AS {to})"
    return f"CASE WHEN regexp_full_match({text}, '{_READABLE[to.kind]}') THEN {converted} END"


_SPECIAL: dict[str, Callable[..., str | None]] = {
    "+": _arithmetic,
    "-": _arithmetic,
    "*": _arithmetic,
    "%": _remainder,
    "neg": _negate,
    "abs": _absolute,
    "sign": lambda _, arg: f"CASE WHEN isnan({arg}) THEN {arg} ELSE sign({arg}) END",
    "floor": _whole,
    "ceil": _whole,
    "round": _whole,
    "sqrt": _in_domain("< 0"),
    "ln": _in_domain("<= 0"),
    "reverse": lambda _, arg: f"letters_reversed({arg})",
    "substring": _substring,
    "cast": _cast,
}
