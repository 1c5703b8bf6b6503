"""The code of one kernel for a chip, from its text."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.dialects import context


def compiled(text: str, chip: str = "gfx942") -> CodeObject:
    """The code object of the first kernel of a module."""
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        return compiler(next(iter(module.body.operations)))(Target.get(chip))
