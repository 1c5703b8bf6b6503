"""Splits a kernel that reduces the rows of a product: the product, and the work on it.

    %c = mgx.dot %a, %b ...                          first:  (%a, %b, %g) -> %c
    %y = mgx.fused_reduce(%c, %g) axes = [1] ...     second: (%a, %b, %g, %c) -> %y

Each generator knows one half. It decides whether the product goes to memory in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import definition


@dataclass(frozen=True)
class Halves:
    """Both halves as kernels of `module`. The product is the last argument of the second."""

    module: ir.Module
    first: mgx.KernelOp
    second: mgx.KernelOp

    @property
    def product(self) -> ir.RankedTensorType:
        """The tensor type of the first half's result."""
        return ir.RankedTensorType(ir.FunctionType(self.first.function_type.value).results[0])


def split_kernel(kernel: mgx.KernelOp) -> Halves | None:
    """The halves of a kernel whose one `mgx.fused_reduce` reads one product; else None.

    Needs an active MLIR context and location.
    """
    block = kernel.regions[0].blocks[0]
    *ops, terminator = block.operations
    reduces = [op for op in ops if isinstance(op, mgx.FusedReduceOp)]
    if len(reduces) != 1 or not any(isinstance(op, mgx.CONTRACTIONS) for op in ops):
        return None
    (reduce,) = reduces
    operands = list(reduce.inputs)
    made = [value for value in dict.fromkeys(operands) if _has_contraction(value)]
    others = [value for value in terminator.operands if value not in list(reduce.results)]
    if len(made) != 1 or operands.count(made[0]) != 1 or others:
        return None
    (product,) = made
    inputs = list(block.arguments)
    module = ir.Module.create()
    first = _kernel(module, kernel, "_0", inputs, [product])
    second = _kernel(module, kernel, "_1", [*inputs, product], list(terminator.operands))
    return Halves(module, first, second)


def _has_contraction(value: ir.Value) -> bool:
    op = definition(value)
    if op is None or isinstance(op, mgx.CONTRACTIONS):
        return op is not None
    return any(_has_contraction(operand) for operand in op.operands)


def _kernel(
    module: ir.Module,
    kernel: mgx.KernelOp,
    suffix: str,
    inputs: Sequence[ir.Value],
    results: Sequence[ir.Value],
) -> mgx.KernelOp:
    """A kernel of the ops that `results` need, with `inputs` as its arguments."""
    types = [value.type for value in inputs]
    name = kernel.sym_name.value + suffix
    type_ = ir.FunctionType.get(types, [value.type for value in results])
    with ir.InsertionPoint(module.body), kernel.location:
        made = mgx.KernelOp(name, ir.TypeAttr.get(type_), kernel.arch)
        block = made.body.blocks.append(*types, arg_locs=[kernel.location] * len(types))
    values: dict[ir.Value, ir.Value] = dict(zip(inputs, block.arguments, strict=True))

    def copied(value: ir.Value) -> ir.Value:
        if value not in values:
            op = value.owner
            operands = [copied(operand) for operand in op.operands]
            clone = op.clone()
            for number, operand in enumerate(operands):
                clone.operands[number] = operand
            values.update(zip(op.results, clone.results, strict=True))
        return values[value]

    with ir.InsertionPoint(block):
        returned = [copied(value) for value in results]
        with kernel.location:
            mgx.ReturnOp(returned)
    return made
