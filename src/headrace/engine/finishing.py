"""From a history of groups to the rows that queries get: aggregates made of sums, outputs, what changed, HAVING, order.

A slot gives a row if HAVING holds and something differs from the slot before it: the values of all outputs, whether the
group has any results, or whether HAVING held. What is made of keys alone is made once a group. Cost: proportional to
the slots and the outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.evaluate import evaluate, filter_mask
from headrace.engine.folds import ROWS, counted, limbs_in, summed
from headrace.engine.histories import LOWEST, History
from headrace.engine.keys import Int64s
from headrace.engine.sums import decimal_sum, double_sum, whole_sum
from headrace.model import TypeKind
from headrace.plan.aggregates import Aggregate, Fold
from headrace.plan.expressions import ColumnRef, Expression, columns_of
from headrace.plan.folding import Folding
from headrace.plan.queries import Output

Mask = npt.NDArray[np.bool_]

_KEY = "key"
"""What the keys are called in a group's row, with a number."""


class GroupRows:
    """The groups' rows of a history, slot by slot: keys and aggregates as columns."""

    def __init__(self, folding: Folding, history: History) -> None:
        self._folding = folding
        self._history = history
        self._made: dict[str, pa.Array] = {}
        self._ranks: Int64s | None = None
        self.exists = _sum(history, ROWS) > 0

    def __call__(self, ref: ColumnRef) -> pa.Array:
        if ref.name not in self._made:
            self._made[ref.name] = self._column(ref.name)
        return self._made[ref.name]

    def key(self, ref: ColumnRef) -> pa.Array:
        """A key, group by group."""
        return self._history.keys[int(ref.name.removeprefix(_KEY))]

    def ranks(self) -> Int64s:
        """The groups' places by their keys, nulls first."""
        if self._ranks is None:
            self._ranks = _ranked(self._history.keys, int(self._history.owners.max(initial=-1)) + 1)
        return self._ranks

    def _column(self, name: str) -> pa.Array:
        if name.startswith(_KEY):
            return self._history.keys[int(name.removeprefix(_KEY))].take(pa.array(self._history.owners))
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


def finished_rows(
    asked: tuple[tuple[Output, ...], Expression | None], schema: pa.Schema, history: History, rows: GroupRows
) -> dict[int, pa.RecordBatch]:
    """By window, the rows of queries that ask for these outputs and this HAVING: outputs and time, by time, then by the
    group's keys."""
    outputs, having = asked
    columns = [_Column.of(output.expression, history, rows) for output in outputs]
    passing = _passing(having, history, rows)
    watched = [rows.exists, passing, *(one.values for one in columns if not one.is_by_group)]
    wanted = _changed(history, watched) & passing
    slots = _ordered(np.flatnonzero(wanted), history, rows)
    times = pa.array(history.at_us[slots]).cast(pa.timestamp("us", "UTC"))
    arrays = [*(one.at(slots, history) for one in columns), times]
    made = pa.RecordBatch.from_arrays(arrays, schema=schema)
    # Windows are one after the other, and slots are in order within each.
    cuts = np.searchsorted(_window_of(slots, history), np.arange(len(history.ends) + 1))
    return {
        window_us: made.slice(begin, end - begin)
        for window_us, (begin, end) in zip(history.windows_us, pairwise(cuts.tolist()), strict=True)
        if begin < end
    }


def _passing(having: Expression | None, history: History, rows: GroupRows) -> Mask:
    """The slots in which HAVING is true."""
    mask = None if having is None else filter_mask([having], rows, len(history))
    return np.ones(len(history), dtype=bool) if mask is None else mask.to_numpy(zero_copy_only=False)


@dataclass(frozen=True, slots=True)
class _Column:
    """An output: of each slot or, where it is made of keys alone, of each group."""

    values: pa.Array
    is_by_group: bool

    @staticmethod
    def of(expression: Expression, history: History, rows: GroupRows) -> _Column:
        read = columns_of(expression)
        if read and all(ref.name.startswith(_KEY) for ref in read):
            return _Column(_whole(evaluate(expression, rows.key, len(history.keys[0]))), True)
        return _Column(_whole(evaluate(expression, rows, len(history))), False)

    def at(self, slots: Int64s, history: History) -> pa.Array:
        return self.values.take(pa.array(history.owners[slots] if self.is_by_group else slots))


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


def _window_of(slots: Int64s, history: History) -> Int64s:
    """The place of each slot's window."""
    return np.searchsorted(np.asarray(history.ends), slots, side="right")


def _ordered(slots: Int64s, history: History, rows: GroupRows) -> Int64s:
    """By window, then by time, then by the groups' keys."""
    if not len(slots):
        return slots
    ranks = rows.ranks()[history.owners[slots]]
    ordered: Int64s = slots[np.lexsort((ranks, history.at_us[slots], _window_of(slots, history)))]
    return ordered


def _ranked(keys: Sequence[pa.Array], groups: int) -> Int64s:
    """Each group's place by its keys, nulls first."""
    if not keys:
        return np.zeros(groups, dtype=np.int64)
    columns: dict[str, pa.Array] = {}
    for number, key in enumerate(keys):
        columns |= {f"known{number}": key.is_valid(), f"key{number}": key}
    order = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns]).to_numpy()
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
