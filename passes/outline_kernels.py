"""mgx-outline-kernels: cuts the program into kernels and the launches that call them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.counted import is_count
from mgx_mlir.rewriting.fusing import WITH_EPILOGUE, contractions_of, is_chosen_by_concat, is_paired
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.kernel_loops import fits_in_kernel, without_counter
from mgx_mlir.rewriting.normalisation import (
    before_reduction,
    product_after,
    reductions_of,
    with_normalisation,
)
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.plan_attributes import IN_PLACE, MAX_ITERATIONS
from mgx_mlir.rewriting.prologues import prologue_values, taken_gathers
from mgx_mlir.rewriting.queries import (
    blocks,
    captured,
    clone_into,
    conversion_of,
    definition,
    erase_dead,
    fused_location,
    group_of,
    has_one_use,
    identity,
    splat,
    users,
)
from mgx_mlir.rewriting.views import Layout, is_view, trace

# Views that cost something where they are read outside of a kernel.
MOVES = (*mgx.BROADCASTS, mgx.TransposeOp, mgx.SliceOp, mgx.StepOp, mgx.ReverseOp)
# Views that a kernel reads through: they become index maps in it.
PULLED = (*mgx.RESHAPES, *MOVES)
# Ops that stay in the program.
HOST = (*mgx.RESHAPES, *mgx.SOURCES, *mgx.CONTROL_FLOW, mgx.LaunchOp, mgx.YieldOp)


@dataclass(frozen=True)
class OutlineKernels(Pass):
    """Moves each op of the program, with the views it reads through, into an `mgx.kernel`.

    Before:  %t = mgx.transpose %b permutation = [1, 0] : tensor<5x4xf32> -> tensor<4x5xf32>
             %c = mgx.dot %a, %t : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
             %d = mgx.pointwise(%c) ...
    After:   %d = mgx.launch @k0_dot(%a, %b) : (tensor<3x4xf32>, tensor<5x4xf32>) -> tensor<3x5xf32>

    A contraction or an attention takes a `mgx.pointwise` that is its only consumer with it; two
    contractions of the same sizes that it only adds up are one kernel. A reduction of a product's
    rows takes the product with it on GPUs, also where others read that result after it, unless it
    normalises rows that a product reads first: that product takes it (see `normalisation`). An
    argmax or argmin takes the `mgx.pointwise` that it alone reads. An attention of any sizes writes
    its results as the rows of the product that reads them. A contraction takes in the ops that
    compute an operand, too, where that pays (see `prologues`).
    Equal kernels are one. Reshapes between kernels stay in the program, where they cost nothing.
    Pointwise work computes the indices and sizes it reads; other kernels read them from memory.
    Constants that are not splats become weights. A view that neither of the two can read through by
    strides is copied first. A loop of little work a trip, which the data do not end, is one kernel
    with its body. A concat's kernel converts floats of other widths as it copies them, and gathers
    what it alone reads, but on a CPU. There, pointwise work gathers the slices that it alone reads.
    """

    arch: str = "gfxMIGX"

    required: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-outline-kernels"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        table = _Kernels(module, context, self.arch)
        table.outline_loops(table.main)
        found = list(blocks(table.main))
        for block in found:
            table.prologues |= prologue_values(block, fused=True)
            for view in taken_gathers(block, context.kind, table.prologues):
                table.outline(view)
            for op in list(block.operations):
                if identity(op) in table.prologues:
                    continue
                if (
                    _is_anchor(op)
                    and not _waits_for_epilogue(op, context.kind)
                    and not _is_copied(op, context.kind)
                ):
                    table.outline(op)
        # Kernels of inner blocks have taken in what they read of the outer blocks. The remaining
        # ops are read by the program: its return, control flow.
        for block in reversed(found):
            erase_dead(block)
            for op in reversed(list(block.operations)):
                if (isinstance(op, MOVES) or is_count(op)) and _is_used(op):
                    table.outline(op)
            erase_dead(block)


def _is_anchor(op: ir.OpView) -> bool:
    if IN_PLACE in op.attributes or not op.operation.name.startswith("mgx."):
        return False
    return not isinstance(op, (*HOST, *PULLED)) and not is_count(op)


def _waits_for_epilogue(op: ir.OpView, kind: str) -> bool:
    """Whether an op is in the kernel of the `mgx.pointwise`, or reduction, that follows it."""
    if is_paired(op) or (kind != "cpu" and product_after(op) is not None):
        return True
    if not isinstance(op, (*WITH_EPILOGUE, mgx.PointwiseOp)):
        return False
    before = [made for user in reductions_of(op) for made in before_reduction(user, kind)]
    if any(found == op.operation for found in before):
        return True
    if not has_one_use(op.results[0]):
        return False
    user = users(op.results[0])[0]
    while isinstance(user, mgx.RESHAPES) and has_one_use(user.result):
        user = users(user.result)[0]
    if isinstance(user, mgx.PointwiseOp):
        return any(found == op.operation for found in contractions_of(user))
    return any(found == op.operation for found in before_reduction(user, kind))


def _is_copied(op: ir.OpView, kind: str) -> bool:
    """Whether a concat's kernel does an op's work as it copies: it converts or gathers elements."""
    if is_chosen_by_concat(op, kind):
        return IN_PLACE not in users(op.results[0])[0].attributes
    if not isinstance(op, mgx.PointwiseOp) or conversion_of(op) is None:
        return False
    if not has_one_use(op.results[0]) or contractions_of(op):
        return False
    user = users(op.results[0])[0]
    if not isinstance(user, mgx.ConcatOp) or IN_PLACE in user.attributes:
        return False
    return user.operation.block == op.operation.block


def _erase(op: ir.OpView) -> None:
    """Erases an op, and the views of its results that nobody reads."""
    for view in [user for result in op.results for user in users(result)]:
        _erase(view)
    op.operation.erase()


def _is_used(op: ir.OpView) -> bool:
    return any(True for result in op.results for _ in result.uses)


def _unreadable(op: ir.OpView) -> list[ir.OpView]:
    """The views that a contraction, or its epilogue, cannot read through.

    Its operands have one stride for each part of a dimension, a convolution's image one for each
    spatial dimension. In other kernels each element is read once, and views may be of any kind.
    """
    found = {}
    for number, value in enumerate(op.operands):
        if splat(value) is not None:
            continue
        if not ir.RankedTensorType(value.type).has_static_shape:
            view = definition(value)
            if number == 0 and view is not None and _has_uneven_rows(op):
                found[value] = view
            continue
        source, layout, _ = trace(value)
        if isinstance(op, mgx.CONVOLUTIONS) and number == 0 and not _is_image(layout, op):
            source = value
        view = definition(source)
        if view is not None and is_view(view):
            found[source] = view
    return list(found.values())


def _has_uneven_rows(op: ir.OpView) -> bool:
    """Whether a product with dynamic rows, by one matrix, reads the rows through a view in which
    they are not evenly spaced: the generators' kernels step from row to row."""
    if not isinstance(op, mgx.DOTS):
        return False
    rows, matrix = op.a, op.b
    if not ir.RankedTensorType(matrix.type).has_static_shape or not is_view(definition(rows)):
        return False
    _, layout, _ = trace(rows)
    factors = Layout(0, layout.dims[:-1]).factors
    return len(factors) > 1 or any(not isinstance(stride, int) for _, stride in factors)


def _is_image(layout: Layout, op: ir.OpView) -> bool:
    group = group_of(op)
    count, channels, *sizes = layout.shape
    grouped = layout.reshaped([count, group, channels // group, *sizes])
    return grouped is not None and all(len(dim) == 1 for dim in grouped.dims[3:])


def _transposes_of(op: ir.OpView, product: ir.OpView | None) -> list[ir.OpView]:
    """The views of an attention that its kernel writes: with a transpose, for a product's rows.

    op: the last op of a kernel, which `product` is the first of.
    """
    if not isinstance(product, mgx.AttentionOp) or len(op.results) != 1:
        return []
    if ir.RankedTensorType(op.results[0].type).has_static_shape:
        return []
    found: list[ir.OpView] = []
    value, taken = op.results[0], 0
    while has_one_use(value):
        user = users(value)[0]
        if _has_uneven_rows(user) and user.operands[0] == value:
            return found[:taken]
        if not isinstance(user, (*mgx.RESHAPES, mgx.TransposeOp)):
            return []
        found.append(user)
        if isinstance(user, mgx.TransposeOp):
            if taken:
                return []
            taken = len(found)
        value = user.results[0]
    return []


@dataclass
class _Kernels:
    """The kernels of a module, by their text without name and locations."""

    module: ir.Module
    context: PassContext
    arch: str
    symbols: dict[str, str] = field(default_factory=dict)
    # Values that a product's kernel computes from an operand as it reads it.
    prologues: set[ir.Value] = field(default_factory=set)
    main: ir.OpView = field(init=False)

    def __post_init__(self) -> None:
        self.main = main_function(self.module)

    def outline_loops(self, op: ir.OpView) -> None:
        """Outlines the loops that are kernels, outer ones first."""
        for block in [block for region in op.operation.regions for block in region.blocks]:
            for inner in list(block.operations):
                if isinstance(inner, mgx.LoopOp) and fits_in_kernel(inner):
                    if MAX_ITERATIONS in inner.attributes:  # a kernel's rows say it
                        del inner.attributes[MAX_ITERATIONS]
                    loop = without_counter(inner)
                    for op in list(loop.body.blocks[0].operations):
                        if isinstance(op, mgx.LiteralOp):  # a program passes it to the kernel
                            op.move_before(loop)
                    self.outline(loop)
                elif isinstance(inner, mgx.CONTROL_FLOW):
                    self.outline_loops(inner)

    def outline(self, anchor: ir.OpView) -> None:
        made: Sequence[ir.OpView] = ()
        if isinstance(anchor, mgx.PointwiseOp):
            made = contractions_of(anchor)
        elif not isinstance(anchor, mgx.LoopOp):
            made = before_reduction(anchor, self.context.kind)
        made = with_normalisation(made, anchor, self.context.kind)
        taken = [*(op.opview for op in made), anchor]
        # Kernels of one loop over elements count; others read indices from memory.
        counts = not made and (isinstance(anchor, (mgx.PointwiseOp, *MOVES)) or is_count(anchor))
        body = _Body(self.context, self.prologues, counts)
        if views := _transposes_of(anchor, taken[0]):
            taken += views
        if any(isinstance(op, WITH_EPILOGUE) for op in taken):
            for view in [view for op in taken for view in _unreadable(op)]:
                if _is_used(view):  # two operands can be one view
                    self.outline(view)
        for op in taken:
            body.collect(op, {identity(t) for t in taken})
        results: list[ir.Value] = list(taken[-1].results)
        if any(isinstance(op, mgx.FusedReduceOp) for op in taken):  # others read what it is beside
            inside = {identity(op) for op in taken}
            results += [r for op in made for r in op.opview.results
                        if any(identity(user) not in inside for user in users(r))]  # fmt: skip
        kernel = self._build(body, taken, results)
        product = [op for op in taken if isinstance(op, mgx.CONTRACTIONS)]
        named = anchor if isinstance(taken[0], mgx.PointwiseOp) else [*product, *taken][0]
        symbol = self._unique(kernel, named.operation.name.removeprefix("mgx."))
        names = "+".join(filter(None, (node_name(op) for op in taken)))
        self.context.note(symbol, names)
        last = taken[-1]
        types = [result.type for result in results]
        with ir.InsertionPoint(last), fused_location(taken):
            launch = mgx.LaunchOp(types, ir.FlatSymbolRefAttr.get(symbol), body.inputs)
        for result, new in zip(results, launch.outputs, strict=True):
            result.replace_all_uses_with(new)
        if views:
            return  # the views, which the walk over the block has yet to pass, are dead
        anchor.erase()
        for op in reversed(made):
            _erase(op.opview)

    def _build(
        self, body: _Body, taken: list[ir.OpView], results: Sequence[ir.Value]
    ) -> mgx.KernelOp:
        inputs = [value.type for value in body.inputs]
        location = fused_location(taken)
        with ir.InsertionPoint(self.main), location:
            kernel = mgx.KernelOp(
                "kernel",
                ir.TypeAttr.get(ir.FunctionType.get(inputs, [r.type for r in results])),
                ir.Attribute.parse(f'#mgx.arch<"{self.arch}">'),
            )
            block = kernel.body.blocks.append(*inputs, arg_locs=[location] * len(inputs))
        arguments = zip(body.inputs, block.arguments, strict=True)
        values: dict[ir.Value, ir.Value] = dict(arguments)
        with ir.InsertionPoint(block):
            for value, number in body.splats.items():
                with value.owner.operation.location:
                    values[value] = mgx.splat(number, value.type)
            for op in body.ops:
                clone_into(op, values)
            with location:
                mgx.ReturnOp([values[r] for r in results])
        return kernel

    def _unique(self, kernel: mgx.KernelOp, what: str) -> str:
        """The symbol of a kernel; erases it where an equal one exists."""
        text = kernel.operation.get_asm(use_local_scope=True)
        symbol = self.symbols.get(text)
        if symbol is not None:
            kernel.erase()
            return symbol
        symbol = f"k{len(self.symbols)}_{what}"
        self.symbols[text] = symbol
        kernel.sym_name = ir.StringAttr.get(symbol)
        return symbol


@dataclass
class _Body:
    """The ops of one kernel, operands before users, and its inputs."""

    context: PassContext
    prologues: set[ir.Value]
    # Whether the kernel computes indices and sizes.
    counts: bool
    ops: list[ir.OpView] = field(default_factory=list)
    inside: set[ir.Value] = field(default_factory=set)
    inputs: list[ir.Value] = field(default_factory=list)
    splats: dict[ir.Value, np.generic] = field(default_factory=dict)

    def collect(self, op: ir.OpView, taken: set[ir.Value | None]) -> None:
        for value in captured(op) if isinstance(op, mgx.LoopOp) else op.operands:
            self._collect_value(value, taken)
        self.ops.append(op)
        self.inside.update(op.results)

    def _collect_value(self, value: ir.Value, taken: set[ir.Value | None]) -> None:
        if value in self.inputs or value in self.splats:
            return
        if value in self.inside or value in taken:
            return
        producer = definition(value)
        number = splat(value)
        # A contraction's operand must be in memory even when all its elements are equal.
        if number is not None and not _is_contracted(value, taken):
            self.splats[value] = number
        elif producer is not None and (
            value in self.prologues
            or _is_pulled(producer, self.counts)
            or _is_copied(producer, self.context.kind)
        ):
            self.collect(producer, taken)
        else:
            self.inputs.append(self._as_memory(value, producer))

    def _as_memory(self, value: ir.Value, producer: ir.OpView | None) -> ir.Value:
        """The value, with a constant made a weight: programs pass only buffers to kernels."""
        if not isinstance(producer, mgx.ConstantOp):
            return value
        with ir.InsertionPoint(producer), producer.location:
            key = self.context.weights.add_array(mgx.constant_array(producer))
            literal = mgx.literal(key, value.type)
        value.replace_all_uses_with(literal)
        return literal


def _is_contracted(value: ir.Value, taken: set[ir.Value | None]) -> bool:
    return any(
        identity(user) in taken and isinstance(user, mgx.CONTRACTIONS) for user in users(value)
    )


def _is_pulled(op: ir.OpView, counts: bool) -> bool:
    """Whether a kernel includes a view, or indices and sizes where it `counts`.

    A chain of reshapes alone costs nothing outside of it.
    """
    source: ir.OpView | None = op
    while isinstance(source, mgx.RESHAPES):
        source = definition(source.x)
    return isinstance(source, PULLED) or (counts and is_count(source))
