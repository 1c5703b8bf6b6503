"""Forms that onnxruntime takes, and tools write, beside those of the standard."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

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
    """Whatever the model declares; subgraphs' declarations count for onnx's inference."""
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
