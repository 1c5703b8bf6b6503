"""Poolings of images of any size: the family's windows, by formulas.

    %y = mgx.pooling max %x ... : tensor<?x16x?x?xf32, #mgx.dims<[batch, _, h, w]>> -> ...

A tensor has at most 2^31 bytes.
"""

from __future__ import annotations

import math

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.generic.lowering.element import element_of, sizes_of
from mgx_mlir.codegen.gpu.builders.function import Tensor, signature, thread_number
from mgx_mlir.codegen.gpu.builders.launches import BLOCK
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.pointers import Move, OpenProgram
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.gpu.families.pooling.generator import choose, emit_pooling
from mgx_mlir.codegen.gpu.families.pooling.match import Pooling, match_pooling
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number, ceil_div


def _program(
    kernel: mgx.KernelOp, pooling: Pooling, target: Target
) -> Generated[DynamicProgram] | Refusal:
    _, (inputs, results) = signature(kernel)
    axes = (pooling.source.outer, pooling.source.inner)
    if not all(stride >= 0 for axis in axes for _, stride in axis.factors):
        return Refusal("images that are read backwards")
    used = sorted({pooling.source.argument, *(x.argument for x in pooling.match.reads)})
    tensors = [(Argument("input", number), inputs[number]) for number in used]
    tensors += [(Argument("output", number), type_) for number, type_ in enumerate(results)]
    moves = []
    for argument, type_ in tensors:
        size: Number = math.prod(sizes_of(type_))
        tensor = Tensor(1, element_of(type_), written=argument.kind == "output")
        moves.append(Move(argument, tensor, 0, Axis(()), size, size))
    program = OpenProgram(kernel, moves, ())
    if refusal := program.refusal():
        return refusal
    schedule = choose(pooling, target)
    threads = pooling.images * (pooling.outputs // schedule.run)
    with program.function(BLOCK, (ceil_div(threads, BLOCK), 1, 1)) as (frame, block):
        thread = emit.add(emit.mul(block, BLOCK), thread_number(BLOCK))
        inside = [emit.compare("slt", thread, threads)]
        buffers = dict(zip(used, frame.buffers, strict=False))
        outputs = frame.buffers[len(used) :]
        emit_pooling(pooling, schedule, buffers, outputs, thread, inside)
    return Generated(program.program(), f"any sizes, {schedule.describe()}")


FAMILY = Family("open_pooling", 30, Matched(match_pooling, _program))
