"""Convolutions of one channel a group of images of any size, with channels last.

    %y = mgx.convolution %x, %w ... {channels_last, group = 16} :
        tensor<?x?x?x16xf32, #mgx.dims<[batch, h, w, _]>>, ...

The plan is that of given sizes, by formulas: each thread has neighbouring channels of some pixels.
A tensor has at most 2^31 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.function import signature
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.builders.pointers import forwards, value_of
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors
from mgx_mlir.codegen.gpu.families.contraction.recipes.depthwise import (
    Depthwise,
    best_of,
    depthwise_of,
    emit_depthwise,
)
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.problem.match import Match, match_convolution, used_arguments
from mgx_mlir.codegen.problem.problem import Dimension
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import named_symbols
from mgx_mlir.sizes.arithmetic import Number

# The height and width of images that schedules are chosen for.
_USUAL = 125


@dataclass(frozen=True)
class _Problem:
    """A convolution with one filter for each channel."""

    name: str
    match: Match


def _match(kernel: mgx.KernelOp) -> _Problem | Refusal | None:
    found = match_convolution(kernel)
    return _Problem(*found) if found and found[1].problem.M == 1 else None


def _program(
    kernel: mgx.KernelOp, problem: _Problem, target: Target
) -> Generated[GpuProgram] | Refusal:
    _, (inputs, _) = signature(kernel)
    plan = depthwise_of(problem.match, target)
    if isinstance(plan, Refusal):
        return plan
    if not forwards(*plan.image.axes):
        return Refusal("images that are read backwards")
    plan = _scheduled(plan, inputs)
    used = [number for number, _ in used_arguments(problem.match)]
    launches = Launches(kernel, inputs_first=True)
    read = launches.inputs(used)
    with launches.each(read, launches.results, plan.threads) as work:
        pointers = {argument.index: work.pointers[argument] for argument in read}
        own = Tensors(pointers, [work.pointers[x] for x in launches.results], None)
        emit_depthwise(plan, work.offset, work.inside, own.inputs, plan.epilogue(own))
    if refusal := launches.refusal():
        return refusal
    return Generated(launches.program(), f"any sizes, {plan.describe()}")


def _scheduled(plan: Depthwise, inputs: Sequence[ir.Type]) -> Depthwise:
    """The plan with the schedule of images of a usual size."""
    known = named_symbols(inputs)

    def at(size: Number) -> int:
        return max(1, value_of(size, known, _USUAL))

    def dim(x: Dimension) -> Dimension:
        return replace(x, size=at(x.size), outputs=at(x.outputs), stride=at(x.stride))

    usual = plan.image.with_dims(dim)
    problem = replace(plan.match.problem, batch=1, M=math.prod(usual.outputs))
    product = replace(plan.product, match=replace(plan.match, problem=problem))
    best = best_of(replace(plan, product=product, image=usual))
    return replace(plan, lanes=best.lanes, rows=best.rows, width=best.width, mixed=best.mixed)


FAMILY = Family("channelwise", 22, Matched(_match, _program), symbolic=True, given=False)
