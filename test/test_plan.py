"""Plans: from a fused program, to JSON and back, and what hostile JSON meets."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from mgx_mlir.errors import ArtifactError, UnsupportedError
from mgx_mlir.pipelines import PIPELINES
from mgx_mlir.plan import Plan
from mgx_mlir.planning import build_plan
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
    with pytest.raises(UnsupportedError, match=r"'x' has the shape .*--dim-param"):
        plan_of(text)


def test_control_flow_is_refused_by_name() -> None:
    text = """
    func.func @main(%c: tensor<i1> {mgx.name = "c"}, %x: tensor<2xf32> {mgx.name = "x"})
        -> (tensor<2xf32> {mgx.name = "y"}) {
      %0 = mgx.if %c : tensor<i1> -> tensor<2xf32> {
        mgx.yield %x : tensor<2xf32>
      } else {
        %1 = mgx.neg %x : tensor<2xf32>
        mgx.yield %1 : tensor<2xf32>
      } loc("choose")
      return %0 : tensor<2xf32>
    }"""
    with pytest.raises(UnsupportedError, match=r"'choose': mgx\.if"):
        plan_of(text)


@pytest.mark.parametrize("seed", range(12))
def test_live_tensors_do_not_overlap(seed: int) -> None:
    graph = random_graph(seed, 40)
    with np.errstate(all="ignore"):
        run(graph, STEPS)
    with graph.module.context:
        plan = build_plan(graph)
    assert Plan.from_json(plan.to_json()) == plan
    # Each step's results may share no byte with anything that a later step still reads.
    for number, step in enumerate(plan.steps):
        later = {a for s in plan.steps[number + 1 :] for a in s.arguments}
        kept = [plan.buffers[a] for a in later if plan.buffers[a].kind == "arena"]
        first = {a: n for n, s in reversed(list(enumerate(plan.steps))) for a in s.arguments}
        out = plan.buffers[step.arguments[-1]]
        for buffer in kept:
            born = first[plan.buffers.index(buffer)]
            if out.kind == "arena" and buffer != out and born < number:
                assert buffer.offset + buffer.bytes <= out.offset or (
                    out.offset + out.bytes <= buffer.offset
                )


def sample() -> dict[str, Any]:
    return plan_of(
        program(
            "%0, %1",
            "%0 = mgx.exp %x : tensor<64xf32>\n%1 = mgx.softmax %0 axis = 0 : tensor<64xf32>",
        )
    ).to_json()


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
