"""Attention in three kernels, for attentions that the one kernel of this family refuses.

The two products are contractions like any other, the body of the attention is the epilogue
of the first, and the softmax between them is a kernel of rows. Scores are f32 in scratch
memory, shares have the type of the operands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram, Part, aligned, joined
from mgx_mlir.codegen.gpu.families.contraction.kernel import match_program
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.gpu.families.rows.generator import rows_program
from mgx_mlir.codegen.problem.attention import Attention, match_attention
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


def attention_parts_program(
    kernel: mgx.KernelOp, target: Target
) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` for a chip, and its schedules in words.

    None where the kernel holds no attention, or one whose operands are no views of inputs.
    """
    with kernel.context, kernel.location:
        attention = match_attention(kernel)
        if attention is None:
            return None
        type_ = ir.FunctionType(kernel.function_type.value)
        name = kernel.sym_name.value
        sizes = [[math.prod(t.shape) for t in x] for x in (type_.inputs, type_.results)]
        return _parts(attention, (sizes[0], sizes[1]), target, name).of(
            f"{mgx.AttentionOp.OPERATION_NAME} in parts"
        )


def _parts(
    attention: Attention,
    sizes: tuple[Sequence[int], Sequence[int]],
    target: Target,
    name: str,
) -> Generated[GpuProgram] | Refusal:
    size, element, (inputs, results) = attention.size, attention.element, sizes
    scores = match_program(attention.scores(all_=False), (inputs, [size]), target, f"{name}_scores")
    if isinstance(scores, Refusal):
        return scores
    values = match_program(
        attention.values(len(inputs), element),
        ([*inputs, size], results),
        target,
        f"{name}_values",
    )
    if isinstance(values, Refusal):
        return values
    module = _softmax_kernel(attention, f"{name}_softmax")
    (kernel,) = module.body.operations
    assert isinstance(kernel, mgx.KernelOp)
    softmax = rows_program(kernel, target)
    assert softmax is not None  # it is a kernel of rows
    if isinstance(softmax, Refusal):
        return softmax
    shares = aligned(size * emit.element_bytes(attention.score))
    end = shares + aligned(size * emit.element_bytes(element))
    first, second = Argument("scratch", 0), Argument("scratch", shares)
    parts = (
        Part(scores.program, {Argument("output", 0): first}),
        Part(softmax.program, {Argument("input", 0): first, Argument("output", 0): second}),
        Part(values.program, {Argument("input", len(inputs)): second}),
    )
    schedules = "; ".join(x.schedule for x in (scores, softmax, values))
    return Generated(joined(parts, end), schedules)


def _softmax_kernel(attention: Attention, name: str) -> ir.Module:
    """A module with one kernel: shares of scores, along rows of keys."""
    rows, keys = attention.batch * attention.M, attention.N
    whole = ir.RankedTensorType.get([rows, keys], emit.element_type(attention.score))
    narrow = emit.element_type(attention.element)

    def shares(x: ir.Value) -> ir.Value:
        row_maximum = mgx.multibroadcast(mgx.reduce_max(x, [1]), [rows, keys])
        powers = mgx.exp(mgx.sub(x, row_maximum))
        total = mgx.multibroadcast(mgx.recip(mgx.reduce_sum(powers, [1])), [rows, keys])
        y = mgx.mul(powers, total)
        if attention.nan_as_zero:
            zero = mgx.constant(0, type=y.type)
            y = mgx.where(mgx.isnan(y), zero, y)
        if attention.empty_as_zero:
            lowest = mgx.constant(float("-inf"), type=y.type)
            y = mgx.where(mgx.equal(row_maximum, lowest), mgx.constant(0, type=y.type), y)
        return y if whole.element_type == narrow else mgx.convert(y, narrow)

    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        mgx.kernel(name, [whole], lambda x: mgx.fused_reduce([x], [1], shares))
    return module


FAMILY = Family("attention_parts", 20, attention_parts_program)
