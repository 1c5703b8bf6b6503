"""Decodes on one emulated chip, with caches in device memory and on the host.

A program of its own, because strict mode is chosen once a process:

    MGX_HIP=emulated MGX_EMULATOR_STRICT=1 python strict_caches.py gfx942
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[3]), str(Path(__file__).parents[1])]

import cache_models as models  # noqa: E402

import mgx_mlir  # noqa: E402
from mgx_mlir.errors import UsageError  # noqa: E402
from mgx_mlir.runtime.hip.library import call  # noqa: E402
from mgx_mlir.runtime.hip.tensor import DeviceTensor  # noqa: E402
from test.passes.graphs import parse  # noqa: E402

X, PLACES, U = "tensor<4x24xf32>", "tensor<1x24xi64>", "tensor<1x24xf32>"
ELEMENTS = f"""
func.func @main(%x: {X} {{mgx.name = "x"}}, %i: {PLACES} {{mgx.name = "i"}},
                %u: {U} {{mgx.name = "u"}})
    -> ({X} {{mgx.name = "y"}}, {X} {{mgx.name = "z"}}) {{
  %y = mgx.scatter_none %x[%i], %u axis = 0 : {X}, {PLACES}, {U} -> {X}
  %0 = mgx.prefix_scan_sum %y axis = 0 : {X}
  %1 = mgx.scatter_none %0[%i], %u axis = 0 : {X}, {PLACES}, {U} -> {X}
  %z = mgx.prefix_scan_sum %1 axis = 0 : {X}
  return %y, %z : {X}, {X}
}}"""


def main(chip: str) -> None:
    artifact = models.artifact(chip)
    stream = call("hipStreamCreateWithFlags", 1)
    for graph in (True, False):
        program = mgx_mlir.compile(artifact, chip, graph=graph)
        models.decode(program, DeviceTensor.from_numpy)
        models.decode(program, DeviceTensor.from_numpy, stream=stream, results="device")
        models.decode(program, np.copy)
    single_elements(chip)
    only_what_changes(chip)
    given = models.model(0)[1]
    caches = {name: DeviceTensor.from_numpy(given[name]) for name in ("pk", "pv")}
    try:
        program.run(given | caches, {"y1": caches["pv"]})
    except UsageError as error:
        assert "output 'y1' overlaps that of 'pv'" in str(error)
    else:
        raise AssertionError("the cache of values took the keys")


def single_elements(chip: str) -> None:
    """Updates of elements here and there, over the caller's memory and apart from the arena's."""
    x = np.arange(4 * 24, dtype=np.float32).reshape(4, 24)
    i = np.random.default_rng(0).integers(0, 4, (1, 24))
    wanted = x.copy()
    np.put_along_axis(wanted, i, -1, 0)
    program = mgx_mlir.compile(mgx_mlir.compile_to_bytecode(parse(ELEMENTS)), chip)
    assert program.plan.in_place == ((0, 0),)
    memory = DeviceTensor.from_numpy(x)
    given = {"x": memory, "i": i, "u": np.full((1, 24), -1, np.float32)}
    for _ in range(2):
        found = program.run(given, {"y": memory})
        np.testing.assert_array_equal(memory.numpy(), wanted)
        sums = np.cumsum(wanted, 0)
        np.put_along_axis(sums, i, -1, 0)
        np.testing.assert_allclose(found["z"], np.cumsum(sums, 0))


def only_what_changes(chip: str) -> None:
    """Emulated memory is the host's: where a page may not be written, writing it is the end."""
    rows, row = "tensor<8x4096xf32>", "tensor<1x4096xf32>"
    places = "tensor<1x4096xi64>"
    text = f"""
    func.func @main(%x: {rows} {{mgx.name = "x"}}, %i: {places} {{mgx.name = "i"}},
                    %u: {row} {{mgx.name = "u"}}) -> ({rows} {{mgx.name = "y"}}) {{
      %y = mgx.scatter_none %x[%i], %u axis = 0 : {rows}, {places}, {row} -> {rows}
      return %y : {rows}
    }}"""
    program = mgx_mlir.compile(mgx_mlir.compile_to_bytecode(parse(text)), chip)
    memory = DeviceTensor.from_numpy(np.zeros((8, 4096), np.float32))
    # All rows below the last one, which is replaced, but for what shares a page with others.
    first = -(-memory.address // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (memory.address + memory.nbytes * 7 // 8) // mmap.PAGESIZE * mmap.PAGESIZE - first
    protect = ctypes.CDLL(None).mprotect
    assert size > 0 and protect(ctypes.c_void_p(first), ctypes.c_size_t(size), mmap.PROT_READ) == 0
    u = np.ones((1, 4096), np.float32)
    program.run({"x": memory, "i": np.full((1, 4096), 7), "u": u}, {"y": memory})
    assert (
        protect(ctypes.c_void_p(first), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_WRITE)
        == 0
    )
    np.testing.assert_array_equal(memory.numpy(), np.repeat([0, 1], [7, 1])[:, None] * u)


if __name__ == "__main__":
    main(*sys.argv[1:])
