"""mgx-pack-weights: weights of 4 or 2 bits that products expand share bytes in memory; zero points
take a byte."""

from __future__ import annotations

import math
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
    create_like,
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

    Only weights that the product's kernel expands as it reads them (see `prologues`). On a GPU
    floats of which each serves a block of weights, and that are whole numbers, are stored as bytes
    too: a run for one token reads all of them, and converts them for nothing.

    Before:  %z = mgx.literal "z" : tensor<64x4x1xf16>      // whole numbers
             %b = mgx.multibroadcast %z : tensor<64x4x1xf16> -> tensor<64x4x32xf16>
    After:   %z = mgx.literal "..." : tensor<64x4x1xui8>
             %w = mgx.multibroadcast %z : tensor<64x4x1xui8> -> tensor<64x4x32xui8>
             %b = mgx.convert %w : tensor<64x4x32xui8> -> tensor<64x4x32xf16>
    """

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-pack-weights"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                for number in (0, 1) if isinstance(op, mgx.DotOp) else ():
                    tree = prologue_of(op, number)
                    for leaf in tree.leaves if tree else ():
                        if _is_loose(leaf, op.operands[number]):
                            _pack(leaf, op, number, context)
                        elif context.kind == "gpu" and _is_shared(leaf, op.operands[number]):
                            _narrow(leaf, context)


def _is_loose(value: ir.Value, operand: ir.Value) -> bool:
    """Whether a value is weights of few bits, each in a byte of its own: one for each element of a
    product's operand."""
    if not isinstance(definition(value), mgx.SOURCES) or not has_one_use(value):
        return False
    whole = math.prod(shape(value)) == math.prod(shape(operand))
    return whole and element_bits(value) < 8 and len(shape(value)) > 1


def _is_shared(value: ir.Value, operand: ir.Value) -> bool:
    """Whether a value is floats, each of which serves some elements of a product's operand."""
    few = 8 * math.prod(shape(value)) <= math.prod(shape(operand))
    known = isinstance(definition(value), mgx.LiteralOp) and has_one_use(value)
    return few and known and isinstance(element_type(value), ir.FloatType)


def _narrow(value: ir.Value, context: PassContext) -> None:
    """Stores floats that are whole numbers as bytes, which become floats behind their views."""
    array = stored_array(value, context.weights)
    if array is None or not np.all((array >= 0) & (array <= 255) & (array == np.rint(array))):
        return
    source, wide = definition(value), element_type(value)
    assert source is not None
    bytes_ = ir.IntegerType.get_unsigned(8)
    with ir.InsertionPoint(source), source.location:
        made = new_literal(array.astype(np.uint8), bytes_, context.weights)
    while mgx.is_view(view := users(value)[0]) and has_one_use(value):
        value = view.operation.results[0]
        with ir.InsertionPoint(view), view.location:
            made = create_like(view, [made], shape(value), bytes_)
    with ir.InsertionPoint.after(made.owner), source.location:
        value.replace_all_uses_with(mgx.convert(made, wide))


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
