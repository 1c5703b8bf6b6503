"""Branches and loops on the host: decisions, carried values, stacked rows."""

from __future__ import annotations

import control_flow_models as models
import numpy as np
import pytest

import mgx_mlir
from mgx_mlir.artifact.plan import Branch, Loop, walk
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import ArtifactError, UsageError
from mgx_mlir.reference import evaluate
from test.passes.graphs import parse, random_graph, random_inputs


@pytest.mark.parametrize("name", models.MODELS)
def test_models_give_what_the_reference_gives(name: str) -> None:
    artifact = models.artifact(name, "cpu")
    assert artifact.plan.has_control_flow
    program = mgx_mlir.compile(artifact, "cpu")
    for seed in range(2 if name == "rows" else 14):
        given = models.inputs(name, seed)
        models.check(name, program.run(given), given)


@pytest.mark.parametrize("mode", ["default", "debug"])
@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed: int, mode: str) -> None:
    graph, twin = (random_graph(seed, 12, True) for _ in range(2))
    given = random_inputs(graph)
    with np.errstate(all="ignore"):
        want = evaluate(twin.module, twin.weights, given)
        artifact = mgx_mlir.compile_to_bytecode(graph, CompileOptions(mode=mode))
        found = mgx_mlir.compile(artifact, "cpu").run(given)
    for name, array in want.items():
        np.testing.assert_allclose(found[name], array, 1e-3, 1e-5, err_msg=name)


def test_random_programs_have_control_flow() -> None:
    kinds = set()
    for seed in range(4):
        artifact = mgx_mlir.compile_to_bytecode(random_graph(seed, 12, True))
        kinds |= {type(step) for step in walk(artifact.plan.steps)}
    assert {Branch, Loop} <= kinds


def test_programs_with_control_flow_are_saved() -> None:
    artifact = models.artifact("search", "cpu")
    again = mgx_mlir.Artifact.from_bytes(artifact.to_bytes())
    assert again.plan == artifact.plan
    given = models.inputs("search", 3)
    models.check("search", mgx_mlir.compile(again, "cpu").run(given), given)


def test_control_flow_is_of_version_1_1() -> None:
    artifact = models.artifact("search", "cpu")
    assert artifact.to_bytes()[8:12] == bytes([1, 0, 1, 0])
    with pytest.raises(UsageError, match=r"branches or loops, .*1\.0 cannot hold"):
        artifact.to_bytes(version=(1, 0))


def test_threads_take_different_ways() -> None:
    program = mgx_mlir.compile(models.artifact("search", "cpu"), "cpu")
    models.check_threads("search", program, runs=5)


@pytest.mark.parametrize(("trips", "said"), [(2, "makes 2 trips"), (4, "more"), (0, "makes 0")])
def test_stacked_results_want_their_number_of_trips(trips: int, said: str) -> None:
    program = mgx_mlir.compile(mgx_mlir.compile_to_bytecode(parse(models.ROWS)), "cpu")
    x = np.ones(4, np.float32)
    assert program.run({"n": np.array(3), "x": x})["y"].shape == (3, 4)
    with pytest.raises(ArtifactError, match=f"'repeat' .*{said}.* are for 3"):
        program.run({"n": np.array(trips), "x": x})


def test_what_a_loop_reads_from_outside_lives_as_long_as_it() -> None:
    """Its memory is not given to what the body computes after it."""
    text = """
    func.func @main(%n: tensor<i64> {mgx.name = "n"}, %x: tensor<64xf32> {mgx.name = "x"})
        -> (tensor<64xf32> {mgx.name = "y"}) {
      %c = mgx.constant dense<true> : tensor<i1>
      %w = mgx.prefix_scan_sum %x axis = 0 : tensor<64xf32>
      %r = mgx.loop %n, %c init(%x) : tensor<i64>, tensor<i1>, (tensor<64xf32>) -> tensor<64xf32> {
      ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<64xf32>):
        %0 = mgx.sub %v, %w : tensor<64xf32>, tensor<64xf32> -> tensor<64xf32>
        %1 = mgx.prefix_scan_sum %0 axis = 0 : tensor<64xf32>
        %2 = mgx.prefix_scan_sum %1 axis = 0 : tensor<64xf32>
        mgx.yield %go, %2 : tensor<i1>, tensor<64xf32>
      }
      return %r : tensor<64xf32>
    }"""
    twin = parse(text)
    program = mgx_mlir.compile(mgx_mlir.compile_to_bytecode(parse(text)), "cpu")
    x = np.random.default_rng(0).random(64, np.float32) / 64
    given = {"n": np.array(3), "x": x}
    want = evaluate(twin.module, twin.weights, given)["y"]
    np.testing.assert_allclose(program.run(given)["y"], want, rtol=1e-3)
