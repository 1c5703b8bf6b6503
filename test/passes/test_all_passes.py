"""The rules of every pass and pipeline, on random programs."""

from __future__ import annotations

import numpy as np
import pytest

from mgx_mlir.importer import parse_onnx
from mgx_mlir.passes.bind_dims import BindDims
from mgx_mlir.passes.simplify_dyn_ops import SimplifyDynOps
from mgx_mlir.pipelines.phases import PIPELINES
from mgx_mlir.pipelines.registry import pass_class, pass_names
from mgx_mlir.pipelines.runner import run_pipeline
from mgx_mlir.reference import evaluate
from mgx_mlir.rewriting.pass_base import PassContext
from test import dynamic_models
from test.passes.graphs import check_keeps_results, parse_case, random_graph, run

# Passes that make what others have prepared, with what prepares it.
PREPARED = {
    "mgx-merge-pointwise": ("mgx-fuse-pointwise",),
    "mgx-outline-kernels": ("mgx-fuse-pointwise",),
    "mgx-join-launches": ("mgx-fuse-pointwise", "mgx-outline-kernels"),
    "mgx-yield-products": ("mgx-fuse-pointwise",),
    "mgx-plan-memory": (
        "mgx-normalize-control-flow",
        "mgx-fuse-pointwise",
        "mgx-place-concats",
        "mgx-outline-kernels",
    ),
}
# Passes whose second run sees the first one's result as new input.
NOT_IDEMPOTENT = {"mgx-outline-kernels"}
# Relative tolerances of passes that compute in fewer bits.
COARSE = {"mgx-narrow-floats": 1e-1}
TOLERANCE = 1e-3


@pytest.mark.parametrize("name", pass_names())
@pytest.mark.parametrize("seed", range(8))
def test_keeps_results(name: str, seed: int) -> None:
    steps = [pass_class(n)() for n in (*PREPARED.get(name, ()), name)]
    again = not NOT_IDEMPOTENT & {name, *PREPARED.get(name, ())}
    rtol = COARSE.get(name, TOLERANCE)
    check_keeps_results(lambda: random_graph(seed), steps, rtol=rtol, again=again)


@pytest.mark.parametrize("seed", range(24))
def test_pipelines_keep_results(seed: int) -> None:
    steps = [step for pipeline in PIPELINES.values() for step in pipeline.passes]
    check_keeps_results(lambda: random_graph(seed, 30), steps, rtol=1e-3, again=False)


@pytest.mark.parametrize("name", pass_names())
@pytest.mark.parametrize("seed", range(3))
def test_keeps_results_of_control_flow(name: str, seed: int) -> None:
    steps = [pass_class(n)() for n in (*PREPARED.get(name, ()), name)]
    rtol = COARSE.get(name, TOLERANCE)
    check_keeps_results(lambda: random_graph(seed, 12, True), steps, rtol=rtol, again=False)


@pytest.mark.parametrize("seed", range(12))
def test_pipelines_keep_results_of_control_flow(seed: int) -> None:
    steps = [step for pipeline in PIPELINES.values() for step in pipeline.passes]
    check_keeps_results(lambda: random_graph(seed, 12, True), steps, rtol=1e-3, again=False)


# Passes for programs whose sizes are known.
STATIC = {"mgx-join-launches", "mgx-outline-kernels", "mgx-plan-memory"}
DYNAMIC = sorted(dynamic_models.MODELS)


@pytest.mark.parametrize("model", DYNAMIC)
@pytest.mark.parametrize("name", [n for n in pass_names() if n not in STATIC])
def test_keeps_results_of_sizes_that_are_not_known(name: str, model: str) -> None:
    made, sizes = dynamic_models.MODELS[model](), dynamic_models.SIZES[model][0]
    inputs = dynamic_models.inputs_of(made, sizes)
    named = dynamic_models.named_sizes(made, sizes)
    static, graph = parse_onnx(made, dim_params=named), parse_onnx(made)
    bind = BindDims(tuple(f"{symbol}:{size}" for symbol, size in sizes.items()))
    run(graph, (SimplifyDynOps(), pass_class(name)(), bind))
    wanted = evaluate(static.module, static.weights, inputs)
    found = evaluate(graph.module, graph.weights, inputs)
    rtol = COARSE.get(name, TOLERANCE)
    # Sums that cancel out keep the errors of their terms, which are about 1.
    atol = rtol / (10 if name in COARSE else 100)
    for result, expected in wanted.items():
        np.testing.assert_allclose(found[result], expected, rtol, atol, err_msg=result)


@pytest.mark.parametrize("name", pass_names())
def test_cases_of_lit_tests_keep_results(name: str, request: pytest.FixtureRequest) -> None:
    file = f"lit_tests/passes/{name.removeprefix('mgx-').replace('-', '_')}.mlir"
    cases = (request.config.rootpath / file).read_text().split("// -----\n")
    steps = [pass_class(name)()]
    for case in cases:
        if "?x" not in case and "x?" not in case and "expected-error" not in case:
            rtol = COARSE.get(name, 1e-4)
            check_keeps_results(lambda case=case: parse_case(case), steps, rtol=rtol, again=False)


@pytest.mark.parametrize("name", pass_names())
def test_name_predicts_class_and_tests(name: str, request: pytest.FixtureRequest) -> None:
    file = name.removeprefix("mgx-").replace("-", "_")
    assert pass_class(name).name == name
    assert (request.config.rootpath / f"lit_tests/passes/{file}.mlir").exists()


def test_passes_do_not_see_the_chip() -> None:
    chip_blind = [n for n in pass_names() if not pass_class(n).knows_chip]
    for pipeline in PIPELINES.values():
        if not pipeline.knows_chip:
            for step in pipeline.passes:
                name = str(step).partition("{")[0]
                assert not name.startswith("mgx-") or name in chip_blind


def test_one_context_serves_many_runs() -> None:
    graph = random_graph(5)
    context = PassContext(weights=graph.weights)
    with np.errstate(all="ignore"):
        for pipeline in PIPELINES.values():
            run_pipeline(graph.module, pipeline.passes, context)
    assert context.fired
