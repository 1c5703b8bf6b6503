"""An `mgx.kernel` as GPU code: the part common to all chips, and the part of one chip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

from mlir import ir

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.generic.buffers.bufferize import bufferize
from mgx_mlir.codegen.generic.dynamic.kernel import is_dynamic
from mgx_mlir.codegen.generic.lowering import lower_kernel
from mgx_mlir.codegen.generic.lowering.native import native_floats
from mgx_mlir.codegen.gpu.builders.binary import code_object
from mgx_mlir.codegen.gpu.builders.passes import expand_math
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.dynamic.attention import any_sizes_program
from mgx_mlir.codegen.gpu.dynamic.elements import counted_elements_program
from mgx_mlir.codegen.gpu.dynamic.images import images_program
from mgx_mlir.codegen.gpu.dynamic.product_rows import any_rows_program
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram, dynamic_program
from mgx_mlir.codegen.gpu.dynamic.rows import counted_rows_program
from mgx_mlir.codegen.gpu.families.attention.kernel import attention_program
from mgx_mlir.codegen.gpu.families.attention.parts import attention_parts_program
from mgx_mlir.codegen.gpu.families.contraction.kernel import contraction_program
from mgx_mlir.codegen.gpu.families.contraction.reduced import reduced_program
from mgx_mlir.codegen.gpu.families.lrn.kernel import lrn_program
from mgx_mlir.codegen.gpu.families.moves.kernel import moves_program
from mgx_mlir.codegen.gpu.families.pointwise.kernel import pointwise_program
from mgx_mlir.codegen.gpu.families.pooling.kernel import pooling_program
from mgx_mlir.codegen.gpu.families.resize.kernel import resize_program
from mgx_mlir.codegen.gpu.families.rows.kernel import rows_program
from mgx_mlir.codegen.gpu.families.scan.kernel import scan_program
from mgx_mlir.codegen.gpu.families.scatter.kernel import scatter_program
from mgx_mlir.codegen.gpu.families.suppress.kernel import suppress_program
from mgx_mlir.codegen.gpu.families.topk.kernel import topk_program
from mgx_mlir.codegen.gpu.generic.generate import generate

# A family returns the program of a kernel and the schedule in words; or None, and why it
# refuses the kernel (an empty reason where the kernel belongs to another family).
Family = Callable[[ir.OpView, Target], "tuple[GpuProgram | DynamicProgram | None, str]"]
FAMILIES: tuple[Family, ...] = (
    attention_program,
    attention_parts_program,
    reduced_program,
    contraction_program,
    rows_program,
    pointwise_program,
    moves_program,
    pooling_program,
    topk_program,
    resize_program,
    scan_program,
    scatter_program,
    suppress_program,
    lrn_program,
)

# The families of kernels whose sizes are arguments.
DYNAMIC_FAMILIES: tuple[Family, ...] = (
    partial(images_program, families=(reduced_program, contraction_program, pooling_program)),
    any_rows_program,
    any_sizes_program,
    counted_rows_program,
    counted_elements_program,
)


def gpu_program(lowered: ir.Module) -> GpuProgram:
    """The GPU functions of a lowered kernel (see codegen.generic.lowering), for any chip.

    `lowered` is bufferized in place. Raises CompilerError.
    """
    with lowered.context, ir.Location.unknown():
        function, inputs = bufferize(lowered)
        program = generate(function, inputs)
        expand_math(program.module)
        return program


# Fractions of the registers that a family's schedules may use. The next one is tried where the
# code spills registers: each try makes one more code object.
REGISTER_SHARES = (1.0, 0.75, 0.5)


def compiler(kernel: ir.OpView) -> Callable[[Target], CodeObject]:
    """The function that compiles a kernel for each chip that it is given.

    The first family that takes the kernel compiles it, with its best schedule that spills no
    registers. Otherwise the generic path does, for which the kernel is lowered once. Raises
    UnsupportedError or CompilerError.
    """
    dynamic = is_dynamic(kernel)
    families = DYNAMIC_FAMILIES if dynamic else FAMILIES
    lowered = cache(
        lambda: dynamic_program(kernel) if dynamic else gpu_program(lower_kernel(kernel))
    )

    def compile_for(target: Target) -> CodeObject:
        refusals: list[str] = []
        for family in families:
            code = _of_family(family, kernel, target, refusals)
            if code is not None:
                return code
        refusals.append("sizes are arguments: generic path" if dynamic else "generic path")
        return replace(_code_object(lowered(), target), why="; ".join(refusals))

    return compile_for


def _of_family(
    family: Family, kernel: ir.OpView, target: Target, refusals: list[str]
) -> CodeObject | None:
    """A family's code of a kernel; None, and one or more new `refusals`, where it has none."""
    tried = ""
    for share in REGISTER_SHARES:
        with native_floats(target.features):
            program, why = family(kernel, replace(target, register_share=share))
        if why == tried and program is not None:
            continue
        if why:
            refusals.append(why)
        if program is None:
            return None
        code = _code_object(program, target)
        if not _spills(code):
            return replace(code, why="; ".join(refusals))
        refusals[-1] += " would spill registers"
        tried = why
    return None


def _code_object(program: GpuProgram | DynamicProgram, target: Target) -> CodeObject:
    if isinstance(program, DynamicProgram):
        return program.code_object(target)
    return code_object(program, target)


def _spills(code: CodeObject) -> bool:
    return any(x["vgpr_spills"] or x["scratch_bytes"] for x in code.stats.values())
