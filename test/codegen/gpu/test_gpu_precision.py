"""Cheaper functions in kernels whose results keep few bits."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import disassemble
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.compiler import compile_to_bytecode
from mgx_mlir.rewriting.portable import read_kernel


@pytest.mark.parametrize("element", [TensorProto.INT8, TensorProto.FLOAT])
def test_a_quantized_sigmoid_takes_no_division(element: int) -> None:
    """x + sigmoid(x), as bytes or as f32; each byte is right but next to a tie."""
    x = np.linspace(-40, 40, 1 << 14, dtype=np.float32)
    x[:3] = np.inf, -np.inf, np.nan
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"]),
        helper.make_node("Add", ["s", "x"], ["y"]),
    ]
    if element == TensorProto.INT8:
        nodes.append(helper.make_node("QuantizeLinear", ["y", "scale", "zero"], ["q"]))
    given = {"scale": np.array(0.02, np.float32), "zero": np.array(-50, np.int8)}
    graph = helper.make_graph(
        nodes, "sigmoid",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info(nodes[-1].output[0], element, x.shape)],
        [numpy_helper.from_array(array, name) for name, array in given.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    (kernel,) = compile_to_bytecode(model).kernels
    _module, op = read_kernel(kernel.bytecode)
    code = compiler(op)(Target.get("gfx942"))
    divides = bool(re.search(r"v_div_fixup", disassemble(code.data)))
    assert divides == (element == TensorProto.FLOAT)
    (found,) = mgx_mlir.compile(model, "gfx942").run({"x": x}).values()
    with np.errstate(over="ignore"):
        y = x + 1 / (1 + np.exp(-x.astype(np.float64)))
    if element == TensorProto.FLOAT:
        np.testing.assert_allclose(found, y, rtol=1e-6, atol=1e-6)
        return
    expected = np.nan_to_num(np.clip(np.rint(y / given["scale"]) - 50, -128, 127), nan=-128)
    assert np.abs(found - expected).max() <= 1 and (found != expected).mean() < 1e-3


def test_gelu_of_all_negative_numbers_of_f16() -> None:
    """1 + erf cancels there: a unit of f16 down to -3, and 2^-18 beyond; large numbers give 0."""
    x = (np.arange(1 << 15) + (1 << 15)).astype(np.uint16).view(np.float16)
    x = x[np.isfinite(x)]
    nodes = [  # the constants of gelu in f16 are off by 2^-13
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Gelu", ["wide"], ["result"]),
        helper.make_node("Cast", ["result"], ["y"], to=TensorProto.FLOAT16),
    ]
    graph = helper.make_graph(
        nodes, "gelu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, x.shape)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    (found,) = mgx_mlir.compile(model, "gfx942").run({"x": x}).values()
    wide = x.astype(np.float64)
    y = np.array([0.5 * v * math.erfc(-v * math.sqrt(0.5)) for v in wide])
    bound = np.maximum(np.spacing(np.abs(y).astype(np.float16)), 2.0**-18)
    assert np.all(np.abs(found - y) <= bound)
    assert np.all(found[x < -5] == 0)
