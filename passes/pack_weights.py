"""mgx-pack-weights: weights of 4 or 2 bits that products expand share bytes in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.prologues import prologue_of
from mgx_mlir.rewriting.queries import (
    blocks,
    definition,
    element_type,
    has_one_use,
    op_name,
    replace,
    shape,
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

    name: ClassVar[str] = "mgx-pack-weights"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                for number in (0, 1) if op_name(op) == "mgx.dot" else ():
                    tree = prologue_of(op, number)
                    for leaf in tree.leaves if tree else ():
                        if _is_loose(leaf):
                            _pack(leaf, op, number, context)


def _is_loose(value: ir.Value) -> bool:
    """Whether a value is weights of few bits, each in a byte of its own."""
    named = op_name(definition(value)) in ("mgx.literal", "mgx.constant")
    return named and element_type(value).width < 8 and has_one_use(value) and len(shape(value)) > 1


def _pack(value: ir.Value, dot: ir.OpView, number: int, context: PassContext) -> None:
    source = definition(value)
    assert source is not None
    array = _array(source, context.weights)
    rank = len(shape(value))
    order = list(range(rank))
    if array is None:
        return
    if not _is_summed_last(value, dot, number):
        order[-2:] = order[:-3:-1]
        array = array.transpose(order)
    bits = element_type(value).width
    if array.shape[-1] % (8 // bits):
        return
    with ir.InsertionPoint(source), source.operation.location:
        packed = _packed(array, bits)
        type_ = ir.RankedTensorType.get(packed.shape, ir.IntegerType.get_unsigned(8))
        literal = mgx.literal(context.weights.add_array(packed), type_)
        wide = ir.RankedTensorType.get(array.shape, element_type(value))
        result = mgx.unpack(literal, wide.element_type)
        if order != list(range(rank)):
            result = mgx.transpose(result, order)
    context.note("pack", node_name(dot))
    replace(source, [result])


def _array(source: ir.OpView, weights: WeightStore) -> np.ndarray | None:
    if op_name(source) == "mgx.constant":
        return mgx.constant_array(source)
    key = ir.StringAttr(source.operation.attributes["key"]).value
    return weights[key].array() if key in weights else None


def _is_summed_last(value: ir.Value, dot: ir.OpView, number: int) -> bool:
    """Whether the product sums over a value's last dimension.

    True also where a reshape makes that unknown.
    """
    last = len(shape(value)) - 1
    while (user := users(value)[0]) != dot:
        if op_name(user) == "mgx.transpose":
            last = list(ir.DenseI64ArrayAttr(user.operation.attributes["permutation"])).index(last)
        elif op_name(user) in mgx.VIEWS:
            return True
        value = user.operation.results[0]
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
