"""Kernels of a product and a reduction of rows, such as a normalisation, as two kernels: of the
rows of the product's results, or of those that the product reads."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.problem.match import through_reshapes
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import clone_into


class ReducedProduct:
    """The kernels of the product, and of the rows. The last input of the one that is `second` is
    `value`, the result of the first one.

    place: that result among the kernel's own; None where these have it not. results: the numbers of
    the others, which the second one gives. rows_first: whether the rows are the product's operand.
    """

    def __init__(self, kernel: mgx.KernelOp, value: ir.Value, rows_first: bool) -> None:
        type_ = ir.FunctionType(kernel.function_type.value)
        self.name, self.inputs = kernel.sym_name.value, list(type_.inputs)
        *ops, terminator = kernel.regions[0].blocks[0].operations
        returned = list(terminator.operands)
        numbers = [n for n, x in enumerate(returned) if through_reshapes(x) == value]
        self.value, self.place = value, Argument("output", numbers[0]) if numbers else None
        self.results = [n for n in range(len(returned)) if n not in numbers]
        self.rows_first = rows_first
        arguments = list(kernel.regions[0].blocks[0].arguments)
        names = f"{self.name}_product", f"{self.name}_rows"
        self.module = ir.Module.create()
        with ir.InsertionPoint(self.module.body):
            found = [returned[n] for n in self.results]
            first = _kernel(names[rows_first], arguments, ops, [value])
            second = _kernel(names[not rows_first], [*arguments, value], ops, found)
        self.product, self.reduction = (second, first) if rows_first else (first, second)

    @staticmethod
    def of(kernel: mgx.KernelOp) -> ReducedProduct | None:
        """The parts of a kernel; None where it has none. Needs an active context and location."""
        *ops, _ = kernel.regions[0].blocks[0].operations
        products = [op for op in ops if isinstance(op, mgx.DOTS)]
        reductions = [op for op in ops if isinstance(op, mgx.FusedReduceOp)]
        if not products or len(reductions) != 1:
            return None
        if reductions[0].operation.is_before_in_block(products[-1].operation):
            return ReducedProduct(kernel, reductions[0].results[0], True)
        value = products[-1].results[0]
        epilogues = [op for op in ops if isinstance(op, mgx.PointwiseOp)
                     and products[-1].operation.is_before_in_block(op.operation)]  # fmt: skip
        value = epilogues[-1].results[0] if epilogues else value
        return ReducedProduct(kernel, value, False)


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
