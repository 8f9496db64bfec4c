"""Constants and types: from what is written to values.

Owns how numbers, times, intervals and the names of types are read. Failures are :class:`PlanError` (types) or
:class:`SettingError` (values); the callers know the place in the text.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal

from headrace.config import unit_us
from headrace.errors import PlanError, SettingError
from headrace.model import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL_DIGITS,
    DOUBLE,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    DataType,
    decimal,
)
from headrace.plan.connectors import parse_timestamp
from headrace.plan.expressions import Literal
from headrace.sql.text import nearest

LONGEST_US = 10_000_000 * 86_400_000_000
"""Ten million days: a longer time could not be added to a timestamp."""

_TYPES = {
    "BOOLEAN": BOOLEAN, "BOOL": BOOLEAN,
    "INT": INT, "INTEGER": INT,
    "BIGINT": BIGINT, "LONG": BIGINT,
    "DOUBLE": DOUBLE, "DOUBLE PRECISION": DOUBLE,
    "STRING": STRING, "VARCHAR": STRING, "TEXT": STRING,
    "TIMESTAMP": TIMESTAMP,
    "DATE": DATE,
}  # fmt: skip
_DECIMALS = ("DECIMAL", "NUMERIC", "DEC")
_INSTEAD = {
    "FLOAT": "DOUBLE", "REAL": "DOUBLE", "SMALLINT": "INT", "TINYINT": "INT", "SHORT": "INT", "BYTE": "INT",
    "CHAR": "STRING", "CHARACTER": "STRING", "DATETIME": "TIMESTAMP", "TIMESTAMPTZ": "TIMESTAMP",
    "TIMESTAMP_NTZ": "TIMESTAMP", "TIMESTAMPNTZ": "TIMESTAMP", "NUMBER": "DECIMAL(38, 0)",
}  # fmt: skip
_NO_FIXED_LENGTH = ("MONTH", "MONTHS", "YEAR", "YEARS", "QUARTER", "QUARTERS")
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DURATION = re.compile(r"\s*([+-]?)\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?|\.[0-9]+)\s*([^\W\d_]+)\s*")


def read_type(name: str, numbers: tuple[int, ...] = ()) -> DataType:
    """The type of that name; a message and a hint, parted by ``; ``, if there is none.

    >>> str(read_type("numeric", (10, 2)))
    'DECIMAL(10, 2)'
    """
    upper = name.upper()
    if upper in _DECIMALS:
        if len(numbers) > 2:
            raise PlanError("DECIMAL takes digits and scale; write DECIMAL(10, 2), say")
        precision, scale = (*numbers, 10, 0)[:2] if not numbers else (*numbers, 0)[:2]
        return _decimal(precision, scale)
    if upper not in _TYPES:
        raise PlanError(f"there is no type {name}; {type_hint(name)}")
    if numbers:
        raise PlanError(f"{upper} takes no length; write {_TYPES[upper]}")
    return _TYPES[upper]


def _decimal(precision: int, scale: int) -> DataType:
    try:
        return decimal(precision, scale)
    except PlanError as error:
        message, _, hint = str(error).partition(": ")
        raise PlanError(f"{message}; {hint}") from error


def type_hint(name: str) -> str:
    """The type a user may have meant."""
    near = nearest(name.upper(), (*_INSTEAD, *_TYPES, *_DECIMALS))
    if near is not None:
        return f"did you mean {_INSTEAD.get(near, near)}?"
    return "the types are BOOLEAN, INT, BIGINT, DOUBLE, STRING, TIMESTAMP, DATE and DECIMAL(p, s)"


def checked_duration_us(text: str) -> int:
    """Microseconds in ``'1.5 sec'``, rounded; not negative, and at most ``LONGEST_US``.

    >>> checked_duration_us("0.5 ms")
    500
    """
    duration_us = interval_us(text)
    if duration_us < 0:
        raise SettingError(f"{text!r} is negative")
    return duration_us


def interval_us(text: str) -> int:
    """Like ``checked_duration_us``, with a sign.

    >>> interval_us("-2 Seconds")
    -2000000
    """
    match = _DURATION.fullmatch(text)
    unit = unit_us(match.group(3)) if match else None
    if match is not None and match.group(3).upper() in _NO_FIXED_LENGTH:
        raise SettingError(f"{text!r} has no fixed length: write it in days")
    if match is None or unit is None:
        raise SettingError(f"{text!r} is not a duration: write a number and a unit, such as 2 SECONDS")
    exact = Decimal(match.group(2)) * unit
    if exact > LONGEST_US:
        raise SettingError(f"{text!r} is too long: at most 10000000 days are possible")
    return round(exact) * (-1 if match.group(1) == "-" else 1)


def number_literal(text: str, *, negative: bool = False) -> Literal:
    """A number as written: INT or BIGINT if whole, DECIMAL with a point, DOUBLE with an exponent.

    >>> number_literal("2147483648", negative=True).type.kind.name, str(number_literal("0.50").type)
    ('INT', 'DECIMAL(2, 2)')
    """
    sign = "-" if negative else ""
    plain = text.replace("_", "")
    if not _NUMBER.fullmatch(plain):
        raise SettingError(f"{text!r} is not a number")
    if "e" in plain.lower():
        return _double(sign + plain)
    if "." not in plain:
        whole = Decimal(sign + plain)
        if -(2**63) <= whole < 2**63:
            return Literal(int(whole), INT if -(2**31) <= whole < 2**31 else BIGINT)
    value = Decimal(sign + plain)
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    precision = max(len(digits), -exponent, 1)
    if precision > DECIMAL_DIGITS:
        return _double(sign + plain)
    return Literal(value, decimal(precision, max(-exponent, 0)))


def _double(text: str) -> Literal:
    value = float(text)
    if not math.isfinite(value):
        raise SettingError(f"{text} is too large: write a number up to 1e308")
    return Literal(value, DOUBLE)


def interval_literal(number: str, unit: str | None) -> Literal:
    """INTERVAL '5' SECOND, or INTERVAL '5 seconds' without a unit of its own."""
    return Literal(interval_us(f"{number} {unit}" if unit else number), INTERVAL)


def time_literal(text: str, like: DataType) -> Literal:
    """A text read as the TIMESTAMP or DATE it meets; a text with a time of day is a TIMESTAMP even beside a DATE."""
    if like == DATE:
        try:
            return Literal(dt.date.fromisoformat(text.strip()), DATE)
        except ValueError:
            return _moment_beside_date(text)
    return Literal(parse_timestamp(text), TIMESTAMP)


def _moment_beside_date(text: str) -> Literal:
    try:
        return Literal(parse_timestamp(text), TIMESTAMP)
    except SettingError:
        return date_literal(text)


def date_literal(text: str) -> Literal:
    """DATE '...': a date and nothing more."""
    try:
        return Literal(dt.date.fromisoformat(text.strip()), DATE)
    except ValueError:
        raise SettingError(f"{text!r} is not a date: write one such as '2026-01-31'") from None
