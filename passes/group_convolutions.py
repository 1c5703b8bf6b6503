"""mgx-group-convolutions: convolutions of the slices of one tensor are one with groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    create_like,
    definition,
    erase_dead,
    fused_location,
    group_of,
    has_one_use,
    is_along,
    is_constant,
    is_static,
    op_name,
    replace,
    shape,
    side_by_side,
    slice_bounds,
)


@dataclass(frozen=True)
class GroupConvolutions(Pass):
    """Makes one grouped convolution of those whose inputs are slices, and results one concat.

    Before:  %a = mgx.slice %x axes = [1] starts = [0] ends = [4] : ...
             %b = mgx.slice %x axes = [1] starts = [4] ends = [8] : ...
             %p = mgx.convolution %a, %v ...
             %q = mgx.convolution %b, %w ...
             %y = mgx.concat %p, %q axis = 1 ...
    After:   %u = mgx.concat %v, %w axis = 0      // a constant, folded by mgx-fold-constants
             %y = mgx.convolution %x, %u ... {group = 2 : i64}

    A bias for each is one for all. The slices follow each other, are of the same size and
    are all of %x; weights and biases are constants.
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-group-convolutions"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if op.operation.name != "mgx.concat":
                    continue
                branches = _branches(op)
                if branches is None:
                    continue
                context.note(f"{len(branches)} convolutions", node_name(op))
                location = fused_location([*(branch.convolution for branch in branches), op])
                with ir.InsertionPoint(op), location:
                    replace(op, [_grouped(op, branches)])
            erase_dead(block)


@dataclass(frozen=True)
class _Branch:
    convolution: ir.OpView
    bias: ir.Value | None


def _branches(concat: ir.OpView) -> list[_Branch] | None:
    if ir.IntegerAttr(concat.operation.attributes["axis"]).value != 1:
        return None
    if not is_static(concat):
        return None
    found = [_branch(value) for value in concat.operation.operands]
    branches = [branch for branch in found if branch is not None]
    if len(branches) != len(found) or len(branches) < 2 or not _are_slices(branches):
        return None
    kinds = {_kind(branch) for branch in branches}
    return branches if len(kinds) == 1 else None


def _branch(value: ir.Value) -> _Branch | None:
    bias = None
    op = definition(value)
    if op_name(op) == "mgx.add" and has_one_use(value):
        assert op is not None
        a, b = op.operation.operands
        value, bias = (a, b) if is_constant(b) else (b, a)
        if not is_constant(bias) or not is_along(bias, 1):
            return None
        op = definition(value)
    if op_name(op) != "mgx.convolution" or not has_one_use(value):
        return None
    assert op is not None
    return _Branch(op, bias) if is_constant(op.operation.operands[1]) else None


def _kind(branch: _Branch) -> tuple[object, ...]:
    """The key that all branches must share."""
    operation = branch.convolution.operation
    attributes = [(name, str(operation.attributes[name])) for name in operation.attributes]
    types = [str(value.type) for value in operation.operands]
    return tuple(attributes), tuple(types), branch.bias is None


def _are_slices(branches: list[_Branch]) -> bool:
    """Whether the inputs are consecutive slices that cover all channels of one tensor."""
    source, place = None, 0
    for branch in branches:
        op = definition(branch.convolution.operation.operands[0])
        if op_name(op) != "mgx.slice":
            return False
        assert op is not None
        axes, starts, ends = slice_bounds(op)
        if axes != [1] or starts != [place]:
            return False
        if source is not None and source != op.operation.operands[0]:
            return False
        source, place = op.operation.operands[0], ends[0]
    return source is not None and place == shape(source)[1]


def _grouped(concat: ir.OpView, branches: list[_Branch]) -> ir.Value:
    dims = list(shape(concat.operation.results[0]))
    first = branches[0].convolution
    source = first.operation.operands[0].owner.operands[0]
    weights = mgx.concat([branch.convolution.operation.operands[1] for branch in branches], 0)
    groups = group_of(first) * len(branches)
    group = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), groups)
    value = create_like(first, [source, weights], dims, group=group)
    biases = [branch.bias for branch in branches if branch.bias is not None]
    return mgx.add(value, side_by_side(biases, 1, dims)) if biases else value
