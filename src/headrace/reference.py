"""The slow, obvious evaluator: what every other way of running a query must equal.

Plain Python, one row at a time, nothing clever: no Arrow, no NumPy, no index, no order of arrival beyond what
``docs/semantics.md`` says. Expressions mean what ``plan/functions.py`` states in words (``reference_functions.py``).
Cost: a join of n streams grows combinations stream by stream and leaves one as soon as a condition or a window of time
says no; with neither it looks at every combination, and for a window of rows at the whole stream too. What becomes of
the results in a query with groups is in ``reference_aggregates.py``.

      a  ----1------3---------------6----->        WINDOW 3:        (1, 2) (3, 2) (3, 5) (6, 5)
      b  -------2----------5--------------->       WINDOW 2 ROWS:   these and (1, 5) (6, 2)
                                                   each once, when its newer tuple is there
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headrace.model import Catalog, StreamId
from headrace.plan.expressions import ColumnRef, Expression, Literal, Value, sources_of
from headrace.plan.queries import Extent, Measure, Query
from headrace.reference_functions import SEEING_NULLS, STRICT, cast, micros, stored

Row = Mapping[str, Value]


class Place(NamedTuple):
    """Where a tuple is in the total order: its time, its stream's position in the catalog, its arrival position."""

    ts_us: int
    stream: int
    seq: int


# --- streams


@dataclass(frozen=True, slots=True)
class Tuple:
    """A row that takes part."""

    place: Place
    values: Row
    ends: int = 0
    """How many ends of the input were before it arrived."""

    @property
    def released(self) -> tuple[int, Place]:
        """Where it is in the order in which tuples are released, which rows are counted in: an end releases all."""
        return self.ends, self.place


@dataclass(frozen=True, slots=True)
class Intake:
    """What became of one stream's arrivals; ``late`` and ``malformed`` are arrival positions."""

    tuples: tuple[Tuple, ...]
    late: tuple[int, ...]
    malformed: tuple[int, ...]


Arrived = Mapping[StreamId, int]
"""How many tuples of each stream had arrived at a moment."""


def accepted(
    catalog: Catalog, arrivals: Mapping[StreamId, Sequence[Row]], ends: Sequence[Arrived] = ()
) -> dict[StreamId, Intake]:
    """Each stream's arrivals, sorted into those that take part, the late and the malformed. ``ends``: when the input
    ended, and then went on."""
    names = [stream.name for stream in catalog.streams]
    return {name: _intake(catalog, name, arrivals.get(name, ()), [end[name] for end in ends]) for name in names}


def _intake(catalog: Catalog, name: StreamId, rows: Sequence[Row], ends: Sequence[int]) -> Intake:
    stream = catalog.get(name)
    tuples: list[Tuple] = []
    late: list[int] = []
    malformed: list[int] = []
    newest_by_source: dict[Value, int] = {}
    for seq, row in enumerate(rows):
        source = None if stream.partition is None else row[stream.partition]
        newest_us = newest_by_source.get(source)
        time = row[stream.time]
        if not isinstance(time, dt.datetime):
            malformed.append(seq)
            continue
        ts_us = micros(time)
        if newest_us is not None and ts_us < newest_us - stream.max_delay_us:
            late.append(seq)
            continue
        newest_by_source[source] = ts_us if newest_us is None else max(newest_us, ts_us)
        before = sum(end <= seq for end in ends)
        tuples.append(Tuple(Place(ts_us, catalog.position(name), seq), row, before))
    return Intake(tuple(tuples), tuple(late), tuple(malformed))


# --- queries


def answer(
    query: Query, catalog: Catalog, arrivals: Mapping[StreamId, Sequence[Row]], ends: Sequence[Arrived] = ()
) -> list[tuple[Value, ...]]:
    """All of the output, in order, of a query without groups."""
    assert query.grouping is None, "reference_aggregates answers queries with groups"
    taken = accepted(catalog, arrivals, ends)
    results = sorted(matches(query, [taken[source.stream].tuples for source in query.sources]), key=_order)
    return [tuple(value(output.expression, columns_in(match)) for output in query.outputs) for match in results]


def matches(query: Query, streams: Sequence[Sequence[Tuple]]) -> Iterator[tuple[Tuple, ...]]:
    """The combinations that are results; ``streams`` has all tuples of each source."""
    decided = [[one for one in query.conditions if _last_source(one) == source] for source in range(len(streams))]

    def extended(match: tuple[Tuple, ...]) -> Iterator[tuple[Tuple, ...]]:
        source = len(match)
        if source == len(streams):
            if _in_windows(query, match, streams):
                yield match
            return
        for one in streams[source]:
            longer = (*match, one)
            if _may_grow(query, longer) and all(value(cond, columns_in(longer)) is True for cond in decided[source]):
                yield from extended(longer)

    return extended(())


def _last_source(condition: Expression) -> int:
    """The source with which a combination has all that the condition reads."""
    return max(sources_of(condition), default=0)


def _may_grow(query: Query, match: tuple[Tuple, ...]) -> bool:
    """Whether windows of time leave hope: the newest tuple only gets newer, so what is out of its window stays out."""
    newest_us = max(one.place.ts_us for one in match)
    pairs = zip(match, query.windows, strict=False)
    return all(newest_us - extent.size <= one.place.ts_us for one, extent in pairs if extent.measure is Measure.TIME)


def _in_windows(query: Query, match: tuple[Tuple, ...], streams: Sequence[Sequence[Tuple]]) -> bool:
    """Whether every tuple but the newest is in its window when the newest comes. Where windows are of rows alone, it is
    the one that was released last."""
    in_rows = all(extent.measure is Measure.ROWS for extent in query.windows)
    newest = _newest([one.released if in_rows else one.place for one in match])
    others = (source for source in range(len(match)) if source != newest)
    return all(_within(match[i], query.windows[i], match[newest], streams[i]) for i in others)


def _newest(places: Sequence[tuple[object, ...]]) -> int:
    """Which source's tuple is the newest; the first, where a self-join has one tuple twice."""
    return places.index(max(places))


def _within(one: Tuple, extent: Extent, newest: Tuple, stream: Sequence[Tuple]) -> bool:
    """Whether a tuple of the stream is in its window when the newest comes."""
    if extent.measure is Measure.TIME:
        return newest.place.ts_us - extent.size <= one.place.ts_us
    before = sorted(other.released for other in stream if other.released < newest.released)
    return one.released in before[-extent.size :]


def columns_in(match: tuple[Tuple, ...]) -> Callable[[ColumnRef], Value]:
    """The columns of a result, for ``value``."""
    return lambda column: match[column.source].values[column.name]


def _order(match: tuple[Tuple, ...]) -> tuple[Place, tuple[Place, ...], tuple[Place, ...]]:
    """The newest tuple's place, the others' in FROM order; all in FROM order tells self-joined twins apart."""
    places = tuple(one.place for one in match)
    newest = _newest(places)
    return places[newest], places[:newest] + places[newest + 1 :], places


# --- expressions


def value(expression: Expression, row_of: Callable[[ColumnRef], Value]) -> Value:
    """The expression's value where ``row_of`` gives the columns."""
    if isinstance(expression, ColumnRef):
        return row_of(expression)
    if isinstance(expression, Literal):
        return expression.value
    args = [value(arg, row_of) for arg in expression.args]
    if expression.function in SEEING_NULLS:
        return SEEING_NULLS[expression.function](*args)
    if any(arg is None for arg in args):
        return None
    if expression.function == "cast":
        return stored(cast(args[0], expression.args[0].type, expression.type))
    return stored(STRICT[expression.function](*args))
