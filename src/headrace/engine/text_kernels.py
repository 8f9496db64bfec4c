"""Kernels on strings: patterns, pieces, replacement. Characters are Unicode code points throughout.

Arrow's string kernels take their pattern once for all rows. A pattern that is itself a column is handled by
:func:`per_distinct`: rows are grouped by it and each group goes through Arrow at once, so the work is one sort and one
kernel call per *distinct* pattern.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.arrays import Datum, as_array

_META = frozenset(r"\.+*?()|[]{}^$")
_FAR = 2**31 - 1
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")


def per_distinct(kernel: Callable[..., Datum], result: pa.DataType, value: Datum, *parameters: Datum) -> Datum:
    """``kernel(value, *parameters)`` for parameters that Arrow wants as plain Python values; NULL if any is NULL."""
    if all(isinstance(parameter, pa.Scalar) for parameter in parameters):
        if not all(parameter.is_valid for parameter in parameters):
            return pa.scalar(None, result)
        return kernel(value, *(parameter.as_py() for parameter in parameters))
    rows = next(len(one) for one in (value, *parameters) if not isinstance(one, pa.Scalar))
    value, *columns = (as_array(one, rows) for one in (value, *parameters))
    order, groups = _groups(columns)
    pieces = [
        per_distinct(kernel, result, value.take(rows_of_one), *(column[int(rows_of_one[0])] for column in columns))
        for rows_of_one in groups
    ]
    arrays = [as_array(piece, len(group)) for piece, group in zip(pieces, groups, strict=True)]
    return pa.concat_arrays([pa.array([], result), *arrays]).take(pa.array(np.argsort(order)))


def _groups(columns: list[pa.Array]) -> tuple[npt.NDArray[np.int64], list[npt.NDArray[np.int64]]]:
    """Row numbers sorted by the columns' values, and the same cut where a value changes."""
    codes = [pc.fill_null(column.dictionary_encode().indices, -1).to_numpy() for column in columns]
    order = np.lexsort(codes)
    changed = np.logical_or.reduce([np.diff(code[order]) != 0 for code in codes])
    return order, [group for group in np.split(order, np.flatnonzero(changed) + 1) if len(group)]


def like(text: Datum, pattern: Datum) -> Datum:
    """``%`` is any text and ``_`` any one character, line breaks too; nothing escapes them."""
    return per_distinct(_like, pa.bool_(), text, pattern)


def ilike(text: Datum, pattern: Datum) -> Datum:
    return like(pc.utf8_lower(text), pc.utf8_lower(pattern))


def _like(text: Datum, pattern: str) -> Datum:
    middle = pattern.strip("%")
    if "_" not in pattern and "%" not in middle:
        before, after = pattern.startswith("%"), pattern.endswith("%")
        if before and after:
            return pc.match_substring(text, middle)
        if before:
            return pc.ends_with(text, middle)
        return pc.starts_with(text, middle) if after else pc.equal(text, pattern)
    parts = {"%": ".*", "_": "."}
    regex = "".join(parts.get(one, "\\" + one if one in _META else one) for one in pattern)
    return pc.match_substring_regex(text, rf"(?s)\A{regex}\z")


def starts_with(text: Datum, start: Datum) -> Datum:
    return per_distinct(pc.starts_with, pa.bool_(), text, start)


def contains(text: Datum, part: Datum) -> Datum:
    return per_distinct(pc.match_substring, pa.bool_(), text, part)


def replace(text: Datum, part: Datum, by: Datum) -> Datum:
    return per_distinct(_replace, pa.string(), text, part, by)


def _replace(text: Datum, part: str, by: str) -> Datum:
    return pc.replace_substring(text, pattern=part, replacement=by) if part else text


def substring(text: Datum, start: Datum, length: Datum | None = None) -> Datum:
    """Characters ``start`` to ``start + length - 1``, counted from 1, or from the end when ``start`` is negative."""
    if length is None:
        return per_distinct(_tail, pa.string(), text, start)
    return per_distinct(_slice, pa.string(), text, start, length)


def _tail(text: Datum, start: int) -> Datum:
    first = start if start < 0 else max(start - 1, 0)
    return pc.utf8_slice_codeunits(text, min(max(first, -_FAR), _FAR))


def _slice(text: Datum, start: int, length: int) -> Datum:
    if start < 0 <= start + length:
        return _tail(text, start)
    first = start if start < 0 else start - 1
    stop = first + length
    if length <= 0 or (start >= 0 and stop <= 0):
        return pc.utf8_slice_codeunits(text, 0, 0)
    first = first if start < 0 else max(first, 0)
    return pc.utf8_slice_codeunits(text, min(max(first, -_FAR), _FAR), min(max(stop, -_FAR), _FAR))


def join(left: Datum, right: Datum) -> Datum:
    return pc.binary_join_element_wise(left, right, "")


def length(text: Datum) -> Datum:
    return pc.utf8_length(text).cast(pa.int64())


def truncate_time(unit: Datum, time: Datum) -> Datum:
    """The start of the unit the time is in (weeks start on Monday); NULL for a unit that does not exist."""
    return per_distinct(_truncate_time, pa.timestamp("us", "UTC"), time, unit)


def _truncate_time(time: Datum, unit: str) -> Datum:
    name = unit.lower().removesuffix("s")
    if name not in _UNITS:
        return pa.scalar(None, pa.timestamp("us", "UTC"))
    local = time.cast(pa.timestamp("us"))
    return pc.floor_temporal(local, unit=name).cast(pa.timestamp("us", "UTC"))
