"""Products and convolutions of any sizes on emulated chips: sizes on both sides of each regime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import mgx_mlir
from mgx_mlir.settings import Settings
from test.dynamic_models import MODELS, inputs_of
from test.onnx_models import Builder, half
from test.test_full_dynamic import FULL

SETTINGS = Settings(jobs=1, hip="emulated")


def convolution(
    channels: int, filters: int, window: int, step: int = 1, last: bool = False, add: bool = True
) -> onnx.ModelProto:
    """A convolution of images of any number, height and width, with a sum and a Relu."""
    b = Builder()
    w = b.weight("w", filters, channels, window, window, scale=(channels * window**2) ** -0.5)
    x = b.op("Transpose", "x", perm=[0, 3, 1, 2]) if last else "x"
    pads, strides = [window // 2] * 4, [step, step]
    y = b.op("Conv", x, w, b.weight("b", filters), pads=pads, strides=strides)
    y = b.op("Relu", b.op("Add", y, y) if add else y)
    y = b.op("Transpose", y, perm=[0, 2, 3, 1]) if last else y
    shape = ["n", "h", "w", channels] if last else ["n", channels, "h", "w"]
    return b.model({"x": (TensorProto.FLOAT, shape)}, {"y": (y, [None] * 4)}, "convolution")


def product(*open_: str) -> onnx.ModelProto:
    """A product of 40 x 72 by 72 x 48, but for open sizes."""
    b = Builder()
    m, n, k = (s if s in open_ else size for s, size in (("m", 40), ("n", 48), ("k", 72)))
    inputs = {"x": (TensorProto.FLOAT, [m, k]), "v": (TensorProto.FLOAT, [k, n])}
    return b.model(inputs, {"y": (b.op("MatMul", "x", "v"), [m, n])}, "product")


PIXELS = [
    {"n": 1, "h": 1, "w": 1},
    {"n": 3, "h": 5, "w": 7},
    {"n": 2, "h": 28, "w": 28},
    {"n": 2, "h": 29, "w": 27},
    {"n": 1, "h": 40, "w": 64},
]
ROWS = [
    {"m": 1, "n": 1, "k": 1},
    {"m": 1, "n": 130, "k": 300},
    {"m": 1, "n": 136, "k": 304},
    {"m": 1, "n": 8, "k": 2056},
    {"m": 67, "n": 3, "k": 9},
    {"m": 256, "n": 256, "k": 24},
    {"m": 257, "n": 264, "k": 40},
]


def check(
    model: onnx.ModelProto, chip: str, sizes: list[dict[str, int]], narrow: bool = False
) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    model = half(model) if narrow else model
    program = mgx_mlir.compile(model, chip, FULL, settings=SETTINGS)
    for known in sizes:
        inputs = inputs_of(model, known)
        (found,) = program.run(inputs).values()
        (wanted,) = session.run(None, {n: x.astype(np.float32) for n, x in inputs.items()})
        most = np.abs(wanted).max(initial=0) + 1e-3
        np.testing.assert_allclose(found, wanted, atol=(4e-3 if narrow else 1e-5) * most)


@pytest.mark.parametrize(
    ("made", "chip", "narrow"),
    [
        ((24, 16, 3), "gfx942", True),
        ((24, 16, 3, 2), "gfx1100", False),
        ((128, 24, 3, 1, True), "gfx942", True),
        pytest.param((128, 24, 3), "gfx1100", True, marks=pytest.mark.slow),
        pytest.param((24, 16, 1), "gfx942", False, marks=pytest.mark.slow),
        pytest.param((64, 40, 3, 2, True), "gfx1100", True, marks=pytest.mark.slow),
        pytest.param((64, 40, 5), "gfx942", True, marks=pytest.mark.slow),
    ],
)
def test_images_of_any_pixels(made: tuple[int, ...], chip: str, narrow: bool) -> None:
    check(convolution(*made), chip, PIXELS, narrow)


@pytest.mark.parametrize(
    ("open_", "chip", "narrow"),
    [
        ("mnk", "gfx942", True),
        ("mnk", "gfx1100", False),
        pytest.param("mn", "gfx1100", True, marks=pytest.mark.slow),
        pytest.param("n", "gfx942", True, marks=pytest.mark.slow),
        pytest.param("k", "gfx942", False, marks=pytest.mark.slow),
    ],
)
def test_products_of_any_sizes(open_: str, chip: str, narrow: bool) -> None:
    known = [{s: size for s, size in sizes.items() if s in open_} for sizes in ROWS]
    check(product(*open_), chip, known, narrow)


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
def test_one_row_of_each_of_a_batch(chip: str) -> None:
    sizes = [{"batch": 3, "m": m, "k": 40, "n": 64} for m in (1, 2)]
    check(MODELS["products"](), chip, sizes, narrow=chip == "gfx942")


@pytest.mark.parametrize(("chip", "last"), [("gfx942", False), ("gfx1100", True)])
def test_tiles_meet_many_images(chip: str, last: bool) -> None:
    """Images of less pixels than a tile has, no multiples of a vector, with sums of split-K."""
    sizes = [{"n": n, "h": h, "w": w} for n, h, w in ((37, 3, 5), (9, 7, 7), (1, 6, 4), (0, 4, 4))]
    check(convolution(256, 24, 3, 1, last), chip, sizes, narrow=True)


def test_tiles_meet_a_given_number_of_images() -> None:
    """Numbers of results that are formulas with terms below zero."""
    b = Builder()
    w, sides = b.weight("w", 7, 64, 5, 5, scale=0.03), {"dilations": [2, 2], "strides": [2, 2]}
    y = b.op("Conv", b.op("Transpose", "x", perm=[0, 3, 1, 2]), w, pads=[2, 0, 2, 2], **sides)
    y = b.op("Transpose", y, perm=[0, 2, 3, 1])
    inputs = {"x": (TensorProto.FLOAT, [8, "h", "w", 64])}
    model = b.model(inputs, {"y": (y, [None] * 4)}, "convolution")
    check(model, "gfx942", [{"h": 9, "w": 8}, {"h": 12, "w": 11}], narrow=True)


def test_nothing_and_sums_of_nothing() -> None:
    """Results without elements, and sums of no products, which are 0."""
    program = mgx_mlir.compile(product(*"mnk"), "gfx1100", FULL, settings=SETTINGS)
    for m, n, k in ((0, 16, 8), (1, 0, 8), (1, 16, 0), (20, 24, 0)):
        inputs = {"x": np.ones((m, k), np.float32), "v": np.ones((k, n), np.float32)}
        (found,) = program.run(inputs).values()
        np.testing.assert_array_equal(found, inputs["x"] @ inputs["v"])


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
def test_integers_of_any_pixels(chip: str) -> None:
    """Sums of integers are exact."""
    b = Builder()
    w = b.add(np.random.default_rng(0).integers(-9, 9, (16, 48, 3, 3)).astype(np.int8), "w")
    y = b.op("ConvInteger", "x", w, pads=[1, 1, 1, 1])
    model = b.model({"x": (TensorProto.INT8, ["n", 48, "h", "w"])}, {"y": (y, [None] * 4)}, "sums")
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    program = mgx_mlir.compile(model, chip, FULL, settings=SETTINGS)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for known in PIXELS[1:3]:
        inputs = inputs_of(model, known)
        (found,), (wanted,) = program.run(inputs).values(), session.run(None, inputs)
        np.testing.assert_array_equal(found, wanted)
