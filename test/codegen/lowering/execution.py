"""Runs lowered kernels with upstream's own passes and execution engine, slowly and plainly."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir
from mlir.execution_engine import ExecutionEngine
from mlir.passmanager import PassManager

from mgx_mlir.codegen.lowering import element_of, lower_kernel

Array = np.ndarray[Any, Any]

_PIPELINE = (
    "builtin.module(one-shot-bufferize{bufferize-function-boundaries=1"
    " function-boundary-type-conversion=identity-layout-map},"
    "buffer-results-to-out-params{hoist-static-allocs=1},"
    "func.func(convert-linalg-to-loops,scf-forall-to-for),"
    "arith-expand{include-bf16=1},math-expand-ops,expand-strided-metadata,lower-affine,"
    "convert-scf-to-cf,"
    "convert-math-to-llvm,convert-math-to-libm,finalize-memref-to-llvm,convert-arith-to-llvm,"
    "convert-index-to-llvm,convert-cf-to-llvm,"
    "convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},"
    "reconcile-unrealized-casts)"
)

_DTYPES = {
    "i1": np.bool_,
    "i2": ml_dtypes.int2,
    "i4": ml_dtypes.int4,
    "ui2": ml_dtypes.uint2,
    "ui4": ml_dtypes.uint4,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
}


def dtype_of(type_: ir.Type) -> np.dtype[Any]:
    name = str(type_.element_type if isinstance(type_, ir.ShapedType) else type_)
    if name in _DTYPES:
        return np.dtype(_DTYPES[name])
    return np.dtype(name.replace("ui", "uint") if name.startswith("ui") else name.replace("i", "int"))


def as_stored(array: Array) -> Array:
    """An array as the kernel's memory holds it: 4-bit integers one to a byte, sign-extended."""
    if array.dtype in (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.int2)):
        return array.astype(np.int8)
    if array.dtype in (np.dtype(ml_dtypes.uint4), np.dtype(ml_dtypes.uint2)):
        return array.astype(np.uint8)
    return np.ascontiguousarray(array)


def kernels_of(module: ir.Module) -> dict[str, ir.OpView]:
    return {
        ir.StringAttr(op.attributes["sym_name"]).value: op
        for op in module.body.operations if op.operation.name == "mgx.kernel"}


class Executable:
    """Every mgx.kernel of a module, compiled at optimisation level 0."""

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
            self._engine = ExecutionEngine(merged, opt_level=0)

    def run(self, name: str, inputs: Sequence[Array]) -> list[Array]:
        type_ = ir.FunctionType(ir.TypeAttr(self.kernels[name].attributes["function_type"]).value)
        stored = [as_stored(np.asarray(x)) for x in inputs]
        outputs = []
        for result in type_.results:
            dtype = dtype_of(result)
            outputs.append(np.full(
                tuple(result.shape), 77, np.int8) if element_of(result).bits < 8 and (
                    dtype != np.bool_) else np.zeros(tuple(result.shape), dtype))
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*stored, *outputs)]
        address = self._engine.raw_lookup(name)
        ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers))(address)(*pointers)
        return [
            x.astype(dtype_of(t)) if "i" in str(t.element_type) and element_of(t).bits < 8
            else x.view(dtype_of(t))
            for x, t in zip(outputs, type_.results, strict=True)]


def compile_text(text: str, context: ir.Context) -> Executable:
    return Executable(ir.Module.parse(text, context))


__all__ = ["Executable", "Mapping", "as_stored", "compile_text", "dtype_of", "kernels_of"]
