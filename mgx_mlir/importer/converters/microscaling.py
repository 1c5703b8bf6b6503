"""Microscaling (OCP MX) as the quantisers Quark and Brevitas write it: a power of two a block.

Source: OCP Microscaling Formats specification 1.0, section 6.3; Quark's documentation of
MXQuantizeDequantize, which older versions called MXFixNeuron.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import element_types, emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.sizes.arithmetic import ceil_div

_OPS = "pad reshape abs reduce_max bit_cast shift_right shift_left convert div mul"

# The element's type, and the exponent of its largest power of two.
_FLOATS: dict[str, tuple[type, int]] = {
    "fp4_e2m1": (ml_dtypes.float4_e2m1fn, 2),
    "fp8_e4m3": (ml_dtypes.float8_e4m3fn, 8),
    "fp8_e5m2": (ml_dtypes.float8_e5m2, 15),
}


def _split(x: ir.Value, axis: int, block: int) -> ir.Value:
    """x with a dimension cut into blocks, filled up with zeros: (..., blocks, block, ...)."""
    size = tensors.size_of(x, axis, "the dimension that is cut into blocks")
    missing, outer, inner = -size % block, tensors.dims(x)[:axis], tensors.dims(x)[axis + 1 :]
    if missing:
        high = [missing if i == axis else 0 for i in range(tensors.rank(x))]
        x = mgx.pad(x, [0] * len(high), high)
    return emit.reshape(x, (*outer, (size + missing) // block, block, *inner))


def _scales(blocks: ir.Value, axis: int, largest: int) -> ir.Value:
    """For each block, 2 to the exponent of its largest element, less the type's own exponent."""
    most = mgx.reduce_max(mgx.abs(blocks), [axis])
    exponent = emit.binary(mgx.shift_right, mgx.bit_cast(most, np.dtype(np.int32)), 23)
    exponent = emit.add(exponent, -largest)
    exponent = mgx.max(exponent, emit.like(exponent, 1))
    return mgx.bit_cast(emit.binary(mgx.shift_left, exponent, 23), np.dtype(np.float32))


def _rounded(node: Node, x: ir.Value, kind: str) -> ir.Value:
    """x rounded to the element type. int8 counts 64ths."""
    mode = int(node.attribute("rounding_mode", 0))
    if kind in _FLOATS:
        if mode != 2:
            raise UnsupportedError(f"rounding_mode = {mode} of floats; 2, to even, is supported")
        return emit.convert(emit.convert(x, mgx.element_type(_FLOATS[kind][0])), "f32")
    x = emit.mul(x, 64)
    if mode == 0:
        whole = mgx.mul(mgx.sign(x), mgx.floor(emit.add(mgx.abs(x), 0.5)))
    else:
        whole = mgx.floor(emit.add(x, 0.5)) if mode == 1 else mgx.nearbyint(x)
    return emit.mul(emit.clip(whole, -127, 127), 1 / 64)


def _quantize_dequantize(node: Node) -> ir.Value:
    """x rounded to a format of MX and back."""
    x = node.tensor(0)
    rank = tensors.rank(x)
    kind = str(node.attribute("element_dtype", "int8"))
    if kind not in _FLOATS and kind != "int8":
        raise UnsupportedError(f"element_dtype = {kind}; int8, {', '.join(_FLOATS)} are supported")
    axis = int(node.attribute("axis", 1))
    axis = 0 if rank == 1 else tensors.axis_in(axis, rank)
    blocks = _split(x, axis, int(node.attribute("block_size", 32)))
    scales = _scales(blocks, axis + 1, 0 if kind == "int8" else _FLOATS[kind][1])
    y = emit.mul(_rounded(node, emit.div(blocks, scales), kind), scales)
    merged, size = list(tensors.dims(x)), tensors.size_of(x, axis, "the dimension of the blocks")
    block = tensors.size_of(blocks, axis + 1, "the size of a block")
    merged[axis] = ceil_div(size, block) * block
    return emit.take(emit.reshape(y, merged), axis, 0, size)


for _name, _domain in (
    ("MXFixNeuron", "com.amd.quark"),
    ("MXFixNeuron", "com.vai.quantize"),
    ("MXQuantizeDequantize", "com.amd.quark"),
):
    operator(_name, (1, 1), _OPS, _domain)(_quantize_dequantize)


@operator("DynamicScale", (1, 1), _OPS, "onnx.brevitas")
def dynamic_scale(node: Node) -> ir.Value:
    """The scales of blocks along a dimension, for a quantization in blocks that follows."""
    x = node.tensor(0)
    node.only("scale_selection_method", "floor")
    node.only("zero_point_selection_method", "None")
    wanted = element_types.of_onnx(int(node.required("output_dtype"))).numpy
    largest = [most for dtype, most in _FLOATS.values() if np.dtype(dtype) == wanted]
    if not largest:
        raise UnsupportedError(f"output_dtype = {wanted.name}")
    axis = tensors.axis_in(int(node.required("group_dim")), tensors.rank(x))
    blocks = _split(x, axis, int(node.required("group_size")))
    return emit.squeeze(_scales(blocks, axis + 1, largest[0]), [axis + 1])
