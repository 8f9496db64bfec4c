"""Synthetic streams: the arrival processes of the papers, as pure functions of a seed and a position.

Owns what ``connector = 'generator'`` produces. A stream is cut into *chunks* of about 8192 tuples. A chunk is a
function of (seed, stream name, chunk number) and of the clock at which it begins; a :class:`Position` remembers both,
so a stream goes on from any place without what came before::

    start      chunk 0            chunk 1                  chunk 2
      |--x-x---xx---x-x----|-x--x-----xx--x--x---|--x---x--x ...
                           ^ clock_us   ^ taken = 3         event time ->

Arrival processes:

* exponential: independent gaps of mean 1/rate (paper 000, section 5).
* pareto: bursts of tuples with one timestamp, exponential gaps between them (000, section 5.2). A burst's size has
  density a b^a / x^(a+1), so E(x) = a b / (a - 1) is ``burst``: b = 1 and a = E / (E - 1) up to a burst of five, as in
  the paper; for larger ones a stays 1.25 and b grows. Sizes end at 10,000 b, and the gaps make up for the tail cut off
  there: the overall rate stays what was asked.
* self_similar: ``flows`` sources, ON and OFF for Pareto times of shape 1.4 and 1.2, exponential gaps while ON (003,
  section 5). Their sum is a Poisson process whose rate follows the number of flows that are ON, and is drawn as that.
  Every ten minutes the flows begin anew, in equilibrium: so the mean rate is exact, and the scales of burstiness
  reach from 50 ms to ten minutes.

Invariants: the same (spec, position, until) gives the same bytes with the same NumPy; however a stream is cut, the
pieces make the same stream and end in the same position; tuples come in ``ts`` order; streams of one seed but of
different names are independent.
Cost: a few million tuples a second; a call draws at most one chunk more than it returns, and for self_similar also
the ON and OFF times of ten minutes (kept for the next call).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.errors import PlanError, SourceError
from headrace.model import Column, DataType, Schema, TypeKind

CHUNK_TUPLES = 8192
EPOCH_US = 600_000_000
"""After so much event time the self-similar flows begin anew."""
PERIOD_US = 50_000
"""The shortest ON or OFF time of a flow."""
BURST_RATIO = 10_000
"""The largest burst, as a multiple of the smallest."""
STEEP_BURST = 5.0
"""The paper's largest expected burst; from here on the shape of the sizes stays."""
OTHER_VALUES = 1000
"""Integers and strings that are not keys are drawn from so many values."""
DAY_US = 86_400_000_000

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]


class Arrival(Enum):
    """How tuples are spread over time."""

    EXPONENTIAL = "exponential"
    PARETO = "pareto"
    SELF_SIMILAR = "self_similar"


@dataclass(frozen=True, slots=True)
class GeneratorSpec:
    """All that decides a synthetic stream.

    ``rate`` is in tuples per second; ``skew`` is the Zipf exponent of the keys, 0 for uniform ones.
    """

    name: str
    schema: Schema
    time: str
    start_us: int
    rate: float = 100.0
    keys: int = 1000
    skew: float = 0.0
    seed: int = 0
    arrival: Arrival = Arrival.EXPONENTIAL
    burst: float = STEEP_BURST
    flows: int = 64
    on_shape: float = 1.4
    off_shape: float = 1.2
    key: str | None = None
    low: float = 0.0
    high: float = 100.0
    duration_us: int | None = None

    def __post_init__(self) -> None:
        _require(0 < self.rate <= 1e7, "rate", "more than 0 and at most 10,000,000 tuples a second")
        _require(1 <= self.keys <= 10**8, "keys", "from 1 to 100,000,000")
        _require(0 <= self.skew <= 10, "skew", "from 0 to 10")
        _require(self.skew == 0 or self.keys <= 10**7, "keys", "at most 10,000,000 when there is a skew")
        _require(0 <= self.seed < 2**63, "seed", "a whole number from 0")
        _require(1 <= self.burst <= 1000, "burst", "from 1 to 1000 tuples")
        _require(1 <= self.flows <= 1024, "flows", "from 1 to 1024")
        _require(1 < self.on_shape <= 10, "on_shape", "more than 1 and at most 10")
        _require(1 < self.off_shape <= 10, "off_shape", "more than 1 and at most 10")
        _require(-1e12 <= self.low <= self.high <= 1e12, "low", "at most high, both between -1e12 and 1e12")
        _require(self.duration_us is None or self.duration_us > 0, "duration", "longer than 0")
        time = self.schema.find(self.time)
        if time is None or time.type.kind is not TypeKind.TIMESTAMP:
            raise PlanError(f"generator: stream {self.name} has no TIMESTAMP column {self.time}")
        self._check_key()

    def _check_key(self) -> None:
        column = self.schema.find(self.key) if self.key is not None else None
        if self.key is not None and (column is None or column.type.kind not in _KEY_KINDS):
            raise PlanError(f"generator: key = {self.key!r} is not an INT, BIGINT or STRING column of {self.name}")

    @property
    def key_column(self) -> Column | None:
        """The column that gets keys: the one ``key`` names, or the first that can hold them."""
        if self.key is not None:
            return self.schema.find(self.key)
        return next((column for column in self.schema if column.type.kind in _KEY_KINDS), None)

    @property
    def last_us(self) -> int | None:
        """The last microsecond a tuple may have; None: the stream has no end."""
        return None if self.duration_us is None else self.start_us + self.duration_us - 1


_KEY_KINDS = (TypeKind.INT, TypeKind.BIGINT, TypeKind.STRING)


def _require(holds: bool, option: str, allowed: str) -> None:
    if not holds:
        raise SourceError(f"generator: {option} must be {allowed}")


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream has been produced: all tuples with event time up to ``until_us``, and none after it."""

    chunk: int
    clock_us: int
    taken: int
    tuples: int
    last_us: int
    """The event time of the last tuple; before the first, the microsecond before the stream's start."""
    until_us: int

    @staticmethod
    def at_start(spec: GeneratorSpec) -> Position:
        before = spec.start_us - 1
        return Position(chunk=0, clock_us=spec.start_us, taken=0, tuples=0, last_us=before, until_us=before)

    def to_json(self) -> dict[str, int]:
        return asdict(self)

    @staticmethod
    def from_json(value: dict[str, Any]) -> Position:
        return Position(**{name: int(number) for name, number in value.items()})


def generate(spec: GeneratorSpec, position: Position, until_us: int) -> tuple[pa.RecordBatch, Position]:
    """All tuples after the position with event time up to ``until_us``, and the position after them."""
    cuts = list(_cuts(spec, position, until_us))
    schema = arrow_schema(spec.schema)
    table = pa.Table.from_batches([_batch(spec, cut) for cut in cuts], schema=schema).combine_chunks()
    whole = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=schema)]
    return whole[0], cuts[-1].after if cuts else position


def batches_until(spec: GeneratorSpec, position: Position, until_us: int) -> Iterator[pa.RecordBatch]:
    """What :func:`generate` gives, a chunk at a time: memory does not grow with the stretch asked for."""
    for cut in _cuts(spec, position, until_us):
        if cut.stop > cut.start:
            yield _batch(spec, cut)


def advance(spec: GeneratorSpec, position: Position, until_us: int) -> Position:
    """The position that :func:`generate` ends in, without making the tuples."""
    for cut in _cuts(spec, position, until_us):
        position = cut.after
    return position


@dataclass(frozen=True, slots=True)
class _Cut:
    """Tuples ``start`` to ``stop`` of a chunk."""

    chunk: int
    ts: Int64
    start: int
    stop: int
    after: Position


def _cuts(spec: GeneratorSpec, position: Position, until_us: int) -> Iterator[_Cut]:
    until_us = until_us if spec.last_us is None else min(until_us, spec.last_us)
    at, finished = position, until_us <= position.until_us
    while not finished:
        ts, end_us = _ARRIVALS[spec.arrival](spec, at.chunk, at.clock_us)
        stop = int(np.searchsorted(ts, until_us, side="right"))
        assert stop >= at.taken, "a position lies beyond its own time"
        finished = stop < len(ts) or end_us > until_us
        tuples = at.tuples + stop - at.taken
        last_us = int(ts[stop - 1]) if stop > at.taken else at.last_us
        if finished:
            after = Position(at.chunk, at.clock_us, stop, tuples, last_us, until_us)
        else:
            after = Position(at.chunk + 1, end_us, 0, tuples, last_us, until_us)
        yield _Cut(at.chunk, ts, at.taken, stop, after)
        at = after


# Arrivals: (spec, chunk, the chunk's first moment) -> (timestamps in order, the next chunk's first moment).


def _random(spec: GeneratorSpec, purpose: int, number: int) -> np.random.Generator:
    return np.random.default_rng((spec.seed, zlib.crc32(spec.name.lower().encode()), purpose, number))


_TIMES, _PERIODS, _VALUES = 0, 1, 2
"""Purposes of random numbers; column i draws from ``_VALUES + i``."""


def _exponential(spec: GeneratorSpec, chunk: int, clock_us: int) -> tuple[Int64, int]:
    gaps = _random(spec, _TIMES, chunk).exponential(1e6 / spec.rate, CHUNK_TUPLES)
    ts = clock_us + np.cumsum(gaps).astype(np.int64)
    return ts, int(ts[-1])


def _pareto(spec: GeneratorSpec, chunk: int, clock_us: int) -> tuple[Int64, int]:
    shape, least = burst_law(spec.burst)
    mean = _capped_mean(shape, least, least * BURST_RATIO)
    bursts = max(1, round(CHUNK_TUPLES / mean))
    random = _random(spec, _TIMES, chunk)
    when = clock_us + np.cumsum(random.exponential(1e6 * mean / spec.rate, bursts)).astype(np.int64)
    sizes = _capped_pareto(random, shape, least, least * BURST_RATIO, (bursts,))
    whole = np.floor(sizes + random.random(bursts)).astype(np.int64)  # rounded at random: the mean stays
    return np.repeat(when, whole), int(when[-1])


def burst_law(burst: float) -> tuple[float, float]:
    """The shape and the least size of Pareto bursts of that expected size.

    >>> burst_law(2), burst_law(5), burst_law(20)
    ((2.0, 1.0), (1.25, 1.0), (1.25, 4.0))
    """
    if burst == 1:
        return float("inf"), 1.0
    steep = min(float(burst), STEEP_BURST)
    return steep / (steep - 1), burst / steep


def _capped_pareto(
    random: np.random.Generator, shape: float, least: float, most: float, size: tuple[int, ...]
) -> Float64:
    drawn: Float64 = np.minimum(least * (1.0 - random.random(size)) ** (-1.0 / shape), most)
    return drawn


def _capped_mean(shape: float, least: float, most: float) -> float:
    """The mean of a Pareto variable that ends at ``most``."""
    if shape == float("inf"):
        return least
    return float(least * (shape - (most / least) ** (1.0 - shape)) / (shape - 1.0))


def _self_similar(spec: GeneratorSpec, chunk: int, clock_us: int) -> tuple[Int64, int]:
    per_epoch = max(1, -int(-spec.rate * EPOCH_US / 1e6 // CHUNK_TUPLES))
    epoch, part = divmod(chunk, per_epoch)
    begin_us, end_us = EPOCH_US * part // per_epoch, EPOCH_US * (part + 1) // per_epoch
    moments, expected = _profile(spec, epoch)
    low, high = np.interp([begin_us, end_us], moments, expected)
    random = _random(spec, _TIMES, chunk)
    marks = np.sort(random.uniform(low, high, random.poisson(high - low)))
    inside = np.interp(marks, expected, moments).astype(np.int64).clip(begin_us, end_us - 1)
    return clock_us - begin_us + inside, clock_us - begin_us + end_us


@lru_cache(maxsize=8)
def _profile(spec: GeneratorSpec, epoch: int) -> tuple[Float64, Float64]:
    """Moments of an epoch at which a flow turns ON or OFF, and the tuples expected up to each of them."""
    switches, first_on = _switches(spec, epoch)
    step = np.where(first_on, -1, 1)[:, None] * np.where(np.arange(switches.shape[1]) % 2 == 0, 1, -1)
    inside = switches < EPOCH_US
    moments, steps = switches[inside], step[inside]
    order = np.argsort(moments, kind="stable")
    bounds = np.concatenate(([0.0], moments[order], [float(EPOCH_US)]))
    level = first_on.sum() + np.concatenate(([0], np.cumsum(steps[order])))
    rate_us = spec.rate / 1e6 / (spec.flows * _share_on(spec))
    return bounds, np.concatenate(([0.0], np.cumsum(level * np.diff(bounds) * rate_us)))


def _switches(spec: GeneratorSpec, epoch: int) -> tuple[Float64, npt.NDArray[np.bool_]]:
    """When each flow changes (a row per flow, past the epoch's end), and which flows begin ON."""
    random = _random(spec, _PERIODS, epoch)
    first_on = random.random(spec.flows) < _share_on(spec)
    shapes = np.where(first_on, spec.on_shape, spec.off_shape)
    now = _remaining(random.random(spec.flows), shapes)[:, None]
    rows = [now]
    while float(now.min()) < EPOCH_US:
        size = (spec.flows, 512)
        on = _capped_pareto(random, spec.on_shape, PERIOD_US, EPOCH_US, size)
        off = _capped_pareto(random, spec.off_shape, PERIOD_US, EPOCH_US, size)
        first, second = np.where(first_on[:, None], off, on), np.where(first_on[:, None], on, off)
        periods = np.stack((first, second), axis=2).reshape(spec.flows, -1)
        rows.append(now + np.cumsum(periods, axis=1))
        now = rows[-1][:, -1:]
    return np.concatenate(rows, axis=1), first_on


def _share_on(spec: GeneratorSpec) -> float:
    """The part of the time that a flow is ON."""
    on = _capped_mean(spec.on_shape, PERIOD_US, EPOCH_US)
    return on / (on + _capped_mean(spec.off_shape, PERIOD_US, EPOCH_US))


def _remaining(uniform: Float64, shape: Float64) -> Float64:
    """What is left, seen from a random moment, of the ON or OFF time that covers it."""
    mean = PERIOD_US * (shape - (EPOCH_US / PERIOD_US) ** (1.0 - shape)) / (shape - 1.0)
    area = uniform * mean
    tail = np.maximum(area / PERIOD_US - 1.0, 0.0) * (shape - 1.0)
    left: Float64 = np.where(area <= PERIOD_US, area, PERIOD_US * (1.0 - tail) ** (1.0 / (1.0 - shape)))
    return left


_ARRIVALS = {
    Arrival.EXPONENTIAL: _exponential,
    Arrival.PARETO: _pareto,
    Arrival.SELF_SIMILAR: _self_similar,
}


# Values: a chunk's columns, drawn whole and then cut, so that a tuple's values do not depend on the cut.

_ARROW = {
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.INT: pa.int32(),
    TypeKind.BIGINT: pa.int64(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.STRING: pa.string(),
    TypeKind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    TypeKind.DATE: pa.date32(),
}


def _arrow_type(type_: DataType) -> pa.DataType:
    return _ARROW[type_.kind] if type_.kind in _ARROW else pa.decimal128(type_.precision, type_.scale)


def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns as Arrow has them: timestamps in microseconds, UTC."""
    return pa.schema([pa.field(column.name, _arrow_type(column.type)) for column in schema])


def _batch(spec: GeneratorSpec, cut: _Cut) -> pa.RecordBatch:
    arrays = [_column(spec, cut, index, column) for index, column in enumerate(spec.schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(spec.schema))


def _column(spec: GeneratorSpec, cut: _Cut, index: int, column: Column) -> pa.Array:
    kept = slice(cut.start, cut.stop)
    kind, arrow = column.type.kind, _arrow_type(column.type)
    if kind is TypeKind.TIMESTAMP:
        return pa.array(cut.ts[kept]).cast(arrow)
    if kind is TypeKind.DATE:
        return pa.array((cut.ts[kept] // DAY_US).astype(np.int32)).cast(arrow)
    random, size = _random(spec, _VALUES + index, cut.chunk), len(cut.ts)
    if kind is TypeKind.BOOLEAN:
        return pa.array(random.random(size)[kept] < 0.5)
    if kind is TypeKind.DOUBLE:
        return pa.array(random.uniform(spec.low, spec.high, size)[kept])
    if kind is TypeKind.DECIMAL:
        return _decimals(random.uniform(spec.low, spec.high, size)[kept], column.type)
    is_key = column == spec.key_column
    numbers = (_keys(spec, random, size) if is_key else random.integers(OTHER_VALUES, size=size))[kept]
    if kind is TypeKind.STRING:
        return pa.array([f"{'k' if is_key else 's'}{number}" for number in numbers.tolist()], arrow)
    return pa.array(numbers).cast(arrow)


def _keys(spec: GeneratorSpec, random: np.random.Generator, size: int) -> Int64:
    if spec.skew == 0:
        return random.integers(spec.keys, size=size)
    shares = _zipf(spec.keys, spec.skew)
    return np.searchsorted(shares, random.random(size), side="right").clip(max=spec.keys - 1)


@lru_cache(maxsize=8)
def _zipf(keys: int, skew: float) -> Float64:
    """The part of the tuples with key 0, with 0 or 1, and so on."""
    weights = np.cumsum(np.arange(1, keys + 1, dtype=np.float64) ** -skew)
    shares: Float64 = weights / weights[-1]
    return shares


def _decimals(values: Float64, type_: DataType) -> pa.Array:
    """The values with up to six digits behind the point, and no more before it than the type has."""
    digits = min(type_.scale, 6)
    most = 10 ** min(type_.precision - type_.scale + digits, 18) - 1
    scaled = np.rint(values * 10**digits).clip(-most, most).astype(np.int64)
    words = np.stack((scaled, scaled >> 63), axis=1)
    exact = pa.Array.from_buffers(pa.decimal128(20, digits), len(values), [None, pa.py_buffer(words.tobytes())])
    return exact.cast(_arrow_type(type_))
