"""Operators whose results have a size that the data decide: on the device, but for their size."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from mgx_mlir.models.staged import Model

TYPES = {"float32": TensorProto.FLOAT, "bool": TensorProto.BOOL, "int64": TensorProto.INT64}


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def check(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    outputs: str,
    constants: dict[str, Any],
    host: list[str],
) -> dict[str, np.ndarray]:
    """Runs a model on an emulated chip as onnxruntime does; `host`: what the host has to do."""
    infos = [
        helper.make_tensor_value_info(n, TYPES[x.dtype.name], x.shape) for n, x in inputs.items()
    ]
    weights = [numpy_helper.from_array(np.asarray(x), n) for n, x in constants.items()]
    results = [onnx.ValueInfoProto(name=n) for n in outputs.split()]
    graph = helper.make_graph(nodes, "test", infos, results, weights)
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    want = onnxruntime.InferenceSession(source.SerializeToString()).run(None, inputs)
    model = Model(source, "gfx942")
    found = model.run(inputs)
    for name, array in zip(outputs.split(), want, strict=True):
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert [entry.operator for entry in model.host_nodes] == host
    return found


@pytest.mark.parametrize(("least", "centred", "most"), [([0.3], 0, 10), (None, 1, 100)])
def test_boxes_are_chosen_on_the_device(least: Any, centred: int, most: int) -> None:
    rng = np.random.default_rng(0)
    boxes = rng.random((2, 90, 4)).astype(np.float32) * np.array([9, 9, 3, 3], np.float32)
    if not centred:
        boxes[..., 2:] += boxes[..., :2]
        boxes[:, ::3] = boxes[:, ::3][..., [2, 3, 0, 1]]  # the other way round
    scores = rng.random((2, 3, 90)).astype(np.float32)
    scores[..., 1] = scores[..., 0]
    constants = {"most": np.array([most]), "overlap": np.array([0.2], np.float32)}
    names = "twice scores most overlap"
    if least is not None:
        constants["least"], names = np.array(least, np.float32), names + " least"
    nodes = [
        node("Mul", "boxes two", "twice"),
        node("NonMaxSuppression", names, "found", center_point_box=centred),
        node("Split", "found", "batch class box", axis=1, num_outputs=3),
        node("Concat", "batch box", "places", axis=1),
        node("GatherND", "twice places", "chosen"),
    ]
    inputs = {"boxes": boxes, "scores": scores}
    constants["two"] = np.array(2, np.float32)
    found = check(nodes, inputs, "found chosen", constants, ["NonMaxSuppression"])
    assert len(found["found"]) > 20


def test_places_of_what_is_not_zero() -> None:
    x = np.maximum(np.random.default_rng(1).normal(size=(3, 40, 7)), 0).astype(np.float32)
    x[0, 0, 0] = np.nan
    nodes = [
        node("Relu", "x", "positive"),
        node("NonZero", "positive", "places"),
        node("Transpose", "places", "rows"),
        node("GatherND", "x rows", "kept"),
    ]
    check(nodes, {"x": x}, "places kept", {}, ["NonZero"])
    check(nodes, {"x": -np.abs(np.nan_to_num(x))}, "places kept", {}, ["NonZero"])


@pytest.mark.parametrize("attributes", [{}, {"axis": -2}])
def test_elements_that_a_condition_chooses(attributes: dict[str, int]) -> None:
    x = np.random.default_rng(2).normal(size=(4, 30, 5)).astype(np.float32)
    wanted = np.random.default_rng(3).random(30) < 0.4
    nodes = [
        node("Not", "unwanted", "wanted"),
        node("Compress", "x wanted", "chosen", **attributes),
        node("Mul", "chosen chosen", "y"),
    ]
    check(nodes, {"x": x, "unwanted": ~wanted}, "y", {}, ["Compress"])


def test_a_number_of_boxes_that_is_computed_is_the_host_s() -> None:
    rng = np.random.default_rng(4)
    boxes, scores = rng.random((1, 9, 4)), rng.random((1, 2, 9))
    inputs = {
        "boxes": boxes.astype(np.float32),
        "scores": scores.astype(np.float32),
        "most": np.array([3]),
    }
    nodes = [
        node("Add", "most one", "more"),
        node("NonMaxSuppression", "boxes scores more overlap", "found"),
    ]
    constants = {"one": np.array([1]), "overlap": np.array([0.5], np.float32)}
    check(nodes, inputs, "found", constants, ["NonMaxSuppression"])
