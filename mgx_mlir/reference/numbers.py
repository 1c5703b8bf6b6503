"""Element types: the type in which each is computed, and rounding back to it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.elements import ELEMENTS
from mgx_mlir.reference.meanings import Array

_INTEGERS = tuple(numpy_dtype(row.numpy) for row in ELEMENTS if row.bits < 8 and "int" in row.numpy)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether it is a float type, of numpy's or of ml_dtypes'."""
    return dtype.kind == "f" or (dtype.kind == "V" and dtype not in _INTEGERS)


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Whether it is a float type of fewer than 32 bits."""
    return is_float(dtype) and dtype.itemsize < 4


def widened(array: Array, accumulate: Any = np.float32) -> Array:
    """Values in the type in which they are computed: narrow floats in `accumulate`, narrow
    integers in 8 bits."""
    if is_float(array.dtype):
        wide = np.promote_types(accumulate, np.float32) if array.dtype != np.float64 else np.float64
        return array.astype(wide, copy=False)
    if array.dtype in _INTEGERS:
        return array.astype(np.int8 if ml_dtypes.iinfo(array.dtype).min else np.uint8)
    return array


def rounded(array: Array, dtype: np.dtype[Any], saturate: bool = True) -> Array:
    """Values as elements of a type: floats to nearest even, integers wrap.

    saturate: an 8-bit or 4-bit float out of range becomes the largest finite value (ONNX Cast).
    """
    dtype = np.dtype(dtype)
    if array.dtype == dtype:
        return array
    if is_float(dtype) and dtype.itemsize == 1 and dtype != ml_dtypes.float8_e8m0fnu:
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        if saturate or dtype == ml_dtypes.float4_e2m1fn:
            largest = float(ml_dtypes.finfo(dtype).max)
            array = np.where(np.isnan(array), array, np.clip(array, -largest, largest))
        return array.astype(np.float32).astype(dtype)
    if dtype in _INTEGERS:
        return array.astype(np.int8).astype(dtype)
    return array.astype(dtype)


def integers(values: Array, dtype: np.dtype[Any]) -> Array:
    """Floats as integers of a type: towards zero, saturating, NaN to 0."""
    dtype = np.dtype(dtype)
    limits = ml_dtypes.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    over, under = values >= float(high), values <= float(low)
    inside = np.where(over | under | np.isnan(values), 0, values)
    exact = inside.astype(np.uint64 if low == 0 else np.int64)
    chosen = np.where(over, np.array(high, exact.dtype), exact)
    return rounded(np.where(under, np.array(low, exact.dtype), chosen), dtype)
