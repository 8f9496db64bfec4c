"""The shared words: data types, schemas, durations, streams.

Owns the vocabulary every layer speaks; knows nothing of SQL text, Arrow or Spark.
Invariants: times and durations are whole microseconds; a schema's column names are unique without regard to
case, and look-ups ignore case, as SQL does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NewType

from headrace.errors import PlanError

StreamId = NewType("StreamId", str)
QueryId = NewType("QueryId", str)

DECIMAL_DIGITS = 38
"""The most digits a DECIMAL may have."""


class TypeKind(Enum):
    """The kinds of value a column or an expression can have."""

    BOOLEAN = "BOOLEAN"
    INT = "INT"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    TIMESTAMP = "TIMESTAMP"
    DATE = "DATE"
    DECIMAL = "DECIMAL"
    INTERVAL = "INTERVAL"
    """A span of time in microseconds: only inside expressions, never a column."""
    NULL = "NULL"
    """The type of a bare NULL, before it takes its neighbour's."""


@dataclass(frozen=True, slots=True)
class DataType:
    """A kind, with digits and scale when it is DECIMAL.

    >>> str(DataType(TypeKind.DECIMAL, 10, 2))
    'DECIMAL(10, 2)'
    """

    kind: TypeKind
    precision: int = 0
    scale: int = 0

    def __post_init__(self) -> None:
        if self.kind is not TypeKind.DECIMAL:
            if self.precision or self.scale:
                raise PlanError(f"{self.kind.value} takes no precision")
        elif not (1 <= self.precision <= DECIMAL_DIGITS and 0 <= self.scale <= self.precision):
            raise PlanError(
                f"DECIMAL({self.precision}, {self.scale}) is not possible: "
                f"write 1 to {DECIMAL_DIGITS} digits and a scale no larger than them"
            )

    def __str__(self) -> str:
        if self.kind is TypeKind.DECIMAL:
            return f"DECIMAL({self.precision}, {self.scale})"
        return str(self.kind.value)

    @property
    def is_numeric(self) -> bool:
        return self.kind in _NUMERIC

    @property
    def is_integer(self) -> bool:
        return self.kind in (TypeKind.INT, TypeKind.BIGINT)


_NUMERIC = (TypeKind.INT, TypeKind.BIGINT, TypeKind.DOUBLE, TypeKind.DECIMAL)

BOOLEAN = DataType(TypeKind.BOOLEAN)
INT = DataType(TypeKind.INT)
BIGINT = DataType(TypeKind.BIGINT)
DOUBLE = DataType(TypeKind.DOUBLE)
STRING = DataType(TypeKind.STRING)
TIMESTAMP = DataType(TypeKind.TIMESTAMP)
DATE = DataType(TypeKind.DATE)
INTERVAL = DataType(TypeKind.INTERVAL)
NULL = DataType(TypeKind.NULL)


def decimal(precision: int, scale: int) -> DataType:
    """The DECIMAL of so many digits, ``scale`` of them behind the point."""
    return DataType(TypeKind.DECIMAL, precision, scale)


@dataclass(frozen=True, slots=True)
class Column:
    """A named, typed column of a stream or of a query's output."""

    name: str
    type: DataType

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns in order; names are unique, case aside."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for column in self.columns:
            if column.name.lower() in seen:
                raise PlanError(f"two columns are called {column.name}: give one of them another name")
            seen.add(column.name.lower())

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        """The column of that name in any case, or None."""
        wanted = name.lower()
        return next((column for column in self.columns if column.name.lower() == wanted), None)


_UNITS_US = (
    ("day", 86_400_000_000),
    ("hour", 3_600_000_000),
    ("minute", 60_000_000),
    ("second", 1_000_000),
    ("millisecond", 1_000),
    ("microsecond", 1),
)


def format_duration(duration_us: int) -> str:
    """A duration in its largest whole unit.

    >>> format_duration(90_000_000), format_duration(3_600_000_000), format_duration(0)
    ('90 seconds', '1 hour', '0 seconds')
    """
    if duration_us == 0:
        return "0 seconds"
    name, unit_us = next((name, unit_us) for name, unit_us in _UNITS_US if duration_us % unit_us == 0)
    count = duration_us // unit_us
    return f"{count} {name}{'' if abs(count) == 1 else 's'}"


INTERNAL = "__"
"""What the names of columns begin with that tuples and results get beside their own; so no other column's may."""


def is_internal(name: str) -> bool:
    """Whether a column of that name could be taken for one of Headrace's own."""
    return name.startswith(INTERNAL)


Options = tuple[tuple[str, str], ...]
"""Settings of a connector as sorted (name, value) pairs: hashable, with a stable text."""


PARTITION = f"{INTERNAL}partition"
"""The column in which a connector itself says which of a stream's partitions a row is from; no query sees it."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A declared stream: its columns, which of them is event time, and how far out of order it may be."""

    name: StreamId
    schema: Schema
    time: str
    max_delay_us: int = 0
    options: Options = ()
    idle_timeout_us: int | None = None
    """After so much time without a tuple, others do not wait for it any more; None: they always do."""
    partition: str | None = None
    """The column that tells which of the stream's sources a tuple is from: each is in order, and may lag the others.
    It is one of the schema, or the connector's own."""
    partitions: int | None = None
    """How many of them there are; None: as many as were heard of."""

    def __post_init__(self) -> None:
        internal = next((name for name in self.schema.names if is_internal(name)), None)
        if internal is not None:
            raise PlanError(
                f"column {internal} of stream {self.name} begins with {INTERNAL}, as columns of Headrace's own do: "
                "give it another name"
            )
        column = self.schema.find(self.time)
        if column is None or column.name != self.time:
            raise PlanError(f"stream {self.name} has no column {self.time} to be its event time")
        if column.type != TIMESTAMP:
            raise PlanError(f"event time {self.time} of stream {self.name} is {column.type}: it must be TIMESTAMP")
        if self.max_delay_us < 0:
            raise PlanError(f"max_delay of stream {self.name} is negative")
        if self.partition not in (None, PARTITION) and self.schema.find(self.partition or "") is None:
            raise PlanError(f"stream {self.name} has no column {self.partition} to tell its partitions apart")
        if self.partitions is not None and (self.partition is None or self.partitions < 1):
            raise PlanError(f"stream {self.name} has partitions, so a column must tell them apart: partition = '...'")

    def option(self, name: str, default: str | None = None) -> str | None:
        return dict(self.options).get(name, default)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every declared stream; a stream's position here breaks ties between equal timestamps."""

    streams: tuple[Stream, ...] = ()

    def __post_init__(self) -> None:
        names = [stream.name.lower() for stream in self.streams]
        if len(set(names)) != len(names):
            raise PlanError("two streams have the same name")

    def find(self, name: str) -> Stream | None:
        """The stream of that name in any case, or None."""
        return next((stream for stream in self.streams if stream.name.lower() == name.lower()), None)

    def get(self, name: StreamId) -> Stream:
        stream = self.find(name)
        if stream is None:
            raise PlanError(f"there is no stream {name}")
        return stream

    def position(self, name: StreamId) -> int:
        return next(i for i, stream in enumerate(self.streams) if stream.name == name)

    def with_stream(self, stream: Stream) -> Catalog:
        return Catalog((*self.streams, stream))
