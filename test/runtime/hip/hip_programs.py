"""The digits model on the emulated devices, and what it gives on the host."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

import mgx_mlir
from mgx_mlir import emulator
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.runtime.hip.program import HipProgram

ROOT = Path(__file__).parents[3]
CHIPS = ("gfx942", "gfx1100")


@functools.cache
def digits() -> Artifact:
    """The model, finalized for both chips and the host."""
    artifact = mgx_mlir.compile_to_bytecode(ROOT / "examples" / "digits.onnx")
    return mgx_mlir.finalize(artifact, [*CHIPS, "cpu"])


def program(chip: str = "gfx942", **options: Any) -> HipProgram:
    """A program of its own; modules and weights may be shared with others."""
    found = mgx_mlir.compile(digits(), chip, **options)
    assert isinstance(found, HipProgram)
    return found


def image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((1, 1, 8, 8), np.float32)


@functools.cache
def _host() -> mgx_mlir.Program:
    return mgx_mlir.compile(digits(), "cpu")


def expected(x: np.ndarray) -> np.ndarray:
    return _host().run({"image": x})["probabilities"]


def close(found: np.ndarray, x: np.ndarray) -> bool:
    return bool(np.allclose(found, expected(x), rtol=1e-4, atol=1e-6))


def used_bytes(ordinal: int = 0) -> int:
    """Bytes in use on an emulated device."""
    return emulator.devices()[ordinal].used_bytes
