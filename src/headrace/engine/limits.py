"""From comparisons with bound sides to ranges of a sorted index, for each partial result its own.

      index of a.v     -3  0  1  1  4  6  9  NaN          a.v - b.v BETWEEN 1 AND 5, b.v = 0:   [1, 5] and a margin
                              [--------)

Owns: :class:`Limit`, ``limits_of`` and ``value_ranges``. A range that is exact (``plan/ranges.py``) is compared by the
index's own numbers. A sum is added up as doubles and moved by ``MARGIN`` of its terms' sizes, which is more than all
rounding on both ways to compute it (2^-53 an operation, 64 of them at most, each at most four times); a sum, or a
segment, with values so large that a computation may have wrapped round or overflowed bounds nothing. NaN sorts above
all numbers and may meet a comparison that has it on the greater side with a minus: a segment that has one is then not
cut above. Cost: a pass over the partial results for each term, and two binary searches for each and segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from headrace.engine.arrays import Floats, Mask, known, zeros_for_nulls
from headrace.engine.evaluate import evaluate
from headrace.engine.keys import NAN_NUMBER, Int64s, encode_keys, ordered_bounds, zero_of
from headrace.model import DataType
from headrace.plan.expressions import ColumnRef, Expression
from headrace.plan.joingraph import KeyForm
from headrace.plan.ranges import Range, Sum

MARGIN = 2.0**-44
SMALLEST = 2.0**-600
"""More than products lose below the smallest doubles, whatever they are multiplied by afterwards."""

Columns: TypeAlias = Callable[[ColumnRef], pa.Array]


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound on an index's numbers for each partial result; where it is not valid (NULL), nothing is within it."""

    function: str
    numbers: Int64s
    is_valid: Mask
    within: tuple[int, int] | None = None
    """Numbers that a segment must be within; in another, there is no bound."""
    passes_nan: bool = False
    """NaN is within, wherever the bound is."""
    no_nan: Mask | None = None
    """The partial results that no row with NaN belongs to."""


def limits_of(ranges: Iterable[Range], columns: Columns, size: int) -> list[Limit]:
    """What comparisons bound the rows of an index by: each partial result's own numbers."""
    return [limit for one in ranges for limit in _limits(one, columns, size)]


def value_ranges(keys: Int64s, limits: Sequence[Limit], size: int) -> tuple[Int64s, Int64s]:
    """For each partial result the rows whose values lie where comparisons with its values want them."""
    low, high = np.zeros(size, dtype=np.int64), np.full(size, len(keys))
    if not len(keys):
        return low, high
    has_nan = int(keys[-1]) == NAN_NUMBER
    for one in limits:
        if one.within is not None and not one.within[0] <= keys[0] <= keys[-1] <= one.within[1]:
            continue
        first, last = np.zeros(size, dtype=np.int64), np.full(size, len(keys))
        if one.function in (">", ">=", "="):
            first = np.searchsorted(keys, one.numbers, side="right" if one.function == ">" else "left")
        if one.function in ("<", "<=", "="):
            last = np.searchsorted(keys, one.numbers, side="left" if one.function == "<" else "right")
        if has_nan and one.passes_nan:
            last = np.where(_without_nan(limits, size), last, len(keys))
        low = np.maximum(low, np.where(one.is_valid, first, 0))
        high = np.minimum(high, np.where(one.is_valid, last, 0))
    return low, np.maximum(low, high)


def _without_nan(limits: Sequence[Limit], size: int) -> Mask:
    """The partial results that some comparison keeps NaN away from."""
    found = np.zeros(size, dtype=np.bool_)
    for one in limits:
        if one.no_nan is not None:
            found |= one.no_nan
    return found


def _limits(one: Range, columns: Columns, size: int) -> Iterator[Limit]:
    if not isinstance(one.bound, Sum):
        values = _whole(one.bound, columns, size)
        if values.null_count:
            yield Limit(one.function, _numbers(values.fill_null(zero_of(values.type))), known(values))
        else:
            yield Limit(one.function, _numbers(values), np.ones(size, dtype=np.bool_))
        return
    total, sizes, is_valid = _added(one.bound, columns, size)
    is_bounded = is_valid & (sizes <= one.bound.most)
    margin = np.where(is_bounded, MARGIN * sizes + SMALLEST, 0.0)
    within = _span(one.type, one.bound.most) if one.bound.is_wrapping else None
    no_nan = None if one.bound.passes_nan else is_bounded
    for function, moved in ((">=", -margin), ("<=", margin)):
        if one.function in (function, "="):
            bounds = np.where(is_bounded, total, 0.0) + moved
            numbers = ordered_bounds(bounds, one.type, is_upper=function == "<=")
            anything = np.iinfo(np.int64).max if function == "<=" else np.iinfo(np.int64).min
            numbers = np.where(is_bounded, numbers, anything)
            passes_nan = one.bound.passes_nan and function == "<="
            yield Limit(function, numbers, is_valid, within, passes_nan, no_nan)


def _added(bound: Sum, columns: Columns, size: int) -> tuple[Floats, Floats, Mask]:
    """The terms added up, their sizes added up (infinite where one is not a number), and where none is NULL."""
    total, sizes, is_valid = np.zeros(size), np.zeros(size), np.ones(size, dtype=np.bool_)
    with np.errstate(all="ignore"):
        for term in bound.terms:
            values = _whole(term.of, columns, size)
            if values.null_count:
                is_valid &= known(values)
            parts = term.factor * _as_doubles(values)
            total += parts
            sizes += np.abs(parts)
    return total, np.where(np.isnan(sizes), np.inf, sizes), is_valid


def _whole(expression: Expression, columns: Columns, size: int) -> pa.Array:
    values = evaluate(expression, columns, size)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _as_doubles(values: pa.Array) -> Floats:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    elif pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    return zeros_for_nulls(values).astype(np.float64, copy=False)


def _numbers(values: pa.Array) -> Int64s:
    return encode_keys([values], KeyForm.ORDERED)


def _span(of: DataType, most: float) -> tuple[int, int]:
    low, high = (ordered_bounds(np.array([end]), of, is_upper=end > 0) for end in (-most, most))
    return int(low[0]), int(high[0])
