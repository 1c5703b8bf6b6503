"""Plans: from a fused program, to JSON and back, and what hostile JSON meets."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from onnx import parser

import mgx_mlir
from mgx_mlir.artifact.plan import Branch, Loop, Plan, Row, Step
from mgx_mlir.errors import ArtifactError, UnsupportedError
from mgx_mlir.pipelines.phases import PIPELINES
from mgx_mlir.pipelines.planning import build_plan
from test.passes.graphs import parse, random_graph, run

STEPS = [step for pipeline in PIPELINES.values() for step in pipeline.passes]


def plan_of(text: str) -> Plan:
    graph = parse(text)
    run(graph, STEPS)
    with graph.module.context:
        return build_plan(graph)


def program(result: str, body: str = "") -> str:
    return f"""
    func.func @main(%x: tensor<64xf32> {{mgx.name = "x"}})
        -> (tensor<64xf32> {{mgx.name = "y"}}, tensor<64xf32> {{mgx.name = "z"}}) {{
      {body}
      return {result} : tensor<64xf32>, tensor<64xf32>
    }}"""


def test_a_result_is_written_to_the_callers_memory() -> None:
    plan = plan_of(
        program("%0, %1", "%0 = mgx.exp %x : tensor<64xf32>\n%1 = mgx.neg %0 : tensor<64xf32>")
    )
    written = [b for b in plan.buffers if b.kind != "input"]
    assert [(b.kind, b.index) for b in written] == [("output", 0), ("output", 1)]
    assert plan.arena_bytes == 0


def test_a_value_returned_twice_is_copied_once() -> None:
    plan = plan_of(program("%0, %0", "%0 = mgx.exp %x : tensor<64xf32>"))
    assert [step.kernel for step in plan.steps] == [0, -1]
    assert [plan.buffers[a].index for a in plan.steps[1].arguments] == [0, 1]


def test_an_input_that_is_returned_is_copied() -> None:
    plan = plan_of(program("%x, %x"))
    assert [step.kernel for step in plan.steps] == [-1, -1]
    assert {plan.buffers[step.arguments[0]].kind for step in plan.steps} == {"input"}


def test_a_constant_that_is_returned_is_a_weight() -> None:
    plan = plan_of(program("%c, %c", "%c = mgx.constant dense<2.0> : tensor<64xf32>"))
    assert plan.buffers[plan.steps[0].arguments[0]].kind == "weight"


def test_symbolic_shapes_are_refused_with_the_way_out() -> None:
    text = """
    func.func @main(%x: tensor<?xf32, #mgx.dims<[n : 1 ... 8]>> {mgx.name = "x"})
        -> (tensor<?xf32, #mgx.dims<[n : 1 ... 8]>> {mgx.name = "y"}) {
      return %x : tensor<?xf32, #mgx.dims<[n : 1 ... 8]>>
    }"""
    with pytest.raises(UnsupportedError, match=r"'x' has the shape .*dim_params="):
        plan_of(text)


CONTROL_FLOW = """
    func.func @main(%n: tensor<i64> {mgx.name = "n"}, %c: tensor<i1> {mgx.name = "c"},
        %x: tensor<64xf32> {mgx.name = "x"})
        -> (tensor<64xf32> {mgx.name = "y"}, tensor<3x64xf32> {mgx.name = "z"}) {
      %r:2 = mgx.loop %n, %c init(%x)
          : tensor<i64>, tensor<i1>, (tensor<64xf32>) -> tensor<64xf32>, tensor<3x64xf32> {
      ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<64xf32>):
        %0 = mgx.if %c : tensor<i1> -> tensor<64xf32> {
          mgx.yield %v : tensor<64xf32>
        } else {
          %1 = mgx.exp %v : tensor<64xf32>
          mgx.yield %1 : tensor<64xf32>
        } loc("choose")
        mgx.yield %go, %0, %v : tensor<i1>, tensor<64xf32>, tensor<64xf32>
      } loc("repeat")
      return %r#0, %r#1 : tensor<64xf32>, tensor<3x64xf32>
    }"""


def test_control_flow_holds_steps() -> None:
    plan = plan_of(CONTROL_FLOW)
    copy, loop = plan.steps
    assert isinstance(copy, Step) and isinstance(loop, Loop) and loop.node == "repeat"
    assert [plan.buffers[b].kind for b in (loop.trips, loop.condition, loop.again)] == [
        "input", "input", "weight",
    ]  # fmt: skip
    branch, row, *_ = loop.body
    assert isinstance(branch, Branch) and branch.node == "choose"
    # The row is the value before the trip, which changes after it was copied.
    assert isinstance(row, Row) and row.source == copy.arguments[1]
    assert plan.buffers[row.target].bytes == 3 * plan.buffers[row.source].bytes
    assert Plan.from_json(plan.to_json()) == plan


HOSTILE_CONTROL_FLOW = [
    ((1, "loop"), 99),
    ((1, "loop"), None),
    ((1, "again"), 2),  # not one byte
    ((1, "condition"), -1),
    ((1, "body"), {}),
    ((1, "body", 0, "then"), None),
    ((1, "body", 0, "if"), 0),
    ((1, "body", 0, "else", 0, "arguments"), [99]),
    ((1, "body", 1, "row"), [3, 2]),
    ((1, "body", 1, "row"), [1]),
    ((1, "body", 1, "row"), [2, 0]),
    ((1,), {"row": [2, 2], "node": ""}),
    ((1,), {"kernel": -1, "arguments": [2, 2], "node": ""}),  # into an input
    ((1, "node"), None),
]


@pytest.mark.parametrize(("path", "value"), HOSTILE_CONTROL_FLOW)
def test_hostile_control_flow_is_refused(path: tuple[Any, ...], value: Any) -> None:
    data = plan_of(CONTROL_FLOW).to_json()
    Plan.from_json(data)
    target: Any = data["steps"]
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(ArtifactError):
        Plan.from_json(data)


def test_control_flow_of_any_depth_is_refused() -> None:
    data = plan_of(CONTROL_FLOW).to_json()
    for _ in range(100):
        data["steps"] = [{"if": 1, "then": data["steps"], "else": [], "node": ""}]
    with pytest.raises(ArtifactError, match="levels deep"):
        Plan.from_json(data)


@pytest.mark.parametrize("seed", range(12))
def test_live_tensors_do_not_overlap(seed: int) -> None:
    graph = random_graph(seed, 40)
    with np.errstate(all="ignore"):
        run(graph, STEPS)
    with graph.module.context:
        plan = build_plan(graph)
    assert Plan.from_json(plan.to_json()) == plan
    # Each step's results may share no byte with anything that a later step still reads.
    steps = [step for step in plan.work() if isinstance(step, Step)]
    first = {a: n for n, s in reversed(list(enumerate(steps))) for a in s.arguments}
    for number, step in enumerate(steps):
        out = plan.buffers[step.arguments[-1]]
        if out.kind != "arena":
            continue
        for later in {a for s in steps[number + 1 :] for a in s.arguments}:
            kept = plan.buffers[later]
            if kept.kind == "arena" and later != step.arguments[-1] and first[later] < number:
                assert kept.offset + kept.bytes <= out.offset or (
                    out.offset + out.bytes <= kept.offset
                )


def sample() -> dict[str, Any]:
    return plan_of(
        program(
            "%0, %1",
            "%0 = mgx.exp %x : tensor<64xf32>\n%1 = mgx.softmax %0 axis = 0 : tensor<64xf32>",
        )
    ).to_json()


def test_operations_are_counted_and_are_no_part_of_the_program() -> None:
    """A dot is two operations for each product; a sum of each row's elements one for each."""
    text = """
    func.func @main(%x: tensor<2x3xf32> {mgx.name = "x"}, %w: tensor<3x5xf32> {mgx.name = "w"})
        -> (tensor<2x1xf32> {mgx.name = "y"}) {
      %0 = mgx.dot %x, %w : tensor<2x3xf32>, tensor<3x5xf32> -> tensor<2x5xf32>
      %1 = mgx.exp %0 : tensor<2x5xf32>
      %2 = mgx.reduce_sum %1 axes = [1] : tensor<2x5xf32> -> tensor<2x1xf32>
      return %2 : tensor<2x1xf32>
    }"""
    plan = plan_of(text)
    assert sum(step.flops for step in plan.work() if isinstance(step, Step)) == 60 + 10 + 10
    assert Plan.from_json(plan.to_json()) == plan
    without = plan.to_json(counts=False)
    assert not any("flops" in step for step in without["steps"])
    assert Plan.from_json(without).to_json() == without


def test_operations_of_symbolic_sizes_are_those_of_a_run() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n, 3] x, float[3, 5] w) => (float[n, 5] y) { y = MatMul (x, w) }"""
    symbolic = mgx_mlir.compile(
        parser.parse_model(text), "cpu", mgx_mlir.CompileOptions(mode="full-dynamic")
    )
    (step,) = symbolic.plan.work()
    assert isinstance(step, Step) and isinstance(step.flops, str)
    assert Plan.from_json(symbolic.plan.to_json()) == symbolic.plan
    assert "work" not in symbolic.plan.to_json(counts=False)["steps"][0]
    for n in (1, 7):
        x, w = np.ones((n, 3), np.float32), np.ones((3, 5), np.float32)
        (row,) = symbolic.profile({"x": x, "w": w})
        assert row.flops == 2 * n * 3 * 5


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("inputs",), None),
        (("inputs", 0, "dtype"), "object"),
        (("inputs", 0, "shape"), [1 << 60]),
        (("inputs", 0, "shape"), [-1]),
        (("inputs", 0, "name"), 3),
        (("arena_bytes",), -1),
        (("arena_bytes",), True),
        (("buffers", 0, "kind"), "disk"),
        (("buffers", 0, "index"), 99),
        (("buffers", 0, "bytes"), 1 << 60),
        (("steps", 0, "arguments"), [99]),
        (("steps", 0, "kernel"), -2),
        (("steps", 0, "flops"), -1),
        (("steps", 0, "kernel"), "k0"),
        (("steps", 0), []),
    ],
)
def test_hostile_plans_are_refused(path: tuple[Any, ...], value: Any) -> None:
    data = copy.deepcopy(sample())
    target: Any = data
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(ArtifactError):
        Plan.from_json(data)
