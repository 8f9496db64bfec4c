"""The source behind ``connector = 'generator'``: a synthetic stream as a Spark streaming source, paced by the clock.

Owns the pace and the offsets; the tuples are those of ``workload``. What a tuple is depends on the
options and the start alone; the wall clock only decides how much of the stream has come::

    first start of the query        now
    ----------|----------------------|---------> wall clock
            start                 start + (now - first start) * speed: reached, in event time
    |--------|
     history: there at once

With ``speed = 0`` nothing is paced: each micro-batch brings ``step`` of event time until ``duration`` is over.

Invariants: an offset says when the query first started, where the stream starts, and its :class:`Position`: so a
restarted query reads the same tuples in the same micro-batches and goes on behind them. The very first offset is empty:
Spark asks for it again when it replays micro-batch 0, and must get the same; the start is then taken from the end
offset. An offset moves only when there are tuples, so an idle or ended stream causes no micro-batches.
Cost: the driver's source process draws arrival times only; columns are made by the one task that reads a micro-batch.
"""

from __future__ import annotations

import datetime as dt
import json
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from headrace.errors import SourceError, StateError
from headrace.model import Column, DataType, Schema, Stream, StreamId, TypeKind
from headrace.plan.connectors import SOURCES
from headrace.spark.ddl import ddl
from headrace.workload import Arrival, GeneratorSpec, Position, advance, batches_until

FORMAT = "headrace_generator"
DEFAULT_STEP_US = 1_000_000
"""Event time of one micro-batch when nothing is paced."""

Offset = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pace:
    """How event time follows the wall clock; ``speed`` 0: not at all."""

    start_us: int | None = None
    """Event time at the first start; None: the wall clock's."""
    history_us: int = 0
    """Event time before it that is there at once."""
    speed: float = 1.0
    step_us: int | None = None
    """The most event time in a micro-batch; None: all there is."""

    def __post_init__(self) -> None:
        if self.speed < 0 or self.history_us < 0 or self.step_us == 0:
            raise SourceError("generator: speed and history cannot be negative, and step must be longer than 0")

    def begins_us(self, first_us: int) -> int:
        """The stream's first moment, for a query that first started at that wall clock."""
        return (first_us if self.start_us is None else self.start_us) - self.history_us

    def reached_us(self, first_us: int, now_us: int) -> int | None:
        """How far the stream has come at that wall clock; None: to its end."""
        if self.speed == 0:
            return None
        return self.begins_us(first_us) + self.history_us + int((now_us - first_us) * self.speed)

    def next_us(self, until_us: int) -> int | None:
        """Where a micro-batch that begins there must end; None: wherever the stream has come to."""
        if self.step_us is not None:
            return until_us + self.step_us
        return until_us + DEFAULT_STEP_US if self.speed == 0 else None


def spec_of(stream: Stream, start_us: int) -> GeneratorSpec:
    """The synthetic stream that the options describe, beginning at that event time."""
    given: dict[str, Any] = SOURCES["generator"].values(stream.options)
    return GeneratorSpec(
        name=stream.name,
        schema=stream.schema,
        time=stream.time,
        start_us=start_us,
        arrival=Arrival(given["arrival"]),
        duration_us=given["duration"],
        **{name: given[name] for name in _SAME_NAMES},
    )


_SAME_NAMES = ("rate", "keys", "skew", "seed", "burst", "flows", "on_shape", "off_shape", "key", "low", "high")


def pace_of(stream: Stream) -> Pace:
    """The pace that the options describe; without one a stream starts now and follows the wall clock."""
    given: dict[str, Any] = SOURCES["generator"].values(stream.options)
    if given["speed"] == 0 and given["duration"] is None:
        raise SourceError(f"stream {stream.name}: speed = 0 needs a duration, or a run would never end")
    start_us = None if given["start"] is None else _microseconds(given["start"])
    return Pace(start_us, given["history"], given["speed"], given["step"])


def _microseconds(moment: dt.datetime) -> int:
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


# The stream as text, since a source's options are texts.


def stream_to_json(stream: Stream) -> str:
    columns = [[c.name, c.type.kind.value, c.type.precision, c.type.scale] for c in stream.schema]
    return json.dumps({"name": stream.name, "columns": columns, "time": stream.time, "options": stream.options})


def stream_from_json(text: str) -> Stream:
    value = json.loads(text)
    columns = tuple(Column(name, DataType(TypeKind(kind), p, s)) for name, kind, p, s in value["columns"])
    options = tuple((name, text) for name, text in value["options"])
    return Stream(StreamId(value["name"]), Schema(columns), value["time"], options=options)


# The source.


@dataclass(frozen=True, slots=True)
class _Place:
    """What an offset says: the query's first start, the stream it reads, and how far."""

    first_us: int
    spec: GeneratorSpec
    position: Position

    def to_offset(self) -> Offset:
        return {
            "first_us": self.first_us,
            "start_us": self.spec.start_us,
            "spec": _fingerprint(self.spec),
            "position": self.position.to_json(),
        }


def _place(stream: Stream, offset: Offset) -> _Place:
    spec = spec_of(stream, offset["start_us"])
    if offset["spec"] != _fingerprint(spec):
        raise StateError(
            f"stream {stream.name}: the checkpoint was made with other generator options, and cannot go on with "
            "these; give the old ones (only pace and duration may change) or another checkpoint"
        )
    return _Place(offset["first_us"], spec, Position.from_json(offset["position"]))


def _fingerprint(spec: GeneratorSpec) -> int:
    return zlib.crc32(repr(replace(spec, duration_us=None)).encode())


class _Stretch(InputPartition):  # type: ignore[misc]
    """The tuples of one micro-batch."""

    def __init__(self, start_us: int, position: Position, until_us: int) -> None:
        self.start_us = start_us
        self.position = position
        self.until_us = until_us


class GeneratorStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Offsets in the driver's source process, tuples in the tasks; holds nothing that an offset does not."""

    def __init__(self, stream: Stream, first_us: int) -> None:
        self._stream = stream
        self._first_us = first_us
        self._pace = pace_of(stream)
        self._frozen_us: int | None = None

    def initialOffset(self) -> Offset:
        return {}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: ARG002
        at = _place(self._stream, start) if start else self._beginning()
        reached_us = self._reached_us(at)
        position = at.position
        while position.tuples == at.position.tuples and position.until_us < reached_us:
            next_us = self._pace.next_us(position.until_us)
            position = advance(at.spec, position, reached_us if next_us is None else min(reached_us, next_us))
        return start if position.tuples == at.position.tuples else replace(at, position=position).to_offset()

    def prepareForTriggerAvailableNow(self) -> None:
        self._frozen_us = _wall_us()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        if start == end:
            return []
        last = _place(self._stream, end)
        position = _place(self._stream, start).position if start else Position.at_start(last.spec)
        return [_Stretch(last.spec.start_us, position, last.position.until_us)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Stretch)
        return batches_until(spec_of(self._stream, partition.start_us), partition.position, partition.until_us)

    def _beginning(self) -> _Place:
        spec = spec_of(self._stream, self._pace.begins_us(self._first_us))
        return _Place(self._first_us, spec, Position.at_start(spec))

    def _reached_us(self, at: _Place) -> int:
        now_us = _wall_us() if self._frozen_us is None else self._frozen_us
        ends = (self._pace.reached_us(at.first_us, now_us), at.spec.last_us)
        return min(end for end in ends if end is not None)


class GeneratorSource(DataSource):  # type: ignore[misc]
    """Made from the options ``stream`` (its declaration as JSON) and ``first_us`` (when the query first starts)."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ddl(self._stream().schema)

    def streamReader(self, schema: object) -> GeneratorStreamReader:  # noqa: ARG002
        return GeneratorStreamReader(self._stream(), int(self.options["first_us"]))

    def _stream(self) -> Stream:
        return stream_from_json(self.options["stream"])


def generator_reader(spark: SparkSession, stream: Stream, first_us: int | None = None) -> DataFrame:
    """The streaming DataFrame of a stream with ``connector = 'generator'``.

    Streams of one run that are given the same ``first_us`` run on one clock, whatever their speed.
    """
    first_us = _wall_us() if first_us is None else first_us
    pace = pace_of(stream)
    spec_of(stream, pace.begins_us(first_us))
    spark.dataSource.register(GeneratorSource)
    reader = spark.readStream.format(FORMAT)
    return reader.option("stream", stream_to_json(stream)).option("first_us", str(first_us)).load()


def _wall_us() -> int:
    return time.time_ns() // 1000
