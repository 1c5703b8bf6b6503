"""Numbers of f32 that code computes, with the operators of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.element import F32, I32
from mgx_mlir.codegen.meaning.index import index_constant
from mgx_mlir.sizes.arithmetic import Number


class Real:
    """An f32 that code computes, with the operators of numbers."""

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    def _with(self, op: Callable[..., ir.Value], other: Any, swapped: bool = False) -> Real:
        pair = (self.value, value_of(other))
        return Real(op(*(pair[::-1] if swapped else pair)))

    def __add__(self, other: Any) -> Real:
        return self._with(arith.addf, other)

    def __sub__(self, other: Any) -> Real:
        return self._with(arith.subf, other)

    def __rsub__(self, other: Any) -> Real:
        return self._with(arith.subf, other, swapped=True)

    def __mul__(self, other: Any) -> Real:
        return self._with(arith.mulf, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Real:
        return self._with(arith.divf, other)

    def __rtruediv__(self, other: Any) -> Real:
        return self._with(arith.divf, other, swapped=True)

    def at_least(self, other: float) -> Real:
        return self._with(arith.maximumf, other)

    def at_most(self, other: float) -> Real:
        return self._with(arith.minimumf, other)

    # numpy's scalars leave the operators to this class.
    __array_ufunc__ = None


def value_of(number: Any) -> ir.Value:
    if isinstance(number, Real):
        return number.value
    return Arithmetic().constant(float(number), F32.storage())


def real(size: Number) -> Any:
    """A size as an f32: numpy's where it is known, else code that computes it."""
    if isinstance(size, int):
        return np.float32(size)
    narrow = arith.index_cast(I32.storage(), index_constant(size))
    return Real(arith.sitofp(F32.storage(), narrow))
