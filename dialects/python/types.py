"""Element types and tensor types: numpy's on one side, MLIR's on the other.

Signless integers are signed and `i1` is bool, as everywhere in the dialect. Formats that
numpy lacks (bf16, fp8, fp4, 4-bit and 2-bit integers) are those of ml_dtypes, which takes
one byte for an element of less than 8 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt
from mlir import ir

from mgx_mlir._native._mgx import DimAttr, DimsAttr
from mgx_mlir.elements import ELEMENTS
from mgx_mlir.sizes.arithmetic import Size, alone, bounds

Dim: TypeAlias = "int | str | Size | DimAttr | None"
"""A size, the name of a symbolic dimension, a formula, a whole one, or None for an unknown size."""

# By MLIR's name of each. The types that numpy lacks are those of ml_dtypes.
DTYPES = {row.name: np.dtype(getattr(ml_dtypes, row.numpy, row.numpy)) for row in ELEMENTS}
_NAME_OF = {dtype: name for name, dtype in DTYPES.items()}
_DYNAMIC: int = ir.ShapedType.get_dynamic_size()
# The end of the numbers that a DimAttr holds.
_MOST = 1 << 63


def element_type(dtype: npt.DTypeLike, context: ir.Context | None = None) -> ir.Type:
    """The MLIR element type of a numpy dtype. Raises ValueError where there is none."""
    wanted = np.dtype(dtype)
    name = _NAME_OF.get(wanted.newbyteorder("="))
    if name is None:
        known = ", ".join(str(d) for d in _NAME_OF)
        raise ValueError(f"no element type of mgx for dtype {wanted}; there are {known}")
    return ir.Type.parse(name, context)


def numpy_dtype(type_: ir.Type) -> np.dtype:
    """The numpy dtype of an element type, or of a tensor's elements.

    Raises ValueError where there is none.
    """
    element = scalar_type(type_)
    dtype = DTYPES.get(str(element))
    if dtype is None:
        raise ValueError(f"no numpy dtype for {element}; there are {', '.join(DTYPES)}")
    return dtype


def scalar_type(type_: ir.Type) -> ir.Type:
    """A tensor's element type; a scalar type itself."""
    if isinstance(type_, ir.ShapedType):
        return type_.element_type
    return type_


def tensor_type(dims: Sequence[Dim], element: ir.Type) -> ir.RankedTensorType:
    """The tensor type with those dimensions; names and DimAttrs go into its encoding."""
    sizes = [d if isinstance(d, int) and d != _DYNAMIC else _DYNAMIC for d in dims]
    symbols = [_symbol(d, element.context) for d in dims]
    encoding = DimsAttr.get(symbols, context=element.context) if any(symbols) else None
    return ir.RankedTensorType.get(sizes, element, encoding)


def _symbol(dim: Dim, context: ir.Context) -> DimAttr | None:
    if isinstance(dim, DimAttr):
        return dim
    if isinstance(dim, Size):
        return _formula(dim, context)
    return DimAttr.get(dim, 1, context=context) if isinstance(dim, str) else None


def _formula(size: Size, context: ir.Context) -> DimAttr:
    symbol = alone(size)
    if symbol is not None:
        ends = (symbol.low, symbol.high, symbol.optimals)
        return DimAttr.get(str(symbol), *ends, context=context)
    low, high = bounds(size)
    least = int(max(low, 0)) if low > -math.inf else 0
    most = int(high) if high < _MOST else None
    return DimAttr.get(str(size), least, most, context=context)


def dims_of(type_: ir.Type) -> list[int | DimAttr | None]:
    """The dimensions of a tensor type: sizes, and a DimAttr or None where dynamic."""
    tensor = ir.RankedTensorType(type_)
    encoding = tensor.encoding
    symbols = encoding.dims if isinstance(encoding, DimsAttr) else [None] * tensor.rank
    return [s if n == _DYNAMIC else n for n, s in zip(tensor.shape, symbols, strict=True)]


def byte_size(type_: ir.Type) -> int:
    """The bytes that a tensor with a static shape takes in memory, elements one by one.

    A bool and an element of less than 8 bits take a byte each. Raises ValueError for
    a dynamic shape.
    """
    tensor = ir.RankedTensorType(type_)
    if not tensor.has_static_shape:
        raise ValueError(f"the size of {tensor} is not known: its shape is dynamic")
    return math.prod(tensor.shape) * numpy_dtype(tensor).itemsize
