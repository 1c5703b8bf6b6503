"""The importer's tests of operators, whose programs run on the host and on emulated chips here.

Beside the importer they run on the reference evaluator, which needs no compiler.
"""

# ruff: noqa: F403

from __future__ import annotations

import gc

import numpy as np
import pytest
from hip_programs import CHIPS
from onnx import helper, numpy_helper

import mgx_mlir
from mgx_mlir import emulator
from mgx_mlir.errors import DeviceError
from mgx_mlir.rewriting.graph import Graph
from test import onnx_suite
from test.importer import (
    agreement,
    test_classical_learning,
    test_microsoft_attention,
    test_microsoft_fused,
    test_microsoft_operators,
    test_rare_operators,
)
from test.importer.test_classical_learning import *
from test.importer.test_microsoft_attention import *
from test.importer.test_microsoft_fused import *
from test.importer.test_microsoft_operators import *
from test.importer.test_rare_operators import *

pytestmark = pytest.mark.slow

MODULES = (
    agreement,
    test_classical_learning,
    test_microsoft_attention,
    test_microsoft_fused,
    test_microsoft_operators,
    test_rare_operators,
)


@pytest.fixture(autouse=True, params=("cpu", *CHIPS))
def target(request, monkeypatch, tmp_path_factory):
    """Where programs run, instead of on the reference evaluator."""
    onnx_suite.share_cache(monkeypatch, tmp_path_factory)

    def run(graph: Graph, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        program = mgx_mlir.compile(graph, request.param)
        names = {spec.name for spec in program.inputs}
        fed = {n: np.ascontiguousarray(a) for n, a in inputs.items() if n in names}
        try:
            return list(program.run(fed).values())
        except DeviceError:
            gc.collect()
            emulator.reset_device(CHIPS.index(request.param))
            raise

    for module in MODULES:
        monkeypatch.setattr(module, "outputs_of", run, raising=False)
    return request.param


@pytest.mark.parametrize(("rows", "depth", "columns"), [(48, 24, 8), (72, 36, 8), (84, 24, 14)])
def test_products_with_a_transposed_and_split_operand(target, rows, depth, columns):
    """Along the product's depth the operand moves by two strides, the first one the smaller."""
    x, w = agreement.floats(rows, 4), agreement.floats(16, depth, seed=1)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], "turn", perm=[1, 0]),
        helper.make_node("Reshape", ["t", "shape"], ["r"], "split"),
        helper.make_node("MatMul", ["w", "r"], ["y"], "product"),
    ]
    infos = [
        helper.make_tensor_value_info(name, 1, array.shape) for name, array in (("x", x), ("w", w))
    ]
    shape = numpy_helper.from_array(np.array([depth, columns]), "shape")
    result = helper.make_tensor_value_info("y", 1, None)
    graph = helper.make_graph(nodes, "test", infos, [result], [shape])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = mgx_mlir.compile(model, target).run({"x": x, "w": w})["y"]
    np.testing.assert_allclose(found, w @ x.T.reshape(depth, columns), rtol=1e-4, atol=1e-4)
