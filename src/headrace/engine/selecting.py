"""What inputs take of a chunk's rows before these are sent anywhere: the work of the leaf operators.

Owns :class:`Selected` and ``first_alike``. Inputs of several groups that ask the same of a stream and read the same of
it have one leaf operator: its rows are selected once for all of them. What is of one join alone, that keys are whole,
comes after it. Cost: a mask and a copy of the rows that pass it, where not all do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from headrace.engine.evaluate import evaluate, filter_mask
from headrace.plan.expressions import ColumnRef, Expression
from headrace.plan.sharing import Input, SharedPlan

Reader: TypeAlias = tuple[int, int]
"""An input that reads a stream: its group, and its place there."""


@dataclass(frozen=True, slots=True)
class Selected:
    """Rows of a chunk that pass what an input asks, and which of the chunk's they are."""

    kept: np.ndarray
    rows: pa.RecordBatch

    @staticmethod
    def of(reader: Input, chunk: pa.RecordBatch) -> Selected:
        mask = filter_mask(reader.selection, _column_reader(chunk), chunk.num_rows)
        if mask is None:
            return Selected(np.ones(chunk.num_rows, dtype=bool), chunk)
        return Selected(mask.to_numpy(zero_copy_only=False), chunk.filter(mask))

    def with_keys(self, reader: Input) -> tuple[np.ndarray, pa.RecordBatch]:
        """The same, of the rows that a join can use: their keys are whole."""
        keys = [*reader.keys, *(key for index in reader.indexes for key in index.keys)]
        lacking = [one for one in columns_of_keys(keys, self.rows) if one.null_count]
        if not lacking:
            return self.kept, self.rows
        whole = np.logical_and.reduce([one.is_valid().to_numpy(zero_copy_only=False) for one in lacking])
        kept = self.kept.copy()
        kept[self.kept] = whole
        return kept, self.rows.filter(pa.array(whole))


def first_alike(plan: SharedPlan, readers: Sequence[Reader]) -> dict[Reader, Reader]:
    """By reader of a stream, the first with the same selection and projection."""
    firsts: dict[Hashable, Reader] = {}
    found = {}
    for group, side in readers:
        one = plan.groups[group].inputs[side]
        found[group, side] = firsts.setdefault((frozenset(one.selection), one.schema.names), (group, side))
    return found


def columns_of_keys(keys: Sequence[Expression], rows: pa.RecordBatch) -> list[pa.Array]:
    """The keys' values."""
    columns = [evaluate(key, _column_reader(rows), rows.num_rows) for key in keys]
    return [one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one for one in columns]


def _column_reader(batch: pa.RecordBatch) -> Callable[[ColumnRef], pa.Array]:
    return lambda ref: batch.column(ref.name)
