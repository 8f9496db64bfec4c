"""What the kernels share: scalars and arrays alike, NULLs beside NumPy, and the range of time.

A :data:`Datum` is an Arrow array or a scalar that stands for any number of equal rows; kernels keep scalars scalar as
long as they can. Everything here is one or two passes over its arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Datum: TypeAlias = pa.Array | pa.Scalar
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

FIRST_US = -62_135_596_800_000_000
"""The start of the year 1; times before it are NULL."""
LAST_US = 253_402_300_799_999_999
"""The end of the year 9999; times after it are NULL."""


def as_array(value: Datum, rows: int) -> pa.Array:
    """The scalar as so many equal rows; an array as it is."""
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, rows) if value.is_valid else pa.nulls(rows, value.type)
    return value


def keep_where(value: Datum, condition: Datum) -> Datum:
    """``value`` where the condition is true, else NULL."""
    return pc.if_else(condition, value, pa.scalar(None, value.type))


def known(value: pa.Array) -> Mask:
    """Which rows are not NULL."""
    return np.asarray(value.is_valid().to_numpy(zero_copy_only=False))


def zeros_for_nulls(value: pa.Array) -> npt.NDArray[Any]:
    """A fixed-width array as NumPy, with 0 where it is NULL."""
    filled = pc.fill_null(value, pa.scalar(0, value.type)) if value.null_count else value
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def round_half_away(numbers: Floats) -> Floats:
    """The nearest whole number; halves go away from zero."""
    whole = np.trunc(numbers)
    with np.errstate(invalid="ignore"):
        far = np.abs(numbers - whole) >= 0.5
    return np.asarray(whole + np.copysign(far, numbers))


def through_numpy(function: Callable[..., npt.NDArray[Any]], *args: Datum) -> Datum:
    """A NumPy function of numbers as a kernel: NULL if any argument is; warnings about odd numbers are not wanted."""
    sizes = [len(arg) for arg in args if not isinstance(arg, pa.Scalar)]
    arrays = [as_array(arg, sizes[0] if sizes else 1) for arg in args]
    with np.errstate(all="ignore"):
        result = function(*(zeros_for_nulls(array) for array in arrays))
    missing = [~known(array) for array in arrays if array.null_count]
    values = pa.array(result, mask=np.logical_or.reduce(missing) if missing else None)
    return values if sizes else values[0]
