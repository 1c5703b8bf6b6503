"""8-bit convolutions with one filter a channel, and what is subtracted from their sums, on GPUs."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir.settings import Settings

SETTINGS = Settings(jobs=1, hip="emulated")


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
def test_a_number_of_each_channel_is_subtracted(chip: str, kind: type) -> None:
    """LLVM 22 adds it, where it makes one instruction of four products of bytes."""
    rng = np.random.default_rng(0)
    x = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, (1, 9, 6, 24)).astype(kind)
    w = rng.integers(-127, 128, (24, 1, 2, 2)).astype(np.int8)
    offsets = rng.integers(-3000, 3000, (1, 24, 1, 1)).astype(np.int32)
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("ConvInteger", ["t", "w"], ["sums"], group=24),
        helper.make_node("Sub", ["sums", "offsets"], ["less"]),
        helper.make_node("Transpose", ["less"], ["y"], perm=[0, 2, 3, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "bytes",
        [helper.make_tensor_value_info("x", element, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [1, 8, 5, 24])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(offsets, "offsets")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    taps = [
        (x[:, i : i + 8, j : j + 5].astype(np.int32), w[:, 0, i, j]) for i, j in np.ndindex(2, 2)
    ]
    wanted = sum(pixels * own for pixels, own in taps) - offsets.reshape(-1)
    found = mgx_mlir.compile(model, chip, settings=SETTINGS).run({"x": x})["y"]
    np.testing.assert_array_equal(found, wanted)
