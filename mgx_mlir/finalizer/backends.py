"""Backends by the kind of target. Nothing above the finalizer knows more than a Target."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import TargetError

if TYPE_CHECKING:
    from mgx_mlir.dialects import mgx

Compiler = Callable[[Target], CodeObject]
# Does the work on a kernel that no target changes, once; returns the compiler for a target.
Backend = Callable[["mgx.KernelOp"], Compiler]


def backend_of(target: Target) -> Backend:
    """The backend for a target's kind. Raises TargetError with the kinds that there are."""
    if target.kind not in BACKENDS:
        known = ", ".join(sorted(BACKENDS))
        raise TargetError(f"target {target.name} is of kind '{target.kind}'; there are: {known}")
    return BACKENDS[target.kind]


def _cpu(kernel: mgx.KernelOp) -> Compiler:
    from mgx_mlir.codegen.cpu.kernel import compile_kernel

    return lambda target: compile_kernel(kernel, target)


def _gpu(kernel: mgx.KernelOp) -> Compiler:
    from mgx_mlir.codegen.gpu.kernel import compiler

    return compiler(kernel)


def _spirv(kernel: mgx.KernelOp) -> Compiler:
    from mgx_mlir.codegen.gpu.spirv import compile_kernel

    return lambda target: compile_kernel(kernel, target)


# The modules that each kind's work imports, for processes that are started before it; `.*` stands
# for all modules of a package.
MODULES = {
    "cpu": (
        "mgx_mlir.rewriting.portable",
        "mgx_mlir.codegen.cpu.kernel",
        "mgx_mlir.codegen.loops.ops.*",
    ),
    "gpu": ("mgx_mlir.rewriting.portable", "mgx_mlir.codegen.gpu.kernel"),
    "spirv": ("mgx_mlir.rewriting.portable", "mgx_mlir.codegen.gpu.spirv"),
}

BACKENDS: dict[str, Backend] = {"cpu": _cpu, "gpu": _gpu, "spirv": _spirv}
