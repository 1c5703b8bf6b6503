"""Mode full-dynamic on emulated chips: sizes are arguments of kernels, graphs are rebuilt."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnxruntime
import pytest
from onnx import parser

import mgx_mlir
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import UsageError
from mgx_mlir.settings import Settings
from test import open_size_models
from test.dynamic_models import MODELS, SIZES, inputs_of
from test.open_size_models import model_of
from test.test_full_dynamic import FULL, check

HALF = CompileOptions(mode="full-dynamic", floats="f16")
SETTINGS = Settings(jobs=1, hip="emulated")


CHIPS = ("gfx942", "gfx1100")
FAST = (
    ("bert", "gfx942"),
    ("conv", "gfx1100"),
    ("decoder", "gfx1100"),
    ("images", "gfx942"),
    ("mlp", "gfx942"),
    ("pictures", "gfx942"),
    ("pictures", "gfx1100"),
    ("products", "gfx942"),
)
SLOW = [pair for pair in product(MODELS, CHIPS) if pair not in FAST]


@pytest.mark.parametrize(
    ("name", "chip"), [*FAST, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in SLOW)]
)
def test_kernels_get_their_sizes(name: str, chip: str) -> None:
    model = MODELS[name]()
    check(model, mgx_mlir.compile(model, chip, FULL, settings=SETTINGS), SIZES[name])


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("a filter for each of few channels", "gfx1201"),
        ("a first layer of one column", "gfx1100"),
        ("a first layer, channels first", "gfx942"),
        ("a first layer, padded to whole strides", "gfx942"),
        ("a part of one element", "gfx942"),
        ("channels by a name", "gfx942"),
        ("long rows apart", "gfx1100"),
        ("resize of more lines than a grid has", "gfx942"),
        ("windows of an image with its end cut", "gfx1100"),
    ],
)
def test_operators_of_open_sizes(name: str, chip: str) -> None:
    model = model_of(name)
    program = mgx_mlir.compile(model, chip, FULL, settings=SETTINGS)
    check(model, program, open_size_models.SIZES.get(name, open_size_models.SMALL))


def test_windows_of_few_channels_lie_in_lds_for_images_of_any_size() -> None:
    """Rows and columns that a work-group's do and do not divide, one pixel, and many images."""
    model = model_of("windows of many channels")
    program = mgx_mlir.compile(model, "gfx942", HALF, settings=SETTINGS)
    assert any("pixels in LDS" in reason for reason in program._whole.reasons)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for known in open_size_models.SIZES["windows of many channels"]:
        inputs = inputs_of(model, known)
        (found,), (wanted,) = program.run(inputs).values(), session.run(None, inputs)
        np.testing.assert_allclose(found, wanted, atol=2e-3 * np.abs(wanted).max())


def test_first_layers_convert_pixels_of_images_of_any_size() -> None:
    """An f16 program of an f32 input, with widths that vectors divide and others."""
    model = MODELS["pictures"]()
    program = mgx_mlir.compile(model, "gfx942", HALF, settings=SETTINGS)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for known in ({"batch": 2, "h": 37, "w": 51}, {"batch": 2, "h": 40, "w": 64}):
        inputs = inputs_of(model, known)
        (found,), (wanted,) = program.run(inputs).values(), session.run(None, inputs)
        np.testing.assert_allclose(found, wanted, atol=2e-3 * np.abs(wanted).max())


def test_more_matrices_than_a_grid_has_are_the_callers_error() -> None:
    """So that `Model` compiles for these sizes, whose kernels are others."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[a, b, 8] x, float[a, 8, c] z) => (y) { y = MatMul(x, z) }"""
    )
    program = mgx_mlir.compile(model, "gfx942", FULL, settings=SETTINGS)
    many = {"x": np.zeros((65536, 3, 8), np.float32), "z": np.zeros((65536, 8, 5), np.float32)}
    with pytest.raises(UsageError, match=r"the kernel of '.*' has no run with a = 65536, b = 3"):
        program.run(many)
