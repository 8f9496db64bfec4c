"""Segments: tuples of one input sorted by (key, time), immutable, named by their content.

      key   7  7  7  9  9 12 ...          a probe with key 9 and window w finds its partners as one
      ts    1  4  8  2  5  3 ...          contiguous range: the 9s, and of those the ones since t - w
                     \\____/

Owns: building, merging and (de)serialising segments. Invariants: rows are sorted by key, then event time, then arrival;
no row has a null time or key. Cost: building sorts the rows once; merging k segments of n rows in all is O(n log k);
opening one from a memory-mapped buffer touches no row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headrace.engine.keys import Int64s
from headrace.engine.matching import bisect_within
from headrace.errors import InvariantError
from headrace.plan.queries import Measure

KEY = "__key"
"""The column that holds the key's number, where no carried column is that number already."""
REPORTED = "__reported"
"""The column that says which input reports a row should it be late, on the way to the shard, where several take it."""
NUMBER = "__number"
"""The column that holds a tuple's place in its stream's arrival order, in groups that compare it."""
PLACE = "__place"
"""The column that holds a tuple's place in the whole stream, counted from 0, where a window is measured in rows."""


TAKEN = "__taken"
"""The column that holds a tuple's place among those of its input that were taken in ahead of another stream."""
CAME = "__came"
"""When such a tuple arrived."""
AHEAD_MARKS = (TAKEN, CAME)
BEFORE = "__before"
"""What the columns that mark guests are called by: see ``before_column``."""
NO_GUEST = 2**63 - 1


def before_column(attribute: int) -> str:
    """The column that says, of a tuple that is a guest for a heavy key of that attribute class, what another side's
    tuple must be older than for them to meet here; ``NO_GUEST`` for all others. Only where there may be guests."""
    return f"{BEFORE}{attribute}"


SLOT = "__slot"
"""The column that says which copy of a tuple this is, where a heavy key of a stream that is joined with itself is dealt
out (``guests``); ``NO_SLOT`` for all others."""
NO_SLOT = -1


def seen_column(input: int) -> str:
    """The column that holds how many tuples of that input's whole stream are before a tuple, likewise."""
    return f"__seen{input}"


def key_column(index: int) -> str:
    """The column that holds the number of a key that rows are also searched by."""
    return f"{KEY}{index}"


def _by_column(index: int) -> str:
    """The column that lists a segment's rows in the order of such a key, then of time."""
    return f"__by{index}"


def _sorted_column(index: int) -> str:
    """The column that has those keys in that order."""
    return f"__sorted{index}"


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns of an input's batches are the event time and the key. Where the key is a column, each batch has it
    or not, as queries read it that were there when it came: those without it have a column KEY, which wins. ``more``:
    how many other keys the rows are searched by."""

    time: str
    key: str = KEY
    more: int = 0

    def column_in(self, batch: pa.RecordBatch, index: int) -> str:
        """A batch's column with the numbers of an index's key."""
        if index:
            return key_column(index)
        return KEY if KEY in batch.schema.names else self.key


@dataclass(frozen=True, slots=True)
class IndexView:
    """A segment's rows in the order of a key, then of time: the keys, and where each row is (None: in place)."""

    keys: Int64s
    rows: np.ndarray | None = None

    def within(self, clock: Int64s, low: Int64s, high: Int64s, bounds: Int64s) -> Int64s:
        """Of each range of one key, where the rows at or after the bound begin."""
        return bisect_within(clock, low, high, bounds, self.rows)


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows with their keys and times at hand; ``batch`` has all columns."""

    batch: pa.RecordBatch
    keys: Int64s
    ts_us: Int64s

    @property
    def rows(self) -> int:
        return int(self.batch.num_rows)

    def clock(self, measure: Measure) -> Int64s:
        """What a window of that measure is cut by: rising within a key."""
        return self.ts_us if measure is Measure.TIME else int64s_of(self.batch, PLACE)

    def probe_clock(self, measure: Measure, probed: int) -> Int64s:
        """Where each row stands on the clock of an input so measured, which it probes."""
        return self.ts_us if measure is Measure.TIME else int64s_of(self.batch, seen_column(probed))

    def least_seen(self, probed: int) -> int:
        """The fewest tuples of an input that a row has before it; 0 where that is not counted."""
        name = seen_column(probed)
        return int(int64s_of(self.batch, name).min()) if name in self.batch.schema.names else 0

    def least_seen_since(self, probed: int, since_us: int) -> int | None:
        """The same of the rows at or after a time; None where there are none."""
        name = seen_column(probed)
        seen = int64s_of(self.batch, name) if name in self.batch.schema.names else np.zeros(self.rows, dtype=np.int64)
        seen = seen[self.ts_us >= since_us]
        return int(seen.min()) if len(seen) else None

    def index(self, index: int) -> IndexView:
        """The rows by a key: the first is their own order."""
        if index == 0:
            return IndexView(self.keys)
        return IndexView(int64s_of(self.batch, _sorted_column(index)), int64s_of(self.batch, _by_column(index)))

    @property
    def has_places(self) -> bool:
        """Whether rows have their places in the whole stream with them."""
        return PLACE in self.batch.schema.names

    @property
    def last_place(self) -> int:
        """The newest row's place in the whole stream; -1 where places are not kept."""
        return int(int64s_of(self.batch, PLACE).max()) if self.has_places else -1

    @property
    def min_us(self) -> int:
        return int(self.ts_us.min())

    @property
    def max_us(self) -> int:
        return int(self.ts_us.max())


def int64s_of(batch: pa.RecordBatch, name: str) -> Int64s:
    values: Int64s = batch.column(name).to_numpy(zero_copy_only=True)
    return values


def times_of(batch: pa.RecordBatch, time: str) -> Int64s:
    """Event times as microseconds."""
    values: Int64s = batch.column(time).cast(pa.int64()).to_numpy(zero_copy_only=True)
    return values


def view_segment(batch: pa.RecordBatch, layout: Layout) -> Segment:
    """A batch that is sorted already, as a segment."""
    keys = batch.column(layout.column_in(batch, 0))
    if pa.types.is_timestamp(keys.type):
        keys = keys.cast(pa.int64())
    return Segment(batch, keys.to_numpy(zero_copy_only=True), times_of(batch, layout.time))


def build_segment(batch: pa.RecordBatch, layout: Layout) -> tuple[Segment, Int64s]:
    """A segment of rows that are in time order, and the order that sorted them."""
    keys = view_segment(batch, layout).keys
    order = np.argsort(keys, kind="stable")
    return view_segment(_indexed(take_rows(batch, order), layout), layout), order


def _indexed(batch: pa.RecordBatch, layout: Layout) -> pa.RecordBatch:
    """The rows with their orders by the other keys; those they had may be out of date. Rows at one time are by the
    first key here, so of those only their places tell which came first."""
    if not layout.more:
        return batch
    clocks = [times_of(batch, layout.time)]
    if PLACE in batch.schema.names:
        clocks.insert(0, int64s_of(batch, PLACE))
    made: dict[str, np.ndarray] = {}
    for index in range(1, layout.more + 1):
        keys = int64s_of(batch, key_column(index))
        order = np.lexsort((*clocks, keys))
        made |= {_by_column(index): order.astype(np.int32), _sorted_column(index): keys[order]}
    columns = {name: batch.column(name) for name in batch.schema.names if name not in made}
    columns |= {name: pa.array(values) for name, values in made.items()}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def merge_segments(segments: Sequence[Segment], layout: Layout, *, since_us: int | None = None) -> Segment:
    """One segment of all rows at or after ``since_us``; the segments are given oldest first."""
    batch = pa.concat_batches([segment.batch for segment in segments])
    keys = np.concatenate([segment.keys for segment in segments])
    ts_us = np.concatenate([segment.ts_us for segment in segments])
    apart = all(left.max_us <= right.min_us for left, right in pairwise(segments))
    # Times rise from one segment to the next, so a stable sort by key alone keeps each key's times in order.
    order = np.argsort(keys, kind="stable") if apart else np.lexsort((ts_us, keys))
    if since_us is not None:
        order = order[ts_us[order] >= since_us]
    return view_segment(_indexed(take_rows(batch, order), layout), layout)


def take_rows(batch: pa.RecordBatch, order: Int64s) -> pa.RecordBatch:
    return batch.take(pa.array(order))


def pack_batch(batch: pa.RecordBatch) -> pa.Buffer:
    """A batch as bytes that can be mapped back without copying."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def unpack_batch(buffer: pa.Buffer | bytes) -> pa.RecordBatch:
    """The batch that ``pack_batch`` made; a view into ``buffer``."""
    reader = pa.ipc.open_file(pa.py_buffer(buffer))
    if reader.num_record_batches != 1:
        raise InvariantError(f"a packed batch holds {reader.num_record_batches} batches, not one")
    return reader.get_batch(0)


def content_name(buffer: pa.Buffer | bytes) -> str:
    """A name that only these bytes have."""
    return hashlib.blake2b(buffer, digest_size=16).hexdigest()


def combined_name(names: Sequence[str]) -> str:
    """The name of what is made of these parts."""
    return content_name(" ".join(names).encode())
