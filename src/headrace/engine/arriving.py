"""Rows of a chunk on their way into a group: numbered on, without the late ones and without marks for the way."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.keys import Int64s
from headrace.engine.parting import PART
from headrace.engine.segments import NUMBER, REPORTED, int64s_of
from headrace.engine.waiting import SEAT


def numbered_from(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    index = batch.schema.get_field_index(NUMBER)
    return batch.set_column(index, NUMBER, pc.add(batch.column(index), pa.scalar(first, pa.int64())))


def without_late_seats(batch: pa.RecordBatch, chunk_us: Int64s, kept: np.ndarray) -> tuple[pa.RecordBatch, Int64s]:
    """A chunk's times without the late ones, and the rows with their seats among those left."""
    if kept.all():
        return batch, chunk_us
    seats = (np.cumsum(kept) - 1)[int64s_of(batch, SEAT)]
    return batch.set_column(batch.schema.get_field_index(SEAT), SEAT, pa.array(seats)), chunk_us[kept]


def without_parts(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Int64s]:
    """The rows alone, and which of their chunk's sources each is from."""
    if PART not in batch.schema.names:
        return batch, np.zeros(batch.num_rows, dtype=np.int64)
    return batch.select([name for name in batch.schema.names if name != PART]), int64s_of(batch, PART)


def without_reports(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray | None]:
    """The rows alone, and which of them this input reports if they are late (None: all)."""
    if REPORTED not in batch.schema.names:
        return batch, None
    reported = batch.column(REPORTED).to_numpy(zero_copy_only=False)
    return batch.select([name for name in batch.schema.names if name != REPORTED]), reported
