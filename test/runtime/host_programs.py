"""Small programs for the host, from a plan and kernels written as text."""

from __future__ import annotations

from functools import cache

from mlir import ir

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.cpu.kernel import compile_kernel
from mgx_mlir.dialects import context

SIZE = 1000
BYTES = 4 * SIZE


@cache
def elementwise(op: str, inputs: int = 2) -> CodeObject:
    """A kernel of one op on vectors of `SIZE` floats."""
    type_ = f"tensor<{SIZE}xf32>"
    names = [f"%x{i}" for i in range(inputs)]
    types = ", ".join([type_] * inputs)
    arrow = f" -> {type_}" if inputs > 1 else ""
    return kernel(
        f"mgx.kernel @k({', '.join(f'{n}: {type_}' for n in names)}) -> {type_} "
        f'attributes {{arch = #mgx.arch<"gfxMIGX">}} {{\n'
        f"%y = mgx.{op} {', '.join(names)} : {types}{arrow}\nmgx.return %y : {type_}\n}}"
    )


@cache
def kernel(text: str) -> CodeObject:
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        return compile_kernel(next(iter(module.body.operations)), Target.host_cpu())
