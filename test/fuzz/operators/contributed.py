"""More operators of com.microsoft: quantized ones, tables of few bits, and those of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from test.fuzz.operators.draw import BOOL, F32, I8, I16, I32, I64, U8, U16, Draw, Fixed
from test.fuzz.operators.form import Form, Input, contributed
from test.fuzz.operators.quantized import result, scaled, scales


@contributed("QuantizeLinear", "DequantizeLinear")
def _linear(draw: Draw, name: str) -> Form:
    shape, dtype = draw.shape(1), draw.pick(I8, U8, I16, U16)
    axis = draw.axis(len(shape))
    some = [shape[axis]] if draw.chance(0.5) else []
    quantizes = name.endswith(".QuantizeLinear")
    values = draw.plain(shape) if quantizes else draw.array(shape, dtype)
    zero = Fixed(draw.array(some, dtype, 0, 5))
    return Form([values, Fixed(scales(draw, some)), zero], {"axis": axis} if some else {})


@contributed("QLinearAveragePool", "QLinearConv", "NhwcMaxPool")
def _windows(draw: Draw, name: str) -> Form:
    dtype, last = draw.pick(I8, U8), draw.pick(0, 1)
    kernel = [draw.pick(1, 2, 3), draw.pick(1, 2)]
    stated: dict[str, Any] = {"strides": [draw.pick(1, 2) for _ in range(2)]}
    stated["pads"] = [draw.between(0, kernel[k % 2] - 1) for k in range(4)]
    if name.endswith("NhwcMaxPool"):
        return Form([draw.array([1, 5, 6, 3], dtype)], stated | {"kernel_shape": kernel})
    shape = [1, 5, 6, 4] if last else [1, 4, 5, 6]
    data = scaled(draw, shape, dtype)
    if name.endswith("Pool"):
        stated |= {"kernel_shape": kernel, "count_include_pad": draw.pick(0, 1)}
        return Form([*data, *result(draw, dtype)], stated | {"channels_last": last})
    groups = draw.pick(1, 2, 4)
    weights = scaled(draw, [4, 4 // groups, *kernel], I8, fixed=True)
    weights[2] = Fixed(np.asarray(0, I8))
    bias = [Fixed(draw.array([4], I32, -99, 99))] if draw.chance(0.5) else []
    parts = [*data, *weights, *result(draw, dtype), *bias]
    return Form(parts, stated | {"channels_last": last, "group": groups})


@contributed("QLinearSoftmax", "QLinearWhere")
def _qlinear(draw: Draw, name: str) -> Form:
    dtype, shape = draw.pick(I8, U8), draw.shape(1, 3, empty=False)
    if name.endswith("Softmax"):
        least = np.asarray(-128 if dtype == I8 else 0, dtype)
        shares: list[Input] = [Fixed(np.asarray(1 / 256, F32)), Fixed(least)]
        stated = {"axis": draw.axis(len(shape)), "opset": draw.pick(12, 13)}
        return Form([*scaled(draw, shape, dtype), *shares], stated)
    parts = [scaled(draw, s, dtype) for s in (shape, draw.broadcast(shape))]
    chosen = draw.array(draw.broadcast(shape), BOOL)
    return Form([chosen, *parts[0], *parts[1], *result(draw, dtype)])


@contributed("QGemm")
def _qgemm(draw: Draw) -> Form:
    m, k, n = (draw.pick(1, 3, 8, 17) for _ in range(3))
    stated: dict[str, Any] = {"transA": draw.pick(0, 1), "transB": draw.pick(0, 1)}
    first = scaled(draw, [k, m] if stated["transA"] else [m, k], U8)
    # 7 bits: of more, onnxruntime's sums of two products saturate on CPUs without VNNI.
    second: list[Input] = [Fixed(draw.array([n, k] if stated["transB"] else [k, n], I8, -64, 64))]
    second += [Fixed(scales(draw, draw.pick([], [n])))]
    assert isinstance(second[1], Fixed)
    second.append(Fixed(np.zeros(second[1].array.shape, np.int8)))
    bias = Fixed(draw.array([n], I32, -99, 99)) if draw.chance(0.5) else None
    return Form([*first, *second, bias, *result(draw, U8)], stated)


@contributed("QAttention")
def _qattention(draw: Draw) -> Form:
    batch, length, heads, depth, width = draw.pick(1, 2), draw.pick(1, 3), 2, draw.pick(4, 8), 6
    hidden = heads * depth
    inputs: list[Input] = [draw.array([batch, length, width], U8, 0, 127)]
    inputs.append(Fixed(draw.array([width, 3 * hidden], I8, -64, 64)))
    # Scores beyond 2^31 have no exact exponents.
    pair = [Fixed(scales(draw, []) * np.float32(0.03)) for _ in range(2)]
    inputs += [Fixed(draw.plain([3 * hidden])), *pair]
    mask = None
    if draw.chance(0.4):
        mask = draw.array([batch, length], I32, 0, 1)
        mask[:, 0] = 1
    inputs += [mask, Fixed(np.asarray(9, np.uint8)), Fixed(np.asarray(0, np.int8))]
    return Form(inputs, {"num_heads": heads, "unidirectional": draw.pick(0, 1)})


@contributed("EmbedLayerNormalization")
def _embed(draw: Draw) -> Form:
    batch, length, width = draw.pick(1, 2), draw.pick(1, 3), draw.pick(4, 8)
    inputs: list[Input] = [draw.array([batch, length], I32, 0, 9)]
    segments = draw.chance(0.6)
    inputs.append(draw.array([batch, length], I32, 0, 1) if segments else None)
    inputs += [Fixed(draw.plain([10, width])), Fixed(draw.plain([5, width]))]
    inputs.append(Fixed(draw.plain([2, width])) if segments else None)
    inputs += [Fixed(draw.plain([width])) for _ in range(2)]
    if draw.chance(0.5):
        inputs.append(draw.array([batch, length], I32, 0, 1))
    return Form(inputs, {"epsilon": 1e-5}, 2)


@contributed("GatherBlockQuantized", "MatMulBnb4")
def _few_bits(draw: Draw, name: str) -> Form:
    block, rows = draw.pick(16, 32), draw.pick(3, 8)
    size = block * draw.pick(1, 2)
    if name.endswith("Bnb4"):
        packed = draw.array([rows * size // 2], U8, 0, 255)
        stated = {"K": size, "N": rows, "block_size": block, "quant_type": draw.pick(0, 1)}
        lengths = scales(draw, [rows * size // block])
        return Form([draw.plain([draw.pick(1, 3), size]), Fixed(packed), Fixed(lengths)], stated)
    packed = draw.array([rows, size // 2], U8, 0, 255)
    places = draw.array(draw.shape(1, 2), draw.pick(I32, I64), 0, rows - 1)
    inputs: list[Input] = [Fixed(packed), places, Fixed(scales(draw, [rows, size // block]))]
    if draw.chance(0.4):
        inputs.append(Fixed(draw.array([rows, -(-(size // block) // 2)], U8, 0, 255)))
    return Form(inputs, {"gather_axis": 0, "quantize_axis": 1, "block_size": block, "bits": 4})


@contributed("CDist")
def _distances(draw: Draw) -> Form:
    m, n, k = (draw.pick(1, 2, 5, 17) for _ in range(3))
    pair: list[Input] = [draw.plain([rows, k]) for rows in (m, n)]
    return Form(pair, {"metric": draw.pick("euclidean", "sqeuclidean")})


@contributed("CropAndResize")
def _crop(draw: Draw) -> Form:
    count = draw.pick(1, 3)
    corners = np.sort(draw.array([count, 2, 2], F32, -0.2, 1.2), axis=1).reshape(count, 4)
    places = draw.array([count], I32, 0, 1)
    size = Fixed(np.array([draw.pick(1, 2, 4), draw.pick(1, 3)], np.int32))
    stated = {"mode": draw.pick("bilinear", "nearest"), "extrapolation_value": draw.pick(0.0, 2.0)}
    return Form([draw.plain([2, 3, 5, 6]), corners, places, size], stated)


@contributed("Pad")
def _pad(draw: Draw) -> Form:
    shape = draw.shape(1, 3, empty=False)
    modes = ("constant", "edge") + (("reflect",) if min(shape) > 1 else ())
    pads = draw.ints([draw.between(0, 1) for _ in range(2 * len(shape))])
    return Form([draw.plain(shape), pads, Fixed(draw.plain([1]))], {"mode": draw.among(modes)})
