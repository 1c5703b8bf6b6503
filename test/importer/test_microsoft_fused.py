"""Fused and quantized operators of com.microsoft agree with onnxruntime, or with numpy.

numpy says it where onnxruntime has the operator on GPUs only.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import parse_onnx
from test.importer.agreement import (
    assert_agrees,
    assert_close,
    contributed,
    floats,
    ints,
    outputs_of,
)

U8, I8 = np.uint8, np.int8


def f32(value: object) -> np.ndarray:
    return np.array(value, np.float32)


def integers(dtype: type, *shape: int, seed: int = 0) -> np.ndarray:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return rng.integers(max(info.min, -127), min(info.max, 255), shape).astype(dtype)


def computed(kind: str, inputs: dict, **options: object) -> list[np.ndarray]:
    model, fed = contributed(kind, inputs, **options)
    return outputs_of(parse_onnx(model), fed)


IMAGE = floats(1, 4, 5, 6)
FILTER = floats(2, 4, 3, 3, seed=1)
CONV = {"pads": [1, 0, 1, 0], "strides": [2, 1], "kernel_shape": [3, 3]}


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [("Relu", []), ("Clip", [-0.5, 0.5]), ("LeakyRelu", [0.2]), ("HardSigmoid", [0.3, 0.4])],
)
def test_fused_conv(activation, parameters):
    inputs = {"x": IMAGE, "w": FILTER, "b": floats(2, seed=2)}
    options = {"activation_params": parameters} if parameters else {}
    assert_agrees(*contributed("FusedConv", inputs, activation=activation, **options, **CONV))


def test_fused_conv_adds_before_its_function():
    inputs = {"x": IMAGE, "w": FILTER, "b": floats(2, seed=2), "z": floats(1, 2, 3, 4, seed=3)}
    assert_agrees(*contributed("FusedConv", inputs, activation="Relu", **CONV))


@pytest.mark.parametrize(
    ("kind", "filters"), [("NhwcConv", FILTER.transpose(0, 2, 3, 1)), ("NhwcFusedConv", FILTER)]
)
def test_convolutions_with_channels_last(kind, filters):
    (first,) = computed("FusedConv", {"x": IMAGE, "w": FILTER}, **CONV)
    inputs = {"x": np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1)), "w": filters.copy()}
    (last,) = computed(kind, inputs, **CONV)
    assert_close([last.transpose(0, 3, 1, 2)], [first])


@pytest.mark.parametrize("activation", ["Relu", "LeakyRelu"])
def test_fused_gemm(activation):
    inputs = {"a": floats(3, 4), "b": floats(5, 3, seed=1), "c": floats(5, seed=2)}
    options = {"activation_alpha": 0.3} if activation == "LeakyRelu" else {}
    assert_agrees(
        *contributed(
            "FusedGemm", inputs, activation=activation, transA=1, transB=1, alpha=0.5, **options
        )
    )


def test_an_activation_that_is_not_known_is_refused():
    model, _ = contributed("FusedGemm", {"a": floats(2, 2), "b": floats(2, 2)}, activation="Swoosh")
    with pytest.raises(UnsupportedError, match="activation Swoosh; there are affine"):
        parse_onnx(model)


@pytest.mark.parametrize("kind", ["FusedMatMul", "TransposeMatMul"])
def test_fused_matmul(kind):
    inputs = {"a": floats(2, 4, 3), "b": floats(2, 5, 4, seed=1)}
    assert_agrees(*contributed(kind, inputs, transA=1, transB=1, alpha=0.5))


def test_fused_matmul_with_the_batch_inside():
    inputs = {"a": floats(3, 2, 4), "b": floats(2, 4, 5, seed=1)}
    assert_agrees(*contributed("FusedMatMul", inputs, transBatchA=1))


def test_nhwc_max_pool():
    inputs = {"x": integers(U8, 1, 5, 6, 3)}
    assert_agrees(*contributed("NhwcMaxPool", inputs, (U8,), kernel_shape=[2, 2], strides=[2, 1]))


def standard(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("channels_last", [0, 1])
def test_group_norm_and_its_skip(channels_last):
    x, skip, bias = floats(2, 4, 3, 5), floats(2, 4, seed=1), floats(4, seed=2)
    gamma, beta = floats(4, seed=3), floats(4, seed=4)
    total = x + skip[:, :, None, None] + bias[:, None, None]
    options = {"groups": 2, "activation": 1, "epsilon": 1e-3, "channels_last": channels_last}

    def normal(x: np.ndarray) -> np.ndarray:
        y = standard(x.reshape(2, 2, 2, 3, 5), (2, 3, 4), 1e-3).reshape(x.shape)
        y = y * gamma[:, None, None] + beta[:, None, None]
        return y / (1 + np.exp(-y))

    def layout(x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if channels_last else x

    inputs = {"x": layout(x), "gamma": gamma, "beta": beta}
    assert_close(computed("GroupNorm", inputs, **options), [layout(normal(x))])
    inputs |= {"skip": skip, "bias": bias}
    found = computed("SkipGroupNorm", inputs, outputs=(np.float32, np.float32), **options)
    assert_close(found, [layout(normal(total)), layout(total)])


def test_biases():
    x, bias, skip = floats(2, 3, 4), floats(4, seed=1), floats(2, 3, 4, seed=2)
    (y,) = computed("BiasAdd", {"x": x, "bias": bias, "skip": skip})
    assert_close([y], [x + bias + skip])
    (y,) = computed("BiasSplitGelu", {"x": x, "bias": bias})
    left, right = np.split(x + bias, 2, -1)
    erf = np.vectorize(math.erf)
    assert_close([y], [f32(left * right * 0.5 * (1 + erf(right / np.sqrt(2))))])
    (y,) = computed("BiasSoftmax", {"x": x, "bias": bias}, axis=1, is_inner_broadcast=0)
    e = np.exp((x + bias).reshape(2, 12))
    assert_close([y], [(e / e.sum(1, keepdims=True)).reshape(x.shape)])


def test_embed_layer_normalization():
    rng = np.random.default_rng(0)
    inputs = {
        "words": rng.integers(0, 7, (2, 3)).astype(np.int32),
        "segments": rng.integers(0, 2, (2, 3)).astype(np.int32),
        "table": floats(7, 4),
        "places": floats(5, 4, seed=1),
        "kinds": floats(2, 4, seed=2),
        "gamma": floats(4, seed=3),
        "beta": floats(4, seed=4),
        "mask": np.array([[1, 1, 0], [1, 1, 1]], np.int32),
    }
    types = (np.float32, np.int32, np.float32)
    assert_agrees(*contributed("EmbedLayerNormalization", inputs, types, epsilon=1e-3))
    inputs |= {"segments": None, "kinds": None, "mask": None}
    inputs["ids"] = np.array([[1, 0, 2], [3, 4, 0]], np.int32)
    assert_agrees(*contributed("EmbedLayerNormalization", inputs, types[:2]))


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("Affine", {"alpha": 2.0, "beta": 0.5}),
        ("ImageScaler", {"scale": 2.0, "bias": [1.0, 2.0, 3.0, 4.0]}),
        ("ParametricSoftplus", {"alpha": 2.0, "beta": 0.5}),
        ("Scale", {"scale": 3.0}),
        ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}),
        ("Crop", {"border": [1, 2, 1, 0]}),
    ],
)
def test_experimental_operators(kind, attributes):
    assert_agrees(*contributed(kind, {"x": IMAGE}, domain="", opset_version=8, **attributes))


def test_simplified_layer_normalization():
    inputs = {"x": floats(2, 3, 4), "scale": floats(4, seed=1)}
    kind = "SimplifiedLayerNormalization"
    assert_agrees(*contributed(kind, inputs, domain="", epsilon=1e-3, axis=-1))


def test_constant_fill():
    options = {
        "domain": "",
        "opset_version": 8,
        "value": 2.0,
        "input_as_shape": 1,
        "extra_shape": [1],
    }
    (y,) = computed("ConstantFill", {"s": ints(2, 3)}, constants=("s",), **options)
    assert_close([y], [np.full((2, 3, 1), 2, np.float32)])


def test_operators_with_the_meaning_of_onnx():
    assert_agrees(*contributed("ExpandDims", {"x": floats(2, 3), "a": np.array(-1, np.int32)},
                               constants=("a",)))  # fmt: skip
    assert_agrees(*contributed("GatherND", {"x": floats(2, 3), "i": np.array([[1], [0]])}))
    assert_agrees(*contributed("Trilu", {"x": floats(3, 4)}, upper=0))
    assert_agrees(*contributed("UnfoldTensor", {"x": floats(2, 7)}, size=3, step=2, dim=1))
    assert_agrees(*contributed("CDist", {"a": floats(3, 4), "b": floats(2, 4, seed=1)},
                               metric="euclidean"))  # fmt: skip
    limits = {"start": f32(1), "limit": f32(4)}
    (y,) = computed("Range", limits, constants=("start", "limit"))
    assert_close([y], [f32([1, 2, 3])])
    (y,) = computed("TorchEmbedding", {"x": floats(5, 3), "i": np.array([[4, 0]])})
    assert_close([y], [floats(5, 3)[[[4, 0]]]])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_pad(mode):
    inputs = {"x": floats(3, 4), "pads": ints(1, 0, 0, 2)}
    assert_agrees(*contributed("Pad", inputs, constants=("pads",), mode=mode))


def test_negative_amounts_of_padding_cut():
    inputs = {"x": floats(3, 4), "pads": ints(-1, 1, 0, -2)}
    assert_agrees(*contributed("Pad", inputs, constants=("pads",), domain=""))
    model, _ = contributed("Pad", inputs | {"pads": ints(-2, 0, -2, 0)}, constants=("pads",))
    with pytest.raises(ModelError, match=r"cut more than the 3 that are there"):
        parse_onnx(model)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_crop_and_resize(mode):
    inputs = {
        "x": floats(2, 3, 5, 6),
        "boxes": f32([[0.1, 0.2, 0.9, 0.8], [0.5, -0.2, 1.3, 0.6]]),
        "batches": np.array([1, 0], np.int32),
        "size": np.array([4, 3], np.int32),
    }
    options = {"mode": mode, "extrapolation_value": 9.0}
    assert_agrees(*contributed("CropAndResize", inputs, constants=("size",), **options))


def test_transforms_and_complex_products():
    x = floats(2, 8)
    spectrum = np.fft.rfft(x)
    pairs = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
    options = {"normalized": 0, "onesided": 1, "signal_ndim": 1}
    assert_close(computed("Rfft", {"x": x}, **options), [pairs])
    assert_close(computed("Irfft", {"x": pairs}, **options), [x])
    other = np.roll(spectrum, 1)
    given = {"a": pairs, "b": np.stack([other.real, other.imag], -1).astype(np.float32)}
    for kind, factor in (("ComplexMul", other), ("ComplexMulConj", other.conj())):
        product = spectrum * factor
        wanted = np.stack([product.real, product.imag], -1).astype(np.float32)
        assert_close(computed(kind, given), [wanted], atol=1e-4)


# Quantized -------------------------------------------------------------------------------

SCALES = {"s": f32(0.02), "z": np.array(100, U8)}
RESULT = {"ys": f32(0.03), "yz": np.array(90, U8)}


def test_linear_quantization_along_an_axis():
    inputs = {"x": floats(2, 3), "s": f32([0.01, 0.02, 0.03]), "z": np.array([1, 2, 3], U8)}
    assert_agrees(*contributed("QuantizeLinear", inputs, (U8,), axis=1))
    inputs["x"] = integers(U8, 2, 3)
    assert_agrees(*contributed("DequantizeLinear", inputs, axis=1))
    inputs |= {"s": f32(0.1), "z": np.array(7, U8)}
    assert_agrees(*contributed("DequantizeLinear", inputs, constants=("s", "z")))


@pytest.mark.parametrize("channels_last", [0, 1])
def test_quantized_average_pool(channels_last):
    inputs = {"x": integers(U8, 1, 4, 5, 6), **SCALES, **RESULT}
    model, fed = contributed(
        "QLinearAveragePool",
        inputs,
        (U8,),
        constants=("s", "z", "ys", "yz"),
        kernel_shape=[2, 2],
        pads=[1, 0, 0, 1],
        channels_last=channels_last,
    )
    assert_agrees(model, fed, atol=1)


@pytest.mark.parametrize(("opset", "axis"), [(12, 1), (13, 1), (13, -1)])
def test_quantized_softmax(opset, axis):
    inputs = {"x": integers(U8, 2, 3, 4), **SCALES, "ys": f32(1 / 256), "yz": np.array(0, U8)}
    model, fed = contributed(
        "QLinearSoftmax", inputs, (U8,), ("s", "z", "ys", "yz"), opset=opset, axis=axis
    )
    assert_agrees(model, fed, atol=1)


def test_quantized_where():
    inputs = {"c": np.array([[True, False, True]] * 2), "x": integers(U8, 2, 3), **SCALES}
    inputs |= {"y": integers(U8, 2, 3, seed=1), "s2": f32(0.01), "z2": np.array(9, U8), **RESULT}
    constants = tuple(n for n, a in inputs.items() if a.ndim == 0)
    assert_agrees(*contributed("QLinearWhere", inputs, (U8,), constants), atol=1)


def test_quantized_mean():
    x = integers(U8, 2, 3, 4)
    inputs = {"x": x, **SCALES, **RESULT}
    constants = ("s", "z", "ys", "yz")
    (y,) = computed("QLinearReduceMean", inputs, outputs=(U8,), constants=constants, axes=[1],
                    keepdims=0)  # fmt: skip
    mean = ((x.astype(np.float32) - 100) * 0.02).mean(1)
    assert_close([y], [np.clip(np.rint(mean / 0.03) + 90, 0, 255).astype(U8)], atol=1)


@pytest.mark.parametrize("channels_last", [0, 1])
def test_quantized_convolution(channels_last):
    inputs = {
        "x": integers(U8, 1, 5, 6, 4) if channels_last else integers(U8, 1, 4, 5, 6),
        **SCALES,
        "w": integers(I8, 2, 4, 3, 3, seed=1),
        "ws": f32([0.01, 0.02]),
        "wz": np.array([0, 0], I8),
        "ys": f32(1.5),
        "yz": np.array(90, U8),
        "b": np.array([30, -40], np.int32),
    }
    constants = tuple(n for n in inputs if n != "x")
    model, fed = contributed("QLinearConv", inputs, (U8,), constants, channels_last=channels_last)
    assert_agrees(model, fed, atol=1)


@pytest.mark.parametrize("quantized", [False, True])
def test_quantized_gemm(quantized):
    inputs = {
        "a": integers(U8, 4, 3),
        "as": f32(0.02),
        "az": np.array(100, U8),
        "b": integers(I8, 5, 4, seed=1),
        "bs": f32([0.01, 0.02, 0.03, 0.04, 0.05]),
        "bz": np.zeros(5, I8),
        "c": np.array([300, -200, 100, 50, 0], np.int32),
    }
    inputs |= RESULT if quantized else {}
    constants = tuple(n for n in inputs if n not in "abc")
    types = (U8,) if quantized else (np.float32,)
    model, fed = contributed("QGemm", inputs, types, constants, transA=1, transB=1, alpha=0.5)
    assert_agrees(model, fed, atol=1 if quantized else 1e-4)


def test_integer_products_as_floats():
    inputs = {
        "a": integers(U8, 2, 3, 4),
        "b": integers(I8, 4, 5, seed=1),
        "as": f32(0.02),
        "bs": f32([0.01, 0.02, 0.03, 0.04, 0.05]),
        "az": np.array(100, U8),
        "bz": np.array([1, 2, 3, 4, 5], I8),
        "bias": floats(5),
    }
    scalars = ("as", "az")
    assert_agrees(*contributed("MatMulIntegerToFloat", inputs, constants=scalars), atol=1e-4)
    inputs = {"a": floats(2, 3, 4), "b": inputs["b"], "bs": inputs["bs"], "bz": inputs["bz"]}
    assert_agrees(*contributed("DynamicQuantizeMatMul", inputs), atol=1e-4)


def test_integer_arithmetic():
    a, b = integers(np.int16, 2, 3), integers(np.int16, 3, 4, seed=1)
    assert_agrees(*contributed("MatMulInteger16", {"a": a, "b": b}, (np.int32,)))
    x, y = integers(I8, 2, 3), integers(I8, 2, 3, seed=1)
    inputs = {"a": x, "az": np.array(3, I8), "b": y, "bz": np.array(-2, I8)}
    (product,) = computed("MulInteger", inputs, outputs=(np.int32,), constants=("az", "bz"))
    assert_close([product], [(x.astype(np.int32) - 3) * (y.astype(np.int32) + 2)])
    (total,) = computed("ReduceSumInteger", {"x": x}, outputs=(np.int32,), axes=[1], keepdims=0)
    assert_close([total], [x.sum(1, dtype=np.int32)])


# Weights of a few bits -------------------------------------------------------------------


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed", "float"])
def test_matmul_n_bits(bits, zeros):
    if (bits, zeros) == (8, "float"):
        pytest.skip("onnxruntime has no such form")
    size, rows, block = 40, 6, 16
    blocks = -(-size // block)
    inputs = {
        "a": floats(2, 3, size),
        "w": integers(U8, rows, blocks, block * bits // 8, seed=1),
        "s": np.abs(floats(rows, blocks, seed=2)) * 0.1,
        "z": {
            "none": None,
            "packed": integers(U8, rows, -(-blocks * bits // 8), seed=3),
            "float": floats(rows, blocks, seed=3) + 3,
        }[zeros],
        "g": None,
        "b": floats(rows, seed=4),
    }
    model, fed = contributed(
        "MatMulNBits", inputs, constants=("w", "s"), bits=bits, N=rows, K=size, block_size=block
    )
    assert_agrees(model, fed, atol=1e-3)


@pytest.mark.parametrize("kind", [0, 1])
def test_matmul_bnb4(kind):
    size, rows, block = 32, 6, 16
    inputs = {
        "a": floats(3, size),
        "w": integers(U8, size * rows // 2, seed=1),
        "s": np.abs(floats(size * rows // block, seed=2)),
    }
    model, fed = contributed(
        "MatMulBnb4", inputs, constants=("w", "s"), quant_type=kind, N=rows, K=size,
        block_size=block,
    )  # fmt: skip
    assert_agrees(model, fed, atol=1e-3)


@pytest.mark.parametrize("zeros", [False, True])
def test_gather_of_quantized_rows(zeros):
    rows, columns, block = 6, 32, 16
    inputs = {
        "x": integers(U8, rows, columns // 2),
        "i": np.array([[5, 0, 3]]),
        "s": np.abs(floats(rows, columns // block, seed=1)),
        "z": integers(U8, rows, 1, seed=2) if zeros else None,
    }
    model, fed = contributed(
        "GatherBlockQuantized", inputs, constants=[n for n in "xsz" if inputs[n] is not None],
        bits=4, block_size=block, gather_axis=0, quantize_axis=1,
    )  # fmt: skip
    assert_agrees(model, fed)


# Mixtures of experts ---------------------------------------------------------------------

TOKENS, EXPERTS, WIDTH, INNER = 5, 4, 32, 16


@pytest.mark.parametrize("normal", [0, 1])
@pytest.mark.parametrize("kind", ["relu", "gelu", "silu", "identity"])
def test_mixture_of_experts(kind, normal):
    inputs = {
        "x": floats(TOKENS, WIDTH),
        "scores": floats(TOKENS, EXPERTS, seed=1),
        "w1": floats(EXPERTS, INNER, WIDTH, seed=2) * 0.1,
        "b1": floats(EXPERTS, INNER, seed=3),
        "w2": floats(EXPERTS, WIDTH, INNER, seed=4) * 0.1,
        "b2": floats(EXPERTS, WIDTH, seed=5),
    }
    model, fed = contributed(
        "MoE", inputs, k=2, activation_type=kind, normalize_routing_weights=normal
    )
    assert_agrees(model, fed, atol=1e-3)


@pytest.mark.parametrize("limit", [{}, {"swiglu_limit": 0.5}])
def test_mixture_with_a_gate(limit):
    inputs = {
        "x": floats(TOKENS, WIDTH),
        "scores": floats(TOKENS, EXPERTS, seed=1),
        "w1": floats(EXPERTS, 2 * INNER, WIDTH, seed=2) * 0.1,
        "b1": floats(EXPERTS, 2 * INNER, seed=3),
        "w2": floats(EXPERTS, WIDTH, INNER, seed=4) * 0.1,
        "b2": floats(EXPERTS, WIDTH, seed=5),
    }
    model, fed = contributed(
        "MoE", inputs, k=2, activation_type="swiglu", normalize_routing_weights=1,
        swiglu_fusion=1, activation_alpha=1.7, activation_beta=1.0, **limit,
    )  # fmt: skip
    assert_agrees(model, fed, atol=1e-3)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [0, 16])
def test_quantized_mixture_of_experts(bits, block):
    def scales(rows: int, size: int, seed: int) -> np.ndarray:
        blocks = (EXPERTS, rows, size // block) if block else (EXPERTS, rows)
        return np.abs(floats(*blocks, seed=seed)) * 0.01

    inputs = {
        "x": floats(TOKENS, WIDTH),
        "scores": floats(TOKENS, EXPERTS, seed=1),
        "w1": integers(U8, EXPERTS, INNER, WIDTH * bits // 8, seed=2),
        "s1": scales(INNER, WIDTH, 6),
        "b1": floats(EXPERTS, INNER, seed=3),
        "w2": integers(U8, EXPERTS, WIDTH, INNER * bits // 8, seed=4),
        "s2": scales(WIDTH, INNER, 7),
        "b2": floats(EXPERTS, WIDTH, seed=5),
    }
    options = {"block_size": block} if block else {}
    model, fed = contributed(
        "QMoE", inputs, constants=("w1", "s1", "w2", "s2"), k=2, activation_type="silu",
        normalize_routing_weights=1, expert_weight_bits=bits, **options,
    )  # fmt: skip
    # onnxruntime rounds the tokens to int8 where weights of 8 bits have blocks.
    assert_agrees(model, fed, atol=0.4 if (bits, block) == (8, 16) else 1e-3)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_lstm_with_quantized_weights(direction, each):
    directions, steps, batch, size, hidden = 1 + (direction == "bidirectional"), 4, 2, 3, 5
    shape = (directions, 4 * hidden) if each else (directions,)
    inputs = {
        "x": floats(steps, batch, size),
        "w": integers(I8, directions, size, 4 * hidden),
        "r": integers(I8, directions, hidden, 4 * hidden, seed=1),
        "b": floats(directions, 8 * hidden, seed=2),
        "lengths": None,
        "h": floats(directions, batch, hidden, seed=3),
        "c": floats(directions, batch, hidden, seed=4),
        "p": None,
        "ws": np.abs(floats(*shape, seed=5)) * 0.01,
        "wz": np.zeros(shape, I8),
        "rs": np.abs(floats(*shape, seed=6)) * 0.01,
        "rz": np.zeros(shape, I8),
    }
    model, fed = contributed(
        "DynamicQuantizeLSTM",
        inputs,
        (np.float32,) * 3,
        constants=("w", "r", "ws", "wz", "rs", "rz"),
        hidden_size=hidden,
        direction=direction,
    )
    assert_agrees(model, fed, atol=2e-2)


# Biases of scores ------------------------------------------------------------------------


def test_bias_without_dropout():
    inputs = {"x": floats(2, 3), "bias": floats(3, seed=1), "after": floats(2, 3, seed=2)}
    (y, kept) = computed("BiasDropout", inputs, outputs=(np.float32, np.bool_))
    assert_close([y], [inputs["x"] + inputs["bias"] + inputs["after"]])
    assert kept.all()


@pytest.mark.parametrize("both", [0, 1])
def test_relative_positions(both):
    """Short distances have a bucket each; transformers' T5 says which the others share."""
    table = floats(8, 2)
    inputs = {"table": table, "rows": ints(6), "columns": ints(6)}
    (y,) = computed(
        "RelativePositionBias",
        inputs,
        constants=("rows", "columns"),
        max_distance=20,
        is_bidirectional=both,
    )
    assert y.shape == (1, 2, 6, 6)
    if both:  # four buckets a side, two of them exact: 0, 1, then 2-3 and on
        bucket = np.array([0, 1, 2, 2, 2, 2])
        assert_close([y[0, :, 0, 1:]], [table[4 + bucket[1:]].T])
        assert_close([y[0, :, 5]], [table[bucket[::-1]].T])
    else:  # eight buckets, four of them exact
        assert_close([y[0, :, 5]], [table[[4, 4, 3, 2, 1, 0]].T])
        assert_close([y[0, :, 0]], [table[[0] * 6].T])


def test_gated_relative_positions():
    batch, length, heads, size, width = 2, 3, 2, 4, 8
    inputs = {
        "q": floats(batch, length, heads * size),
        "qb": floats(heads * size, seed=1),
        "bias": floats(1, heads, length, length, seed=2),
        "w": floats(size, width, seed=3),
        "b": floats(width, seed=4),
        "a": floats(1, heads, 1, 1, seed=5),
    }
    (y,) = computed("GatedRelativePositionBias", inputs, num_heads=heads)
    q = (inputs["q"] + inputs["qb"]).reshape(batch, length, heads, size).transpose(0, 2, 1, 3)
    gates = (q @ inputs["w"] + inputs["b"]).reshape(batch, heads, length, 2, width // 2).sum(-1)
    gates = 1 / (1 + np.exp(-gates))
    gate = gates[..., :1] * (gates[..., 1:] * inputs["a"] - 1) + 2
    assert_close([y], [gate * inputs["bias"]])
