"""Runs a program of several branches, whose order the device checks.

    MGX_EMULATOR_ASYNC=1 MGX_EMULATOR_STRICT=1 python race.py branches.mgx plain

Fails where results are wrong, or the device finds a fault. A program of its own, because
strict mode is chosen once a process, and a device is lost after a fault.
"""

from __future__ import annotations

import sys

import numpy as np

import mgx_mlir
from mgx_mlir.errors import DeviceError


def main(path: str, graph: str) -> None:
    program = mgx_mlir.compile(mgx_mlir.load(path), "gfx942", graph=graph == "graph")
    x = np.random.default_rng(0).random(256, np.float32) / 1e35
    want = mgx_mlir.compile(mgx_mlir.load(path), "cpu").run({"x": x})["y"]
    try:
        for _ in range(3):
            found = program.run({"x": x})["y"]
            np.testing.assert_allclose(found, want, rtol=1e-4)
    except DeviceError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
