"""Forms that onnxruntime takes, and tools write, beside those of the standard."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from mgx_mlir import Model, compile
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.importer import parse_onnx
from test.importer.agreement import (
    assert_agrees,
    assert_close,
    contributed,
    expected,
    floats,
    ints,
    one_node,
    outputs_of,
)


@pytest.mark.parametrize("opset", [7, 12, 16])
def test_layer_normalization_is_in_every_opset(opset):
    """onnxruntime's optimiser writes it into models of any opset."""
    inputs = {"x": floats(2, 3, 4), "scale": floats(4), "bias": floats(4, seed=1)}
    assert_agrees(*contributed("LayerNormalization", inputs, domain="", opset_version=opset))


@pytest.mark.parametrize("opset", [18, 20])
def test_group_normalization_with_numbers_for_groups(opset):
    inputs = {"x": floats(2, 4, 3), "scale": floats(2), "bias": floats(2, seed=1)}
    model, fed = contributed(
        "GroupNormalization", inputs, domain="", opset_version=opset, num_groups=2
    )
    assert_agrees(model, fed)


def test_an_undefined_stash_type_is_float():
    inputs = {"x": floats(2, 3), "scale": floats(3)}
    assert_agrees(*one_node("LayerNormalization", inputs, stash_type=0))


def test_domains_without_an_import():
    for kind, domain, attributes in (
        ("Gelu", "com.microsoft", {}),
        ("Scaler", "ai.onnx.ml", {"offset": [1.0, 2.0], "scale": [2.0, 3.0]}),
    ):
        model, fed = contributed(kind, {"x": floats(3, 2)}, domain=domain, **attributes)
        kept = [entry for entry in model.opset_import if not entry.domain]
        del model.opset_import[:]
        model.opset_import.extend(kept)
        assert_agrees(model, fed)


def test_split_by_the_number_of_its_results():
    x = floats(6, 2)
    for opset in (7, 11, 13):
        assert_agrees(*one_node("Split", {"x": x}, opset, outputs=3))
    assert_agrees(*one_node("Split", {"x": floats(7, 2)}, 18, outputs=3, num_outputs=3))
    # The standard wants sizes or their number since opset 18.
    model, fed = contributed("Split", {"x": x}, [np.float32] * 3, domain="", opset_version=18)
    assert_close(outputs_of(parse_onnx(model), fed), np.split(x, 3))


@pytest.mark.parametrize("inner", [False, True])
def test_constants_have_the_type_of_their_value(inner):
    """The model's declarations do not count; subgraphs' declarations count for onnx's inference."""
    nodes = [
        helper.make_node("Constant", [], ["shape"], "k", value=numpy_helper.from_array(ints(2, 3))),
        helper.make_node("Reshape", ["x", "shape"], ["y"], "reshape"),
    ]
    wrong = helper.make_tensor_value_info("shape", onnx.TensorProto.FLOAT, [2])
    x = helper.make_tensor_value_info("x", 1, [6])
    y = helper.make_tensor_value_info("y", 1, None)
    graph = helper.make_graph(nodes, "g", [x], [y, wrong])
    fed = {"x": floats(6)}
    if inner:
        body = helper.make_graph(nodes, "body", [], [y], value_info=[wrong])
        node = helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body)
        condition = helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])
        z = helper.make_tensor_value_info("z", 1, None)
        graph = helper.make_graph([node], "g", [x, condition], [z])
        fed["c"] = np.array(True)
    opsets = [helper.make_opsetid("", 17)]
    assert_agrees(helper.make_model(graph, opset_imports=opsets, ir_version=8), fed)


@pytest.mark.parametrize("opset", [7, 9, 15])
@pytest.mark.parametrize("shape", [(5,), (2, 3)])
def test_batches_of_numbers_are_normalised(opset, shape):
    channels = 1 if len(shape) == 1 else shape[1]
    parts = {n: floats(channels, seed=i) for i, n in enumerate("sbm")}
    inputs = {"x": floats(*shape), **parts, "v": abs(floats(channels, seed=4))}
    assert_agrees(*one_node("BatchNormalization", inputs, opset, constants=[*parts, "v"]))
    if opset == 15:
        made = one_node("BatchNormalization", inputs, opset, outputs=3, training_mode=1)
        assert_agrees(*made)


def normalised(shape: tuple[int, ...], parameters: tuple[int, ...], **attributes: int):
    """BatchNormalization of opset 7, whose parameters are constant."""
    inputs = {n: floats(*parameters, seed=i) for i, n in enumerate("sbm")}
    inputs = {"x": floats(*shape), **inputs, "v": abs(floats(*parameters, seed=4))}
    return one_node("BatchNormalization", inputs, 7, constants=list(inputs)[1:], **attributes)


def test_batch_normalization_of_each_element():
    assert_agrees(*normalised((2, 3), (3,), spatial=0))
    assert_agrees(*normalised((2, 3, 4), (3, 4), spatial=0))
    model, fed = normalised((2, 3, 1, 1), (3,), spatial=0)
    want = expected(normalised((2, 3, 1, 1), (3,))[0], fed)
    assert_close(outputs_of(parse_onnx(model), fed), want)


@pytest.mark.parametrize("window", [True, False])
@pytest.mark.parametrize("onesided", [0, 1])
def test_a_short_time_transform_of_a_plain_signal(window, onesided):
    """PyTorch writes (batch, length); onnx's checker wants a dimension of 1 behind."""
    signal = floats(2, 32)
    inputs = {"x": signal, "step": np.array(8), "w": floats(16) if window else None}
    inputs["length"] = np.array(16)
    made = contributed("STFT", inputs, constants=["step", "length"], domain="", onesided=onesided)
    frames = np.stack([signal[:, i : i + 16] for i in (0, 8, 16)], 1)
    transform = np.fft.rfft if onesided else np.fft.fft
    want = transform(frames * (inputs["w"] if window else 1))
    want = np.stack([want.real, want.imag], -1).astype(np.float32)
    assert_close(outputs_of(parse_onnx(made[0]), made[1]), [want], atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "want"),
    [(np.int8, [-2, -1, 0, 0, 0, 0, 0, 1, 2]), (np.int64, None), (np.uint8, None)],
)
def test_shrink_computes_integers_in_floats(dtype, want):
    x = np.arange(-4, 5) if np.dtype(dtype).kind == "i" else np.arange(9)
    model, fed = one_node("Shrink", {"x": x.astype(dtype)}, 9, bias=1.5, lambd=1.5)
    assert_agrees(model, fed)
    if want:
        np.testing.assert_array_equal(outputs_of(parse_onnx(model), fed)[0], want)


# ===----------------------------------------------------------------------===#
# Recurrent networks
# ===----------------------------------------------------------------------===#

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(kind: str, direction: str, lengths: list[int] | None, **attributes):
    """A node with first states, of 3 steps and a batch of 3."""
    count, gates = (2 if direction == "bidirectional" else 1), GATES[kind]
    inputs = {
        "x": floats(3, 3, 2),
        "w": floats(count, gates * 4, 2, seed=1),
        "r": floats(count, gates * 4, 4, seed=2),
        "b": floats(count, gates * 8, seed=3),
        "s": None if lengths is None else np.array(lengths, np.int32),
        "h": floats(count, 3, 4, seed=4),
    }
    if kind == "LSTM":
        inputs["c"] = floats(count, 3, 4, seed=5)
    if attributes.get("layout"):
        inputs |= {n: inputs[n].transpose(1, 0, 2) for n in ("x", "h", "c") if n in inputs}
    results = 3 if kind == "LSTM" else 2
    stated = {"hidden_size": 4, "direction": direction, **attributes}
    return one_node(kind, inputs, 14, outputs=results, **stated)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_sequence_without_steps_ends_with_zeros(kind, direction):
    for lengths in ([0, 3, 1], [0, 0, 0]):
        assert_agrees(*recurrent(kind, direction, lengths))
        flat = outputs_of(parse_onnx((made := recurrent(kind, direction, lengths))[0]), made[1])
        turned = recurrent(kind, direction, lengths, layout=1)
        orders = [(2, 0, 1, 3), (1, 0, 2), (1, 0, 2)]
        want = [a.transpose(o) for a, o in zip(flat, orders, strict=False)]
        assert_close(outputs_of(parse_onnx(turned[0]), turned[1]), want)


@pytest.mark.parametrize("kind", GATES)
def test_a_clip_of_zero_clips_nothing(kind):
    model, fed = recurrent(kind, "forward", None, clip=0.0)
    without, _ = recurrent(kind, "forward", None)
    assert_close(outputs_of(parse_onnx(model), fed), outputs_of(parse_onnx(without), fed))


@pytest.mark.parametrize("kind", ["RNN", "LSTM"])
def test_sequences_of_no_step(kind):
    model, fed = recurrent(kind, "forward", None)
    fed = fed | {"x": floats(0, 3, 2)}
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0
    got = outputs_of(parse_onnx(model), fed)
    assert [a.shape for a in got] == [(0, 1, 3, 4), *[(1, 3, 4)] * (len(got) - 1)]
    assert not any(a.any() for a in got)


# ===----------------------------------------------------------------------===#
# Values at the edge
# ===----------------------------------------------------------------------===#


def test_reductions_of_integers_with_roots_and_logarithms():
    x = np.arange(1, 25, dtype=np.int32).reshape(2, 3, 4)
    for kind in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp"):
        assert_agrees(*one_node(kind, {"x": x, "a": ints(1)}, 18, constants=["a"]))


def test_axes_may_be_named_twice():
    x = floats(2, 3, 4)
    assert_agrees(*one_node("ReduceSum", {"x": x, "a": ints(1, -2)}, 13, constants=["a"]))
    assert_agrees(*one_node("Squeeze", {"x": x[:1], "a": ints(0, 0)}, 13, constants=["a"]))


def test_a_condition_longer_than_what_it_chooses_of():
    chosen = np.array([1, 0, 1, 1, 1], bool)
    inputs = {"x": floats(4, 3), "c": chosen}
    assert_agrees(*one_node("Compress", inputs, 11, constants=["c"], axis=0))
    model, fed = contributed("Compress", inputs, domain="", axis=0)
    assert_close(list(Model(model).run(fed).values()), expected(model, fed))


def test_a_quantization_of_zeros():
    model, fed = one_node(
        "DynamicQuantizeLinear", {"x": np.zeros((2, 3), np.float32)}, 11, outputs=3
    )
    assert_agrees(model, fed)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_windows_without_padding_may_be_rounded_up(kind):
    made = one_node(
        kind, {"x": floats(1, 2, 6, 5)}, 11, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1,
        auto_pad="VALID",
    )  # fmt: skip
    assert_agrees(*made)


@pytest.mark.parametrize("alpha", [0.5, -0.7])
def test_celu_of_either_sign(alpha):
    assert_agrees(*one_node("Celu", {"x": 5 * floats(3, 4)}, 12, alpha=alpha), atol=1e-3)


# ===----------------------------------------------------------------------===#
# Images
# ===----------------------------------------------------------------------===#


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 1.5), (1, 1, 0.5, 0.6)])
def test_resize_from_the_corners_of_pixels(mode, scales):
    """Coordinates as TensorFlow has them for nearest neighbours: (x + 0.5) / scale."""
    roundings = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    for nearest in roundings if mode == "nearest" else roundings[:1]:
        inputs = {"x": floats(1, 2, 4, 5), "r": floats(0), "s": np.array(scales, np.float32)}
        made = one_node(
            "Resize", inputs, 13, constants=["r", "s"], mode=mode, nearest_mode=nearest,
            coordinate_transformation_mode="tf_half_pixel_for_nn",
        )  # fmt: skip
        assert_agrees(*made)


@pytest.mark.parametrize("opset", [10, 16])
@pytest.mark.parametrize("sizes", [(2, 3), (1, 1), (7, 7)])
@pytest.mark.parametrize("scale", [1.0, 0.25, 3.0])
@pytest.mark.parametrize(("mode", "shift"), [("avg", 0), ("max", 0), ("max", -3)])
def test_regions_have_as_many_samples_as_they_need(opset, sizes, scale, mode, shift):
    """Regions within the image, beyond it, of one point, and turned round."""
    rois = [[0, 0, 5, 5], [1, 1, 3.5, 4], [2, 0, 2.2, 6], [-3, -3, 20, 30], [3, 3, 3, 3],
            [4, 4, 2, 2], [6.5, 7.5, 9, 9], [-50, 2, 100, 3]]  # fmt: skip
    inputs = {
        "x": floats(2, 3, 8, 7) + np.float32(shift),
        "rois": np.array(rois, np.float32),
        "batches": np.arange(8) % 2,
    }
    made = one_node(
        "RoiAlign", inputs, opset, output_height=sizes[0], output_width=sizes[1],
        sampling_ratio=0, spatial_scale=scale, mode=mode,
    )  # fmt: skip
    assert_agrees(*made, atol=2e-4)


# ===----------------------------------------------------------------------===#
# Values that a run decides
# ===----------------------------------------------------------------------===#


@pytest.mark.parametrize("axes", [[1], [0, -1], []])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions_along_axes_that_a_run_says(axes, keepdims):
    inputs = {"x": floats(2, 3, 4), "axes": np.array(axes, np.int64)}
    model, fed = contributed("ReduceMean", inputs, domain="", opset_version=18, keepdims=keepdims)
    assert_close(list(Model(model).run(fed).values()), expected(model, fed))


def symbolic(kind: str, shape: list[int | str], constants: dict[str, np.ndarray], **attributes):
    """A node whose first input has symbolic sizes."""
    node = helper.make_node(kind, ["x", *constants], ["y"], **attributes)
    x = helper.make_tensor_value_info("x", 1, shape)
    y = helper.make_tensor_value_info("y", 1, None)
    weights = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph([node], "g", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def assert_serves(model: onnx.ModelProto, *shapes: tuple[int, ...]) -> None:
    """One program for all sizes gives what onnxruntime does."""
    program = compile(model, "cpu", CompileOptions(mode="full-dynamic"))
    for shape in shapes:
        fed = {"x": floats(*shape)}
        assert_close(list(program.run(fed).values()), expected(model, fed))


LARGEST = 2**31 - 1


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [
        *((1, LARGEST, 1), (0, -1, 1), (-1, LARGEST, 1), (0, LARGEST, 2), (-1, -LARGEST, -1)),
        *((1, 10**9, 1), (-2, 10**9, 1), (10**9, 2, -1), (-2, -(10**9), -2), (-LARGEST, 0, -1)),
        (-(10**9), 2, -2),
    ],
)
def test_slices_of_symbolic_sizes(start, end, step):
    values = {"s": start, "e": end, "a": 1, "t": step}
    model = symbolic("Slice", ["n", "m"], {n: ints(v) for n, v in values.items()})
    assert_serves(model, (3, 5), (2, 8))


def test_a_slice_to_a_constant_bound_serves_sizes_that_reach_it():
    model = symbolic("Slice", ["n", "m"], {"s": ints(0), "e": ints(2), "a": ints(1)})
    assert_serves(model, (3, 5), (2, 8))


def test_a_slice_of_everything_needs_no_size():
    model = symbolic("Slice", ["n", "m"], {"s": ints(0), "e": ints(LARGEST), "a": ints(1)})
    assert "mgx.slice" not in str(parse_onnx(model).module)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks_of_images_of_symbolic_sizes(mode):
    deep = symbolic("DepthToSpace", ["n", 8, "h", "w"], {}, blocksize=2, mode=mode)
    assert_serves(deep, (2, 8, 3, 5), (1, 8, 2, 2))
    assert_serves(symbolic("SpaceToDepth", ["n", 3, 4, 6], {}, blocksize=2), (2, 3, 4, 6))


# ===----------------------------------------------------------------------===#
# com.microsoft
# ===----------------------------------------------------------------------===#


def test_weights_of_few_bits_in_an_order_of_their_own():
    rng = np.random.default_rng(0)
    inputs = {
        "a": floats(2, 64),
        "b": rng.integers(0, 255, (3, 4, 8)).astype(np.uint8),
        "scales": abs(floats(12)),
        "zeros": None,
        "order": rng.integers(0, 4, 64).astype(np.int32),
    }
    made = contributed("MatMulNBits", inputs, K=64, N=3, bits=4, block_size=16)
    assert_agrees(*made, atol=1e-3)


@pytest.mark.parametrize("mask", [(2, 1), (1, 1)])
def test_a_mask_of_one_column_masks_nothing(mask):
    inputs = {"x": floats(2, 4, 8), "w": floats(8, 24), "b": floats(24)}
    inputs["mask"] = np.zeros(mask, np.int32)
    assert_agrees(*contributed("Attention", inputs, num_heads=2), atol=1e-4)


def test_a_mask_of_ends_and_sums_of_lengths():
    inputs = {"q": floats(2, 3, 8), "k": floats(2, 5, 8, seed=1), "v": floats(2, 5, 8, seed=2)}
    inputs |= {"b": None, "mask": np.array([5, 2, 0, 3, 6, 0, 5, 10], np.int32)}
    assert_agrees(*contributed("MultiHeadAttention", inputs, num_heads=2), atol=1e-4)


def test_a_cache_whose_length_a_run_says():
    names = ("q", "k", "v", "past_k", "past_v", "ends", "total")
    shapes = [(2, 1, 32), (2, 1, 16), (2, 1, 16), (2, 2, 8, 8), (2, 2, 8, 8)]
    inputs = {n: floats(*s, seed=i) for i, (n, s) in enumerate(zip(names, shapes, strict=False))}
    inputs |= {"ends": np.full(2, 7, np.int32), "total": np.array([8], np.int32)}
    model, fed = contributed(
        "GroupQueryAttention", inputs, [np.float32] * 3, num_heads=4, kv_num_heads=2
    )
    assert_close(list(Model(model).run(fed).values()), expected(model, fed), atol=1e-4)


def test_a_cache_that_grows_to_the_length_that_a_run_says():
    """One model for a prompt, a token after it, and a token in a cache that has a place for it."""
    names, ran = ("q", "k", "v", "past_k", "past_v", "ends", "total"), None
    for past, new, total in ((0, 4, 4), (4, 1, 5), (4, 1, 4)):
        shapes = [(1, new, n * 8) for n in (4, 2, 2)] + 2 * [(1, 2, past, 8)]
        inputs = {n: floats(*s) for n, s in zip(names, shapes, strict=False)}
        inputs |= {"ends": np.full(1, total - 1, np.int32), "total": np.array([total], np.int32)}
        model, fed = contributed(
            "GroupQueryAttention", inputs, [np.float32] * 3, num_heads=4, kv_num_heads=2
        )
        if ran is None:
            for value in model.graph.input[:5]:
                axis, name = (1, "new") if value.name in "qkv" else (2, "past")
                value.type.tensor_type.shape.dim[axis].dim_param = name
            ran = Model(model)
        assert_close(list(ran.run(fed).values()), expected(model, fed), atol=1e-4)


@pytest.mark.parametrize("operator", ["AveragePool", "LpPool", "MaxPool"])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 0, 0, 1)])
def test_a_window_larger_than_the_image_reads_all_of_it(operator, pads):
    """A network's pool of the whole image, as exporters write it: rounded up to one window."""
    window = {"kernel_shape": [64, 64], "strides": [64, 64], "pads": pads, "ceil_mode": 1}
    assert_agrees(*one_node(operator, {"x": floats(1, 2, 4, 3)}, 19, **window))
