"""Operators whose sizes only a run knows, as the host runs them, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from mgx_mlir.errors import ModelError
from mgx_mlir.models import host
from mgx_mlir.models.host.evaluate import Evaluator

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
LAST, FIRST = (1 << 63) - 1, -(1 << 63)
Case = tuple[str, list[np.ndarray], dict[str, Any], int]


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def cases() -> Iterator[Case]:
    """Operators, inputs, attributes and opsets; some do not fit."""
    ends = (0, 3, -2, 9, -9, LAST, FIRST)
    bounds = [(start, end) for start in (0, 1, -1, -9, 4, LAST) for end in ends]
    for start, end in bounds:
        for axis, step in ((0, 1), (1, 2), (-1, -1), (2, -3)):
            places = [ints(number) for number in (start, end, axis, step)]
            if (end, step > 0) != (LAST, False):  # onnxruntime takes that for the first element
                yield "Slice", [X, *places], {}, 17
    yield "Slice", [X, ints(0, 1), ints(2, 3)], {}, 17
    yield "Slice", [X[:0], ints(0), ints(2), ints(0), ints(-1)], {}, 13
    yield "Slice", [X], {"starts": [1], "ends": [2], "axes": [1]}, 9
    yield "Slice", [X, ints(0), ints(2), ints(5)], {}, 17
    for numbers in ((0, 5, 2), (5, 0, -2), (5, 0, 1), (0, 7, 3), (3, 3, 1)):
        for dtype in (np.int64, np.int32, np.float32):
            yield "Range", [np.array(n, dtype) for n in numbers], {}, 17
    for shape in ((3, 4, 5), (2, 3, 4, 5), (1,), (4, 1), (2,)):
        yield "Expand", [X, ints(*shape)], {}, 17
    yield "Expand", [X[:, :1], ints(3, 7, 1)], {}, 17
    for repeats in ((1, 2, 3), (0, 1, 1), (1, 1)):
        yield "Tile", [X, ints(*repeats)], {}, 17
    for shape in ((60,), (-1, 5), (0, -1), (3, 20), (7,), (-1, -1), (0, 0, 0, 0)):
        yield "Reshape", [X, ints(*shape)], {}, 17
    yield "Reshape", [X[:0], ints(0, 4, 5)], {"allowzero": 1}, 17
    for axes in ((0,), (-1,), (0, 4), (1, 1), (7,)):
        yield "Unsqueeze", [X, ints(*axes)], {}, 17
    yield "Unsqueeze", [X], {"axes": [0, 2]}, 11
    for sizes in ((2, 3), (0,), ()):
        yield "ConstantOfShape", [np.array(sizes, np.int64)], {}, 17
    seven = numpy_helper.from_array(np.array([7], np.int32), "seven")
    yield "ConstantOfShape", [ints(2, 2)], {"value": seven}, 17
    for sizes, axis in (((1, 2), 0), ((2, 3), -1), ((1, 1), 0)):
        yield "Split", [X, ints(*sizes)], {"axis": axis}, 17
    yield "Split", [X[:2]], {"axis": 0}, 17


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case[0])
def test_they_are_onnxruntimes(case: Case) -> None:
    operator, arrays, attributes, opset = case
    names = [f"x{number}" for number in range(len(arrays))]
    results = ["y", "z"] if operator == "Split" else ["y"]
    node = helper.make_node(operator, names, results, "the node", **attributes)
    feeds = dict(zip(names, arrays, strict=True))
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in feeds.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in results]
    graph = helper.make_graph([node], "g", inputs, outputs)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    row = host.find("", operator)
    assert row is not None
    evaluator = Evaluator(node, row, {"": opset})
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        wanted = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)
    except Exception:
        with pytest.raises(ModelError, match="the node"):
            evaluator.run(arrays, np.random.RandomState)
        return
    found = evaluator.run(arrays, np.random.RandomState)
    for array, other in zip(found, wanted, strict=True):
        assert array.dtype == other.dtype
        np.testing.assert_array_equal(array, other)
        assert len(arrays) == 1 or not np.shares_memory(array, arrays[0])


@pytest.mark.parametrize(
    ("operator", "inputs"),
    [
        ("Expand", [X[:1, :1, :1], ints(1 << 20, 1 << 20, 1)]),
        ("Tile", [X, ints(1 << 20, 1 << 20, 1)]),
        ("ConstantOfShape", [ints(1 << 20, 1 << 20)]),
        ("Range", [np.array(0), np.array(1 << 40), np.array(1)]),
    ],
)
def test_none_is_absurdly_large(operator: str, inputs: list[np.ndarray]) -> None:
    row = host.find("", operator)
    assert row is not None
    node = helper.make_node(operator, [f"x{n}" for n in range(len(inputs))], ["y"], "the node")
    with pytest.raises(ModelError, match="at most"):
        Evaluator(node, row, {"": 17}).run(inputs, np.random.RandomState)
