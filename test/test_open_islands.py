"""Models whose data decide sizes: after the first few runs, new sizes take no compile."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

from mgx_mlir import Model
from test.onnx_models import Builder


def experts(count: int = 2, width: int = 16) -> onnx.ModelProto:
    """A sparse mixture: the router gives each token one expert, which sees its tokens alone."""
    b = Builder()
    shares = b.op("Softmax", b.op("MatMul", "x", b.weight("router", width, count)), axis=-1)
    best, which = b.op("TopK", shares, b.constant([1]), outputs=2, axis=-1)
    y = b.op("Mul", "x", b.constant(0, np.float32))
    for number in range(count):
        places = b.op("NonZero", b.op("Equal", which, b.constant(number)))
        rows = b.op("Gather", places, b.constant(0), axis=0)
        own = b.op("Gather", "x", rows, axis=0)
        h = b.op("MatMul", own, b.weight(f"up.{number}", width, 32))
        h = b.op(
            "MatMul", b.op("Mul", h, b.op("Sigmoid", h)), b.weight(f"down.{number}", 32, width)
        )
        h = b.op("Mul", h, b.op("Gather", best, rows, axis=0))
        y = b.op("ScatterND", y, b.op("Unsqueeze", rows, b.constant([1])), h)
    return b.model(
        {"x": (TensorProto.FLOAT, ["tokens", width])}, {"y": (y, ["tokens", width])}, "experts"
    )


def detector(boxes: int = 40) -> onnx.ModelProto:
    """Boxes and scores of a picture; features of those that NonMaxSuppression keeps."""
    b = Builder()
    h = b.op("Relu", b.op("MatMul", "x", b.weight("first", 12, 24)))
    corners = b.op("MatMul", h, b.weight("corners", 24, 4))
    scores = b.op("Transpose", b.op("MatMul", h, b.weight("scores", 24, 2)), perm=[0, 2, 1])
    most, overlap, least = (b.constant(v, d) for v, d in (([20], np.int64), ([0.4], np.float32),
                                                          ([0.3], np.float32)))  # fmt: skip
    kept = b.op("NonMaxSuppression", corners, scores, most, overlap, least)
    rows = b.op("Gather", kept, b.constant(2), axis=1)
    features = b.op("Gather", b.op("Squeeze", h, b.constant([0])), rows, axis=0)
    y = b.op("Softmax", b.op("MatMul", features, b.weight("last", 24, 6)), axis=-1)
    return b.model({"x": (TensorProto.FLOAT, [1, boxes, 12])}, {"y": (y, ["kept", 6])}, "detector")


@pytest.mark.parametrize("name", ["experts", "detector"])
def test_new_sizes_take_no_compile(name: str) -> None:
    model = {"experts": experts, "detector": detector}[name]()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    runner = Model(model)
    rng = np.random.default_rng(0)
    shapes = {"experts": [(n, 16) for n in (9, 12, 30, 8, 17)], "detector": [(1, 40, 12)] * 5}
    kept, compiled = set(), []
    for shape in shapes[name]:
        given = {"x": rng.normal(size=shape).astype(np.float32)}
        (wanted,) = session.run(None, given)
        np.testing.assert_allclose(runner.run(given)["y"], wanted, rtol=1e-4, atol=1e-5)
        kept.add(wanted.shape)
        compiled.append(runner.compiled)
    assert len(kept) > 3
    assert compiled[2] == compiled[-1] > 0
