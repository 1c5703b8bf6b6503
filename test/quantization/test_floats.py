"""Calibrated ranges that say which nodes do not fit f16."""

from __future__ import annotations

import logging

import numpy as np
import onnx
import pytest

import mgx_mlir
from mgx_mlir import Calibration, CompileOptions
from mgx_mlir.quantization.floats import beyond_f16
from mgx_mlir.quantization.ranges import Ranges
from mgx_mlir.tools import mgx
from test.onnx_models import Builder

GIVEN = {"x": np.full((2, 8), 4, np.float32)}


def model(factor):
    """A product, a step whose results are `factor` times larger, and one that scales back."""
    b = Builder(0)
    first = b.op("MatMul", "x", b.add(np.eye(8, dtype=np.float32), "v"))
    large = b.op("MatMul", first, b.add(np.eye(8, dtype=np.float32) * factor, "w"))
    small = b.op("MatMul", large, b.add(np.eye(8, dtype=np.float32) / factor, "u"))
    y = b.op("MatMul", small, b.add(np.eye(8, dtype=np.float32), "t"))
    return b.model({"x": (onnx.TensorProto.FLOAT, [2, 8])}, {"y": (y, [2, 8])}, "wide")


def test_nodes_beyond_f16_are_named_and_stay_right(caplog):
    large = model(30000)
    with caplog.at_level(logging.WARNING):
        names = beyond_f16(large, Calibration([GIVEN]))
    assert len(names) == 2  # the product that makes the large tensor, and the one that reads it
    assert "1.2e+05" in caplog.text
    plain = mgx_mlir.compile(large, options=CompileOptions(floats="f16")).run(GIVEN)["y"]
    assert not np.isfinite(plain).all()
    kept = CompileOptions(floats="f16", keep=tuple(names))
    np.testing.assert_allclose(mgx_mlir.compile(large, options=kept).run(GIVEN)["y"], GIVEN["x"])


def test_a_model_within_f16_keeps_nothing():
    assert beyond_f16(model(10), Calibration([GIVEN])) == []


def test_ranges_of_a_file_take_the_place_of_data():
    large = model(30000)
    tensor = large.graph.node[1].output[0]
    assert len(beyond_f16(large, Calibration(ranges=Ranges({tensor: (-9e4, 0.0)})))) == 2
    assert beyond_f16(large, Calibration(ranges=Ranges({tensor: (-9e2, 0.0)}))) == []


@pytest.mark.parametrize("data", [True, False])
def test_the_command_line_takes_data_with_fp16(tmp_path, data):
    onnx.save(model(30000), tmp_path / "wide.onnx")
    np.savez(tmp_path / "data.npz", x=GIVEN["x"][None])
    np.save(tmp_path / "x.npy", GIVEN["x"])
    words = ["run", str(tmp_path / "wide.onnx"), "--fp16", "--input", f"x={tmp_path / 'x.npy'}"]
    words += ["--output", str(tmp_path / "out")]
    words += ["--calibrate", str(tmp_path / "data.npz")] if data else []
    assert mgx.main(words) == 0
    found = np.load(tmp_path / "out" / "y.npy")
    assert np.isfinite(found).all() == data
