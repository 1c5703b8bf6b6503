"""Operators of com.microsoft, which onnxruntime alone defines."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from test.fuzz.operators.draw import BOOL, F16, F32, F64, I8, I32, I64, U8, Draw, Fixed
from test.fuzz.operators.form import Form, Input, contributed
from test.fuzz.operators.quantized import result, scaled, scales

# Operators of one tensor, and the values that their attributes may have.
_UNARY: tuple[tuple[str, dict[str, tuple[Any, ...]]], ...] = (
    ("Gelu", {}),
    ("QuickGelu", {"alpha": (1.702, 1.0)}),
)


def _unary(draw: Draw, name: str) -> Form:
    shape = draw.shape(1)
    return Form([draw.plain(shape)], {k: draw.among(v) for k, v in dict(_UNARY)[name].items()})


for _name, _ in _UNARY:
    contributed(_name)(partial(_unary, name=_name))


@contributed("BiasGelu", "FastGelu")
def _bias_gelu(draw: Draw, name: str) -> Form:
    shape = draw.shape(1, empty=False)
    needed = name.endswith("BiasGelu") or draw.chance(0.5)
    return Form([draw.plain(shape), *([draw.plain(shape[-1:])] if needed else [])])


@contributed("FusedMatMul", "TransposeMatMul")
def _fused_matmul(draw: Draw, name: str) -> Form:
    m, k, n = (draw.pick(1, 2, 3, 8, 17) for _ in range(3))
    batch, stated = (
        draw.shape(0, 2, empty=False),
        {"transA": draw.pick(0, 1), "transB": draw.pick(0, 1)},
    )
    first = [*batch, *([k, m] if stated["transA"] else [m, k])]
    second = [*batch, *([n, k] if stated["transB"] else [k, n])]
    alpha = {"alpha": draw.pick(1.0, 0.5)}
    return Form([draw.plain(first), draw.fixed(draw.plain(second), 0.4)], stated | alpha)


@contributed("FusedGemm")
def _fused_gemm(draw: Draw) -> Form:
    m, k, n = (draw.pick(1, 2, 3, 8, 17) for _ in range(3))
    activation = draw.pick("Relu", "Tanh", "Sigmoid", "LeakyRelu")
    stated = {"activation": activation} | (
        {"activation_alpha": 0.1} if activation == "LeakyRelu" else {}
    )
    return Form([draw.plain([m, k]), draw.fixed(draw.plain([k, n])), draw.plain([n])], stated)


@contributed("FusedConv")
def _fused_conv(draw: Draw) -> Form:
    stated = {"activation": draw.pick("Relu", "Tanh", "Sigmoid"), "pads": [draw.pick(0, 1)] * 4}
    weights = draw.fixed(draw.plain([3, 2, 3, 3]))
    inputs: list[Input] = [draw.plain([1, 2, 6, 7]), weights]
    return Form([*inputs, *([draw.fixed(draw.plain([3]))] if draw.chance(0.5) else [])], stated)


@contributed("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def _skip(draw: Draw, name: str) -> Form:
    batch, length, width = draw.pick(1, 2), draw.pick(1, 3), draw.pick(4, 8, 17)
    inputs: list[Input] = [draw.plain([batch, length, width]) for _ in range(2)]
    inputs.append(draw.plain([width]))
    if name.endswith("SkipLayerNormalization"):
        inputs.append(draw.plain([width]) if draw.chance(0.5) else None)
    if draw.chance(0.5):
        inputs.append(draw.plain([width]))
    return Form(inputs, {"epsilon": draw.pick(1e-5, 1e-3)})


@contributed("MultiHeadAttention")
def _multi_head(draw: Draw) -> Form:
    batch, heads, queries, keys = draw.pick(1, 2), 2, draw.pick(1, 3, 5), draw.pick(1, 4, 7)
    depth = draw.pick(4, 8)
    inputs: list[Input] = [draw.plain([batch, n, heads * depth]) for n in (queries, keys, keys)]
    inputs.append(draw.plain([3 * heads * depth]) if draw.chance(0.3) else None)
    if draw.chance(0.3):
        inputs.append(draw.array([batch], I32, 1, keys))
    elif draw.chance(0.3):
        inputs += [None, draw.plain([1, heads, queries, keys])]
    stated: dict[str, Any] = {"num_heads": heads}
    if draw.chance(0.3):
        stated["scale"] = 0.3
    if queries == keys and draw.chance(0.5):
        stated["unidirectional"] = 1
    return Form(inputs, stated)


@contributed("Attention")
def _attention(draw: Draw) -> Form:
    batch, length, heads, depth = draw.pick(1, 2), draw.pick(1, 3, 5), 2, draw.pick(4, 8)
    width = heads * depth
    inputs: list[Input] = [draw.plain([batch, length, 6]), draw.fixed(draw.plain([6, 3 * width]))]
    inputs.append(draw.fixed(draw.plain([3 * width])))
    if draw.chance(0.4):
        mask = draw.array([batch, length], I32, 0, 1)
        mask[:, 0] = 1
        inputs.append(mask)
    return Form(inputs, {"num_heads": heads, "unidirectional": draw.pick(0, 1)})


@contributed("GroupQueryAttention")
def _group_query(draw: Draw) -> Form:
    batch, heads, shared, depth = draw.pick(1, 2), 4, draw.pick(1, 2, 4), 8
    past = draw.pick(0, 3)
    new = 1 if past else draw.pick(1, 4)
    inputs: list[Input] = [draw.plain([batch, new, n * depth]) for n in (heads, shared, shared)]
    inputs += [draw.plain([batch, shared, past, depth]) for _ in range(2)]
    inputs.append(np.full([batch], past + new - 1, np.int32))
    inputs.append(Fixed(np.asarray(past + new, np.int32)))
    stated: dict[str, Any] = {"num_heads": heads, "kv_num_heads": shared}
    if draw.chance(0.5):
        inputs += [draw.fixed(draw.plain([16, depth // 2])) for _ in range(2)]
        stated |= {"do_rotary": 1, "rotary_interleaved": draw.pick(0, 1)}
    if draw.chance(0.3):
        stated["local_window_size"] = draw.pick(1, 2)
    return Form(inputs, stated, 3)


@contributed("MatMulNBits")
def _matmul_bits(draw: Draw) -> Form:
    block, m, n, dtype = draw.pick(16, 32), draw.pick(1, 3), draw.pick(2, 8), draw.pick(F32, F16)
    blocks, bits = draw.pick(1, 2, 32), draw.pick(4, 8)
    packed = draw.array([n, blocks, block * bits // 8], U8, 0, 255)
    inputs: list[Input] = [draw.array([m, block * blocks], dtype), Fixed(packed)]
    inputs.append(Fixed(scales(draw, [n * blocks], dtype)))
    if draw.chance(0.6):
        zeros = draw.array([n * -(-blocks * bits // 8)], U8, 0, 255)
        inputs.append(Fixed(draw.pick(zeros, draw.plain([n, blocks], dtype))))
    return Form(inputs, {"K": block * blocks, "N": n, "bits": bits, "block_size": block})


@contributed("QLinearAdd", "QLinearMul")
def _qlinear_binary(draw: Draw, name: str) -> Form:
    dtype, shape = draw.pick(I8, U8), draw.shape(1, empty=False)
    pair = [scaled(draw, s, dtype) for s in (shape, draw.broadcast(shape))]
    return Form([*pair[0], *pair[1], *result(draw, dtype)])


@contributed("QLinearSigmoid", "QLinearLeakyRelu")
def _qlinear_unary(draw: Draw, name: str) -> Form:
    dtype = draw.pick(I8, U8)
    return Form([*scaled(draw, draw.shape(1, empty=False), dtype), *result(draw, dtype)])


@contributed("QLinearGlobalAveragePool")
def _qlinear_pool(draw: Draw) -> Form:
    return Form([*scaled(draw, [1, 3, 4, 5], U8), *result(draw, U8)], {"channels_last": 0})


@contributed("QLinearConcat")
def _qlinear_concat(draw: Draw) -> Form:
    dtype, parts = draw.pick(I8, U8), []
    for _ in range(draw.pick(1, 2, 3)):
        parts += scaled(draw, [2, draw.pick(1, 3), 3], dtype)
    return Form([*result(draw, dtype), *parts], {"axis": 1})


@contributed("DynamicQuantizeMatMul", "MatMulIntegerToFloat")
def _quantized_matmul(draw: Draw, name: str) -> Form:
    m, k, n = (draw.pick(1, 3, 8, 17) for _ in range(3))
    # 7 bits: of more, onnxruntime's sums of two products saturate on CPUs without VNNI.
    weights, scale = draw.array([k, n], I8, -64, 64), scales(draw, draw.pick([], [n]))
    if name.endswith("ToFloat"):
        values = draw.array([m, k], U8, 0, 127)
        zero = [Fixed(np.asarray(7, U8)), Fixed(np.zeros(scale.shape, np.int8))]
        return Form([values, Fixed(weights), Fixed(scales(draw, [])), Fixed(scale), *zero])
    return Form([draw.plain([m, k]), Fixed(weights), Fixed(scale)])


@contributed("Inverse")
def _inverse(draw: Draw) -> Form:
    size = draw.pick(1, 2, 3)
    values = draw.plain([*draw.shape(0, 2, empty=False), size, size]) + 5 * np.eye(size)
    return Form([values.astype(np.float32)])


@contributed("Trilu")
def _trilu(draw: Draw) -> Form:
    values = draw.array(draw.shape(2), draw.pick(F32, F64, I64))
    return Form([values, draw.ints(draw.between(-3, 3))], {"upper": draw.pick(0, 1)})


@contributed("ExpandDims")
def _expand_dims(draw: Draw) -> Form:
    shape = draw.shape(0, 3)
    axis = np.asarray(draw.axis(len(shape) + 1), np.int32)
    return Form([draw.array(shape, draw.pick(F32, I64, BOOL)), Fixed(axis)])


@contributed("RotaryEmbedding")
def _rotary(draw: Draw) -> Form:
    batch, length, heads, depth = draw.pick(1, 2), draw.pick(1, 3), 2, 8
    places = draw.array([batch, length], I64, 0, 9)
    tables = [draw.plain([10, depth // 2]) for _ in range(2)]
    stated = {"interleaved": draw.pick(0, 1)}
    return Form([draw.plain([batch, length, heads * depth]), places, *tables], stated)
