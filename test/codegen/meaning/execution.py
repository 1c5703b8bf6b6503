"""Runs kernels as plain loops of the host: no generator stands between them and what ops mean."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.cpu.kernel import load_dialects
from mgx_mlir.codegen.cpu.nests import compile_nests
from mgx_mlir.dialects.types import numpy_dtype

Array = np.ndarray[Any, Any]


def kernels_of(module: ir.Module) -> dict[str, ir.OpView]:
    return {
        ir.StringAttr(op.attributes["sym_name"]).value: op
        for op in module.body.operations
        if op.operation.name == "mgx.kernel"
    }


class Executable:
    """Every mgx.kernel of a module, compiled."""

    def __init__(self, module: ir.Module) -> None:
        self.kernels = kernels_of(module)
        self._codes: dict[str, CodeObject] = {}
        load_dialects(module.context)
        with module.context, ir.Location.unknown():
            for name, kernel in self.kernels.items():
                self._codes[name] = compile_nests(kernel, Target.host_cpu())

    def run(self, name: str, inputs: Sequence[Array]) -> list[Array]:
        type_ = ir.FunctionType(ir.TypeAttr(self.kernels[name].attributes["function_type"]).value)
        code = self._codes[name]
        stored = [np.ascontiguousarray(x) for x in inputs]
        outputs = [np.zeros(tuple(t.shape), numpy_dtype(t)) for t in type_.results]
        scratch = np.full(code.scratch_bytes + 1, 0xA5, np.uint8)
        places = {("scratch", 0): scratch.ctypes.data}
        for kind, arrays in (("input", stored), ("output", outputs)):
            places |= {(kind, n): x.ctypes.data for n, x in enumerate(arrays)}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "kernel.so")
            path.write_bytes(code.data)
            library = ctypes.CDLL(str(path))
        for launch in code.launches:
            pointers = [
                places["scratch", 0] + a.index if a.kind == "scratch" else places[a.kind, a.index]
                for a in launch.arguments
            ]
            function, items = library[launch.function], launch.grid[0]
            function.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
            function((ctypes.c_void_p * len(pointers))(*pointers), 0, items)
        return outputs
