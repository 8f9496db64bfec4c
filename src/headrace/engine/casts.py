"""CAST: values of one Arrow type as another, NULL where that is impossible; no value can raise.

Owns the rules, which ``plan/functions.py`` states in words. Text is read by a pattern and rebuilt from its parts, so
that one bad row neither fails nor slows its batch. Every function here takes and gives whole arrays; the cost is a few
passes over them, some thirty for text to TIMESTAMP.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.arrays import FIRST_US, LAST_US, Datum, Floats, keep_where, known, round_half_away, zeros_for_nulls

_WIDE_DIGITS = 76
_DAY_US = 86_400_000_000
_TRUE_WORDS = pa.array(["true", "t", "yes", "y", "1"])
_FALSE_WORDS = pa.array(["false", "f", "no", "n", "0"])
_WHOLE = r"\A[+-]?[0-9]+\z"
_FIXED = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)\z"
_DOUBLE = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z|(?i)\A([+-]?(inf|infinity)|nan)\z"
_DATE = r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_CLOCK = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
_ZONE = r"(?:[zZ]|(?P<sign>[+-])(?P<zone_hour>[0-9]{2})(?::?(?P<zone_minute>[0-9]{2}))?)?"


def cast(value: Datum, to: pa.DataType) -> Datum:
    """``value`` as ``to``; what cannot be converted is NULL."""
    source = value.type
    if source == to:
        return value
    if pa.types.is_null(source):
        return pa.scalar(None, to)
    if isinstance(value, pa.Scalar):
        return cast(pa.array([value.as_py()], source), to)[0]
    return _CASTS[_family(source), _family(to)](value, to)


def _family(arrow: pa.DataType) -> str:
    if pa.types.is_integer(arrow):
        return "integer"
    if pa.types.is_decimal(arrow):
        return "decimal"
    return {pa.bool_(): "boolean", pa.float64(): "double", pa.string(): "text", pa.date32(): "date"}.get(arrow, "time")


# --- to text


def _boolean_to_text(value: pa.Array, _: pa.DataType) -> pa.Array:
    return pc.if_else(value, "true", "false")


def _plain(value: pa.Array, to: pa.DataType) -> pa.Array:
    """A conversion that always succeeds (a BIGINT too large for a DOUBLE's digits is rounded)."""
    return value.cast(to, safe=False)


def _double_to_text(value: pa.Array, to: pa.DataType) -> pa.Array:
    """The shortest text that reads back as the same number, always with a point or an exponent."""
    return pa.array(zeros_for_nulls(value).astype("U32"), to, mask=~known(value))


def _decimal_to_text(value: pa.Array, to: pa.DataType) -> pa.Array:
    """Never with an exponent, which is why Arrow's own cast will not do."""
    scale = value.type.scale
    if scale == 0:
        return value.cast(to)
    whole = pa.Array.from_buffers(pa.decimal128(38, 0), len(value), value.buffers(), offset=value.offset).cast(to)
    digits = pc.utf8_lpad(pc.utf8_ltrim(whole, "-"), width=scale + 1, padding="0")
    sign = pc.if_else(pc.starts_with(whole, "-"), "-", "")
    before, after = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale)
    return pc.binary_join_element_wise(sign, before, ".", after, "")


def _time_to_text(value: pa.Array, _: pa.DataType) -> pa.Array:
    """``2026-02-01 10:00:00``, with as much of a fraction as is needed."""
    text = pc.strftime(value.cast(pa.timestamp("us")), format="%Y-%m-%d %H:%M:%S")
    fraction = pc.utf8_rtrim(pc.utf8_rtrim(pc.utf8_slice_codeunits(text, -7), "0"), ".")
    return pc.binary_join_element_wise(pc.utf8_slice_codeunits(text, 0, -7), fraction, "")


def _date_to_text(value: pa.Array, _: pa.DataType) -> pa.Array:
    return pc.strftime(value, format="%Y-%m-%d")


# --- to BOOLEAN


def _integer_to_boolean(value: pa.Array, _: pa.DataType) -> pa.Array:
    return pc.not_equal(value, pa.scalar(0, value.type))


def _text_to_boolean(value: pa.Array, _: pa.DataType) -> pa.Array:
    word = pc.utf8_lower(pc.utf8_trim(value, " "))
    true = pc.is_in(word, _TRUE_WORDS)
    return keep_where(true, pc.or_(true, pc.is_in(word, _FALSE_WORDS)))


# --- to INT and BIGINT


def _integer_to_integer(value: pa.Array, to: pa.DataType) -> pa.Array:
    least, most = _limits(to)
    if value.type.bit_width < to.bit_width:
        return value.cast(to)
    return keep_where(value, pc.and_(pc.less_equal(least, value), pc.less_equal(value, most))).cast(to)


def _double_to_integer(value: pa.Array, to: pa.DataType) -> pa.Array:
    least, most = _limits(to)
    rounded = round_half_away(zeros_for_nulls(value))
    # The limits are powers of two less one: only their powers are exact as DOUBLE.
    fits = (rounded >= float(least)) & (rounded < float(most + 1))
    return pa.array(np.where(fits, rounded, 0).astype(to.to_pandas_dtype()), mask=~(fits & known(value)))


def _decimal_to_integer(value: pa.Array, to: pa.DataType) -> pa.Array:
    whole = _rounded(value, 0)
    least, most = (pa.scalar(limit, whole.type) for limit in _limits(to))
    return keep_where(whole, pc.and_(pc.less_equal(least, whole), pc.less_equal(whole, most))).cast(to)


def _text_to_integer(value: pa.Array, to: pa.DataType) -> pa.Array:
    text = pc.utf8_trim(value, " ")
    digits = pc.utf8_ltrim(pc.utf8_ltrim(keep_where(text, pc.match_substring_regex(text, _WHOLE)), "+-"), "0")
    size = pc.utf8_length(digits)
    digits = pc.if_else(pc.equal(size, 0), "0", keep_where(digits, pc.less(size, 20)))
    number, negative = digits.cast(pa.uint64()), pc.starts_with(text, "-")
    least, most = (pa.scalar(limit, pa.uint64()) for limit in (-_limits(to)[0], _limits(to)[1]))
    number = keep_where(number, pc.less_equal(number, pc.if_else(negative, least, most)))
    signed = number.view(pa.int64())
    return pc.if_else(negative, pc.negate(signed), signed).cast(to)


def _limits(to: pa.DataType) -> tuple[int, int]:
    most = int(2 ** (to.bit_width - 1))
    return -most, most - 1


# --- to DOUBLE


def _decimal_to_double(value: pa.Array, to: pa.DataType) -> pa.Array:
    """By way of text, which gives the nearest DOUBLE; Arrow's own cast may be one off."""
    return _decimal_to_text(value, pa.string()).cast(to)


def _text_to_double(value: pa.Array, to: pa.DataType) -> pa.Array:
    text = pc.utf8_trim(value, " ")
    good = keep_where(text, pc.match_substring_regex(text, _DOUBLE))
    numbers = pc.coalesce(good, "0").to_numpy(zero_copy_only=False).astype(np.float64)
    return pa.array(numbers, to, mask=~known(good))


# --- to DECIMAL: every value passes through a wide decimal of its own scale, which no rounding can overflow


def _rounded(value: pa.Array, scale: int) -> pa.Array:
    """A decimal array as a wide one of no more than ``scale`` places."""
    wide = value.cast(pa.decimal256(_WIDE_DIGITS, value.type.scale))
    if scale >= value.type.scale:
        return wide
    rounded = pc.round(wide, ndigits=scale, round_mode="half_towards_infinity")
    return rounded.cast(pa.decimal256(_WIDE_DIGITS, scale))


def _decimal_to_decimal(value: pa.Array, to: pa.DataType) -> pa.Array:
    rounded = _rounded(value, to.scale)
    fits = pc.less(pc.abs(rounded), pa.scalar(10 ** (to.precision - to.scale), rounded.type))
    return keep_where(rounded, fits).cast(to)


def _integer_to_decimal(value: pa.Array, to: pa.DataType) -> pa.Array:
    return _decimal_to_decimal(value.cast(pa.decimal128(19, 0)), to)


def _double_to_decimal(value: pa.Array, to: pa.DataType) -> pa.Array:
    """The product with the power of ten, rounded: exact from there on."""
    with np.errstate(over="ignore", invalid="ignore"):
        unscaled = round_half_away(zeros_for_nulls(value) * 10.0**to.scale)
    fits = (np.abs(unscaled) < 10.0**to.precision) & known(value)
    words = _words_of(np.where(fits, unscaled, 0.0))
    validity = pa.array(fits).buffers()[1]
    return pa.Array.from_buffers(to, len(value), [validity, pa.py_buffer(words)])


def _words_of(whole: Floats) -> npt.NDArray[np.uint64]:
    """Whole numbers as Arrow's 128-bit integers: two words, the low one first."""
    size = np.abs(whole)
    high = np.floor(size / 2.0**64)
    words = np.stack([(size - high * 2.0**64).astype(np.uint64), high.astype(np.uint64)], axis=1)
    negative = whole < 0
    flipped = ~words
    flipped[:, 0] += np.uint64(1)
    flipped[:, 1] += flipped[:, 0] == 0
    words[negative] = flipped[negative]
    return words


def _text_to_decimal(value: pa.Array, to: pa.DataType) -> pa.Array:
    """The digits that count and one more, as a decimal of one more place, which is then rounded like any other."""
    text = pc.utf8_trim(value, " ")
    good = keep_where(text, pc.match_substring_regex(text, _FIXED))
    digits = pc.utf8_ltrim(good, "+-")
    parts = pc.extract_regex(digits, r"\A0*(?P<whole>[0-9]*)\.?(?P<fraction>[0-9]*)\z")
    whole, fraction = pc.struct_field(parts, "whole"), pc.struct_field(parts, "fraction")
    whole = keep_where(whole, pc.less_equal(pc.utf8_length(whole), to.precision - to.scale))
    tail = pc.utf8_rpad(pc.utf8_slice_codeunits(fraction, 0, to.scale + 1), width=to.scale + 1, padding="0")
    unsigned = pc.binary_join_element_wise("0", whole, ".", tail, "").cast(pa.decimal256(_WIDE_DIGITS, to.scale + 1))
    signed = pc.if_else(pc.starts_with(good, "-"), pc.negate(unsigned), unsigned)
    return _decimal_to_decimal(signed, to)


# --- to DATE and TIMESTAMP


def _time_to_date(value: pa.Array, to: pa.DataType) -> pa.Array:
    days = np.floor_divide(zeros_for_nulls(value.cast(pa.int64())), _DAY_US)
    return pa.array(days.astype(np.int32), mask=~known(value)).cast(to)


def _date_to_time(value: pa.Array, to: pa.DataType) -> pa.Array:
    micros = zeros_for_nulls(value.cast(pa.int32())).astype(np.int64) * _DAY_US
    inside = (micros >= FIRST_US) & (micros <= LAST_US)
    return pa.array(micros, mask=~(inside & known(value))).cast(to)


def _text_to_date(value: pa.Array, to: pa.DataType) -> pa.Array:
    parts = _parts(value, rf"\A{_DATE}\z")
    days, good = _days(parts)
    return pa.array(days.astype(np.int32), mask=~good).cast(to)


def _text_to_time(value: pa.Array, to: pa.DataType) -> pa.Array:
    parts = _parts(value, rf"\A{_DATE}(?:[ T]{_CLOCK}{_ZONE})?\z")
    days, good = _days(parts)
    hour, minute, second = (_number(parts, name) for name in ("hour", "minute", "second"))
    zone_hour, zone_minute = _number(parts, "zone_hour"), _number(parts, "zone_minute")
    good &= (hour < 24) & (minute < 60) & (second < 60) & (zone_hour < 24) & (zone_minute < 60)
    east = np.where(_text(parts, "sign") == "-", -1, 1) * (zone_hour * 60 + zone_minute)
    padded = pc.utf8_rpad(pc.utf8_slice_codeunits(pc.struct_field(parts, "fraction"), 0, 6), width=6, padding="0")
    micros = days * _DAY_US + ((hour * 60 + minute - east) * 60 + second) * 1_000_000 + _whole_number(padded)
    good &= (micros >= FIRST_US) & (micros <= LAST_US)
    return pa.array(micros, mask=~good).cast(to)


def _parts(value: pa.Array, pattern: str) -> pa.StructArray:
    return pc.extract_regex(pc.utf8_trim(value, " "), pattern)


def _text(parts: pa.StructArray, name: str) -> npt.NDArray[np.object_]:
    return np.asarray(pc.coalesce(pc.struct_field(parts, name), "").to_numpy(zero_copy_only=False))


def _number(parts: pa.StructArray, name: str) -> npt.NDArray[np.int64]:
    return _whole_number(pc.struct_field(parts, name))


def _whole_number(digits: pa.Array) -> npt.NDArray[np.int64]:
    """Digits as numbers; none at all count as 0."""
    some = pc.coalesce(digits, "")
    return np.asarray(pc.if_else(pc.equal(some, ""), "0", some).cast(pa.int64()).to_numpy())


def _days(parts: pa.StructArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Days since 1970, and which of them are days of the calendar."""
    year, month, day = (_number(parts, name) for name in ("year", "month", "day"))
    good = known(parts) & (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    first = (np.where(good, (year - 1970) * 12 + month - 1, 0)).astype("datetime64[M]")
    length = ((first + 1).astype("datetime64[D]") - first.astype("datetime64[D]")).astype(np.int64)
    return first.astype("datetime64[D]").astype(np.int64) + day - 1, good & (day <= length)


_CASTS: dict[tuple[str, str], Callable[[pa.Array, pa.DataType], pa.Array]] = {
    ("boolean", "text"): _boolean_to_text,
    ("integer", "text"): _plain,
    ("double", "text"): _double_to_text,
    ("decimal", "text"): _decimal_to_text,
    ("time", "text"): _time_to_text,
    ("date", "text"): _date_to_text,
    ("integer", "boolean"): _integer_to_boolean,
    ("text", "boolean"): _text_to_boolean,
    ("boolean", "integer"): _plain,
    ("integer", "integer"): _integer_to_integer,
    ("double", "integer"): _double_to_integer,
    ("decimal", "integer"): _decimal_to_integer,
    ("text", "integer"): _text_to_integer,
    ("integer", "double"): _plain,
    ("decimal", "double"): _decimal_to_double,
    ("text", "double"): _text_to_double,
    ("integer", "decimal"): _integer_to_decimal,
    ("double", "decimal"): _double_to_decimal,
    ("decimal", "decimal"): _decimal_to_decimal,
    ("text", "decimal"): _text_to_decimal,
    ("time", "date"): _time_to_date,
    ("text", "date"): _text_to_date,
    ("date", "time"): _date_to_time,
    ("text", "time"): _text_to_time,
}
"""What is between these families; ``plan.functions.cast`` refuses the other pairs."""
