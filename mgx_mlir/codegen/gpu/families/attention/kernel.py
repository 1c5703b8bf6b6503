"""Whether the attention family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.attention.constraints import Plan, base_unit, problem_refusal
from mgx_mlir.codegen.gpu.families.attention.cost import choose
from mgx_mlir.codegen.gpu.families.attention.generator import Generator
from mgx_mlir.codegen.gpu.families.attention.layout import shaped
from mgx_mlir.codegen.gpu.families.attention.parts import attention_parts_program
from mgx_mlir.codegen.gpu.families.attention.space import AttentionSchedule
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.problem.attention import Attention, heads_as_queries, match_attention
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
        best = schedule or choose(attention, unit, target)
        if best is None:
            return Refusal(f"{_NAME}: no schedule fits {target.name}")
        if schedule is None and best.lean and _stays_in_cache(attention, target):
            parts = attention_parts_program(kernel, target)
            if isinstance(parts, Generated):
                return parts
        schedule = best
        unit, launches = shaped(unit, schedule.rows), Launches(kernel, inputs_first=True)
        Generator(Plan(attention, schedule, unit, target)).run(launches)
        return Generated(launches.program(), f"{_NAME}: {schedule.describe(unit)}")


def _stays_in_cache(attention: Attention, target: Target) -> bool:
    """Whether scores, f32, and shares fill at most half of the last cache, and all are needed.

    Then three kernels take .4 to .67 of the time of a lean schedule (modelled chips of RDNA).
    """
    bytes_ = attention.size * (4 + emit.element_bytes(attention.element))
    alike = (attention.causal, attention.earliest) == (None, None)
    return alike and 2 * bytes_ <= target.cache_bytes


FAMILY = Family("attention", 10, attention_program)
