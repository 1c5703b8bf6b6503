"""Runs with dimensions of size 0 in the program for any sizes."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import mgx_mlir
from mgx_mlir.artifact.plan_binding import dim_text
from test.decoder_models import llama
from test.importer.agreement import floats

node = helper.make_node
Shape = tuple[int, ...]


def model(nodes: list[NodeProto], inputs: dict[str, list], **weights: np.ndarray):
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in inputs.items()
    ]
    output = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", values, [output], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def assert_one_program(made: onnx.ModelProto, target: str, *runs: dict[str, np.ndarray]) -> None:
    session = onnxruntime.InferenceSession(made.SerializeToString())
    runner = mgx_mlir.Model(made, target, warm=None)
    for feeds in runs:
        got = runner.run(feeds)
        for name, want in zip(got, session.run(None, feeds), strict=True):
            assert got[name].shape == want.shape
            np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-4)
    assert runner.compiled == 1


X, WEIGHT = {"x": ["n", "m"]}, floats(4, 5)
SHAPES = [(3, 4), (0, 4), (3, 0), (0, 0)]
CASES: dict[str, tuple[onnx.ModelProto, list[tuple[Shape, ...]]]] = {
    "pointwise": (model([node("Relu", ["x"], ["y"])], X), [(s,) for s in SHAPES]),
    "softmax": (model([node("Softmax", ["x"], ["y"], axis=1)], X), [(s,) for s in SHAPES]),
    "sum": (
        model([node("ReduceSum", ["x", "axes"], ["y"])], X, axes=np.array([1])),
        [(s,) for s in SHAPES],
    ),
    "sum of all": (model([node("ReduceSum", ["x"], ["y"])], X), [(s,) for s in SHAPES]),
    "product": (
        model([node("MatMul", ["x", "z"], ["y"])], X | {"z": ["m", "k"]}),
        [((3, 4), (4, 5)), ((3, 0), (0, 5)), ((0, 4), (4, 5)), ((3, 4), (4, 0))],
    ),
    "product by weights": (
        model([node("MatMul", ["x", "w"], ["y"])], {"x": ["b", "n", 4]}, w=WEIGHT),
        [((2, 3, 4),), ((2, 0, 4),), ((0, 3, 4),)],
    ),
    "concat": (
        model([node("Concat", ["x", "z"], ["y"], axis=0)], {"x": ["n", 4], "z": ["k", 4]}),
        [((3, 4), (0, 4)), ((0, 4), (2, 4)), ((0, 4), (0, 4)), ((1, 4), (2, 4))],
    ),
    "convolution": (
        model([node("Conv", ["x", "w"], ["y"])], {"x": ["b", 3, 8, 8]}, w=floats(4, 3, 3, 3)),
        [((0, 3, 8, 8),), ((2, 3, 8, 8),)],
    ),
    "convolution of padding alone": (
        model(
            [node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
            {"x": ["b", 3, "h", "w"]},
            w=floats(4, 3, 2, 3),
        ),
        [((1, 3, 0, 6),), ((2, 3, 4, 5),)],
    ),
}
GIVEN: dict[str, tuple[Shape, NodeProto]] = {
    "pad": ((0, 4), node("Pad", ["x", "pads"], ["y"])),
    "mean": ((0, 4), node("ReduceMean", ["x"], ["y"], axes=[0])),
    "resize": ((3, 4), node("Resize", ["x", "", "", "none"], ["y"])),
}


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("case", CASES)
def test_empty_tensors_take_the_same_program(case, target):
    made, runs = CASES[case]
    names = [value.name for value in made.graph.input]
    feeds = [dict(zip(names, (floats(*s) for s in run), strict=True)) for run in runs]
    assert_one_program(made, target, *feeds)


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("case", GIVEN)
def test_given_sizes_of_0(case, target):
    shape, made_of = GIVEN[case]
    weights = {"pads": np.array([2, 0, 3, 0]), "none": np.array([0, 8])}
    made, x = model([made_of], {"x": list(shape)}, **weights), floats(*shape)
    with np.errstate(all="ignore"):
        want = ReferenceEvaluator(made).run(None, {"x": x})[0]
    np.testing.assert_array_equal(mgx_mlir.Model(made, target).run({"x": x})["y"], want)


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_a_kernels_results_stay_in_their_places_where_the_last_has_no_elements(target):
    """The scale and the zero point are written by one launch, the empty result by none."""
    made = model([node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])], X)
    made.graph.output[0].name = "s"
    for name in ("z", "y"):
        made.graph.output.append(helper.make_tensor_value_info(name, TensorProto.UINT8, None))
    program = mgx_mlir.compile(made, target, mode="full-dynamic")
    for x in (floats(3, 4), floats(0, 4), floats(3, 0)):
        scale, zero = np.full((), 7, np.float32), np.full((), 7, np.uint8)
        program.run({"x": x}, {"s": scale, "z": zero})
        assert (scale == 1 and zero == 0) if x.size == 0 else scale < 1


@pytest.mark.parametrize("target", ["cpu", pytest.param("gfx942", marks=pytest.mark.slow)])
def test_a_decoders_prompts_of_any_length_take_the_program_of_its_steps(target):
    made = llama()

    def feeds(past: int, new: int) -> dict[str, np.ndarray]:
        sizes = {"batch_size": 1, "past_sequence_length": past, "sequence_length": new,
                 "total_sequence_length": past + new}  # fmt: skip
        found: dict[str, np.ndarray] = {}
        for value in made.graph.input:
            tensor = value.type.tensor_type
            shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in tensor.shape.dim]
            if tensor.elem_type == TensorProto.FLOAT:
                found[value.name] = floats(*shape)
            else:
                found[value.name] = np.ones(shape, np.int64)
        return found

    assert_one_program(made, target, feeds(0, 5), feeds(5, 1), feeds(0, 3))


def test_a_node_that_does_not_take_size_0_leaves_the_program_from_1():
    pooled = node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])
    made = model([pooled], {"x": ["b", 3, "h", "w"]})
    program = mgx_mlir.compile(made, mode="full-dynamic")
    assert program.run({"x": floats(2, 3, 4, 5)})["y"].shape == (2, 3, 3, 4)
    assert next(dim_text(dim) for dim in program.plan.dims).startswith("b from ")
