"""Poolings of images of any size: the family's windows, by formulas.

    %y = mgx.pooling max %x ... : tensor<?x16x?x?xf32, #mgx.dims<[batch, _, h, w]>> -> ...

There is a function of one result a thread, for few, and one of several, for more results than that
leaves compute units without work. A run launches one. A tensor has at most 2^31 bytes.
"""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.pointers import OpenProgram, forwards, whole_tensors
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.gpu.families.pooling.generator import (
    busy_threads,
    emit_pooling,
    schedules,
)
from mgx_mlir.codegen.gpu.families.pooling.match import Pooling, match_pooling
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number, is_more


def _program(
    kernel: mgx.KernelOp, pooling: Pooling, target: Target
) -> Generated[DynamicProgram] | Refusal:
    if not forwards(pooling.source.outer, pooling.source.inner):
        return Refusal("images that are read backwards")
    used = sorted({pooling.source.argument, *(x.argument for x in pooling.match.reads)})
    program = OpenProgram(kernel, whole_tensors(kernel, used), ())
    if refusal := program.refusal():
        return refusal
    found = schedules(pooling)
    many, one = found[0], found[-1]
    results = pooling.images * pooling.outputs
    is_many = is_more(results, many.run * busy_threads(target)) if many != one else 0
    shares: list[Number] = [1 - is_many, is_many]
    for share, schedule in zip(shares, (one, many), strict=True):
        if share == 0:
            continue
        threads = pooling.images * (pooling.outputs // schedule.run)
        with program.threads(threads, share) as (frame, thread, inside):
            buffers = dict(zip(used, frame.buffers, strict=False))
            outputs = frame.buffers[len(used) :]
            emit_pooling(pooling, schedule, buffers, outputs, thread, inside)
    words = ", or ".join(dict.fromkeys(x.describe() for x in (one, many)))
    return Generated(program.program(), f"any sizes, {words}")


FAMILY = Family("open_pooling", 30, Matched(match_pooling, _program))
