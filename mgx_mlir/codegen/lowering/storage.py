"""Constants as tensors of storage types."""

from __future__ import annotations

import re

import numpy as np
from mlir import ir

from mgx_mlir.codegen.lowering.arithmetic import wrapped
from mgx_mlir.codegen.lowering.element import (
    BOOL,
    EXPONENT_ONLY,
    MINIFLOATS,
    SIGNED,
    Element,
    Minifloat,
    shape_of,
)


def storage_constant(value: ir.DenseElementsAttr, element: Element) -> ir.DenseElementsAttr:
    """The same elements as memory holds them."""
    storage = element.storage()
    type_ = ir.RankedTensorType.get(list(shape_of(value.type)), storage)
    if element.kind in (BOOL, SIGNED) and element.bits != 4 and element.bits != 2:
        return value
    if element.is_float and not element.is_byte_float:
        return value
    if element.is_byte_float:
        codes = [encode(x, element) for x in _numbers(value)]
        return _integers(codes, type_)
    return _integers([int(x) for x in _numbers(value)], type_)


def _integers(values: list[int], type_: ir.RankedTensorType) -> ir.DenseElementsAttr:
    storage = ir.IntegerType(type_.element_type)
    elements = [ir.IntegerAttr.get(storage, wrapped(v, storage.width)) for v in values]
    return ir.DenseElementsAttr.get(elements, type_)


def _numbers(value: ir.DenseElementsAttr) -> list[float]:
    """The elements in row-major order, read from the text: the bindings lack these types."""
    size = int(np.prod(shape_of(value.type)))
    body = str(value).rpartition(":")[0]
    numbers = [float(x) for x in re.findall(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", body)]
    return numbers * size if len(numbers) == 1 else numbers


def encode(value: float, element: Element) -> int:
    """The bits of a finite number in an 8-bit or 4-bit float type, saturating."""
    if element.name == EXPONENT_ONLY:
        return min(max(round(np.log2(value)) + 127, 0), 254) if value > 0 else 0
    format_ = MINIFLOATS[element.name]
    magnitudes = [decode(code, format_) for code in range(format_.largest + 1)]
    nearest = min(range(len(magnitudes)), key=lambda c: (abs(magnitudes[c] - abs(value)), c & 1))
    negative = np.signbit(value) and (format_.signed_zero or nearest)
    return nearest | (1 << (format_.bits - 1) if negative else 0)


def decode(code: int, format_: Minifloat) -> float:
    """The value of a finite, positive code."""
    exponent, fraction = code >> format_.mantissa, code & ((1 << format_.mantissa) - 1)
    if exponent == 0:
        return fraction * 2.0 ** (1 - format_.bias - format_.mantissa)
    return (1 + fraction / (1 << format_.mantissa)) * 2.0 ** (exponent - format_.bias)
