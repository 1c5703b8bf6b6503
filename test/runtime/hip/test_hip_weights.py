"""Weights of every kind arrive on the device as they are; empty tensors do no harm."""

from __future__ import annotations

import multiprocessing

import ml_dtypes
import numpy as np
import pytest
from hip_programs import image, program, used_bytes
from onnx import TensorProto, helper

import mgx_mlir
from mgx_mlir.artifact.plan import Buffer, Plan, Step, TensorSpec
from mgx_mlir.artifact.weights import Weight
from mgx_mlir.errors import ArtifactError, DeviceError
from mgx_mlir.runtime.hip.device import device
from mgx_mlir.runtime.hip.program import HipProgram


def weight(array: np.ndarray, key: str = "w") -> Weight:
    return Weight(key, array.dtype, array.shape, data=array)


def copying(array: np.ndarray, graph: bool = True, ordinal: int = 0) -> HipProgram:
    """A program that copies the weight twice."""
    spec = TensorSpec("y", array.dtype.name, array.shape)
    size = array.nbytes
    buffers = (
        Buffer("weight", size, key="w"),
        Buffer("arena", size, offset=0),
        Buffer("output", size, index=0),
    )
    plan = Plan((), (spec,), size, buffers, (Step(-1, (0, 1)), Step(-1, (1, 2))))
    return HipProgram(plan, [], {"w": weight(array)}, device(ordinal), graph)


def copied(array: np.ndarray, graph: bool = True) -> np.ndarray:
    """The weight, as the program gives it."""
    return copying(array, graph).run({})["y"]


@pytest.mark.parametrize("graph", [True, False], ids=["graph", "plain"])
@pytest.mark.parametrize(
    "value",
    [
        True,
        np.int8(-3),
        np.float16(1.5),
        ml_dtypes.bfloat16(2.5),
        np.float32(0.1),
        np.float32(-1),
        np.int64(-7),
    ],
    ids=repr,
)
def test_splats(value: object, graph: bool) -> None:
    array = np.broadcast_to(np.asarray(value), (300, 7))
    np.testing.assert_array_equal(copied(array, graph), array)


def test_weights_that_are_views_and_large_ones() -> None:
    array = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)
    np.testing.assert_array_equal(copied(array), array)
    np.testing.assert_array_equal(copied(array.T), array.T)


def test_tensors_without_elements() -> None:
    assert copied(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_equal_weights_are_one() -> None:
    used = [used_bytes()]
    programs = []
    for array in (np.arange(5), np.arange(5), np.arange(5, 10)):
        programs.append(copying(array))
        used.append(used_bytes())
    first, equal, other = np.diff(used)
    assert first == other >= equal + 40
    programs.append(copying(np.arange(5), ordinal=1))
    assert used_bytes() == used[-1]
    del programs
    assert used_bytes() == used[0]


def test_refuses_weights_that_do_not_fit() -> None:
    buffers = (Buffer("weight", 8, key="w"), Buffer("output", 8, index=0))
    spec = (TensorSpec("y", "int64", (1,)),)
    plan = Plan((), spec, 0, buffers, (Step(-1, (0, 1)),))
    with pytest.raises(ArtifactError, match="weight 'w', which is missing"):
        HipProgram(plan, [], {}, device(0))
    with pytest.raises(ArtifactError, match="has 40 bytes; the plan says 8"):
        HipProgram(plan, [], {"w": weight(np.arange(5))}, device(0))


def test_a_forked_child_is_told_that_hip_is_not_there() -> None:
    digit = program()
    digit.run({"image": image(0)})
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def child() -> None:
        try:
            digit.run({"image": image(0)})
        except DeviceError as error:
            queue.put(str(error))

    process = context.Process(target=child)
    process.start()
    process.join(20)
    assert process.exitcode == 0
    assert "fork" in queue.get()


def test_sums_of_nothing() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 0, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 1, 4])
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"])
    model = helper.make_model(
        helper.make_graph([node], "g", [x], [y], [axes]),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=9,
    )  # fmt: skip
    found = mgx_mlir.compile(model, "gfx942").run({"x": np.zeros((2, 0, 4), np.float32)})
    np.testing.assert_array_equal(found["y"], np.zeros((2, 1, 4)))
