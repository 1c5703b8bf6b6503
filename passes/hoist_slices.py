"""mgx-hoist-slices: elements that a slice leaves out are not computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.cuts import Cut, Cuts, cut_sizes, cut_value, through_reshape
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    CONTRACTIONS,
    blocks,
    create_like,
    definition,
    erase_dead,
    group_of,
    has_one_use,
    is_static,
    op_name,
    replace,
    shape,
    slice_bounds,
    used_values,
    users,
)

_DOTS = frozenset({"mgx.dot", "mgx.quant_dot"})
_CONVOLUTIONS = frozenset({"mgx.convolution", "mgx.quant_convolution"})


@dataclass(frozen=True)
class HoistSlices(Pass):
    """Moves slices above what makes the tensors that they are of, up to the inputs it needs.

    Before:  %d = mgx.dot %x, %w : tensor<197x64xf32>, tensor<64x256xf32> -> tensor<197x256xf32>
             %r = mgx.relu %d : tensor<197x256xf32>
             %y = mgx.slice %r axes = [0] starts = [0] ends = [1] : ... -> tensor<1x256xf32>
    After:   %s = mgx.slice %x axes = [0] starts = [0] ends = [1] : ... -> tensor<1x64xf32>
             %d = mgx.dot %s, %w : tensor<1x64xf32>, tensor<64x256xf32> -> tensor<1x256xf32>
             %y = mgx.relu %d : tensor<1x256xf32>

    So the last layer of a classifier works on the one token that is classified. All readers
    of a tensor have to want the same part of it, and a contraction has to become smaller.
    One that shares its input with others, which need all of it, stays whole: they become one.
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-hoist-slices"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            if not any(op.operation.name == "mgx.slice" for op in block.operations):
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
            operation = op.operation
            parts = self._parts_of_operands(op, wanted)
            if parts is None:
                for value in used_values(operation):
                    wanted.setdefault(value, []).append(None)
                continue
            for value, part in zip(operation.operands, parts, strict=True):
                wanted.setdefault(value, []).append(part)

    def _parts_of_operands(
        self, op: ir.OpView, wanted: dict[ir.Value, list[Cuts | None]]
    ) -> list[Cuts | None] | None:
        operation = op.operation
        if len(operation.results) != 1 or len(operation.regions) or not is_static(operation):
            return None
        result = operation.results[0]
        asked = wanted.get(result, [None])
        cuts = asked[0] if all(part == asked[0] for part in asked) else None
        if result not in self.whole:
            if cuts is not None and operation.name in _RULES:
                parts = _RULES[operation.name](operation, cuts)
                if parts is not None:
                    self.parts[result] = cuts, parts
                    return parts
            elif operation.name == "mgx.slice":
                self.roots[result] = _of_slice(operation)
                return [self.roots[result]]
        return None

    def _gains(self, root: ir.Value) -> bool:
        """Whether a contraction becomes smaller."""
        waiting, seen = [root.owner.operation.operands[0]], set()
        while waiting:
            value = waiting.pop()
            if value in seen or value not in self.parts:
                continue
            seen.add(value)
            if op_name(definition(value)) in CONTRACTIONS:
                return True
            _, parts = self.parts[value]
            pairs = zip(value.owner.operation.operands, parts, strict=True)
            waiting += [operand for operand, part in pairs if part is not None]
        return False

    def _shares(self, value: ir.Value) -> bool:
        """Whether a contraction computed in part shares an input with ones computed whole."""
        operation = value.owner.operation
        _, parts = self.parts[value]
        if operation.name not in CONTRACTIONS or parts[0] is None:
            return False
        others = (user.operation for user in users(operation.operands[0]))
        return any(
            user.name in CONTRACTIONS and user.results[0] not in self.parts for user in others
        )

    def _ends_whole(self, value: ir.Value, wrong: set[ir.Value]) -> bool:
        """Whether an op is the epilogue of a contraction computed whole, and of nothing else."""
        operation = value.owner.operation
        if operation.name in CONTRACTIONS | mgx.REDUCTIONS:
            return False
        _, parts = self.parts[value]
        return any(
            part is not None
            and (operand not in self.parts or operand in wrong)
            and has_one_use(operand)
            and (
                operand in wrong
                or operand in self.whole
                or op_name(definition(operand)) in CONTRACTIONS
            )
            for operand, part in zip(operation.operands, parts, strict=True)
        )

    def rewrite(self, context: PassContext) -> None:
        made: dict[ir.Value, ir.Value] = {}
        for op in list(self.block.operations):
            operation = op.operation
            result = operation.results[0] if len(operation.results) else None
            if result in self.parts:
                cuts, parts = self.parts[result]
            elif result in self.roots:
                cuts, parts = (), [self.roots[result]]
            else:
                continue
            with ir.InsertionPoint(op), operation.location:
                operands = [
                    value
                    if part is None
                    else made[value]
                    if value in made
                    else cut_value(value, part)
                    for value, part in zip(operation.operands, parts, strict=True)
                ]
                if operation.name == "mgx.slice":
                    value = operands[0]
                else:
                    value = create_like(op, operands, cut_sizes(shape(result), cuts))
            if result in self.parts:
                made[result] = value
            else:
                context.note("slice", node_name(op))
                replace(op, [value])


def _of_slice(operation: ir.Operation, inside: Cuts | None = None) -> Cuts:
    """The part of a slice's operand that it reads; with `inside`, for that part of its result."""
    source = shape(operation.operands[0])
    cuts = list(inside or [None] * len(source))
    for axis, start, end in zip(*slice_bounds(operation), strict=True):
        cut = cuts[axis]
        if cut is not None:
            start, end = start + cut.start, start + cut.end
        if (start, end) != (0, source[axis]):
            cuts[axis] = Cut((source[axis],), 0, start, end)
    return tuple(cuts)


# The parts of its operands that an op needs for a part of its result; None where it needs all.
Rule = Callable[[ir.Operation, Cuts], "list[Cuts | None] | None"]


def _some(cuts: Cuts) -> Cuts | None:
    return cuts if any(cuts) else None


def _pointwise(operation: ir.Operation, cuts: Cuts) -> list[Cuts | None] | None:
    dims = shape(operation.results[0])
    same = all(shape(value) == dims for value in operation.operands)
    return [cuts] * len(operation.operands) if same else None


def _reduction(operation: ir.Operation, cuts: Cuts) -> list[Cuts | None] | None:
    return [cuts]  # reduced dimensions have one element, and so no part


def _softmax(operation: ir.Operation, cuts: Cuts) -> list[Cuts | None] | None:
    axis = ir.IntegerAttr(operation.attributes["axis"]).value % len(cuts)
    return None if cuts[axis] else [cuts]


def _dot(operation: ir.Operation, cuts: Cuts) -> list[Cuts | None] | None:
    *batch, row, column = cuts
    return [_some((*batch, row, None)), _some((*batch, None, column))]


def _convolution(operation: ir.Operation, cuts: Cuts) -> list[Cuts | None] | None:
    image, channel, *others = cuts
    if any(others) or (channel and group_of(operation) != 1):
        return None
    none = [None] * (len(cuts) - 1)
    return [_some((image, *none)), _some((channel, *none))]


def _transpose(operation: ir.Operation, cuts: Cuts) -> list[Cuts | None] | None:
    permutation = list(ir.DenseI64ArrayAttr(operation.attributes["permutation"]))
    return [tuple(cuts[permutation.index(i)] for i in range(len(cuts)))]


def _broadcast(operation: ir.Operation, cuts: Cuts) -> list[Cuts | None] | None:
    source, result = shape(operation.operands[0]), shape(operation.results[0])
    added = len(result) - len(source)
    pairs = zip(source, cuts[added:], strict=True)
    return [_some(tuple(cut if size != 1 else None for size, cut in pairs))]


def _reshape(operation: ir.Operation, cuts: Cuts) -> list[Cuts | None] | None:
    source = through_reshape(cuts, shape(operation.operands[0]), shape(operation.results[0]))
    return None if source is None else [source]


def _concat(operation: ir.Operation, cuts: Cuts) -> list[Cuts | None] | None:
    axis = ir.IntegerAttr(operation.attributes["axis"]).value
    return None if cuts[axis] else [cuts] * len(operation.operands)


def _slice(operation: ir.Operation, cuts: Cuts) -> list[Cuts | None] | None:
    axes = list(ir.DenseI64ArrayAttr(operation.attributes["axes"]))
    if any((cut := cuts[axis]) and len(cut.split) > 1 for axis in axes):
        return None
    return [_of_slice(operation, cuts)]


_RULES: dict[str, Rule] = {
    **dict.fromkeys(mgx.POINTWISE, _pointwise),
    **dict.fromkeys(mgx.REDUCTIONS, _reduction),
    **dict.fromkeys(_DOTS, _dot),
    **dict.fromkeys(_CONVOLUTIONS, _convolution),
    "mgx.concat": _concat,
    "mgx.logsoftmax": _softmax,
    "mgx.multibroadcast": _broadcast,
    "mgx.reshape": _reshape,
    "mgx.slice": _slice,
    "mgx.softmax": _softmax,
    "mgx.transpose": _transpose,
}
