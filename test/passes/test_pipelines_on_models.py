"""Models compute the same before and after each named pipeline, by the reference."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from mgx_mlir.compiler import CompileOptions, Report, import_model, optimize
from mgx_mlir.pipelines.modes import MODES, mode_pipelines
from mgx_mlir.reference import evaluate
from test.onnx_models import MODELS, light, light_names, random_inputs, small


def check(model: onnx.ModelProto, mode: str) -> None:
    options = CompileOptions(mode)
    graph = import_model(model, options)
    inputs = random_inputs(model)
    before = evaluate(graph.module, graph.weights, inputs)
    for pipeline in mode_pipelines(mode):
        optimize(graph, options, Report(), pipelines=[pipeline])
        after = evaluate(graph.module, graph.weights, inputs)
        assert after.keys() == before.keys()
        for name, expected in before.items():
            np.testing.assert_allclose(
                after[name], expected, 1e-3, 1e-4, err_msg=f"{name} after {pipeline}"
            )


@pytest.mark.parametrize("name", sorted(MODELS))
def test_small_models(name: str) -> None:
    check(small(name), "default")


@pytest.mark.slow
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "default"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_small_models_in_every_mode(name: str, mode: str) -> None:
    check(small(name), mode)


@pytest.mark.slow
@pytest.mark.parametrize("name", light_names())
def test_light_models(name: str) -> None:
    check(light(name, seed=0), "default")
