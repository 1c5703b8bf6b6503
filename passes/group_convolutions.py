"""mgx-group-convolutions: convolutions of the slices of one tensor are one with groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import (
    create_like,
    definition,
    fused_location,
    has_one_use,
    is_along,
    is_constant,
    is_static,
    shape,
    side_by_side,
)


@rewrites(mgx.ConcatOp)
def join_convolutions(concat: mgx.ConcatOp, context: PassContext) -> ir.Value | None:
    """Convolutions of the slices of one tensor, side by side, are one with groups."""
    branches = _branches(concat)
    if branches is None:
        return None
    with fused_location([*(branch.convolution for branch in branches), concat]):
        return _grouped(concat, branches)


@dataclass(frozen=True)
class GroupConvolutions(PatternPass):
    """Joins convolutions of all slices of one tensor, side by side, into one with groups.

    Before:  %a = mgx.slice %x axes = [1] starts = [0] ends = [4] : ...
             %b = mgx.slice %x axes = [1] starts = [4] ends = [8] : ...
             %p = mgx.convolution %a, %v ...
             %q = mgx.convolution %b, %w ...
             %y = mgx.concat %p, %q axis = 1 ...
    After:   %u = mgx.concat %v, %w axis = 0      // a constant, folded by mgx-fold-constants
             %y = mgx.convolution %x, %u ... {group = 2 : i64}

    Their biases become one. The slices follow each other, have one size and cover %x;
    weights and biases are constants.
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-group-convolutions"
    patterns: ClassVar = (join_convolutions,)


@dataclass(frozen=True)
class _Branch:
    part: mgx.SliceOp
    convolution: mgx.ConvolutionOp
    bias: ir.Value | None


def _branches(concat: mgx.ConcatOp) -> list[_Branch] | None:
    if concat.axis.value != 1 or not is_static(concat):
        return None
    found = [_branch(value) for value in concat.xs]
    branches = [branch for branch in found if branch is not None]
    if len(branches) != len(found) or len(branches) < 2 or not _are_slices(branches):
        return None
    kinds = {_kind(branch) for branch in branches}
    return branches if len(kinds) == 1 else None


def _branch(value: ir.Value) -> _Branch | None:
    op, bias = definition(value), None
    if isinstance(op, mgx.AddOp) and has_one_use(value):
        value, bias = (op.a, op.b) if is_constant(op.b) else (op.b, op.a)
        if not is_constant(bias) or not is_along(bias, 1):
            return None
        op = definition(value)
    if not isinstance(op, mgx.ConvolutionOp) or not has_one_use(value) or not is_constant(op.w):
        return None
    part = definition(op.x)
    return _Branch(part, op, bias) if isinstance(part, mgx.SliceOp) else None


def _kind(branch: _Branch) -> tuple[object, ...]:
    """The key that all branches must share."""
    op = branch.convolution
    attributes = [(name, str(op.attributes[name])) for name in op.attributes]
    types = [str(value.type) for value in op.operands]
    return tuple(attributes), tuple(types), branch.bias is None


def _are_slices(branches: list[_Branch]) -> bool:
    """Whether the inputs are consecutive slices that cover all channels of one tensor."""
    source, place = branches[0].part.x, 0
    for part in (branch.part for branch in branches):
        if part.x != source or list(part.axes) != [1] or list(part.starts) != [place]:
            return False
        place = part.ends[0]
    return place == shape(source)[1]


def _grouped(concat: mgx.ConcatOp, branches: list[_Branch]) -> ir.Value:
    dims = list(shape(concat.y))
    first = branches[0].convolution
    weights = mgx.concat([branch.convolution.w for branch in branches], 0)
    group = ir.IntegerAttr.get(first.group.type, first.group.value * len(branches))
    value = create_like(first, [branches[0].part.x, weights], dims, group=group)
    biases = [branch.bias for branch in branches if branch.bias is not None]
    return mgx.add(value, side_by_side(biases, 1, dims)) if biases else value
