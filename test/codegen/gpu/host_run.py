"""Runs the functions of a GPU program on the host: one thread of the GPU after another.

The code is what a GPU gets, up to the last step before ROCDL; the numbers of block and
thread become arguments. Races of two threads are not seen: they run in order,
or, with `backwards`, in the opposite order, which gives the same results if they do not race.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.passmanager import PassManager

from mgx_mlir.artifact.code_object import Launch
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from test.compiled import CompiledModule

Array = np.ndarray[Any, Any]

_PIPELINE = (
    "builtin.module(mgx-expand-math,convert-scf-to-cf,expand-strided-metadata,"
    "convert-math-to-llvm,convert-math-to-libm,finalize-memref-to-llvm,convert-arith-to-llvm,"
    "convert-index-to-llvm,convert-cf-to-llvm,"
    "convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},reconcile-unrealized-casts)"
)
_FUNCTION = re.compile(r"gpu\.func @(\w+)\((.*?)\) kernel attributes \{.*?\} \{")
_POSITION = re.compile(r"gpu\.(block_id|thread_id) +([xy])( upper_bound \d+)?")
_SPACE = re.compile(r", #gpu\.address_space<\w+>")


class HostProgram:
    """A GPU program whose functions are host code."""

    def __init__(self, program: GpuProgram) -> None:
        self.launches = program.launches
        self.scratch_bytes = program.scratch_bytes
        with program.module.context, ir.Location.unknown():
            module = ir.Module.parse(_as_host_functions(str(program.module)))
            PassManager.parse(_PIPELINE).run(module.operation)
            self._compiled = CompiledModule(module) if self.launches else None

    def run(
        self, inputs: Sequence[Array], outputs: Sequence[Array], backwards: bool = False
    ) -> None:
        """Runs all launches; fills `outputs`. Scratch starts as noise."""
        scratch = np.full(self.scratch_bytes + 1, 0xA5, np.uint8)
        for launch in self.launches:
            pointers = []
            for argument in launch.arguments:
                if argument.kind == "scratch":
                    pointers.append(scratch.ctypes.data + argument.index)
                else:
                    arrays = inputs if argument.kind == "input" else outputs
                    pointers.append(arrays[argument.index].ctypes.data)
            self._launch(launch, pointers, backwards)

    def _launch(self, launch: Launch, pointers: Sequence[int], backwards: bool) -> None:
        assert self._compiled is not None
        sizes = [ctypes.c_int64(n) for n in (*launch.grid[:2], launch.block[0], backwards)]
        values = [*(ctypes.c_void_p(pointer) for pointer in pointers), *sizes]
        self._compiled.call(f"{launch.function}_all", values)


def _as_host_functions(text: str) -> str:
    """The text of a module with its gpu.module turned into functions of the host."""
    text = _SPACE.sub("", text).replace("gpu.return", "return")
    text = text.replace("attributes {gpu.container_module}", "")
    text = re.sub(r"gpu\.module @\w+ \{(.*)\}\s*\}\s*$", r"\1}", text, flags=re.DOTALL)
    text = _POSITION.sub(lambda m: f"arith.addi %{m[1]}_{m[2]}_, %zero_ : index", text)
    loops = []

    def function(match: re.Match[str]) -> str:
        name, arguments = match[1], re.sub(r" \{[^}]*\}", "", match[2])
        loops.append(_all_threads(name, arguments))
        extra = ", ".join(
            filter(None, [arguments, "%block_id_x_: index, %block_id_y_: index",
                          "%thread_id_x_: index"])
        )  # fmt: skip
        return f"func.func @{name}({extra}) {{ %zero_ = arith.constant 0 : index"

    text = _FUNCTION.sub(function, text)
    return text.rstrip()[:-1] + "\n".join(loops) + "\n}"


def _all_threads(name: str, arguments: str) -> str:
    names = re.findall(r"(%\w+):", arguments)
    types = re.findall(r"memref<[^>]*>", arguments)
    extra = ", ".join(filter(None, [arguments, "%nx: i64, %ny: i64, %nt: i64, %backwards: i64"]))
    values = ", ".join([*names, "%x", "%y", "%thread"])
    signature = ", ".join([*types, "index", "index", "index"])
    return f"""
    func.func @{name}_all({extra}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %i0 = arith.constant 0 : i64
      %flip = arith.cmpi ne, %backwards, %i0 : i64
      %gx = arith.index_cast %nx : i64 to index
      %gy = arith.index_cast %ny : i64 to index
      %gt = arith.index_cast %nt : i64 to index
      %blocks = arith.muli %gx, %gy : index
      %all = arith.muli %blocks, %gt : index
      %last = arith.subi %all, %c1 : index
      scf.for %i = %c0 to %all step %c1 {{
        %opposite = arith.subi %last, %i : index
        %n = arith.select %flip, %opposite, %i : index
        %thread = arith.remui %n, %gt : index
        %block = arith.divui %n, %gt : index
        %x = arith.remui %block, %gx : index
        %y = arith.divui %block, %gx : index
        func.call @{name}({values}) : ({signature}) -> ()
      }}
      return
    }}"""
