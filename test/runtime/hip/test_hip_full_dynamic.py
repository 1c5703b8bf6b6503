"""Mode full-dynamic on emulated chips: sizes are arguments of kernels, graphs are rebuilt."""

from __future__ import annotations

from itertools import product

import pytest

import mgx_mlir
from mgx_mlir.settings import Settings
from test import open_size_models
from test.dynamic_models import MODELS, SIZES
from test.open_size_models import model_of
from test.test_full_dynamic import FULL, check

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


@pytest.mark.parametrize("name", ["a part of one element", "channels by a name"])
def test_operators_of_open_sizes(name: str) -> None:
    model = model_of(name)
    program = mgx_mlir.compile(model, "gfx942", FULL, settings=SETTINGS)
    check(model, program, open_size_models.SIZES.get(name, open_size_models.SMALL))
