"""Runs lowered kernels with upstream's own passes alone, slowly and plainly."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.passmanager import PassManager

from mgx_mlir.codegen.generic.lowering import lower_kernel
from mgx_mlir.dialects.types import numpy_dtype
from test.compiled import CompiledModule

Array = np.ndarray[Any, Any]

_PIPELINE = (
    "builtin.module(one-shot-bufferize{bufferize-function-boundaries=1"
    " function-boundary-type-conversion=identity-layout-map},"
    "buffer-results-to-out-params{hoist-static-allocs=1 modify-public-functions=1},"
    "canonicalize,cse,canonicalize,"
    "func.func(convert-linalg-to-loops,scf-forall-to-for),"
    "arith-expand{include-bf16=1},math-expand-ops,expand-strided-metadata,lower-affine,"
    "convert-scf-to-cf,"
    "convert-math-to-llvm,convert-math-to-libm,finalize-memref-to-llvm,convert-arith-to-llvm,"
    "convert-index-to-llvm,convert-cf-to-llvm,"
    "convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},"
    "reconcile-unrealized-casts)"
)


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
        with module.context, ir.Location.unknown():
            merged = ir.Module.create()
            for kernel in self.kernels.values():
                lowered = lower_kernel(kernel)
                for op in list(lowered.body.operations):
                    op.detach_from_parent()
                    merged.body.append(op)
            PassManager.parse(_PIPELINE).run(merged.operation)
            self._compiled = CompiledModule(merged)

    def run(self, name: str, inputs: Sequence[Array]) -> list[Array]:
        type_ = ir.FunctionType(ir.TypeAttr(self.kernels[name].attributes["function_type"]).value)
        stored = [np.ascontiguousarray(x) for x in inputs]
        outputs = [np.zeros(tuple(t.shape), numpy_dtype(t)) for t in type_.results]
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*stored, *outputs)]
        self._compiled.call(name, pointers)
        return outputs
