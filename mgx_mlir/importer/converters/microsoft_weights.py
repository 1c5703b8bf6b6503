"""Products with weights of a few bits, in blocks with a scale each: of com.microsoft.

The weights stay packed; the kernels that read them unpack them. Source of their meaning:
onnxruntime's docs/ContribOperators.md.
"""

from __future__ import annotations

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.converters.microsoft import contributed
from mgx_mlir.importer.node import Node
from mgx_mlir.sizes.arithmetic import ceil_div


def unpacked(node: Node, packed: ir.Value, bits: int, count: int) -> ir.Value:
    """The first `count` numbers of each row (the last dimension) of bytes, low bits first."""
    if bits not in (2, 4, 8):
        raise UnsupportedError(f"bits = {bits}; 2, 4 and 8 are supported")
    if bits < 8:
        packed = mgx.unpack(packed, f"uint{bits}")
    width = tensors.size_of(packed, -1, "the size of a row")
    if width < count:
        raise ModelError(
            f"{width * bits // 8} bytes hold fewer than {count} numbers of {bits} bits"
        )
    return emit.take(packed, tensors.rank(packed) - 1, 0, count)


def dequantized(
    node: Node,
    codes: ir.Value,
    scales: ir.Value,
    zeros: ir.Value | None,
    bits: int,
    block: int,
    order: ir.Value | None = None,
) -> ir.Value:
    """Codes (..., size) as floats. Scales (..., blocks) and zero points hold for a block each.

    `order` (size,) says which block each element is of; without it blocks follow each other.

    Zero points are packed bytes (..., some), or one number (..., blocks) of the scales' type;
    without zero points, the middle of the codes is zero.
    """
    outer, size = tensors.dims(codes)[:-1], tensors.size_of(codes, -1, "the size of a row")
    blocks = ceil_div(size, block)
    last = len(outer)
    element = tensors.element(scales)
    scales = emit.reshape(scales, (*outer, blocks))
    zero: ir.Value = emit.like(scales, 1 << (bits - 1))
    if zeros is not None and tensors.is_float(zeros):
        zero = emit.convert(emit.reshape(zeros, (*outer, blocks)), element)
    elif zeros is not None:
        packed = emit.reshape(zeros, (*outer, ceil_div(blocks * bits, 8)))
        zero = emit.convert(unpacked(node, packed, bits, blocks), element)

    def repeated(parameter: ir.Value) -> ir.Value:
        if order is not None:
            return mgx.gather(parameter, order, last)
        wide = emit.broadcast(emit.unsqueeze(parameter, [last + 1]), (*outer, blocks, block))
        return emit.take(emit.reshape(wide, (*outer, blocks * block)), last, 0, size)

    shifted = mgx.sub(emit.convert(codes, element), repeated(zero))
    return mgx.mul(shifted, repeated(scales))


@contributed("MatMulNBits", "unpack convert sub mul dot add")
def matmul_n_bits(node: Node) -> ir.Value:
    """Inputs: a, packed weights (N, blocks, bytes), scales, zero points, groups, a bias."""
    node.attribute("accuracy_level", 0)  # the least that is asked for; all is kept here
    node.only("weight_prepacked", 0)
    bits, block = int(node.attribute("bits", 4)), int(node.required("block_size"))
    rows, size = int(node.required("N")), int(node.required("K"))
    if block < 16 or block & (block - 1):
        raise ModelError(f"block_size = {block}; powers of two from 16 on are defined")
    order = node.optional(4)
    if order is not None:  # it may be longer: the last block is filled up
        order = emit.take(order, 0, 0, size)
    a, packed = node.tensor(0), node.tensor(1)
    count = ceil_div(size, block) * block * bits // 8
    codes = unpacked(node, emit.reshape(packed, (rows, count)), bits, size)
    weights = dequantized(node, codes, node.tensor(2), node.optional(3), bits, block, order)
    y = emit.dot(a, emit.transpose(emit.convert(weights, tensors.element(a)), [1, 0]))
    return emit.add(y, node.tensor(5)) if node.given(5) else y


# The values of the codes of bitsandbytes' formats (source: its create_fp4_map, and the table
# of the QLoRA paper, appendix E).
_FP4 = (0.0, 0.0052083333, 0.6666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
_BNB4 = {0: (*_FP4, *(-x for x in _FP4)), 1: _NF4}


@contributed("MatMulBnb4", "shift_right bitwise_and gather mul dot")
def matmul_bnb4(node: Node) -> ir.Value:
    """Inputs: a, packed weights (N * K / 2 bytes, high bits first), the scale of each block."""
    node.only("training_mode", 0)
    size, rows = int(node.required("K")), int(node.required("N"))
    block, kind = int(node.required("block_size")), int(node.required("quant_type"))
    if kind not in _BNB4:
        raise UnsupportedError(f"quant_type = {kind}; 0 (FP4) and 1 (NF4) are supported")
    transposed = bool(node.attribute("transB", 1))
    a, scales = node.tensor(0), node.tensor(2)
    packed = emit.unsqueeze(node.tensor(1), [1])
    codes = emit.binary(mgx.shift_right, packed, node.make(np.array([4, 0], np.uint8)))
    codes = emit.convert(emit.binary(mgx.bitwise_and, codes, 15), "i32")
    codes = emit.take(emit.reshape(codes, (tensors.static_dims(packed)[0] * 2,)),
                      0, 0, rows * size)  # fmt: skip
    table = node.make(np.array(_BNB4[kind], emit.numpy_type(scales)))
    weights = mgx.gather(table, codes, 0)
    blocks = tensors.static_dims(scales)[0]
    each = emit.reshape(emit.broadcast(emit.unsqueeze(scales, [1]), (blocks, block)),
                        (blocks * block,))  # fmt: skip
    weights = mgx.mul(weights, emit.take(each, 0, 0, rows * size))
    shape, order = ((rows, size), [1, 0]) if transposed else ((size, rows), [0, 1])
    return emit.dot(a, emit.transpose(emit.reshape(weights, shape), order))


@contributed("GatherBlockQuantized", "gather shift_right bitwise_and convert sub mul")
def gather_block_quantized(node: Node) -> ir.Value:
    """Rows of a table of a few bits: inputs are the table, indices, scales, zero points."""
    data, indices, scales = node.tensor(0), node.tensor(1), node.tensor(2)
    rank = tensors.rank(data)
    gather_axis = tensors.axis_in(int(node.attribute("gather_axis", 0)), rank)
    quantize_axis = tensors.axis_in(int(node.attribute("quantize_axis", 1)), rank)
    bits, block = int(node.attribute("bits", 4)), int(node.attribute("block_size", 128))
    name = tensors.element_name(data)
    if gather_axis != 0 or quantize_axis != rank - 1:
        raise UnsupportedError(
            f"gather_axis = {gather_axis}, quantize_axis = {quantize_axis}; they are the first "
            "and the last one"
        )
    if name not in ("ui8", "ui4", "i4"):
        raise UnsupportedError(f"a table of {name}; uint8, uint4 and int4 are supported")
    columns = tensors.size_of(data, -1, "the width of the table")
    rows = mgx.gather(data, indices, 0)
    parameters = [mgx.gather(scales, indices, 0)]
    if node.given(3):
        parameters.append(mgx.gather(node.tensor(3), indices, 0))
    if name == "ui8":
        codes = unpacked(node, rows, bits, columns * 8 // bits)
        zeros = parameters[1] if node.given(3) else None
        return dequantized(node, codes, parameters[0], zeros, bits, block)
    element = tensors.element(scales)
    zero = emit.like(parameters[0], 0)
    if node.given(3):
        zero = emit.convert(parameters[1], element)
    return dequantized(node, emit.convert(rows, element), parameters[0], zero, 4, block)
