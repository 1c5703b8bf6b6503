"""Products of OCP MX, and activations with scales of their own, beside a numpy formulation."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

import mgx_mlir
from mgx_mlir import Calibration, Precision, quantize
from mgx_mlir.errors import UsageError
from mgx_mlir.quantization import microscaling
from mgx_mlir.settings import Settings
from mgx_mlir.tools.mgx import main

from ..onnx_models import Builder, small
from ..test_small_floats import schedules
from .test_quantize import by_onnxruntime, convolutional, operators, samples_of, sqnr

KINDS = ("mxfp4", "mxfp6", "mxfp8")
# The positive numbers of each format (OCP MX 1.0, tables 2 to 4).
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
E2M3 = [*np.arange(0, 2, 1 / 8), *np.arange(2, 4, 1 / 4), *np.arange(4, 8, 1 / 2)]
E4M3 = np.arange(127, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
GRIDS = {"mxfp4": (np.array(E2M1), 2), "mxfp6": (np.array(E2M3), 2), "mxfp8": (E4M3, 8)}


def nearest(values, grid):
    """The nearest number of a format; of two, the one with an even code."""
    signs, sizes = np.sign(values), np.abs(values)
    high = np.clip(np.searchsorted(grid, sizes), 1, len(grid) - 1)
    low = high - 1
    below, above = sizes - grid[low], grid[high] - sizes
    up = (above < below) | ((above == below) & (high % 2 == 0))
    return signs * np.where(up, grid[high], grid[low])


def microscaled(rows, kind):
    """Rows of f32 rounded to MX along their last dimension: the specification, in f64."""
    grid, exponent = GRIDS[kind]
    found = np.zeros(rows.shape)
    for start in range(0, rows.shape[-1], 32):
        block = rows[..., start : start + 32].astype(np.float64)
        most = np.abs(block).max(-1, keepdims=True)
        power = np.floor(np.log2(np.where(most > 0, most, 1))) - exponent
        found[..., start : start + 32] = nearest(block / 2**power, grid) * 2**power
    return found


def product(depth=128, columns=48, rows=(2, 20)):
    b = Builder(4)
    y = b.op("MatMul", "x", b.weight("w", depth, columns))
    shape = [*rows, depth]
    return b.model({"x": (TensorProto.FLOAT, shape)}, {"y": (y, [*rows, columns])}, "net")


def inputs(model, spread=3):
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    rng = np.random.default_rng(5)
    x = rng.normal(0, 1, shape) * np.exp2(rng.integers(-spread, spread + 1, shape))
    x[..., 0, :] = 0
    return {"x": x.astype(np.float32)}


def weight_of(model):
    return onnx.numpy_helper.to_array(model.graph.initializer[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [128, 40])
def test_products_are_those_of_the_specification(kind, depth):
    model = product(depth)
    data = inputs(model)
    made = quantize(model, Precision(kind))
    assert [choice.precision for choice in made.choices] == [kind]
    expected = microscaled(data["x"], kind) @ microscaled(weight_of(model).T, kind).T
    found = mgx_mlir.compile(made.source).run(data)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    onnx.checker.check_model(made.proto(), full_check=True)
    reference = ReferenceEvaluator(made.proto()).run(None, data)[0]
    np.testing.assert_allclose(found, reference, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1])
def test_weights_are_rounded_in_blocks_along_either_axis(kind, axis):
    rng = np.random.default_rng(1)
    weight = (rng.standard_t(3, (70, 90)) * 1e-3).astype(np.float32)
    weight[:, 3] = 0
    codes, scales = microscaling.quantized(weight, axis, kind)
    factors = np.repeat(scales.astype(np.float64), 32, axis)
    wide = codes.astype(np.float64) * factors[: weight.shape[0], : weight.shape[1]]
    rows = weight.T if axis == 0 else weight
    expected = microscaled(rows, kind)
    np.testing.assert_array_equal(wide, expected.T if axis == 0 else expected)


@pytest.mark.parametrize(
    "kind, chip, said",
    [
        ("mxfp6", "gfx950", "mfma of f8E4M3FN in scaled blocks"),
        ("mxfp8", "gfx950", "mfma of f8E4M3FN in scaled blocks"),
        ("mxfp4", "gfx950", "mfma of bf16"),
        ("mxfp8", "gfx942", "mfma of bf16"),
        ("mxfp4", "gfx1100", "wmma of bf16"),
    ],
)
def test_chips_multiply_blocks_as_they_can(kind, chip, said):
    graph = schedules(quantize(product(), Precision(kind)).proto(), chip)
    assert graph[-1].endswith(said)


@pytest.mark.parametrize("chip", ["gfx950", "gfx942"])
@pytest.mark.parametrize("kind", KINDS)
def test_emulated_chips_compute_the_specification(kind, chip):
    model = product(rows=(20,))
    data = inputs(model)
    program = mgx_mlir.compile(quantize(model, Precision(kind)).source, target=chip)
    expected = microscaled(data["x"], kind) @ microscaled(weight_of(model).T, kind).T
    found = program.run(data)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("kind, least", [("mxfp4", 6), ("mxfp6", 22), ("mxfp8", 21)])
def test_networks_in_blocks_are_close_to_f32(kind, least):
    model = small("bert")
    (data,) = samples_of(model, 1)
    made = quantize(model, Precision(kind))
    expected, found = (mgx_mlir.compile(m).run(data) for m in (model, made.source))
    assert min(sqnr(found[key], expected[key]) for key in expected) > least


def test_convolutions_stay_in_f32_beside_blocks():
    choices = quantize(convolutional(), Precision("mxfp8")).choices
    assert [choice.precision for choice in choices] == ["f32"] * 3 + ["mxfp8"]
    assert choices[0].reason == "MX products are those of MatMul and Gemm with a matrix as weight"


@pytest.mark.parametrize("kind, most", [("int8", 127), ("fp8", 448)])
def test_rows_get_scales_of_their_own(kind, most, caplog):
    model = product()
    data = inputs(model)
    made = quantize(model, Precision(kind, dynamic=True))
    x, weight = data["x"].astype(np.float64), weight_of(model).astype(np.float64)
    factors = [np.abs(x).max(-1, keepdims=True), np.abs(weight).max(0, keepdims=True)]
    rounded = []
    for values, largest in zip((x, weight), factors, strict=True):
        scale = np.where(largest > 0, largest, 1) / most
        codes = values / scale
        codes = np.round(codes) if kind == "int8" else nearest(codes, E4M3)
        rounded.append(codes * scale)
    expected = rounded[0] @ rounded[1]
    found = mgx_mlir.compile(made.source).run(data)["y"]
    assert sqnr(found, expected) > 45  # where f32 divides, a number may round the other way
    assert sqnr(by_onnxruntime(made.proto(), data, "ORT_ENABLE_BASIC")["y"], found) > 60
    assert "no calibration data" not in caplog.text


def test_dynamic_scales_follow_outliers_where_ranges_clip():
    model = product()
    calm = [inputs(model, spread=0) for _ in range(2)]
    wild = {"x": calm[0]["x"] * np.linspace(1, 40, 20, dtype=np.float32)[:, None]}
    expected = mgx_mlir.compile(model).run(wild)["y"]
    errors = []
    for dynamic in (False, True):
        made = quantize(model, Precision("int8", dynamic=dynamic), Calibration(calm))
        errors.append(sqnr(mgx_mlir.compile(made.source).run(wild)["y"], expected))
    assert errors[1] > errors[0] + 20


def test_convolutions_keep_ranges_beside_dynamic_scales():
    model = convolutional()
    data = samples_of(model, 2)
    made = quantize(model, Precision("int8", dynamic=True), Calibration(data))
    assert {choice.precision for choice in made.choices} == {"int8"}
    assert operators(made.proto()).count("ReduceMax") == 1


def test_the_search_takes_blocks_back():
    model = small("bert")
    data = samples_of(model, 2)
    limit = 0.15
    made = quantize(model, Precision("mxfp4"), Calibration(data), max_loss=limit)
    assert len(made.steps) > 1
    assert made.steps[-1].loss <= limit < made.steps[0].loss


def test_the_command_line_quantizes_to_blocks(tmp_path, capsys):
    onnx.save(product(), tmp_path / "m.onnx")
    words = ["quantize", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "q.onnx")]
    assert main([*words, "--mx", "fp4"]) == 0
    assert "products: 1 mxfp4" in capsys.readouterr().out
    stored = onnx.load(tmp_path / "q.onnx")
    kinds = {t.data_type: len(t.raw_data) for t in stored.graph.initializer}
    assert kinds[TensorProto.FLOAT4E2M1] == 128 * 48 // 2
    assert kinds[TensorProto.FLOAT8E8M0] == 128 * 48 // 32
    assert main(["verify", str(tmp_path / "q.onnx")]) == 0
    assert main([*words, "--fp8", "--dynamic"]) == 0
    assert main([*words, "--dynamic"]) == 2
    assert "--dynamic is for" in capsys.readouterr().err


def test_dynamic_scales_without_products_are_refused():
    with pytest.raises(UsageError, match="dynamic is for products"):
        Precision(weights="int4", dynamic=True)


def test_large_blocks_lie_in_external_data(tmp_path):
    model = product(128, 96)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    made = quantize(tmp_path / "m.onnx", Precision("mxfp4"))
    made.save(tmp_path / "q.onnx")
    assert (tmp_path / "q.onnx.data").stat().st_size == 128 * 96 // 2
    data = inputs(model)
    found = mgx_mlir.compile(tmp_path / "q.onnx").run(data)["y"]
    np.testing.assert_array_equal(found, mgx_mlir.compile(made.source).run(data)["y"])


# Operands of 8 bits that a thread reads one at a time, and carries through a loop.
@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
@pytest.mark.parametrize(
    "precision, sizes",
    [(Precision("fp8", dynamic=True), (66, 127, 3)), (Precision("mxfp8"), (7, 4096, 13))],
)
def test_odd_products_of_bytes_on_chips(precision, sizes, chip):
    rows, depth, columns = sizes
    b = Builder(0)
    y = b.op("MatMul", "x", b.weight("w", depth, columns))
    ends = {"x": (TensorProto.FLOAT, [rows, depth])}, {"y": (y, [rows, columns])}
    model = b.model(*ends, "odd")
    data = inputs(model)
    made = quantize(model, precision)
    expected = mgx_mlir.compile(made.source).run(data)["y"]
    found = mgx_mlir.compile(made.source, chip, settings=Settings(hip="emulated")).run(data)["y"]
    assert sqnr(found, expected) > 60
