"""mgx-hoist-slices: elements that a slice leaves out are not computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.cuts import Cut, Cuts, cut_sizes, cut_value, through_reshape
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    create_like,
    erase_dead,
    has_one_use,
    identity,
    is_static,
    replace,
    shape,
    used_values,
    users,
)


@dataclass(frozen=True)
class HoistSlices(Pass):
    """Moves a slice above the ops that make its tensor: they compute only the part that it reads.

    Before:  %d = mgx.dot %x, %w : tensor<197x64xf32>, tensor<64x256xf32> -> tensor<197x256xf32>
             %r = mgx.relu %d : tensor<197x256xf32>
             %y = mgx.slice %r axes = [0] starts = [0] ends = [1] : ... -> tensor<1x256xf32>
    After:   %s = mgx.slice %x axes = [0] starts = [0] ends = [1] : ... -> tensor<1x64xf32>
             %d = mgx.dot %s, %w : tensor<1x64xf32>, tensor<64x256xf32> -> tensor<1x256xf32>
             %y = mgx.relu %d : tensor<1x256xf32>

    So the last layer of a classifier works on the one token that is classified. All readers
    of a tensor have to want the same part of it, and a contraction has to become smaller. A
    contraction that shares its input with others, which need all of it, stays whole: they
    become one.
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-hoist-slices"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            if not any(isinstance(op, mgx.SliceOp) for op in block.operations):
                continue
            plan = _Plan(block)
            if plan.make():
                plan.rewrite(context)
                erase_dead(block)


@dataclass
class _Plan:
    """The part of each value of a block that is wanted; None means all of it."""

    block: ir.Block
    # Results that are computed in part: the part, and those of the operands.
    parts: dict[ir.Value, tuple[Cuts, list[Cuts | None]]] = field(default_factory=dict)
    # Results of slices, whose operands are computed in part: the part.
    roots: dict[ir.Value, Cuts] = field(default_factory=dict)
    # Slices that stay, and results that are computed whole, as `make` finds.
    whole: set[ir.Value] = field(default_factory=set)

    def make(self) -> bool:
        """Whether any slice can still move."""
        while True:
            self.parts, self.roots = {}, {}
            self._collect()
            wrong = {root for root in self.roots if not self._gains(root)}
            wrong |= {value for value in self.parts if self._shares(value)}
            for value in reversed(self.parts):  # from the first op of the block to the last
                if self._ends_whole(value, wrong):
                    wrong.add(value)
            if not wrong:
                return bool(self.roots)
            self.whole |= wrong

    def _collect(self) -> None:
        wanted: dict[ir.Value, list[Cuts | None]] = {}
        for op in reversed(list(self.block.operations)):
            parts = self._parts_of_operands(op, wanted)
            if parts is None:
                for value in used_values(op):
                    wanted.setdefault(value, []).append(None)
                continue
            for value, part in zip(op.operands, parts, strict=True):
                wanted.setdefault(value, []).append(part)

    def _parts_of_operands(
        self, op: ir.OpView, wanted: dict[ir.Value, list[Cuts | None]]
    ) -> list[Cuts | None] | None:
        if len(op.results) != 1 or len(op.regions) or op.result in self.whole or not is_static(op):
            return None
        asked = wanted.get(op.result, [None])
        cuts = asked[0] if all(part == asked[0] for part in asked) else None
        if cuts is not None:
            parts = _needs(op, cuts)
            if parts is not None:
                self.parts[op.result] = cuts, parts
            return parts
        if not isinstance(op, mgx.SliceOp):
            return None
        self.roots[op.y] = _of_slice(op)
        return [self.roots[op.y]]

    def _gains(self, root: ir.Value) -> bool:
        """Whether a contraction becomes smaller."""
        waiting, seen = list(root.owner.operands), set()
        while waiting:
            value = waiting.pop()
            if value in seen or value not in self.parts:
                continue
            seen.add(value)
            if isinstance(value.owner, mgx.CONTRACTIONS):
                return True
            _, parts = self.parts[value]
            pairs = zip(value.owner.operands, parts, strict=True)
            waiting += [operand for operand, part in pairs if part is not None]
        return False

    def _shares(self, value: ir.Value) -> bool:
        """Whether a contraction computed in part shares an input with ones computed whole."""
        _, parts = self.parts[value]
        if not isinstance(value.owner, mgx.CONTRACTIONS) or parts[0] is None:
            return False
        others = [op for op in users(value.owner.operands[0]) if isinstance(op, mgx.CONTRACTIONS)]
        return any(op.result not in self.parts for op in others)

    def _ends_whole(self, value: ir.Value, wrong: set[ir.Value]) -> bool:
        """Whether an op is the epilogue of a contraction computed whole, and of nothing else."""
        if isinstance(value.owner, mgx.CONTRACTIONS) or mgx.is_reduction(value.owner):
            return False
        _, parts = self.parts[value]
        return any(
            part is not None
            and (operand not in self.parts or operand in wrong)
            and has_one_use(operand)
            and (
                operand in wrong
                or operand in self.whole
                or isinstance(operand.owner, mgx.CONTRACTIONS)
            )
            for operand, part in zip(value.owner.operands, parts, strict=True)
        )

    def rewrite(self, context: PassContext) -> None:
        made: dict[ir.Value, ir.Value] = {}
        for op in list(self.block.operations):
            result = identity(op)
            if result in self.parts:
                cuts, parts = self.parts[result]
            elif result in self.roots:
                cuts, parts = (), [self.roots[result]]
            else:
                continue
            with ir.InsertionPoint(op), op.location:
                operands = [
                    value if part is None else made.get(value) or cut_value(value, part)
                    for value, part in zip(op.operands, parts, strict=True)
                ]
                if isinstance(op, mgx.SliceOp):
                    value = operands[0]
                else:
                    value = create_like(op, operands, cut_sizes(shape(result), cuts))
            if result in self.parts:
                made[result] = value
            else:
                context.note("slice", node_name(op))
                replace(op, [value])


def _of_slice(op: mgx.SliceOp, inside: Cuts | None = None) -> Cuts:
    """The part of a slice's operand that it reads; with `inside`, for that part of its result."""
    source = shape(op.x)
    cuts = list(inside or [None] * len(source))
    for axis, start, end in zip(op.axes, op.starts, op.ends, strict=True):
        cut = cuts[axis]
        if cut is not None:
            start, end = start + cut.start, start + cut.end
        if (start, end) != (0, source[axis]):
            cuts[axis] = Cut((source[axis],), 0, start, end)
    return tuple(cuts)


def _needs(op: ir.OpView, cuts: Cuts) -> list[Cuts | None] | None:
    """The parts of its operands that an op needs for a part of its result; None where no part does.

    An operand of which all is needed has None for its part.
    """
    if mgx.is_pointwise(op):
        same = all(shape(value) == shape(op.result) for value in op.operands)
        return [cuts] * len(op.operands) if same else None
    if mgx.is_reduction(op):
        return [cuts]  # reduced dimensions have one element, and so no part
    match op:
        case mgx.ConcatOp():
            return None if cuts[op.axis.value] else [cuts] * len(op.xs)
        case mgx.ConvolutionOp() | mgx.QuantConvolutionOp():
            image, channel, *others = cuts
            if any(others) or (channel and op.group.value != 1):
                return None
            none = [None] * (len(cuts) - 1)
            return [_some((image, *none)), _some((channel, *none))]
        case mgx.DotOp() | mgx.QuantDotOp():
            *batch, row, column = cuts
            return [_some((*batch, row, None)), _some((*batch, None, column))]
        case mgx.LogsoftmaxOp() | mgx.SoftmaxOp():
            return None if cuts[op.axis.value % len(cuts)] else [cuts]
        case mgx.MultibroadcastOp():
            sizes = shape(op.x)
            pairs = zip(sizes, cuts[len(cuts) - len(sizes) :], strict=True)
            return [_some(tuple(cut if size != 1 else None for size, cut in pairs))]
        case mgx.ReshapeOp():
            source = through_reshape(cuts, shape(op.x), shape(op.y))
            return None if source is None else [source]
        case mgx.SliceOp():
            is_split = any((cut := cuts[axis]) and len(cut.split) > 1 for axis in op.axes)
            return None if is_split else [_of_slice(op, cuts)]
        case mgx.TransposeOp():
            order = list(op.permutation)
            return [tuple(cuts[order.index(i)] for i in range(len(cuts)))]
    return None


def _some(cuts: Cuts) -> Cuts | None:
    return cuts if any(cuts) else None
