"""Runs a model on one emulated chip, with graph and without, and on the host.

A program of its own, because strict mode is chosen once a process:

    MGX_HIP=emulated MGX_EMULATOR_STRICT=1 python strict_models.py gfx942 bert
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

import mgx_mlir  # noqa: E402
from mgx_mlir.tools.options import random_array  # noqa: E402
from test.onnx_models import small  # noqa: E402


def main(chip: str, model: str) -> None:
    artifact = mgx_mlir.compile_to_bytecode(small(model))
    replayed = mgx_mlir.compile(artifact, chip)
    plain = mgx_mlir.compile(artifact, chip, graph=False)
    host = mgx_mlir.compile(artifact, "cpu")
    generator = np.random.default_rng(0)
    for _ in range(2):
        inputs = {s.name: random_array(s, generator) for s in host.inputs}
        want = host.run(inputs)
        found, other = replayed.run(inputs), plain.run(inputs)
        for name, array in want.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(found[name], other[name])


if __name__ == "__main__":
    main(*sys.argv[1:])
