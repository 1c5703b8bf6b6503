"""Models whose data decide sizes: after the first run, new sizes take no compile."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, parser

from mgx_mlir import Model
from mgx_mlir.models.staged.check import State, check
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


def chosen_rows(width: int = 16) -> onnx.ModelProto:
    """The rows of positive sum, maybe none: normalised, beside the others, and their sums."""
    b = Builder()
    marks = b.op("ReduceSum", "x", b.constant([1]), keepdims=0)
    rows = b.op("Compress", "x", b.op("Greater", marks, b.constant(0, np.float32)), axis=0)
    normal = b.layer_norm(rows, "norm", width)
    scores = b.op("Softmax", b.op("MatMul", normal, b.op("Transpose", "x")), axis=-1)
    y = b.op("Concat", "x", b.op("MatMul", scores, "x"), axis=0)
    total = b.op("ReduceSum", b.linear(rows, "last", width, 8), b.constant([0]), keepdims=0)
    sums = b.op("CumSum", rows, b.constant(0))
    tensors = {"y": (y, ["all", width]), "total": (total, [8]), "sums": (sums, ["kept", width])}
    return b.model({"x": (TensorProto.FLOAT, ["rows", width])}, tensors, "chosen_rows")


def chosen_tokens(width: int = 8) -> onnx.ModelProto:
    """Tokens of positive sum get a layer more; the shape is that of the input."""
    b = Builder()
    flat = b.op("Reshape", "x", b.constant([-1, width]))
    marks = b.op("ReduceSum", flat, b.constant([1]), keepdims=0)
    places = b.op("NonZero", b.op("Greater", marks, b.constant(0, np.float32)))
    rows = b.op("Gather", places, b.constant(0), axis=0)
    own = b.linear(b.op("Gather", flat, rows, axis=0), "layer", width, width)
    window = b.op("Slice", flat, b.constant([0]), b.constant([1]), b.constant([0]))
    own = b.op("Expand", own, b.op("Shape", window))
    none = b.op("Mul", flat, b.constant(0, np.float32))
    y = b.op("ScatterND", none, b.op("Unsqueeze", rows, b.constant([1])), own)
    y = b.op("Add", flat, y)
    sizes = [b.op("Gather", b.op("Shape", "x"), b.constant([n])) for n in range(2)]
    y = b.op("Reshape", y, b.op("Concat", *sizes, b.constant([width]), axis=0))
    y = b.linear(y, "last", width, width)
    shape = ["batch", "length", width]
    return b.model({"x": (TensorProto.FLOAT, shape)}, {"y": (y, shape)}, "chosen_tokens")


def spoken_frames(width: int = 4) -> onnx.ModelProto:
    """The data decide how many frames there are; pads are computed as PyTorch's exporter does."""
    b = Builder()
    end = np.iinfo(np.int64).max

    def padded(x: str, amounts: str, rank: int) -> str:
        length = b.op("Gather", b.op("Shape", amounts), b.constant(0), axis=0)
        missing = b.op("Sub", b.op("Mul", b.constant(rank), b.constant(2)), length)
        zeros = b.op("ConstantOfShape", b.op("Unsqueeze", missing, b.constant([0])))
        zeros = b.op("Cast", zeros, to=TensorProto.INT64)
        pairs = b.op("Reshape", b.op("Concat", amounts, zeros, axis=0), b.constant([-1, 2]))
        bounds = [b.constant([n]) for n in (-1, -end, 0, -1)]
        turned = b.op("Transpose", b.op("Slice", pairs, *bounds), perm=[1, 0])
        flat = b.op("Reshape", turned, b.constant([-1]))
        return b.op("Pad", x, b.op("Cast", flat, to=TensorProto.INT64))

    total = b.op("ReduceSum", b.op("Abs", "x"), keepdims=0)
    count = b.op("Cast", b.op("Ceil", total), to=TensorProto.INT64)
    frames = b.op("Cast", b.op("Range", b.constant(0), count, b.constant(1)), to=1)
    rows = b.op("Gather", b.op("Shape", "x"), b.constant([0]))
    behind = b.op("Add", b.op("Gather", b.op("Shape", frames), b.constant([0])), rows)
    y = padded(frames, b.op("Concat", rows, behind, axis=0), 1)
    y = padded(b.op("Unsqueeze", y, b.constant([0])), b.constant([1, 0]), 2)
    y = b.op("Add", y, b.op("ReduceMax", "x", keepdims=0))
    return b.model({"x": (TensorProto.FLOAT, ["rows", width])}, {"y": (y, [1, "all"])}, "frames")


MODELS = {
    "spoken_frames": (spoken_frames, [(n, 4) for n in (3, 1, 2, 7, 5)]),
    "experts": (experts, [(n, 16) for n in (9, 1, 12, 30, 1, 17)]),
    "detector": (detector, [(1, 40, 12)] * 5),
    "chosen_tokens": (chosen_tokens, [(*n, 8) for n in ((2, 9), (1, 1), (3, 2), (1, 30), (4, 4))]),
    "chosen_rows": (chosen_rows, [(n, 16) for n in (9, 1, 1, 2, 5, 7)]),
}


@pytest.mark.parametrize(
    "target", ["cpu", "gfx942", pytest.param("gfx1100", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", MODELS)
def test_new_sizes_take_no_compile(name: str, target: str) -> None:
    """Also where the data choose nothing: an expert without tokens, a picture without boxes."""
    make, shapes = MODELS[name]
    model = make()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    runner = Model(model, target)
    rng = np.random.default_rng(0)
    kept, compiled = set(), []
    for place, shape in enumerate(shapes):
        x = rng.normal(size=shape).astype(np.float32)
        x = -abs(x) if place in (1, 2) else x
        wanted = session.run(None, {"x": x})
        found = list(runner.run({"x": x}).values())
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        kept.add(tuple(one.shape for one in wanted))
        compiled.append(runner.compiled)
    assert len(kept) > 2
    assert compiled[0] == compiled[-1] > 0


def test_chosen_numbers_may_be_a_shape() -> None:
    """Values that are built in have no sizes to ask for."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 4] x, int64[4] s) => (y) <int64 zero = {0}> {
          k = Greater(s, zero) n = Compress(s, k) y = Reshape(x, n) }"""
    )
    runner = Model(model)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    for sizes in ((8, 0, 0, 0), (2, 4, 0, 0), (0, 2, 2, 2), (0, 4, 2, 0)):
        found = runner.run({"x": x, "s": np.array(sizes)})["y"]
        np.testing.assert_array_equal(found, x.reshape([n for n in sizes if n]))


def test_places_of_chosen_elements_have_as_many_indices_as_a_run_says() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 4] x, int64[2] s) => (y) {
          n = NonZero(x) t = Transpose(n) i = Reshape(t, s) y = GatherND(x, i) }"""
    )
    assert check(model).state is State.PARTS
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    found = Model(model).run({"x": x, "s": np.array([7, 2])})["y"]
    np.testing.assert_array_equal(found, x[np.nonzero(x)])
