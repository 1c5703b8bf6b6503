"""Plans of random programs, run step by step in numpy: memory, copies and control flow.

A step sees its buffers alone, so that tensors that share memory wrongly, or copies in the
wrong order, show in the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from mlir import ir

from mgx_mlir.artifact.plan import AnyStep, Branch, Plan, Row, Step, walk
from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.pipelines.phases import PIPELINES
from mgx_mlir.pipelines.planning import build_plan
from mgx_mlir.reference import evaluate, evaluate_kernel
from mgx_mlir.rewriting.graph import Graph, kernels
from test.passes.graphs import parse, random_graph, random_inputs, run

STEPS = [step for pipeline in PIPELINES.values() for step in pipeline.passes]


class Simulation:
    """A plan's memory: an arena full of NaN, and one array of bytes for each caller's tensor."""

    def __init__(self, graph: Graph, plan: Plan, inputs: dict[str, np.ndarray]) -> None:
        self.plan = plan
        self.weights = graph.weights
        self.kernels = list(kernels(graph.module))
        self.arena = np.full(plan.arena_bytes, 0xFF, np.uint8)
        self.inputs = [np.ravel(inputs[s.name]).view(np.uint8).copy() for s in plan.inputs]
        sizes = {b.index: b.bytes for b in plan.buffers if b.kind == "output"}
        self.outputs = [np.full(sizes[n], 0xFF, np.uint8) for n in range(len(plan.outputs))]
        self.trip = 0

    def bytes(self, number: int) -> np.ndarray:
        buffer = self.plan.buffers[number]
        if buffer.kind == "arena":
            return self.arena[buffer.offset : buffer.offset + buffer.bytes]
        if buffer.kind == "weight":
            array = np.ascontiguousarray(self.weights[buffer.key].array())
            return array.reshape(-1).view(np.uint8)
        return (self.inputs if buffer.kind == "input" else self.outputs)[buffer.index]

    def run(self, steps: Sequence[AnyStep]) -> None:
        for step in steps:
            if isinstance(step, Step):
                self.launch(step) if step.kernel >= 0 else self.copy(*step.arguments)
            elif isinstance(step, Row):
                source, target = self.bytes(step.source), self.bytes(step.target)
                target[self.trip * source.size : (self.trip + 1) * source.size] = source
            elif isinstance(step, Branch):
                self.run(step.then if self.bytes(step.condition)[0] else step.otherwise)
            else:
                trips, go = int(self.bytes(step.trips).view(np.int64)[0]), step.condition
                before, self.trip = self.trip, 0
                while self.trip < trips and self.bytes(go)[0]:
                    self.run(step.body)
                    self.trip, go = self.trip + 1, step.again
                self.trip = before

    def copy(self, source: int, target: int) -> None:
        self.bytes(target)[:] = self.bytes(source)

    def launch(self, step: Step) -> None:
        kernel = self.kernels[step.kernel]
        type_ = ir.FunctionType(ir.TypeAttr(kernel.operation.attributes["function_type"]).value)
        count = len(type_.inputs)
        operands = [
            self.bytes(number).view(numpy_dtype(t.element_type)).reshape(t.shape).copy()
            for number, t in zip(step.arguments[:count], type_.inputs, strict=True)
        ]
        # Results of earlier launches are gone before this one's are stored.
        for number, result in zip(
            step.arguments[count:], evaluate_kernel(kernel, operands), strict=True
        ):
            self.bytes(number)[:] = np.ascontiguousarray(result).reshape(-1).view(np.uint8)


def check(make: Any, *seeds: int) -> Plan:
    graph, twin = make(), make()
    with np.errstate(all="ignore"):
        run(graph, STEPS)
        with graph.module.context:
            plan = build_plan(graph)
            for seed in seeds:
                inputs = random_inputs(twin, seed)
                want = evaluate(twin.module, twin.weights, inputs)
                simulation = Simulation(graph, plan, inputs)
                simulation.run(plan.steps)
                for spec, found in zip(plan.outputs, simulation.outputs, strict=True):
                    array = found.view(want[spec.name].dtype).reshape(spec.shape)
                    np.testing.assert_allclose(array, want[spec.name], 1e-3, 1e-5)
    return plan


@pytest.mark.parametrize("seed", range(12))
def test_programs_without_control_flow(seed: int) -> None:
    check(lambda: random_graph(seed, 30), 0)


@pytest.mark.parametrize("seed", range(100, 140))
def test_programs_with_control_flow(seed: int) -> None:
    plan = check(lambda: random_graph(seed, 14, True), 0, 1)
    assert Plan.from_json(plan.to_json()) == plan


def test_carried_values_that_change_places() -> None:
    """In every order: a cycle of three, one that stays, one that two become."""
    text = """
    func.func @main(%n: tensor<i64> {mgx.name = "n"}, %x: tensor<4xf32> {mgx.name = "x"},
        %y: tensor<4xf32> {mgx.name = "y"}, %z: tensor<4xf32> {mgx.name = "z"})
        -> (tensor<4xf32> {mgx.name = "a"}, tensor<4xf32> {mgx.name = "b"},
            tensor<4xf32> {mgx.name = "c"}, tensor<4xf32> {mgx.name = "d"},
            tensor<4xf32> {mgx.name = "e"}) {
      %t = mgx.constant dense<true> : tensor<i1>
      %r:5 = mgx.loop %n, %t init(%x, %y, %z, %x, %y) : tensor<i64>, tensor<i1>,
          (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
          -> tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32> {
      ^bb0(%i: tensor<i64>, %go: tensor<i1>, %a: tensor<4xf32>, %b: tensor<4xf32>,
           %c: tensor<4xf32>, %d: tensor<4xf32>, %e: tensor<4xf32>):
        %w = mgx.prefix_scan_sum %a axis = 0 : tensor<4xf32>
        mgx.yield %go, %b, %c, %w, %d, %a
            : tensor<i1>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
      }
      return %r#0, %r#1, %r#2, %r#3, %r#4
          : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
    }"""
    plan = check(lambda: parse(text), 0, 1, 2)
    # Tensors that stay are copied once, before the loop.
    assert sum(isinstance(s, Step) and s.kernel < 0 for s in walk(plan.steps)) < 12
