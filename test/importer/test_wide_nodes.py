"""Nodes with very many inputs or outputs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mgx_mlir
from mgx_mlir.importer import symbols
from mgx_mlir.passes.join_launches import MOST_CHAINED, MOST_LAUNCHES
from mgx_mlir.sizes.range import Range
from test.importer.agreement import floats


def repeated(count: int) -> onnx.ModelProto:
    """x and its negative, one after the other, `count` times in one Concat."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [8 * count])
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("Concat", ["x", "n"] * count, ["y"], axis=0),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_concat_of_very_many_operands_is_kernels_of_few():
    program = mgx_mlir.compile(repeated(400))
    x = floats(4)
    wanted = np.tile(np.concatenate([x, -x]), 400)
    np.testing.assert_array_equal(program.run({"x": x})["y"], wanted)


def parts(count: int) -> onnx.ModelProto:
    """The rows of x, each an output of one Split."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [count, 4])
    names = [f"y{i}" for i in range(count)]
    node = helper.make_node("Split", ["x"], names, axis=0, num_outputs=count)
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in names]
    graph = helper.make_graph([node], "g", [x], outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("target, most", [("cpu", MOST_CHAINED), ("gfx942", MOST_LAUNCHES)])
def test_launches_of_a_split_are_full_however_many_outputs_it_has(target: str, most: int) -> None:
    program = mgx_mlir.compile(parts(600), target=target)
    assert len(program.plan.steps) == math.ceil(600 / most)
    if target == "cpu":
        x = floats(600, 4)
        found = program.run({"x": x})
        np.testing.assert_array_equal(np.concatenate([found[f"y{i}"] for i in range(600)]), x)


class Counted(list[str]):
    """Names, and how often somebody went through all of them."""

    walks = 0

    def __iter__(self) -> Iterator[str]:
        self.walks += 1
        return super().__iter__()


def test_the_names_of_very_many_inputs_are_not_searched_for_each_input() -> None:
    names = Counted(f"x{i}" for i in range(100))
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, "n"]) for n in names]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        [helper.make_node("Concat", list(names), ["y"], axis=0)], "g", inputs, [y]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    symbols.bind(model, names, {}, {}, None)
    symbols.write_formulas(model, names, {})
    assert list(symbols.plain(model, names, Range(1))) == ["n"]
    assert names.walks < 10
