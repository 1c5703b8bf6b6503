"""Programs with symbolic sizes: named, then bound, they are those imported with sizes."""

from __future__ import annotations

import numpy as np
import pytest
from mlir import ir

from mgx_mlir.importer import parse_onnx
from mgx_mlir.passes.bind_dims import BindDims
from mgx_mlir.passes.simplify_dyn_ops import SimplifyDynOps
from mgx_mlir.pipelines.runner import run_pipeline
from mgx_mlir.reference import evaluate
from mgx_mlir.rewriting.graph import Graph
from mgx_mlir.rewriting.pass_base import PassContext
from test.dynamic_models import MODELS, SIZES, inputs_of, named_sizes


@pytest.mark.parametrize("name", sorted(MODELS))
def test_bound_programs_compute_what_static_ones_do(name: str) -> None:
    model, sizes = MODELS[name](), SIZES[name][0]
    inputs = inputs_of(model, sizes)
    symbolic, static = parse_onnx(model), parse_onnx(model, dim_params=named_sizes(model, sizes))
    bind = BindDims(tuple(f"{symbol}:{size}" for symbol, size in sizes.items()))
    run_pipeline(symbolic.module, (SimplifyDynOps(), bind), PassContext(weights=symbolic.weights))
    function = ir.FunctionType(ir.TypeAttr(symbolic.main.attributes["function_type"]).value)
    assert all(ir.RankedTensorType(t).has_static_shape for t in function.results)
    found, wanted = _evaluate(symbolic, inputs), _evaluate(static, inputs)
    for result in wanted:
        np.testing.assert_allclose(found[result], wanted[result], rtol=1e-5, atol=1e-6)


def _evaluate(graph: Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return evaluate(graph.module, graph.weights, inputs)


def test_a_program_without_symbols_stays() -> None:
    graph = parse_onnx(MODELS["mlp"](), dim_params={"batch": 2})
    before = str(graph.module)
    run_pipeline(graph.module, (SimplifyDynOps(), BindDims()), PassContext(weights=graph.weights))
    assert str(graph.module) == before


def test_a_second_run_changes_nothing() -> None:
    graph = parse_onnx(MODELS["bert"]())
    context = PassContext(weights=graph.weights)
    run_pipeline(graph.module, (SimplifyDynOps(),), context)
    before = str(graph.module)
    run_pipeline(graph.module, (SimplifyDynOps(),), context)
    assert str(graph.module) == before
