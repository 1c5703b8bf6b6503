"""f32 models quantized to int8, fp8 and few bits, here and in onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import mgx_mlir
from mgx_mlir import Calibration, Precision, quantize
from mgx_mlir.errors import UsageError

from ..onnx_models import Builder, small

ENDS = {"x": (TensorProto.FLOAT, [1, 3, 12, 12])}


def sqnr(found, expected):
    noise = np.square(found.astype(np.float64) - expected).mean()
    return 10 * np.log10(np.square(expected.astype(np.float64)).mean() / noise) if noise else np.inf


def convolutional():
    """Convolutions, a residual, a concat, a maximum, a nearest resize, and a Gemm."""
    b = Builder(3)

    def conv(x, name, inputs, outputs, size=3, **attributes):
        weight = b.weight(
            f"{name}.w", outputs, inputs, size, size, scale=(inputs * size**2) ** -0.5
        )
        bias = b.weight(f"{name}.b", outputs, scale=0.1)
        return b.op("Conv", x, weight, bias, pads=[size // 2] * 4, **attributes)

    first = b.op("Relu", conv("x", "first", 3, 8))
    left = conv(first, "left", 8, 8)
    joined = b.op("Relu", b.op("Add", left, first))
    pooled = b.op("MaxPool", joined, kernel_shape=[2, 2], strides=[2, 2])
    wide = b.op("Resize", pooled, "", b.constant([1, 1, 2, 2], np.float32), mode="nearest")
    both = b.op("Concat", wide, first, axis=1)
    last = b.op("Relu", conv(both, "last", 16, 8, size=1))
    flat = b.op("Flatten", b.op("GlobalAveragePool", last))
    y = b.op("Gemm", flat, b.weight("classes.w", 8, 10), b.weight("classes.b", 10))
    return b.model(ENDS, {"y": (y, [1, 10])}, "net")


def samples_of(model, count=6):
    rng = np.random.default_rng(1)
    made = []
    for _ in range(count):
        sample = {}
        for value in model.graph.input:
            sizes = [d.dim_value for d in value.type.tensor_type.shape.dim]
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                sample[value.name] = rng.normal(0.2, 1, sizes).astype(np.float32)
            else:
                sample[value.name] = rng.integers(0, 2, sizes)
        made.append(sample)
    return made


def by_onnxruntime(model, inputs, level="ORT_ENABLE_ALL"):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def operators(model):
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("options", [{}, {"asymmetric": False}, {"bias_correction": False}])
def test_int8_is_close_to_f32_and_equal_in_onnxruntime(options):
    model = convolutional()
    data = samples_of(model)
    made = quantize(model, Precision("int8", **options), Calibration(data))
    assert [choice.precision for choice in made.choices] == ["int8"] * 4
    expected = mgx_mlir.compile(model).run(data[0])["y"]
    found = mgx_mlir.compile(made.source).run(data[0])["y"]
    assert sqnr(found, expected) > 28
    onnx.checker.check_model(made.proto(), full_check=True)
    # Its rewrites multiply bytes, whose sums saturate where a CPU has no VNNI.
    theirs = by_onnxruntime(made.proto(), data[0], "ORT_DISABLE_ALL")["y"]
    assert sqnr(theirs, found) > 60


@pytest.mark.parametrize("name", ["bert", "vit", "resnet"])
def test_networks_in_int8_multiply_integers(name):
    model = small(name)
    data = samples_of(model, 3)
    made = quantize(model, Precision("int8"), Calibration(data))
    left = [choice for choice in made.choices if choice.precision != "int8"]
    assert all("the model's input" in choice.reason for choice in left)
    assert len(left) <= 1 < len(made.choices)
    (key, expected), *_ = mgx_mlir.compile(model).run(data[0]).items()
    program = mgx_mlir.compile(made.source)
    found = program.run(data[0])[key]
    assert sqnr(found, expected) > 20
    assert sqnr(by_onnxruntime(made.proto(), data[0])[key], found) > 25


def test_scales_fold_through_ops_that_move_elements():
    proto = quantize(
        convolutional(), Precision("int8"), Calibration(samples_of(convolutional()))
    ).proto()
    makers = {name: node for node in proto.graph.node for name in node.output}
    arrays = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}

    def scale(tensor):
        return next(
            float(arrays[node.input[1]])
            for node in proto.graph.node
            if node.op_type == "QuantizeLinear" and node.input[0] == tensor
        )

    concat = next(node for node in proto.graph.node if node.op_type == "Concat")
    assert {makers[name].op_type for name in concat.input} == {"DequantizeLinear"}
    resize = next(node for node in proto.graph.node if node.op_type == "Resize")
    pool = next(node for node in proto.graph.node if node.op_type == "MaxPool")
    alike = [*concat.output, *resize.output, *pool.output]
    assert len({scale(name) for name in alike}) == 1
    # An average is no element: the product behind it has a scale of its own.
    average = next(node for node in proto.graph.node if node.op_type == "GlobalAveragePool")
    assert makers[average.input[0]].op_type == "Relu"


def test_patterns_include_and_exclude_by_name_and_operator():
    model = convolutional()
    calibration = Calibration(samples_of(model, 2))
    without = quantize(model, Precision("int8", exclude=("Gemm",)), calibration)
    assert [c.precision for c in without.choices] == ["int8", "int8", "int8", "f32"]
    name = next(node.name for node in model.graph.node if node.op_type == "Conv")
    alone = quantize(model, Precision("int8", include=(name,)), calibration)
    assert [c.precision for c in alone.choices] == ["int8", "f32", "f32", "f32"]
    assert alone.choices[1].reason == "left out by name"


def test_several_precisions_at_once():
    model = small("bert")
    data = samples_of(model, 2)
    precision = Precision("int8", "int4", only_weights=("/MatMul_1*",))
    made = quantize(model, precision, Calibration(data))
    kinds = {choice.precision for choice in made.choices}
    assert kinds == {"int8", "int4"}
    narrow = mgx_mlir.compile(made.source, floats="f16").run(data[0])
    wide = mgx_mlir.compile(made.source).run(data[0])
    assert all(sqnr(narrow[key], wide[key]) > 30 for key in wide)


def test_fp8_is_close_to_f32_and_equal_in_onnxruntime():
    model = convolutional()
    data = samples_of(model)
    made = quantize(model, Precision("fp8"), Calibration(data))
    expected = mgx_mlir.compile(model).run(data[0])["y"]
    found = mgx_mlir.compile(made.source).run(data[0])["y"]
    assert sqnr(found, expected) > 20
    # Its further optimisations compute products of fp8 wrongly.
    assert sqnr(by_onnxruntime(made.proto(), data[0], "ORT_ENABLE_BASIC")["y"], found) > 60


def test_a_bias_too_large_for_its_scale_widens_the_scale():
    b = Builder(0)
    weight = b.add(np.full((4, 3, 1, 1), 1e-12, np.float32), "w")
    bias = b.add(np.array([0, 1, -300, 7], np.float32), "b")
    model = b.model(ENDS, {"y": (b.op("Conv", "x", weight, bias), [1, 4, 12, 12])}, "net")
    data = samples_of(model)
    found = mgx_mlir.compile(quantize(model, Precision("int8"), Calibration(data)).source).run(
        data[0]
    )
    np.testing.assert_allclose(found["y"][0, :, 0, 0], [0, 1, -300, 7], atol=1e-6)


def test_bias_correction_takes_the_mean_error_away():
    b = Builder(0)
    rng = np.random.default_rng(0)
    # One large number per channel makes the others round coarsely, all in one direction.
    weight = np.abs(rng.normal(0.4, 0.02, (64, 8))).astype(np.float32) / 127
    weight[0] = 1
    y = b.op("Add", b.op("MatMul", "x", b.add(weight, "w")), b.weight("b", 8))
    ends = {"x": (TensorProto.FLOAT, [16, 64])}
    model = b.model(ends, {"y": (y, [16, 8])}, "net")
    data = [{"x": rng.normal(1, 0.1, (16, 64)).astype(np.float32)} for _ in range(4)]
    expected = mgx_mlir.compile(model).run(data[0])["y"]
    errors = []
    for correct in (False, True):
        made = quantize(model, Precision("int8", bias_correction=correct), Calibration(data))
        errors.append(sqnr(mgx_mlir.compile(made.source).run(data[0])["y"], expected))
    assert errors[1] > errors[0] + 10


def test_the_same_options_give_the_same_bytes(tmp_path):
    data = samples_of(convolutional(), 2)
    for name in ("a.onnx", "b.onnx"):
        quantize(convolutional(), Precision("int8"), Calibration(data)).save(tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_a_model_without_products_is_refused():
    b = Builder(0)
    model = b.model(ENDS, {"y": (b.op("Relu", "x"), [1, 3, 12, 12])}, "net")
    with pytest.raises(UsageError, match="no Conv, Gemm or MatMul"):
        quantize(model, Precision("int8"))
    with pytest.raises(UsageError, match="Graph is imported already"):
        quantize(mgx_mlir.parse_onnx(convolutional()), Precision("int8"))
    with pytest.raises(UsageError, match="no product is included"):
        quantize(convolutional(), Precision("int8", include=("nothing",)))


def test_patterns_that_match_nothing_are_told(caplog):
    patterns = {"include": ("*", "Matmul"), "exclude": ("Con",)}
    quantize(convolutional(), Precision("int8", **patterns))
    told = [m for m in caplog.messages if "no node" in m]
    assert told == [
        "include: no node's name or operator is 'Matmul'",
        "exclude: no node's name or operator is 'Con'; did you mean 'Conv'?",
    ]


@pytest.mark.parametrize(
    "wrong", [{"products": "int9"}, {"weights": "int3"}, {"block": 24}, {"rounding": "up"}]
)
def test_a_precision_that_is_none_is_refused(wrong):
    with pytest.raises(UsageError, match="Precision"):
        Precision(**wrong)


def test_open_sizes_whose_results_are_declared_to_be_one():
    b = Builder(0)
    made = b.op("Conv", "x", b.weight("w", 4, 3, 1, 1), strides=[2, 2])
    rows = [b.weight(f"n{i}", 4) for i in range(3)] + [b.add(np.ones(4, np.float32), "v")]
    y = b.op("BatchNormalization", made, *rows)
    ends = {"x": (TensorProto.FLOAT, [1, 3, "h", 4])}, {"y": (y, [1, 4, 1, 2])}
    model = b.model(*ends, "open")
    data = {"x": np.random.default_rng(0).normal(0, 1, (1, 3, 2, 4)).astype(np.float32)}
    source = quantize(model, Precision("int8"), Calibration([data])).source
    found = mgx_mlir.compile(source, mode="full-dynamic").run(data)["y"]
    expected = mgx_mlir.compile(model, mode="full-dynamic").run(data)["y"]
    assert sqnr(found, expected) > 25
