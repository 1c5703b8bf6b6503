"""Random models that are quantized at random agree with f32, onnxruntime and emulated chips."""

from __future__ import annotations

import pytest

from test.fuzz.command import fuzz


def test_models_of_a_few_seeds() -> None:
    fuzz("quantizing", "--seed", "50", "--count", "6", "--targets", "gfx942")


def test_models_of_open_sizes() -> None:
    fuzz("quantizing", "--seed", "80", "--count", "8", "--mode", "full-dynamic")


@pytest.mark.slow
def test_three_hundred_models() -> None:
    fuzz("quantizing", "--seed", "1000", "--count", "300")
