"""Scatters of any sizes: the family's functions, by formulas.

Updates that are combined in their order (products, sums of 64 bits) are not: a thread a row
combines them.
"""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.launches import OpenLaunches
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.gpu.families.scatter.kernel import build_scatter
from mgx_mlir.codegen.gpu.families.scatter.match import MAX_POINTS, Scatter, match_scatter
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


def _program(
    kernel: mgx.KernelOp, scatter: Scatter, target: Target
) -> Generated[DynamicProgram] | Refusal:
    if scatter.ordered:
        return Refusal("updates in their order")
    launches = OpenLaunches(kernel, [MAX_POINTS - 1 - scatter.points * scatter.run])
    how = build_scatter(scatter, launches, target)
    return launches.generated(f"any sizes, {how}")


FAMILY = Family("open_scatter", 120, Matched(match_scatter, _program))
