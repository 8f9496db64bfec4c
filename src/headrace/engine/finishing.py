"""From a history of groups to the rows that queries get: aggregates made of sums, outputs, what changed, HAVING, order.

A slot gives a row if its value differs from that of the slot before it: the values of all outputs, and whether the
group has any results. Cost: proportional to the slots and the outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.arrow_types import arrow_schema
from headrace.engine.evaluate import evaluate, filter_mask
from headrace.engine.folds import ROWS, counted, limbs_in, summed
from headrace.engine.histories import LOWEST, History
from headrace.engine.keys import Int64s
from headrace.engine.sums import decimal_sum, double_sum, whole_sum
from headrace.model import TypeKind
from headrace.plan.aggregates import Aggregate, Fold
from headrace.plan.expressions import ColumnRef
from headrace.plan.folding import Final, Folding

Mask = npt.NDArray[np.bool_]


class GroupRows:
    """The groups' rows of a history, slot by slot: keys and aggregates as columns."""

    def __init__(self, folding: Folding, history: History) -> None:
        self._folding = folding
        self._history = history
        self._made: dict[str, pa.Array] = {}
        self.exists = _sum(history, ROWS) > 0

    def __call__(self, ref: ColumnRef) -> pa.Array:
        if ref.name not in self._made:
            self._made[ref.name] = self._column(ref.name)
        return self._made[ref.name]

    def key(self, number: int) -> pa.Array:
        return self._history.keys[number].take(pa.array(self._history.owners))

    def _column(self, name: str) -> pa.Array:
        if name.startswith("key"):
            return self.key(int(name.removeprefix("key")))
        number = int(name.removeprefix("agg"))
        return self._aggregate(number, self._folding.aggregates[number])

    def _aggregate(self, number: int, aggregate: Aggregate) -> pa.Array:
        history = self._history
        if aggregate.fold in (Fold.MIN, Fold.MAX):
            extremes = [place for place, one in enumerate(self._folding.aggregates) if one.fold in (Fold.MIN, Fold.MAX)]
            return history.bests[extremes.index(number)]
        counts = _sum(history, counted(number, aggregate))
        if aggregate.fold in (Fold.COUNT, Fold.DISTINCT):
            return pa.array(counts)
        return _total(aggregate, limbs_in(history.sums, summed(number)), counts)


def _sum(history: History, name: str) -> Int64s:
    return history.sums.get(name, np.zeros(len(history), dtype=np.int64))


def _total(aggregate: Aggregate, limbs: dict[str, Int64s], counts: Int64s) -> pa.Array:
    """SUM or AVG of what these limbs say."""
    assert aggregate.argument is not None
    given, rows = aggregate.argument.type, len(counts)
    is_none = counts <= 0
    if aggregate.fold is Fold.SUM and given.kind is TypeKind.DECIMAL:
        return decimal_sum(limbs, rows, aggregate.type, ~is_none)
    if aggregate.fold is Fold.SUM and given.kind is not TypeKind.DOUBLE:
        return pa.array(whole_sum(limbs, rows), mask=is_none)
    total = double_sum(limbs, rows) if given.kind is TypeKind.DOUBLE else double_sum(limbs, rows, 0)
    if aggregate.fold is Fold.AVG:
        total = total / np.maximum(counts, 1)
        if given.kind is TypeKind.DECIMAL:
            total = total / 10.0**given.scale
    return pa.array(total + 0.0, mask=is_none)


def finished_rows(folding: Folding, final: Final, history: History, rows: GroupRows) -> pa.RecordBatch:
    """The rows that the queries of a final get: outputs and time, by time, then by the group's keys."""
    outputs = [_whole(evaluate(output.expression, rows, len(history))) for output in final.outputs]
    wanted = _changed(history, [rows.exists, *outputs])
    if final.having is not None:
        mask = filter_mask([final.having], rows, len(history))
        wanted &= np.ones(len(history), dtype=bool) if mask is None else mask.to_numpy(zero_copy_only=False)
    slots = _ordered(np.flatnonzero(wanted), history, [rows.key(number) for number in range(len(folding.keys))])
    places = pa.array(slots)
    times = pa.array(history.at_us[slots]).cast(pa.timestamp("us", "UTC"))
    columns = [*(one.take(places) for one in outputs), times]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(final.schema))


def _changed(history: History, columns: Sequence[pa.Array | Mask]) -> Mask:
    """The slots that are not as the one before; a group's first is none of them."""
    differs = np.zeros(len(history), dtype=bool)
    for column in columns:
        if isinstance(column, np.ndarray):
            differs[1:] |= column[1:] != column[:-1]
        else:
            differs[1:] |= _distinct(column[1:], column[:-1])
    changed: Mask = differs & (history.at_us != LOWEST)
    return changed


def _distinct(left: pa.Array, right: pa.Array) -> Mask:
    """IS DISTINCT FROM: nulls equal nulls, NaN equals NaN."""
    differs = pc.not_equal(left, right)
    if pa.types.is_floating(left.type):
        differs = pc.and_not_kleene(differs, pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))
    nulls = pc.not_equal(left.is_null(), right.is_null())
    found: Mask = pc.or_(pc.fill_null(differs, False), nulls).to_numpy(zero_copy_only=False)
    return found


def _ordered(slots: Int64s, history: History, keys: Sequence[pa.Array]) -> Int64s:
    """By time, then by the keys, nulls first."""
    if not keys:
        return slots[np.argsort(history.at_us[slots], kind="stable")]
    places = pa.array(slots)
    columns = {"at": pa.array(history.at_us[slots])}
    for number, key in enumerate(keys):
        mine = key.take(places)
        columns |= {f"known{number}": mine.is_valid(), f"key{number}": mine}
    names = [(name, "ascending") for name in columns]
    order = pc.sort_indices(pa.table(columns), sort_keys=names).to_numpy()
    ordered: Int64s = slots[order]
    return ordered


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
