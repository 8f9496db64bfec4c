"""A bound query: what one CREATE QUERY asks for, every name resolved and every expression typed.

This is the logical plan before sharing, in the normal form that sharing compares: the streams of FROM, one flat list
of conditions (ON and WHERE alike), the output columns, how far back each stream is looked at. ``sharing.py`` makes
groups of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from headrace.errors import PlanError
from headrace.model import (
    BOOLEAN,
    INTERNAL,
    NULL,
    TIMESTAMP,
    Column,
    Options,
    QueryId,
    Schema,
    StreamId,
    format_duration,
    is_internal,
)
from headrace.plan.aggregates import EVALUATED, Grouping
from headrace.plan.expressions import Expression

EARLY = "early"
"""The column that marks rows of EMIT EARLY: true where a stream had not come as far as the row's newest tuple."""


class Measure(Enum):
    """What a window is measured in."""

    TIME = "time"
    """Microseconds of event time."""
    ROWS = "rows"
    """Tuples of the whole stream."""


class Overload(Enum):
    """What happens where the CPU is not enough."""

    DEFER = "defer"
    """Nothing is lost: work waits for its turn."""
    ADAPT = "adapt"
    """Only the probes that an allocation allows are made (paper 001)."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How far back one stream is looked at, from a result's newest tuple: microseconds or tuples."""

    measure: Measure
    size: int

    def __str__(self) -> str:
        return format_duration(self.size) if self.measure is Measure.TIME else f"{self.size} rows"


def within_us(size_us: int, sources: int = 2) -> tuple[Extent, ...]:
    """``WINDOW <time>``: the same for every stream."""
    return (Extent(Measure.TIME, size_us),) * sources


@dataclass(frozen=True, slots=True)
class Source:
    """One entry of FROM: a stream under an alias."""

    stream: StreamId
    alias: str


@dataclass(frozen=True, slots=True)
class Output:
    """One output column: its name and what it is."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Query:
    """A continuous query. ``windows`` has one extent a source; it may be empty only when there is a single stream and
    no ``grouping``. With one, ``outputs`` are over the group's row."""

    name: QueryId
    sources: tuple[Source, ...]
    conditions: tuple[Expression, ...]
    outputs: tuple[Output, ...]
    windows: tuple[Extent, ...] = ()
    into: Options = ()
    grouping: Grouping | None = None
    emits_early: bool = False
    """Rows come as soon as they are found, not in order; the last output, ``EARLY``, says which did."""
    text: str = field(default="", compare=False, repr=False)
    """The statement that made it, for people."""
    overload: Overload = Overload.DEFER
    freshness: tuple[Extent | None, ...] = ()
    """By source, how long ago its tuples in a result may have arrived at most; None, or nothing at all: the window."""

    def __post_init__(self) -> None:
        if not self.sources:
            raise PlanError(f"query {self.name} reads no stream")
        if not self.outputs:
            raise PlanError(f"query {self.name} has no output columns")
        internal = next((output.name for output in self.outputs if is_internal(output.name)), None)
        if internal is not None:
            raise PlanError(f"an output of query {self.name} is called {internal}: names may not begin with {INTERNAL}")
        if self.windows and len(self.windows) != len(self.sources):
            raise PlanError(f"query {self.name} has {len(self.windows)} windows for {len(self.sources)} streams")
        if len(self.sources) > 1 and not self.windows:
            raise PlanError(f"query {self.name} joins streams without a window: end it with WINDOW 1 MINUTE, say")
        if any(one.size < (one.measure is Measure.ROWS) for one in self.windows):
            raise PlanError(f"a window of query {self.name} is too small: a time of 0 or more, or at least 1 row")
        for condition in self.conditions:
            if condition.type not in (BOOLEAN, NULL):
                raise PlanError(f"a condition of query {self.name} is {condition.type}, not BOOLEAN")
        if self.grouping is not None:
            self._check_grouping()
        if self.emits_early and (self.grouping is not None or self.outputs[-1].name != EARLY):
            raise PlanError(f"query {self.name} emits early: it must have no aggregates, and a last output {EARLY}")
        self._check_overload()
        _ = self.schema

    def _check_overload(self) -> None:
        if self.overload is Overload.ADAPT and len(self.sources) < 2:
            raise PlanError(f"query {self.name} joins nothing: ON OVERLOAD ADAPT leaves out probes of joins")
        if self.freshness and self.overload is not Overload.ADAPT:
            raise PlanError(f"query {self.name} has FRESHNESS, which needs ON OVERLOAD ADAPT")
        if self.freshness and len(self.freshness) != len(self.sources):
            raise PlanError(f"query {self.name} has {len(self.freshness)} freshnesses for {len(self.sources)} streams")
        for source, window, fresh in zip(self.sources, self.windows, self.freshness, strict=False):
            if fresh is not None and fresh.measure is not window.measure:
                raise PlanError(f"the window and the freshness of {source.alias} are not both times or both rows")
            if fresh is not None and self.grouping is not None and fresh.size < window.size:
                raise PlanError(f"the freshness of {source.alias} is shorter than its window, which values rest on")

    def fresh_within(self, source: int) -> Extent:
        """How long ago a source's tuples in a result may have arrived."""
        stated = self.freshness[source] if self.freshness else None
        return self.windows[source] if stated is None else stated

    def _check_grouping(self) -> None:
        if not self.windows or any(one.measure is not Measure.TIME for one in self.windows):
            raise PlanError(
                f"query {self.name} has aggregates, which need a window of time: end it with WINDOW 1 MINUTE"
            )
        if any(output.name.lower() == EVALUATED for output in self.outputs):
            raise PlanError(f"an output of query {self.name} is called {EVALUATED}, as the time of each row is")

    @property
    def schema(self) -> Schema:
        """The columns of the query's output; of a group's row, the time it is of as well."""
        columns = tuple(Column(output.name, output.expression.type) for output in self.outputs)
        return Schema((*columns, Column(EVALUATED, TIMESTAMP)) if self.grouping is not None else columns)
