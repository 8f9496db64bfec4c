"""A generated stream as a shard is told it, a few rows at a time, without Spark.

Owns :class:`StreamFeed`. All rows are packed at once and given out as slices of that. A tuple's ``arrived_us`` is a
number that the caller chooses: what comes of it is found again by it, whatever clock the caller has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.engine.events import Arrival, BlockArrived, Event, ProgressMade
from headrace.engine.packing import EVENTS, ORDER, ORDER_SHIFT, Packer
from headrace.model import StreamId
from headrace.plan.sharing import SharedPlan
from headrace.spark.generator import spec_of
from headrace.workload import GeneratorSpec, Position, generate


class StreamFeed:
    """A stream's rows, given out in order. No two have the same time, and none is right after another: of a burst each
    is 4 us after the one before, and streams (``number`` 0 and 1) are 2 us apart. ``copies``: as many tuples, with keys
    of their own, come in the place of each; they are at the same time."""

    def __init__(self, plan: SharedPlan, number: int, name: str, copies: int = 1) -> None:
        self._name = StreamId(name)
        stream = plan.catalog.get(self._name)
        spec = spec_of(stream, 0)
        rows, _ = generate(spec, Position.at_start(spec), 2**62)
        drawn = rows.column(stream.time).cast(pa.int64()).to_numpy()
        ranks = np.arange(len(drawn))
        self.times_us: npt.NDArray[np.int64] = (np.maximum.accumulate(drawn // 4 - ranks) + ranks) * 4 + 2 * number
        if copies > 1:
            rows = _copied(rows, spec, copies)
            self.times_us = np.repeat(self.times_us, copies)
        at = rows.schema.get_field_index(stream.time)
        timed = pa.array(self.times_us).cast(rows.schema.field(at).type)
        ordered = rows.set_column(at, rows.schema.field(at), timed)
        ordered = ordered.append_column(ORDER, pa.array(np.full(rows.num_rows, 1 << ORDER_SHIFT)))
        packed = [one.event(plan) for one in Packer(plan, stream, 1).pack(ordered, 0) if one.kind in EVENTS]
        (self._whole,) = (one for one in packed if isinstance(one, BlockArrived))
        self._given = self._chunks = 0

    def upto(self, end_us: int, number: int) -> Iterator[Event]:
        """The rows up to that time as they arrive, called by a number, and that there are no others."""
        self._chunks += 1
        arrival = Arrival(self._chunks << ORDER_SHIFT, end_us)
        until = int(np.searchsorted(self.times_us, end_us, side="right"))
        rows, first = until - self._given, self._given
        if rows:
            batch = self._whole.batch.slice(first, rows)
            yield replace(self._whole, arrival=arrival, arrived_us=number, batch=batch)
        oldest_us = int(self.times_us[first]) if rows else end_us
        self._given = until
        yield ProgressMade(self._name, arrival, end_us + 1, oldest_us, rows)


def _copied(rows: pa.RecordBatch, spec: GeneratorSpec, copies: int) -> pa.RecordBatch:
    """Every row so often, with keys drawn anew: a column of whole numbers is a key here."""
    chance = np.random.default_rng(spec.seed)
    many = rows.take(pa.array(np.repeat(np.arange(rows.num_rows), copies)))
    for at, field in enumerate(many.schema):
        if pa.types.is_integer(field.type):
            keys = chance.integers(0, spec.keys, many.num_rows)
            many = many.set_column(at, field, pa.array(keys).cast(field.type))
    return many
