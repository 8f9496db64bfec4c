"""Join keys as 64-bit numbers, and the shard a number belongs to.

Owns: ``encode_keys`` (columns to int64), ``number_groups`` (the same for groups, with nulls) and ``shard_of``. A single
number, time or flag is its own key; strings, decimals and several columns are hashed, and matches of hashed keys are
compared once more by value. What is searched by ranges becomes a number that sorts as the value does.
Invariants: equal SQL values give equal numbers on every machine and in every version that reads a checkpoint; inputs
hold no nulls (a null key matches nothing and is dropped before). Cost: a few vector passes over the bytes of the keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model import DataType, TypeKind
from headrace.plan.joingraph import KeyForm
from headrace.plan.ranges import EXACT_DIGITS

Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_BASE = np.uint64(0x100000001B3)
_OTHER_BASE = np.uint64(0xC6A4A7935BD1E995)


def encode_keys(columns: Sequence[pa.Array], form: KeyForm) -> Int64s:
    """One number a row; equal keys have equal numbers."""
    if form is KeyForm.EXACT:
        return _exact(columns[0])
    if form is KeyForm.ORDERED:
        return _ordered(columns[0])
    mixed = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        mixed = mix(mixed * _GOLDEN + _hash(column))
    return mixed.view(np.int64)


def shard_of(keys: Int64s, shards: int) -> Int64s:
    """Which shard each key belongs to: even, whatever the keys look like."""
    high = mix(keys.view(np.uint64)) >> np.uint64(32)
    return ((high * np.uint64(shards)) >> np.uint64(32)).view(np.int64)


def mix(numbers: UInt64s) -> UInt64s:
    """A bijection that spreads every bit over all bits (the finaliser of splitmix64)."""
    z = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _exact(column: pa.Array) -> Int64s:
    if pa.types.is_floating(column.type):
        return _float_bits(column)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    numbers: Int64s = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def _ordered(column: pa.Array) -> Int64s:
    """Numbers that compare as the values do; NaN is above all. Of texts the first eight bytes count, of decimals with
    more digits than a number has, about as many."""
    if pa.types.is_floating(column.type):
        return _double_numbers(column.to_numpy(zero_copy_only=False))
    if pa.types.is_string(column.type):
        return _string_prefixes(column)
    if pa.types.is_decimal(column.type):
        low, high = _decimal_words(column)
        if column.type.precision <= EXACT_DIGITS:
            return low.view(np.int64)
        return _double_numbers(_wide_doubles(low, high.view(np.int64)))
    return _exact(column)


def ordered_bounds(bounds: npt.NDArray[np.float64], of: DataType, *, is_upper: bool) -> Int64s:
    """Doubles as the numbers that values of a type have in an index: no value of it up to (from) a bound has a larger
    (smaller) one."""
    if of.kind is TypeKind.DECIMAL:
        bounds = bounds * 10.0**of.scale
    if of.kind is TypeKind.DOUBLE:
        return _double_numbers(bounds)
    if of.precision > EXACT_DIGITS:
        return _double_numbers(np.clip(bounds, -_WIDEST, _WIDEST))
    whole = np.floor(bounds) if is_upper else np.ceil(bounds)
    numbers: Int64s = np.clip(whole, -(2.0**63), 2.0**63 - 1024).astype(np.int64)
    return np.where(whole >= 2.0**63, np.int64(2**63 - 1), numbers)


def _double_numbers(values: npt.NDArray[np.float64]) -> Int64s:
    numbers = _canonical_bits(values)
    return numbers ^ ((numbers >> 63) & np.int64(2**63 - 1))


NAN_NUMBER = 0x7FF8000000000000
"""What NaN has in an index: the largest number of a double."""
_WIDEST = 2.0**116
"""Where decimals stop being told apart: up to here two words add up to a double that grows with them."""


def _wide_doubles(low: UInt64s, high: Int64s) -> npt.NDArray[np.float64]:
    """128-bit numbers as doubles, none smaller than that of a smaller number."""
    together = high.astype(np.float64) * 2.0**64 + low.astype(np.float64)
    together = np.where(high >= 2**52, _WIDEST, together)
    return np.where(high < -(2**52), -_WIDEST, together)


def _string_prefixes(column: pa.Array) -> Int64s:
    """The first eight bytes of each string as a number; what is shorter ends in zeros."""
    if not len(column):
        return np.empty(0, dtype=np.int64)
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(column.buffers()[2] or b"", dtype=np.uint8)
    data = np.concatenate([data[: offsets[-1]], np.zeros(8, dtype=np.uint8)])
    places = np.arange(8)
    letters = data[offsets[:-1, None] + places] * (places < np.diff(offsets)[:, None])
    numbers = np.ascontiguousarray(letters.astype(np.uint8)).view(">u8").ravel().astype(np.uint64)
    return (numbers ^ np.uint64(1 << 63)).view(np.int64)


def _float_bits(column: pa.Array) -> Int64s:
    """The bits of each double, with one zero and one NaN."""
    return _canonical_bits(column.to_numpy(zero_copy_only=False))


def _canonical_bits(given: npt.NDArray[np.float64]) -> Int64s:
    values: npt.NDArray[np.float64] = given.astype(np.float64, copy=True)
    values[values == 0.0] = 0.0
    values[np.isnan(values)] = np.nan
    return values.view(np.int64)


def number_groups(columns: Sequence[pa.Array], rows: int, *, again: bool = False) -> Int64s:
    """One number a row; rows with equal values, nulls among them, have equal numbers. ``again``: other numbers, which
    tell apart what has the same one by chance."""
    mixed = np.full(rows, _GOLDEN if again else 0, dtype=np.uint64)
    base = _OTHER_BASE if again else _BASE
    for column in columns:
        hashed = _hash(column.fill_null(zero_of(column.type)) if column.null_count else column, base)
        valid = column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint64)
        mixed = mix(mixed * _GOLDEN + mix((hashed ^ base) * valid + valid))
    return mixed.view(np.int64)


def zero_of(kind: pa.DataType) -> pa.Scalar:
    """Some value of that type, to stand where there is none."""
    zeros = {pa.string(): "", pa.bool_(): False}
    if kind in zeros:
        return pa.scalar(zeros[kind], kind)
    return pa.scalar(Decimal(0) if pa.types.is_decimal(kind) else 0, kind)


def _hash(column: pa.Array, base: np.uint64 = _BASE) -> UInt64s:
    if pa.types.is_string(column.type):
        return _string_hash(column, base)
    if pa.types.is_decimal(column.type):
        return _decimal_hash(column, base ^ _BASE)
    return mix(_exact(column).view(np.uint64))


def _decimal_hash(column: pa.Array, salt: np.uint64) -> UInt64s:
    low, high = _decimal_words(column)
    return mix(mix(low ^ salt) * _GOLDEN + high)


def _decimal_words(column: pa.Array) -> tuple[UInt64s, UInt64s]:
    """The lower and the higher half of each 128-bit number."""
    words = np.frombuffer(column.buffers()[1], dtype=np.uint64)[2 * column.offset : 2 * (column.offset + len(column))]
    return words[0::2].copy(), words[1::2].copy()


def _string_hash(column: pa.Array, base: np.uint64) -> UInt64s:
    """A polynomial in the bytes of each string, computed over all strings at once."""
    lengths = pc.binary_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    hashes = lengths.view(np.uint64).copy()
    total = int(lengths.sum())
    if total == 0:
        return mix(hashes)
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column)]
    start = int(offsets[0])
    data = np.frombuffer(column.buffers()[2], dtype=np.uint8)[start : start + total]
    filled = lengths > 0
    starts = (offsets[filled] - start).astype(np.int64)
    within = np.arange(total) - np.repeat(starts, lengths[filled])
    powers = np.cumprod(np.full(int(lengths.max()) + 1, base, dtype=np.uint64))
    terms = (data.astype(np.uint64) + np.uint64(1)) * powers[within]
    hashes[filled] += np.add.reduceat(terms, starts)
    return mix(hashes)
