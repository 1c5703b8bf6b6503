"""A resident kernel whose work-groups pass barriers in some tiles alone, on an emulated chip.

Run by test_hip_persistent.py in a process of its own, which finds races, in several orders.

    y[tile][i] = i, or where the tile's flag is set that of the lane on the other side, by LDS

Half of the kernel's waves have no part of a tile, and join its barriers.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.resident import NAME, Part, resident_code
from mgx_mlir.dialects import context
from mgx_mlir.finalizer.residents import FIXED
from mgx_mlir.runtime.hip.library import call, open_library

TILES, THREADS, MOST = 12, 128, 256
TEXT = f"""
gpu.module @kernels {{
  gpu.func @turns(%flags: memref<{TILES}xi32> {{llvm.noalias}},
                  %y: memref<{TILES * THREADS}xi32> {{llvm.noalias}})
      workgroup(%lds: memref<{THREADS}xi32, #gpu.address_space<workgroup>>) kernel
      attributes {{known_block_size = array<i32: {THREADS}, 1, 1>}} {{
    %tile = gpu.block_id x
    %thread = gpu.thread_id x
    %zero = arith.constant 0 : i32
    %last = arith.constant {THREADS - 1} : index
    %threads = arith.constant {THREADS} : index
    %own = arith.index_cast %thread : index to i32
    %flag = memref.load %flags[%tile] : memref<{TILES}xi32>
    %is_set = arith.cmpi ne, %flag, %zero : i32
    %x = scf.if %is_set -> i32 {{
      memref.store %own, %lds[%thread] : memref<{THREADS}xi32, #gpu.address_space<workgroup>>
      amdgpu.lds_barrier
      %at = arith.subi %last, %thread : index
      %other = memref.load %lds[%at] : memref<{THREADS}xi32, #gpu.address_space<workgroup>>
      scf.yield %other : i32
    }} else {{
      scf.yield %own : i32
    }}
    %first = arith.muli %tile, %threads : index
    %place = arith.addi %first, %thread : index
    memref.store %x, %y[%place] : memref<{TILES * THREADS}xi32>
    gpu.return
  }}
  gpu.func @whole(%y: memref<{MOST}xi32> {{llvm.noalias}}) kernel
      attributes {{known_block_size = array<i32: {MOST}, 1, 1>}} {{
    %thread = gpu.thread_id x
    %own = arith.index_cast %thread : index to i32
    memref.store %own, %y[%thread] : memref<{MOST}xi32>
    gpu.return
  }}
}}"""


def main(chip: str, flags: str) -> None:
    with context(), ir.Location.unknown():
        program = GpuProgram(ir.Module.parse(TEXT), (), 0, 32)
        arguments = Argument("input", 0), Argument("output", 0)
        turns = Launch("turns", (TILES, 1, 1), (THREADS, 1, 1), arguments)
        whole = Launch("whole", (1, 1, 1), (MOST, 1, 1), arguments[1:])
        count = FIXED + 3 + 2
        made = resident_code([Part(program, turns), Part(program, whole)], count, Target.get(chip))
    assert isinstance(made, tuple), made
    data, _, threads = made
    assert threads == MOST
    open_library("emulated")
    given = np.array([int(flag) for flag in flags], np.int32)
    found = np.zeros((TILES, THREADS), np.int32)
    memory = [call("hipMalloc", size) for size in (4, given.nbytes, found.nbytes, 4 * MOST)]
    call("hipMemset", memory[0], 0, 4)
    call("hipMemcpy", memory[1], given, given.nbytes, _kind("HostToDevice"))
    words = [int(memory[0]), 2, 1, 0, int(memory[1]), int(memory[2]), 2, int(memory[3])]
    launch(data, threads, words + [0] * (count - len(words)))
    call("hipMemcpy", found, memory[2], found.nbytes, _kind("DeviceToHost"))
    lanes = np.arange(THREADS)
    wanted = [lanes[::-1] if flag == "1" else lanes for flag in flags]
    np.testing.assert_array_equal(found, wanted)


def launch(data: bytes, threads: int, words: list[int]) -> None:
    """Runs the kernel as one work-group."""
    module = call("hipModuleLoadData", data)
    function = call("hipModuleGetFunction", module, NAME.encode())
    values = [ctypes.c_uint64(word) for word in words]
    call(
        "hipModuleLaunchKernel", function, 1, 1, 1, threads, 1, 1, 0, 0,
        [ctypes.addressof(value) for value in values], None,
    )  # fmt: skip
    call("hipDeviceSynchronize")


def _kind(name: str) -> Any:
    from hip import hip

    return getattr(hip.hipMemcpyKind, f"hipMemcpy{name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
