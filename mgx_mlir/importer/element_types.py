"""Element types: ONNX's numbers for them, and numpy's."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

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


def _row(number: int, name: str, numpy: type | str, bits: int = 0) -> ElementType:
    dtype = np.dtype(numpy)
    return ElementType(number, name, dtype, bits or dtype.itemsize * 8)


# Source of the numbers: onnx.proto, TensorProto.DataType.
TABLE: tuple[ElementType, ...] = (
    _row(1, "float", "float32"),
    _row(2, "uint8", "uint8"),
    _row(3, "int8", "int8"),
    _row(4, "uint16", "uint16"),
    _row(5, "int16", "int16"),
    _row(6, "int32", "int32"),
    _row(7, "int64", "int64"),
    _row(9, "bool", "bool", 8),
    _row(10, "float16", "float16"),
    _row(11, "double", "float64"),
    _row(12, "uint32", "uint32"),
    _row(13, "uint64", "uint64"),
    _row(16, "bfloat16", ml_dtypes.bfloat16),
    _row(17, "float8e4m3fn", ml_dtypes.float8_e4m3fn),
    _row(18, "float8e4m3fnuz", ml_dtypes.float8_e4m3fnuz),
    _row(19, "float8e5m2", ml_dtypes.float8_e5m2),
    _row(20, "float8e5m2fnuz", ml_dtypes.float8_e5m2fnuz),
    _row(21, "uint4", ml_dtypes.uint4, 4),
    _row(22, "int4", ml_dtypes.int4, 4),
    _row(23, "float4e2m1", ml_dtypes.float4_e2m1fn, 4),
    _row(24, "float8e8m0", ml_dtypes.float8_e8m0fnu),
    _row(25, "uint2", ml_dtypes.uint2, 2),
    _row(26, "int2", ml_dtypes.int2, 2),
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
