"""What the reference's functions give: each in plain Python, as ``plan/functions.py`` states it in words.

Only ``reference.py`` uses them. Values are Python's own: a whole number may be larger than 64 bits here and is wrapped
round by the caller (:func:`stored`), times are in UTC, decimals are exact.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from headrace.model import DataType, TypeKind
from headrace.plan.expressions import Value

_EXACT = decimal.Context(prec=100)


def stored(result: Value) -> Value:
    """As a column holds it: whole numbers in 64 bits, which wrap round, and decimals without a negative zero."""
    if isinstance(result, Decimal):
        return _EXACT.add(result, Decimal(0))
    if isinstance(result, int) and not isinstance(result, bool):
        return (result + 2**63) % 2**64 - 2**63
    return result


# --- conditions and choices, which see NULLs


def _and(*args: Any) -> Value:
    return False if False in args else None if None in args else True


def _or(*args: Any) -> Value:
    return True if True in args else None if None in args else False


def _equal(left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    return bool(left == right or (_is_nan(left) and _is_nan(right)))


def _less(left: Any, right: Any) -> bool:
    return not _is_nan(left) and (_is_nan(right) or bool(left < right))


def _is_nan(one: Any) -> bool:
    return isinstance(one, float) and math.isnan(one)


def _among(one: Any, *candidates: Any) -> Value:
    return _or(*(_equal(one, candidate) for candidate in candidates))


def _case(*args: Any) -> Value:
    for condition, chosen in zip(args[0:-1:2], args[1:-1:2], strict=True):
        if condition is True:
            return chosen  # type: ignore[no-any-return]
    return args[-1]  # type: ignore[no-any-return]


def _coalesce(*args: Any) -> Value:
    return next((arg for arg in args if arg is not None), None)


def _greatest(*args: Any) -> Value:
    best = None
    for one in args:
        if best is None or (one is not None and _less(best, one)):
            best = one
    return best


def _least(*args: Any) -> Value:
    best = None
    for one in args:
        if best is None or (one is not None and _less(one, best)):
            best = one
    return best


SEEING_NULLS: dict[str, Callable[..., Value]] = {
    "and": _and,
    "or": _or,
    "in": _among,
    "is_null": lambda one: one is None,
    "case": _case,
    "coalesce": _coalesce,
    "nullif": lambda left, right: None if _equal(left, right) else left,
    "greatest": _greatest,
    "least": _least,
}


# --- numbers


def _add(left: Any, right: Any) -> Value:
    if isinstance(left, dt.datetime):
        return _time(micros(left) + right)
    if isinstance(right, dt.datetime):
        return _time(micros(right) + left)
    return _EXACT.add(left, right) if isinstance(left, Decimal) else left + right


def _subtract(left: Any, right: Any) -> Value:
    if isinstance(left, dt.datetime):
        return micros(left) - micros(right) if isinstance(right, dt.datetime) else _time(micros(left) - right)
    return _EXACT.subtract(left, right) if isinstance(left, Decimal) else left - right


def _multiply(left: Any, right: Any) -> Value:
    return _EXACT.multiply(left, right) if isinstance(left, Decimal) else left * right


def _negate(one: Any) -> Value:
    return _EXACT.copy_negate(one) if isinstance(one, Decimal) else -one


def _remainder(left: Any, right: Any) -> Value:
    if right == 0:
        return None
    if isinstance(left, int):
        return (-1 if left < 0 else 1) * int(abs(left) % abs(right))
    return math.nan if math.isinf(left) else math.fmod(left, right)


def _sign(number: float) -> float:
    return number if number == 0 or math.isnan(number) else math.copysign(1.0, number)


def _whole(function: Callable[[float], float]) -> Callable[[Any], Value]:
    return lambda one: one if isinstance(one, int) else function(one)


def _floor(number: float) -> float:
    return math.copysign(math.floor(number), number) if math.isfinite(number) else number


def _ceil(number: float) -> float:
    return math.copysign(math.ceil(number), number) if math.isfinite(number) else number


def _nearest(number: float) -> float:
    """The nearest whole number; halves go away from zero."""
    if not math.isfinite(number):
        return number
    whole = math.trunc(number)
    return math.copysign(abs(whole) + (abs(number - whole) >= 0.5), number)


def _round(number: Any, places: int | None = None) -> Value:
    if places is None:
        return _whole(_nearest)(number)
    if not math.isfinite(number):
        return float(number)
    power = _power(10.0, float(abs(places)))
    if places < 0:
        return (
            0.0
            if math.isinf(power) or math.isinf(_nearest(number / power) * power)
            else _nearest(number / power) * power
        )
    if math.isinf(power) or math.isinf(number * power):
        return float(number)
    return _nearest(number * power) / power


def _exp(number: float) -> float:
    try:
        return math.exp(number)
    except OverflowError:
        return math.inf


def _power(number: float, exponent: float) -> float:
    """As C has it: infinity for what is too large or divides by zero, NaN for a root of a negative number."""
    odd = math.isfinite(exponent) and exponent % 2 == 1
    endless = math.copysign(math.inf, number) if odd else math.inf
    try:
        return math.pow(number, exponent)
    except OverflowError:
        return endless
    except ValueError:
        return endless if number == 0 else math.nan


# --- times

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def micros(time: dt.datetime) -> int:
    """Microseconds since 1970."""
    return (time - _EPOCH) // dt.timedelta(microseconds=1)


def _time(since_us: int) -> Value:
    """The time so many microseconds after 1970; None outside the years 1 to 9999."""
    try:
        return _EPOCH + dt.timedelta(microseconds=since_us)
    except OverflowError:
        return None


_START = {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0, "microsecond": 0}


def _truncate(unit: str, time: dt.datetime) -> Value:
    name = unit.lower().removesuffix("s")
    if name == "quarter":
        return _truncate("month", time.replace(day=1, month=time.month - (time.month - 1) % 3))
    if name == "week":
        return _truncate("day", time - dt.timedelta(days=time.weekday()))
    if name == "millisecond":
        return time.replace(microsecond=time.microsecond // 1000 * 1000)
    names = ["year", *_START]
    if name not in names:
        return None
    return time.replace(**{part: _START[part] for part in names[names.index(name) + 1 :]})  # type: ignore[arg-type]


# --- text


def _like(text: str, pattern: str) -> bool:
    regex = "".join({"%": ".*", "_": "."}.get(one, re.escape(one)) for one in pattern)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def _upper(text: str) -> str:
    return "".join(_upper_letter(letter) for letter in text)


def _upper_letter(letter: str) -> str:
    """One letter for one letter: no ``SS`` for ``ß``."""
    candidates = ("\u1e9e" if letter == "ß" else letter.upper(), letter.title(), letter)
    return next(candidate for candidate in candidates if len(candidate) == 1)


def _lower(text: str) -> str:
    return "".join("i" if letter == "\u0130" else letter.lower() for letter in text)


def _substring(text: str, start: int, length: int | None = None) -> str:
    begin = len(text) + start if start < 0 else start - 1
    end = len(text) if length is None else begin + max(length, 0)
    return text[max(begin, 0) : max(end, 0)]


STRICT: dict[str, Callable[..., Value]] = {
    "=": _equal,
    "<>": lambda left, right: not _equal(left, right),
    "<": _less,
    "<=": lambda left, right: not _less(right, left),
    ">": lambda left, right: _less(right, left),
    ">=": lambda left, right: not _less(left, right),
    "not": lambda one: not one,
    "like": _like,
    "ilike": lambda text, pattern: _like(_lower(text), _lower(pattern)),
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": lambda left, right: None if right == 0 else left / right,
    "%": _remainder,
    "neg": _negate,
    "abs": lambda one: _EXACT.copy_abs(one) if isinstance(one, Decimal) else abs(one),
    "sign": _sign,
    "floor": _whole(_floor),
    "ceil": _whole(_ceil),
    "round": _round,
    "sqrt": lambda number: None if number < 0 else math.sqrt(number),
    "exp": _exp,
    "ln": lambda number: None if number <= 0 else math.log(number),
    "power": _power,
    "upper": _upper,
    "lower": _lower,
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "reverse": lambda text: text[::-1],
    "length": len,
    "concat_op": lambda left, right: left + right,
    "replace": lambda text, part, by: text.replace(part, by) if part else text,
    "starts_with": lambda text, start: text.startswith(start),
    "contains": lambda text, part: part in text,
    "substring": _substring,
    "year": lambda time: time.year,
    "month": lambda time: time.month,
    "day": lambda time: time.day,
    "hour": lambda time: time.hour,
    "minute": lambda time: time.minute,
    "second": lambda time: time.second,
    "date_trunc": _truncate,
}
"""NULL if any argument is; these only ever see the others."""


# --- CAST


def cast(one: Any, source: DataType, to: DataType) -> Value:
    """CAST of a value that is not NULL; NULL where it cannot be converted."""
    if source.kind is TypeKind.STRING:
        return _read(one.strip(" "), to)
    if to.kind is TypeKind.STRING:
        return _written(one, source)
    if to.kind is TypeKind.BOOLEAN:
        return bool(one)
    if to.is_integer:
        return _fitting_integer(_rounded(one), to)
    if to.kind is TypeKind.DOUBLE:
        return float(one)
    if to.kind is TypeKind.DECIMAL:
        return _fitting_decimal(one, to)
    if to.kind is TypeKind.DATE:
        return one.date()  # type: ignore[no-any-return]
    return dt.datetime(one.year, one.month, one.day, tzinfo=dt.UTC)


def _rounded(one: Any) -> int | None:
    if isinstance(one, float):
        return int(_nearest(one)) if math.isfinite(one) else None
    return int(one.to_integral_value(ROUND_HALF_UP)) if isinstance(one, Decimal) else int(one)


def _fitting_integer(number: int | None, to: DataType) -> Value:
    most = 2**31 if to.kind is TypeKind.INT else 2**63
    return number if number is not None and -most <= number < most else None


def _fitting_decimal(one: Any, to: DataType) -> Value:
    if isinstance(one, float):
        shifted = one * 10.0**to.scale
        if not math.isfinite(shifted) or abs(_nearest(shifted)) >= 10.0**to.precision:
            return None
        return _EXACT.scaleb(Decimal(int(_nearest(shifted))), -to.scale)
    rounded = Decimal(one).quantize(_EXACT.scaleb(Decimal(1), -to.scale), ROUND_HALF_UP, _EXACT)
    return rounded if rounded.copy_abs() < 10 ** (to.precision - to.scale) else None


def _written(one: Any, source: DataType) -> str:
    if source.kind is TypeKind.BOOLEAN:
        return "true" if one else "false"
    if source.kind is TypeKind.DECIMAL:
        return format(one.quantize(_EXACT.scaleb(Decimal(1), -source.scale), context=_EXACT), "f")
    if source.kind is TypeKind.TIMESTAMP:
        text = one.replace(tzinfo=None).isoformat(" ")
        return text.rstrip("0") if one.microsecond else text  # type: ignore[no-any-return]
    return repr(one) if isinstance(one, float) else str(one)


def _read(text: str, to: DataType) -> Value:
    if to.kind is TypeKind.BOOLEAN:
        word = _lower(text)
        return True if word in _TRUE_WORDS else False if word in _FALSE_WORDS else None
    if to.is_integer:
        return _fitting_integer(int(text), to) if re.fullmatch("[+-]?[0-9]+", text) else None
    if to.kind is TypeKind.DOUBLE:
        return float(text) if re.fullmatch(_DOUBLE_TEXT, text, re.IGNORECASE | re.ASCII) else None
    if to.kind is TypeKind.DECIMAL:
        return _fitting_decimal(Decimal(text), to) if re.fullmatch(f"[+-]?{_DIGITS}", text) else None
    if to.kind is TypeKind.DATE:
        match = re.fullmatch(_DATE_TEXT, text)
        return _calendar(match).date() if match and _calendar(match) else None  # type: ignore[union-attr]
    match = re.fullmatch(f"{_DATE_TEXT}(?:[ T]{_CLOCK_TEXT}{_ZONE_TEXT})?", text)
    return _calendar(match) if match else None


_TRUE_WORDS = ("true", "t", "yes", "y", "1")
_FALSE_WORDS = ("false", "f", "no", "n", "0")
_DIGITS = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_DOUBLE_TEXT = rf"[+-]?{_DIGITS}(?:e[+-]?[0-9]+)?|[+-]?inf|[+-]?infinity|nan"
_DATE_TEXT = "(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_CLOCK_TEXT = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
_ZONE_TEXT = "(?:[zZ]|(?P<sign>[+-])(?P<zone_hour>[0-9]{2})(?::?(?P<zone_minute>[0-9]{2}))?)?"


def _calendar(match: re.Match[str]) -> dt.datetime | None:
    part = match.groupdict(default="0")
    numbers = {name: int(part.get(name, "0")) for name in ("year", "month", "day", "hour", "minute", "second")}
    fraction_us = int(part.get("fraction", "0")[:6].ljust(6, "0"))
    away = dt.timedelta(hours=int(part.get("zone_hour", "0")), minutes=int(part.get("zone_minute", "0")))
    if int(part.get("zone_minute", "0")) > 59 or int(part.get("zone_hour", "0")) > 23:
        return None
    try:
        local = dt.datetime(**numbers, microsecond=fraction_us, tzinfo=dt.UTC)
        return local + away if part.get("sign") == "-" else local - away
    except (ValueError, OverflowError):
        return None
