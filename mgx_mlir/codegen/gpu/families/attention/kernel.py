"""Whether the attention family takes a kernel, and the kernel's program."""

from __future__ import annotations

import math

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.attention.constraints import base_unit, problem_refusal
from mgx_mlir.codegen.gpu.families.attention.cost import choose
from mgx_mlir.codegen.gpu.families.attention.generator import Generator
from mgx_mlir.codegen.gpu.families.attention.layout import shaped
from mgx_mlir.codegen.gpu.families.attention.space import AttentionSchedule
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.problem.attention import heads_as_queries, match_attention
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import byte_size

_NAME = mgx.AttentionOp.OPERATION_NAME


def attention_program(
    kernel: mgx.KernelOp, target: Target, schedule: AttentionSchedule | None = None
) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None where the kernel holds no attention. Without a `schedule` the cost model chooses one.
    """
    with kernel.context, kernel.location:
        operations = kernel.regions[0].blocks[0].operations
        if not any(isinstance(op, mgx.AttentionOp) for op in operations):
            return None
        attention = match_attention(kernel)
        if attention is None:
            return Refusal(f"{_NAME}: operands or an epilogue that are no views of inputs")
        type_ = ir.FunctionType(kernel.function_type.value)
        types = [*type_.inputs, *type_.results]
        refusal = problem_refusal(attention, max(byte_size(t) for t in types), target)
        if refusal:
            return refusal.of(_NAME)
        unit = base_unit(attention, target)
        assert unit is not None  # or the problem would have been refused
        if unit.rows > attention.M:
            attention = heads_as_queries(attention)
        schedule = schedule or choose(attention, unit, target)
        if schedule is None:
            return Refusal(f"{_NAME}: no schedule fits {target.name}")
        sizes = tuple([math.prod(t.shape) for t in x] for x in (type_.inputs, type_.results))
        name = kernel.sym_name.value
        unit = shaped(unit, schedule.rows)
        generator = Generator(attention, (sizes[0], sizes[1]), schedule, unit, target, name)
        return Generated(generator.run(), f"{_NAME}: {schedule.describe(unit)}")


FAMILY = Family("attention", 10, attention_program)
