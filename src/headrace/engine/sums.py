"""Sums that are exact, whatever is added and taken away again, and in whatever order: numbers as limbs of 32 bits.

      a double      53 bits of mantissa, anywhere in 2,098 bits        |  limb 33  |  limb 34  |  limb 35  |
                    is put into three neighbouring limbs                    ......101 11010...

A sum is a column of whole numbers for each limb that occurs; limbs are added up apart from each other, so that taking
the same number away leaves exactly what was there, and shards may add in any order. Only when a value is asked for are
the limbs put together, and rounded once. Infinities and NaN are counted instead.

Owns: ``limbs_of`` (values to columns), ``whole_sum``, ``double_sum``, ``decimal_sum`` (columns to values).
Invariant: at most 2**30 numbers are in a sum. Cost: a few vector passes for each limb.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.engine.keys import Int64s
from headrace.model import DataType, TypeKind

Floats = npt.NDArray[np.float64]
Limbs = Mapping[str, Int64s]

_BITS = 32
_LOW = np.int64((1 << _BITS) - 1)
_LEAST = -1074
"""The exponent of a double's least bit."""
PLUS, MINUS, NAN = "+", "-", "?"
"""The columns that count what has no limbs."""


def limbs_of(values: pa.Array, kind: TypeKind) -> dict[str, Int64s]:
    """The values' limbs, by number, as columns; there are no nulls."""
    if kind is TypeKind.DOUBLE:
        return _double_limbs(values.to_numpy(zero_copy_only=False).astype(np.float64, copy=False))
    if kind is TypeKind.DECIMAL:
        words = np.frombuffer(values.buffers()[1], dtype=np.int64)[
            2 * values.offset : 2 * (values.offset + len(values))
        ]
        low, high = words[0::2], words[1::2]
        if np.array_equal(high, low >> 63):
            return _split(low, 0)
        unsigned = low.view(np.uint64)
        return {
            "0": (unsigned & np.uint64(_LOW)).view(np.int64),
            "1": (unsigned >> np.uint64(_BITS)).view(np.int64),
            **_split(high, 2),
        }
    return _split(values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False), 0)


def _split(numbers: Int64s, first: int) -> dict[str, Int64s]:
    return {str(first): numbers & _LOW, str(first + 1): numbers >> _BITS}


def _double_limbs(values: Floats) -> dict[str, Int64s]:
    is_finite = np.isfinite(values)
    made: dict[str, Int64s] = {}
    if not is_finite.all():
        others = {PLUS: values == np.inf, MINUS: values == -np.inf, NAN: np.isnan(values)}
        made = {name: mask.astype(np.int64) for name, mask in others.items() if mask.any()}
        values = np.where(is_finite, values, 0.0)
    fractions, exponents = np.frexp(values)
    mantissas = np.ldexp(np.abs(fractions), 53).astype(np.int64)
    # A number below the least normal one has fewer bits: they are shifted down to where its least bit is the least.
    places = exponents.astype(np.int64) - 53 - _LEAST
    under = np.maximum(-places, 0)
    mantissas, places = mantissas >> under, np.maximum(places, 0)
    sign = np.where(values < 0, np.int64(-1), np.int64(1))
    first, shift = places // _BITS, places % _BITS
    low, high = (mantissas & _LOW) << shift, (mantissas >> _BITS) << shift
    parts = (low & _LOW, (low >> _BITS) + (high & _LOW), high >> _BITS)
    for limb in np.unique(first[mantissas != 0]).tolist():
        here = np.where((first == limb) & (mantissas != 0), sign, 0)
        for above, part in enumerate(parts):
            added = part * here
            if added.any():
                name = str(limb + above)
                made[name] = made[name] + added if name in made else added
    return made


# --- from limbs to values


def whole_sum(limbs: Limbs, rows: int) -> Int64s:
    """As a BIGINT, which wraps."""
    total = np.zeros(rows, dtype=np.int64)
    for name, column in limbs.items():
        shift = _BITS * int(name)
        if shift < 64:
            total += column << np.int64(shift)
    return total


def double_sum(limbs: Limbs, rows: int, least: int = _LEAST) -> Floats:
    """The double nearest to the sum, ties to even. ``least``: the exponent of limb 0's least bit."""
    numbers = [int(name) for name in limbs if name not in (PLUS, MINUS, NAN)]
    if not numbers:
        total = np.zeros(rows)
    else:
        first = min(numbers)
        digits = np.zeros((max(numbers) - first + 3, rows), dtype=np.int64)
        for number in numbers:
            digits[number - first] = limbs[str(number)]
        total = _rounded(digits, least + _BITS * first)
    return _with_unbounded(total, limbs)


def _with_unbounded(total: Floats, limbs: Limbs) -> Floats:
    counts = [limbs.get(name, np.zeros(len(total), dtype=np.int64)) > 0 for name in (PLUS, MINUS, NAN)]
    plus, minus, nan = counts
    total = np.where(plus, np.inf, np.where(minus, -np.inf, total))
    return np.where(nan | (plus & minus), np.nan, total)


def _rounded(digits: Int64s, least: int) -> Floats:
    """Limbs with carries still in them, the lowest first, as doubles."""
    is_negative = _carry(digits)
    digits[:, is_negative] = -digits[:, is_negative]
    _carry(digits)
    top = len(digits) - 1 - np.argmax(digits[::-1] != 0, axis=0)
    columns = np.arange(digits.shape[1])

    def limb(below: int) -> npt.NDArray[np.uint64]:
        place = top - below
        found: npt.NDArray[np.uint64] = np.where(place >= 0, digits[np.maximum(place, 0), columns], 0).astype(np.uint64)
        return found

    high, middle, low = limb(0), limb(1), limb(2)
    width = np.frexp(high.astype(np.float64))[1].astype(np.uint64)
    # The highest 64 bits, and whether anything is below them: more than a double holds, so rounding sees it all.
    shift = np.uint64(_BITS) - width
    lead = (high << (shift + np.uint64(_BITS))) | (middle << shift) | (low >> width)
    below = (low & ((np.uint64(1) << width) - np.uint64(1))) != 0
    nonzero = np.cumsum(digits != 0, axis=0)
    below |= np.where(top >= 3, nonzero[np.maximum(top - 3, 0), columns] > 0, False)
    exponent = least + _BITS * (top - 2) + width.astype(np.int64)
    total = _ldexp((lead | below.astype(np.uint64)).astype(np.float64), exponent)
    return np.where(is_negative, -total, total)


def _carry(digits: Int64s) -> npt.NDArray[np.bool_]:
    """Makes every limb but the last one of 32 bits; says which numbers are negative."""
    for number in range(len(digits) - 1):
        digits[number + 1] += digits[number] >> _BITS
        digits[number] &= _LOW
    return np.asarray(digits[-1] < 0)


def _ldexp(values: Floats, exponents: Int64s) -> Floats:
    """In two steps, as one may leave the range on the way."""
    half = (exponents // 2).astype(np.int32)
    with np.errstate(over="ignore"):
        total: Floats = np.ldexp(np.ldexp(values, half), exponents.astype(np.int32) - half)
    return total


_HIGHEST = (np.uint64(10**38 >> 64), np.uint64(10**38 & (2**64 - 1)))
"""The least number with more digits than a DECIMAL has."""


def _words(digits: Int64s) -> npt.NDArray[np.uint64]:
    """The first four limbs as two words, the lower first."""
    limbs = digits.view(np.uint64)
    words = np.empty((digits.shape[1], 2), dtype=np.uint64)
    words[:, 0] = limbs[0] | (limbs[1] << np.uint64(_BITS))
    words[:, 1] = limbs[2] | (limbs[3] << np.uint64(_BITS))
    return words


def decimal_sum(limbs: Limbs, rows: int, type_: DataType, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """As a DECIMAL; NULL where not ``valid`` and where the sum has more digits than that."""
    digits = np.zeros((5, rows), dtype=np.int64)
    for name, column in limbs.items():
        digits[int(name)] += column
    _carry(digits)
    words = _words(digits)
    sign = np.where(digits[-1] < 0, np.int64(-1), np.int64(1))
    apart = digits * sign
    _carry(apart)
    high, low = _words(apart)[:, ::-1].T
    fits = (apart[-1] == 0) & ((high < _HIGHEST[0]) | ((high == _HIGHEST[0]) & (low < _HIGHEST[1])))
    bitmap = pa.array(valid & fits).buffers()[1]
    kind = pa.decimal128(type_.precision, type_.scale)
    return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(words.tobytes())])
