"""Kernels of a product and the reduction of its rows, such as a normalisation, as two kernels."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.problem.match import through_reshapes
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import clone_into


class ReducedProduct:
    """The kernels of the product, and of its rows, whose last input is the product's result.

    value: that result. place: it among the kernel's own; None where these have it not. results: the
    numbers of the others, which the rows give.
    """

    def __init__(self, kernel: mgx.KernelOp, value: ir.Value) -> None:
        type_ = ir.FunctionType(kernel.function_type.value)
        self.name, self.inputs = kernel.sym_name.value, list(type_.inputs)
        *ops, terminator = kernel.regions[0].blocks[0].operations
        returned = list(terminator.operands)
        numbers = [n for n, x in enumerate(returned) if through_reshapes(x) == value]
        self.value, self.place = value, Argument("output", numbers[0]) if numbers else None
        self.results = [n for n in range(len(returned)) if n not in numbers]
        arguments = list(kernel.regions[0].blocks[0].arguments)
        self.module = ir.Module.create()
        with ir.InsertionPoint(self.module.body):
            self.product = _kernel(f"{self.name}_product", arguments, ops, [value])
            found = [returned[n] for n in self.results]
            self.reduction = _kernel(f"{self.name}_rows", [*arguments, value], ops, found)

    @staticmethod
    def of(kernel: mgx.KernelOp) -> ReducedProduct | None:
        """The parts of a kernel; None where it has none. Needs an active context and location."""
        *ops, _ = kernel.regions[0].blocks[0].operations
        products = [op for op in ops if isinstance(op, mgx.DOTS)]
        reductions = [op for op in ops if isinstance(op, mgx.FusedReduceOp)]
        if not products or len(reductions) != 1:
            return None
        value = products[-1].results[0]
        epilogues = [op for op in ops if isinstance(op, mgx.PointwiseOp)
                     and products[-1].operation.is_before_in_block(op.operation)]  # fmt: skip
        return ReducedProduct(kernel, epilogues[-1].results[0] if epilogues else value)


def _kernel(
    name: str, inputs: Sequence[ir.Value], ops: Sequence[ir.OpView], results: Sequence[ir.Value]
) -> mgx.KernelOp:
    """A kernel of those of another's ops that its results depend on."""
    needed = {x for x in results if x not in inputs}
    own: list[ir.OpView] = []
    for op in reversed(ops):
        if any(x in needed for x in op.results) and op.results[0] not in inputs:
            own.insert(0, op)
            needed.update(op.operands)
    types = [x.type for x in inputs], [x.type for x in results]
    type_ = ir.TypeAttr.get(ir.FunctionType.get(*types))
    made = mgx.KernelOp(name, type_, ir.Attribute.parse('#mgx.arch<"gfxMIGX">'))
    locations = [ir.Location.unknown()] * len(inputs)
    block = made.body.blocks.append(*types[0], arg_locs=locations)
    values: dict[ir.Value, ir.Value] = dict(zip(inputs, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for op in own:
            clone_into(op, values)
        mgx.ReturnOp([values[x] for x in results])
    return made
