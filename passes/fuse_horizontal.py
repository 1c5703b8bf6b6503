"""mgx-fuse-horizontal: contractions that share an input become one."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.alike import computed_together
from mgx_mlir.rewriting.fusing import are_alike
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.prologues import prologue_of
from mgx_mlir.rewriting.queries import (
    MOST_BEHIND,
    blocks,
    create_like,
    definition,
    element_type,
    erase_dead,
    fused_location,
    group_of,
    has_one_use,
    has_sizes,
    is_along,
    is_constant,
    shape,
    side_by_side,
    users,
)
from mgx_mlir.rewriting.topology import sort_topologically

# Ops that read memory and cannot read through views.
_NEEDS_MEMORY = (*mgx.CONTROL_FLOW, mgx.YieldOp)
_PARTS = (mgx.SliceOp, mgx.StepOp)


@dataclass(frozen=True)
class FuseHorizontal(Pass):
    """Puts the constant weights of contractions with one input side by side.

    Before:  %p = mgx.dot %x, %v : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
             %q = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
    After:   %u = mgx.concat %v, %w axis = 1      // a constant, folded by mgx-fold-constants
             %d = mgx.dot %x, %u : tensor<8x4xf32>, tensor<4x12xf32> -> tensor<8x12xf32>
             %p = mgx.slice %d axes = [1] starts = [0] ends = [6] : ...
             %q = mgx.slice %d axes = [1] starts = [6] ends = [12] : ...

    Equal chains of pointwise ops with constants (biases, activations) that follow are done
    once, before the slices; where only some end in a relu, all take the maximum with a
    constant that is 0 for these and -inf for the others. Kernels read through the slices. A
    contraction stays alone where a slice would cost it a copy: its result is a piece of a
    concat's memory, is returned (on GPUs unless a concat's kernel copies it too), or has other
    pointwise work to do (work that another contraction can end with costs none). So does one that
    is taken apart, as recurrences do, but for other contractions, and one that is added to
    another, whose kernel sums up both. Weights of few bits that kernels expand are side by side as
    they are stored. New weights have at most `max_bytes` bytes.
    """

    max_bytes: int = 1 << 28

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-fuse-horizontal"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            siblings: dict[tuple[object, ...], list[_Branch]] = {}
            for op in block.operations:
                branch = _branch(op, context.kind)
                if branch is not None:
                    siblings.setdefault(branch.signature, []).append(branch)
            several = [branches for branches in siblings.values() if len(branches) > 1]
            for branches in several:
                if _weight_bytes(branches) > self.max_bytes:
                    continue
                weights = _weights(branches)
                if weights is not None:
                    context.note(f"{len(branches)} contractions", node_name(branches[0].ops[0]))
                    _fuse(branches, weights)
            if several:
                sort_topologically(block)
                erase_dead(block)


@dataclass
class _Branch:
    """A contraction and the pointwise ops that follow it, each the only user of the previous op."""

    ops: list[ir.OpView]
    # For each pointwise op: the number of the operand that the previous op makes.
    places: list[int] = field(default_factory=list)
    # A relu that follows them: branches with and without one may be fused.
    relu: ir.OpView | None = None
    # Whether the contraction's kernel expands its weights as it reads them.
    expands: bool = False

    @property
    def result(self) -> ir.Value:
        return (self.relu or self.ops[-1]).result

    @property
    def weights(self) -> ir.Value:
        return self.ops[0].operands[1]

    @property
    def axis(self) -> int:
        """The dimension of the result that has the output channels."""
        is_dot = isinstance(self.ops[0], mgx.DOTS)
        return len(shape(self.result)) - 1 if is_dot else 1

    @property
    def weight_axis(self) -> int:
        is_dot = isinstance(self.ops[0], mgx.DOTS)
        return len(shape(self.weights)) - 1 if is_dot else 0

    @property
    def signature(self) -> tuple[object, ...]:
        """The key that branches must share to be fused."""
        sizes = list(shape(self.weights))
        sizes[self.weight_axis] = -1
        return (
            self.ops[0].operands[0],
            tuple(sizes),
            tuple(_kind(op) for op in self.ops),
            tuple(self.places),
            self.expands,
        )


def _kind(op: ir.OpView) -> tuple[object, ...]:
    attributes = [(name, op.attributes[name]) for name in op.attributes]
    values = [*op.operands, *op.results]
    return type(op), tuple(attributes), tuple(element_type(value) for value in values)


def _branch(op: ir.OpView, kind: str) -> _Branch | None:
    if not isinstance(op, (*mgx.DOTS, *mgx.CONVOLUTIONS)):
        return None
    x, weights = op.operands
    if not is_constant(weights) or is_constant(x):
        return None
    if group_of(op) != 1:
        return None
    if not has_sizes(op) or not ir.RankedTensorType(weights.type).has_static_shape:
        return None
    branch = _Branch([op], expands=prologue_of(op, 1) is not None)
    while has_one_use(branch.result):
        user = users(branch.result)[0]
        if not mgx.is_pointwise(user) or user.operation.block != op.operation.block:
            break
        operands = list(user.operands)
        others = [value for value in operands if value != branch.result]
        if not all(is_constant(value) and is_along(value, branch.axis) for value in others):
            break
        branch.places.append(operands.index(branch.result))
        branch.ops.append(user)
    last = branch.ops[-1]
    if isinstance(last, mgx.ReluOp) and isinstance(element_type(last.y), ir.FloatType):
        branch.relu = last
        del branch.ops[-1], branch.places[-1]
    # On a GPU the copy of a part that is returned joins the launch of a concat that copies it too
    # (mgx-join-launches).
    is_copied = kind != "cpu" and isinstance(op, mgx.DOTS)
    reads = _reads_slices(branch.result, is_copied)
    return branch if reads and not _is_added(branch) else None


def _is_added(branch: _Branch) -> bool:
    """Whether a branch's only use is to be added to the sums of another contraction.

    Both are one kernel (see `fusing.contractions_of`), and the branch is never written. A chain of
    more than MOST_BEHIND ops counts as none.
    """
    if branch.relu is not None or not all(isinstance(op, mgx.AddOp) for op in branch.ops[1:]):
        return False
    if not has_one_use(branch.result) or not isinstance(user := users(branch.result)[0], mgx.AddOp):
        return False
    others = [v for v in user.operands if v != branch.result]
    for _ in range(MOST_BEHIND):
        if not others or not has_one_use(others[0]):
            return False
        producer = definition(others[0])
        if not isinstance(producer, mgx.AddOp):
            return producer is not None and are_alike(producer, branch.ops[0])
        others = [v for v in producer.operands if not is_constant(v)]
    return False


def _reads_slices(value: ir.Value, is_copied: bool) -> bool:
    """Whether only kernels read a value, and none of them for pointwise work of its own, or for
    a part of the value."""
    for user in users(value):
        if mgx.is_pointwise(user) and not _ends_contraction(user, value):
            return False
    return _is_read_whole(value, is_copied)


def _ends_contraction(pointwise: ir.OpView, value: ir.Value) -> bool:
    """Whether the op is in the kernel of a contraction that makes another operand than `value`.

    The contraction is at most MOST_BEHIND ops away.
    """
    for operand in pointwise.operands:
        producer = definition(operand)
        for _ in range(MOST_BEHIND):
            if operand == value or producer is None or not has_one_use(operand):
                break
            if isinstance(producer, mgx.CONTRACTIONS):
                return True
            if not mgx.is_pointwise(producer):
                break
            operand = next((v for v in producer.operands if not is_constant(v)), value)
            producer = definition(operand)
    return False


def _is_read_whole(value: ir.Value, is_copied: bool) -> bool:
    """Whether no concat that could be in place, no return, no control flow and no slice reads a
    value or a view of it. is_copied: it may be returned where a concat's kernel copies it too."""
    waiting, returned, joins = users(value), False, False
    while waiting:
        user = waiting.pop()
        if is_copied and user.operation.name == "func.return":
            returned = True
            continue
        if not user.operation.name.startswith("mgx.") or isinstance(user, _NEEDS_MEMORY):
            return False
        if isinstance(user, mgx.ConcatOp):
            if not _copies(user):
                return False
            joins = True
        if isinstance(user, _PARTS) and not _is_multiplied(user.y):
            return False
        if mgx.is_view(user):
            waiting.extend(users(user.result))
    return joins or not returned


def _copies(concat: mgx.ConcatOp) -> bool:
    """Whether a concat is a kernel, which reads views: its operands are no pieces of its result."""
    if not concat.y.type.has_static_shape:
        return True
    return prod(shape(concat.y)[: concat.axis.value]) > 1


def _is_multiplied(value: ir.Value) -> bool:
    """Whether only contractions read a value or views of it: they read views by strides."""
    waiting = users(value)
    while waiting:
        user = waiting.pop()
        if mgx.is_view(user):
            waiting.extend(users(user.result))
        elif not isinstance(user, mgx.CONTRACTIONS):
            return False
    return True


def _weight_bytes(branches: list[_Branch]) -> int:
    return sum(mgx.byte_size(branch.weights.type) for branch in branches)


def _weights(branches: list[_Branch]) -> ir.Value | None:
    """The weights side by side; None where kernels expand them, but not alike."""
    first = branches[0]
    values = [branch.weights for branch in branches]
    with ir.InsertionPoint(first.ops[0]), fused_location(branch.ops[0] for branch in branches):
        if first.expands:
            return computed_together(values, first.weight_axis, mgx.concat)
        return mgx.concat(values, first.weight_axis)


def _fuse(branches: list[_Branch], weights: ir.Value) -> None:
    first = branches[0]
    axis, parts = first.axis, [shape(branch.result)[first.axis] for branch in branches]
    dims = list(shape(first.result))
    dims[axis] = sum(parts)
    location = fused_location(op for branch in branches for op in branch.ops)
    with ir.InsertionPoint(first.ops[0]), location:
        value = create_like(first.ops[0], [first.ops[0].operands[0], weights], dims)
        for number, place in enumerate(first.places, 1):
            ops = [branch.ops[number] for branch in branches]
            operands = [
                value if i == place else side_by_side([op.operands[i] for op in ops], axis, dims)
                for i in range(len(ops[0].operands))
            ]
            value = create_like(ops[0], operands, dims)
        value = _rectify(value, branches, axis, parts)
        start = 0
        for branch, size in zip(branches, parts, strict=True):
            part = mgx.slice(value, [axis], [start], [start + size])
            branch.result.replace_all_uses_with(part)
            start += size


def _rectify(value: ir.Value, branches: list[_Branch], axis: int, parts: list[int]) -> ir.Value:
    """Applies the relu of the branches that have one to their parts of `value`."""
    if all(branch.relu is None for branch in branches):
        return value
    if all(branch.relu is not None for branch in branches):
        return mgx.relu(value)
    low = [-np.inf if branch.relu is None else 0.0 for branch in branches]
    sizes = [1] * len(shape(value))
    sizes[axis] = sum(parts)
    bounds = mgx.constant(
        np.repeat(low, parts).reshape(sizes),
        type=ir.RankedTensorType.get(sizes, element_type(value)),
    )
    return mgx.max(value, mgx.multibroadcast(bounds, list(shape(value))))
