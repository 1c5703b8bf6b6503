"""A kernel as GPU functions that are not compiled yet, and how they are launched."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from mgx_mlir.artifact.code_object import Launch


@dataclass(frozen=True)
class GpuProgram:
    """The functions of the one gpu.module in `module`, and their launches, in order."""

    module: ir.Module
    launches: tuple[Launch, ...]
    scratch_bytes: int
    index_bits: int
