"""A choice among any number of boxes: the family's functions, by formulas."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.launches import OpenLaunches
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.gpu.families.suppress.generator import build
from mgx_mlir.codegen.gpu.families.suppress.match import Suppress, match_suppress
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


def _program(
    kernel: mgx.KernelOp, suppress: Suppress, target: Target
) -> Generated[DynamicProgram] | Refusal:
    launches = OpenLaunches(kernel)
    build(suppress, launches, target)
    return launches.generated(f"any sizes, {target.wave_size} boxes at a time")


FAMILY = Family("open_suppress", 130, Matched(match_suppress, _program))
