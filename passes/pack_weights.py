"""mgx-pack-weights: weights of 4 or 2 bits that products expand share bytes in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.prologues import prologue_of
from mgx_mlir.rewriting.queries import (
    blocks,
    definition,
    element_bits,
    element_type,
    has_one_use,
    new_literal,
    replace,
    shape,
    stored_array,
    users,
)


@dataclass(frozen=True)
class PackWeights(Pass):
    """Puts several numbers in a byte, neighbours along the dimension that products sum over.

    Before:  %w = mgx.literal "w" : tensor<64x32xi4>        // a byte each
             %d = mgx.dequantizelinear %w, ... : tensor<64x32xf16>
             %y = mgx.dot %x, %d ...
    After:   %p = mgx.literal "..." : tensor<32x32xui8>
             %u = mgx.unpack %p : tensor<32x32xui8> -> tensor<32x64xi4>
             %t = mgx.transpose %u permutation = [1, 0] : tensor<32x64xi4> -> tensor<64x32xi4>
             %d = mgx.dequantizelinear %t, ... : tensor<64x32xf16>
             %y = mgx.dot %x, %d ...

    Only weights that the product's kernel expands as it reads them (see `prologues`).
    """

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-pack-weights"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                for number in (0, 1) if isinstance(op, mgx.DotOp) else ():
                    tree = prologue_of(op, number)
                    for leaf in tree.leaves if tree else ():
                        if _is_loose(leaf):
                            _pack(leaf, op, number, context)


def _is_loose(value: ir.Value) -> bool:
    """Whether a value is weights of few bits, each in a byte of its own."""
    if not isinstance(definition(value), mgx.SOURCES) or not has_one_use(value):
        return False
    return element_bits(value) < 8 and len(shape(value)) > 1


def _pack(value: ir.Value, dot: ir.OpView, number: int, context: PassContext) -> None:
    source = definition(value)
    array = stored_array(value, context.weights)
    order = list(range(len(shape(value))))
    if source is None or array is None:
        return
    is_summed_last = _is_summed_last(value, dot, number)
    if not is_summed_last:
        order[-2:] = order[:-3:-1]
        array = array.transpose(order)
    bits = element_bits(value)
    if array.shape[-1] % (8 // bits):
        return
    with ir.InsertionPoint(source), source.location:
        bytes_ = ir.IntegerType.get_unsigned(8)
        stored = new_literal(_packed(array, bits), bytes_, context.weights)
        result = mgx.unpack(stored, element_type(value))
        if not is_summed_last:
            result = mgx.transpose(result, order)
    context.note("pack", node_name(dot))
    replace(source, [result])


def _is_summed_last(value: ir.Value, dot: ir.OpView, number: int) -> bool:
    """Whether the product sums over a value's last dimension.

    True also where a reshape makes that unknown.
    """
    last = len(shape(value)) - 1
    while (user := users(value)[0]) != dot:
        if isinstance(user, mgx.TransposeOp):
            last = list(user.permutation).index(last)
        elif mgx.is_view(user):
            return True
        value = user.result
    rank = len(shape(value))
    return last == (rank - 1 if number == 0 else rank - 2)


def _packed(array: np.ndarray, bits: int) -> np.ndarray:
    """The numbers along the last dimension packed into bytes, low bits first."""
    per_byte = 8 // bits
    codes = np.ascontiguousarray(array).view(np.uint8) & np.uint8((1 << bits) - 1)
    codes = codes.reshape(*array.shape[:-1], -1, per_byte)
    shifted = codes << (np.arange(per_byte, dtype=np.uint8) * np.uint8(bits))
    packed: np.ndarray = np.bitwise_or.reduce(shifted, axis=-1)
    return packed
