"""Expressions over columns: one Arrow kernel call per node, never a loop over rows.

Owns ``KERNELS``, one small function for each name in ``plan.functions.FUNCTIONS`` and for ``cast``; what they give is
stated there in words. Literals stay scalars until a whole array is asked for.
Invariants: no row can make a kernel raise; a column has the Arrow type of its declared type; the result has as many
rows as asked for and the Arrow type of the expression.
Cost: proportional to rows times nodes. Both arms of CASE are computed, which is safe as nothing raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine import text_kernels
from headrace.engine.arrays import (
    FIRST_US,
    LAST_US,
    Datum,
    Floats,
    as_array,
    keep_where,
    round_half_away,
    through_numpy,
)
from headrace.engine.arrow_types import arrow_type
from headrace.engine.casts import cast
from headrace.model import TypeKind
from headrace.plan.expressions import Call, ColumnRef, Expression, Literal

Columns: TypeAlias = Callable[[ColumnRef], pa.Array | pa.ChunkedArray]
Kernel: TypeAlias = Callable[..., Datum]


def evaluate(expression: Expression, columns: Columns, rows: int) -> pa.Array | pa.ChunkedArray:
    """The expression's value in each of ``rows`` rows."""
    if isinstance(expression, ColumnRef):
        return columns(expression)
    return as_array(_datum(expression, columns), rows)


def filter_mask(conditions: Sequence[Expression], columns: Columns, rows: int) -> pa.BooleanArray | None:
    """Which rows meet all conditions, None when all do; NULL counts as false."""
    mask: Datum = pa.scalar(True)
    for condition in conditions:
        mask = pc.and_(mask, _settled(_datum(condition, columns)))
    mask = as_array(mask, rows)
    return None if mask.true_count == rows else mask


def _datum(expression: Expression, columns: Columns) -> Datum:
    if isinstance(expression, Literal):
        return pa.scalar(expression.value, arrow_type(expression.type))
    if isinstance(expression, ColumnRef):
        column = columns(expression)
        assert column.type == arrow_type(expression.type), (expression, column.type)
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return _call(expression, [_datum(arg, columns) for arg in expression.args])


def _call(call: Call, args: list[Datum]) -> Datum:
    result = arrow_type(call.type)
    if call.type.kind is TypeKind.NULL:
        return pa.scalar(None, result)
    if call.function == "cast":
        return KERNELS["cast"](args[0], result)
    return KERNELS[call.function](*args)


# --- conditions


def _settled(condition: Datum) -> Datum:
    """The condition with NULL as false."""
    return pc.coalesce(condition.cast(pa.bool_()), pa.scalar(False))


def _equal(left: Datum, right: Datum) -> Datum:
    if pa.types.is_null(left.type):
        return pa.scalar(None, pa.bool_())
    same = pc.equal(left, right)
    if pa.types.is_floating(left.type) and not (_sure(left) or _sure(right)):
        return pc.or_kleene(same, pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))
    return same


def _less(left: Datum, right: Datum) -> Datum:
    if pa.types.is_null(left.type):
        return pa.scalar(None, pa.bool_())
    below = pc.less(left, right)
    if pa.types.is_floating(left.type) and not _sure(right):
        return pc.or_kleene(below, pc.and_kleene(pc.is_nan(right), pc.invert(pc.is_nan(left))))
    return below


def _sure(value: Datum) -> bool:
    """Whether this DOUBLE is known not to be NaN, which spares looking for it."""
    return isinstance(value, pa.Scalar) and (not value.is_valid or value.as_py() == value.as_py())


def _among(value: Datum, *candidates: Datum) -> Datum:
    exact = not pa.types.is_floating(value.type) and not pa.types.is_null(value.type)
    if exact and all(isinstance(one, pa.Scalar) and one.is_valid for one in candidates):
        found = pc.is_in(value, pa.array([one.as_py() for one in candidates], value.type))
        return keep_where(found, pc.is_valid(value))
    return reduce(pc.or_kleene, [_equal(value, one) for one in candidates])


# --- choices


def _case(*args: Datum) -> Datum:
    *arms, chosen = args
    for condition, value in reversed(list(zip(arms[0::2], arms[1::2], strict=True))):
        chosen = pc.if_else(_settled(condition), value, chosen)
    return chosen


def _nullif(left: Datum, right: Datum) -> Datum:
    return keep_where(left, pc.invert(_settled(_equal(left, right))))


def _greatest(*args: Datum) -> Datum:
    return reduce(lambda best, one: pc.coalesce(pc.if_else(_less(best, one), one, best), best, one), args)


def _least(*args: Datum) -> Datum:
    return reduce(lambda best, one: pc.coalesce(pc.if_else(_less(one, best), one, best), best, one), args)


# --- numbers and times


def _shifted(time: Datum, by_us: Datum, shift: Kernel) -> Datum:
    """A time moved by an interval; what leaves the calendar is NULL, and a sum that wraps round has left it."""
    moved = shift(time.cast(pa.int64()), by_us)
    inside = pc.and_(pc.less_equal(pa.scalar(FIRST_US), moved), pc.less_equal(moved, pa.scalar(LAST_US)))
    return keep_where(moved, inside).cast(pa.timestamp("us", "UTC"))


def _add(left: Datum, right: Datum) -> Datum:
    if pa.types.is_timestamp(left.type):
        return _shifted(left, right, pc.add)
    if pa.types.is_timestamp(right.type):
        return _shifted(right, left, pc.add)
    return pc.add(left, right)


def _subtract(left: Datum, right: Datum) -> Datum:
    if pa.types.is_timestamp(right.type):
        return pc.subtract(left.cast(pa.int64()), right.cast(pa.int64()))
    if pa.types.is_timestamp(left.type):
        return _shifted(left, right, pc.subtract)
    return pc.subtract(left, right)


def _nonzero(value: Datum) -> Datum:
    return keep_where(value, pc.not_equal(value, pa.scalar(0, value.type)))


def _divide(left: Datum, right: Datum) -> Datum:
    return pc.divide(left, _nonzero(right))


def _remainder(left: Datum, right: Datum) -> Datum:
    return through_numpy(np.fmod, left, _nonzero(right))


def _whole(function: Kernel) -> Kernel:
    """Rounding in some way: whole numbers are already there."""
    return lambda value: value if pa.types.is_integer(value.type) else function(value)


def _round(value: Datum, places: Datum | None = None) -> Datum:
    if places is not None:
        return through_numpy(_round_to, value, places)
    return _whole(lambda number: through_numpy(round_half_away, number))(value)


def _round_to(numbers: Floats, places: Floats) -> Floats:
    power = np.power(10.0, np.abs(places))
    left, right = round_half_away(numbers / power) * power, round_half_away(numbers * power) / power
    rounded = np.where(places < 0, np.where(np.isfinite(left), left, 0.0), np.where(np.isfinite(right), right, numbers))
    return np.where(np.isfinite(numbers), rounded, numbers)


def _sqrt(value: Datum) -> Datum:
    return pc.sqrt(keep_where(value, pc.invert(pc.less(value, 0.0))))


def _ln(value: Datum) -> Datum:
    return pc.ln(keep_where(value, pc.invert(pc.less_equal(value, 0.0))))


def _part(function: Kernel) -> Kernel:
    """A part of a time, in UTC."""
    return lambda time: function(time.cast(pa.timestamp("us"))).cast(pa.int64())


KERNELS: dict[str, Kernel] = {
    "=": _equal,
    "<>": lambda left, right: pc.invert(_equal(left, right)),
    "<": _less,
    "<=": lambda left, right: pc.invert(_less(right, left)),
    ">": lambda left, right: _less(right, left),
    ">=": lambda left, right: pc.invert(_less(left, right)),
    "in": _among,
    "and": lambda *args: reduce(pc.and_kleene, args),
    "or": lambda *args: reduce(pc.or_kleene, args),
    "not": pc.invert,
    "is_null": pc.is_null,
    "like": text_kernels.like,
    "ilike": text_kernels.ilike,
    "+": _add,
    "-": _subtract,
    "*": pc.multiply,
    "/": _divide,
    "%": _remainder,
    "neg": pc.negate,
    "case": _case,
    "coalesce": pc.coalesce,
    "nullif": _nullif,
    "greatest": _greatest,
    "least": _least,
    "abs": pc.abs,
    "sign": pc.sign,
    "floor": _whole(pc.floor),
    "ceil": _whole(pc.ceil),
    "round": _round,
    "sqrt": _sqrt,
    "exp": pc.exp,
    "ln": _ln,
    "power": pc.power,
    "upper": pc.utf8_upper,
    "lower": pc.utf8_lower,
    "trim": lambda text: pc.utf8_trim(text, " "),
    "ltrim": lambda text: pc.utf8_ltrim(text, " "),
    "rtrim": lambda text: pc.utf8_rtrim(text, " "),
    "reverse": pc.utf8_reverse,
    "length": text_kernels.length,
    "concat_op": text_kernels.join,
    "replace": text_kernels.replace,
    "starts_with": text_kernels.starts_with,
    "contains": text_kernels.contains,
    "substring": text_kernels.substring,
    "year": _part(pc.year),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "hour": _part(pc.hour),
    "minute": _part(pc.minute),
    "second": _part(pc.second),
    "date_trunc": text_kernels.truncate_time,
    "cast": cast,
}
"""The kernel of every function; each takes its arguments' values, ``cast`` the value and the type wanted."""
