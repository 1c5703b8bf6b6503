"""Element types: ONNX's numbers for them, and numpy's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.elements import ELEMENTS
from mgx_mlir.errors import UnsupportedError


@dataclass(frozen=True)
class ElementType:
    """`onnx` is the number in TensorProto.DataType.

    `bits` is the size of an element in ONNX's raw data; `numpy` holds one in whole bytes.
    """

    onnx: int
    name: str
    numpy: np.dtype
    bits: int


TABLE: tuple[ElementType, ...] = tuple(
    ElementType(row.onnx, row.onnx_name, numpy_dtype(row.numpy), row.bits) for row in ELEMENTS
)
_BY_ONNX = {row.onnx: row for row in TABLE}
_BY_NUMPY = {row.numpy: row for row in TABLE}
_OTHER = {0: "undefined", 8: "string", 14: "complex64", 15: "complex128"}


def of_onnx(number: int) -> ElementType:
    """The element type with that number. Raises UnsupportedError for strings and complex."""
    if number not in _BY_ONNX:
        raise UnsupportedError(f"tensors of {_OTHER.get(number, f'type {number}')} elements")
    return _BY_ONNX[number]


def bits_of(number: int) -> int:
    """The bits that an element of that type takes; 8 for a type that is not known."""
    return _BY_ONNX[number].bits if number in _BY_ONNX else 8


def of_numpy(dtype: np.dtype) -> ElementType:
    """The element type of a numpy (or ml_dtypes) array."""
    if dtype not in _BY_NUMPY:
        raise UnsupportedError(f"tensors of {dtype} elements")
    return _BY_NUMPY[dtype]


def unpack(raw: np.ndarray, element: ElementType, count: int) -> np.ndarray:
    """The first `count` elements of packed 2- or 4-bit data (uint8), lowest bits first."""
    per_byte = 8 // element.bits
    mask = (1 << element.bits) - 1
    shifts = np.arange(per_byte, dtype=np.uint8) * element.bits
    values = ((raw[:, None] >> shifts) & mask).reshape(-1)[:count]
    if element.name.startswith("int"):  # sign-extend
        sign = 1 << (element.bits - 1)
        return ((values ^ sign).astype(np.int8) - sign).astype(element.numpy)
    if element.name.startswith("uint"):
        return values.astype(element.numpy)
    return values.view(element.numpy)


def packed(array: np.ndarray) -> np.ndarray:
    """The array as ONNX stores it: elements of 2 or 4 bits share bytes (uint8), low bits first."""
    bits = of_numpy(array.dtype).bits
    if bits >= 8:
        return array
    codes = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & np.uint8((1 << bits) - 1)
    per_byte = 8 // bits
    codes = np.pad(codes, (0, -len(codes) % per_byte)).reshape(-1, per_byte)
    return np.bitwise_or.reduce(codes << (np.arange(per_byte, dtype=np.uint8) * bits), -1)
