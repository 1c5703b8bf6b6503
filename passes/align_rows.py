"""mgx-align-rows: reductions work in the order in which their operands lie in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.fusing import Group, Order
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    MOST_USERS,
    blocks,
    create_like,
    definition,
    element_type,
    erase_dead,
    identity,
    in_views,
    is_static,
    shape,
    splat,
    users,
)
from mgx_mlir.rewriting.rows import Rows, grown, rows_of
from mgx_mlir.rewriting.topology import sort_topologically
from mgx_mlir.rewriting.view_chains import changes, inverse
from mgx_mlir.rewriting.views import Layout, apply, is_view, trace, whole


@dataclass(frozen=True)
class AlignRows(Pass):
    """Lets a reduction, and the work around it, take the dimensions of memory in their order.

    Before:  %t = mgx.transpose %x permutation = [0, 2, 1] : tensor<2x64x12xf32> -> ...
             %r = mgx.reshape %t : tensor<2x12x64xf32> -> tensor<2x4x192xf32>
             %m = mgx.reduce_max %r axes = [2] : tensor<2x4x192xf32> -> tensor<2x4x1xf32>
             %b = mgx.multibroadcast %m : tensor<2x4x1xf32> -> tensor<2x4x192xf32>
             %s = mgx.sub %r, %b : ...
             %c = mgx.reshape %s : tensor<2x4x192xf32> -> tensor<2x12x64xf32>
             %y = mgx.transpose %c permutation = [0, 2, 1] : ... -> tensor<2x64x12xf32>
    After:   %r = mgx.reshape %x : tensor<2x64x12xf32> -> tensor<2x64x4x3xf32>
             %m = mgx.reduce_max %r axes = [1, 3] : ... -> tensor<2x1x4x1xf32>
             %b = mgx.multibroadcast %m : tensor<2x1x4x1xf32> -> tensor<2x64x4x3xf32>
             %s = mgx.sub %r, %b : ...
             %y = mgx.reshape %s : tensor<2x64x4x3xf32> -> tensor<2x64x12xf32>

    Normalizations of groups of channels that lie last are such. The ops are those that
    `mgx-fuse-reduce` would make one; they move where fewer transposes remain around them.
    """

    max_ops: int = 128

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-align-rows"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            order, seen, changed = Order(block), set[ir.Value](), False
            for op, key in [(op, identity(op)) for op in block.operations]:
                rows = None if key in seen else rows_of(op)
                if rows is None or not is_static(op) or rows.whole == rows.reduced:
                    continue
                group, node = grown(op, rows, order, self.max_ops), node_name(op)
                seen.update(group.members)
                turned = next((t for value in group.inputs() if (t := _turn(value, rows))), None)
                if turned is not None and _gain(group, turned) > 0:
                    _move(group, turned)
                    context.note(f"{len(group)} ops", node)
                    changed = True
            if changed:
                sort_topologically(block)
                erase_dead(block)


@dataclass(frozen=True)
class _Turn:
    """Rows in the order of memory: `parts` splits each dimension of the rows, `permutation` gives
    the parts their order. `axes`: those of the parts, in that order, that are reduced."""

    rows: Rows
    parts: tuple[tuple[int, ...], ...]
    permutation: tuple[int, ...]

    @property
    def axes(self) -> list[int]:
        owners = [axis for axis, dim in enumerate(self.parts) for _ in dim]
        return [n for n, part in enumerate(self.permutation) if owners[part] in self.rows.axes]

    def split(self, dims: Sequence[int]) -> list[int]:
        """The sizes of the parts of a value of the rows' shape, or of the reduced one."""
        pairs = zip(dims, self.rows.whole, self.parts, strict=True)
        return [part if size == all_ else 1 for size, all_, dim in pairs for part in dim]

    def dims(self, dims: Sequence[int]) -> list[int]:
        """The shape of such a value in the new order."""
        sizes = self.split(dims)
        return [sizes[part] for part in self.permutation]

    def turned(self, layout: Layout) -> Layout | None:
        """A layout of such a value with its dimensions in the new order."""
        found = layout.reshaped(self.split(layout.shape))
        return found and found.transposed(self.permutation)

    def moved(self, value: ir.Value) -> ir.Value:
        """A value from outside in the new order."""
        number, dims = splat(value), self.dims(shape(value))
        if number is not None:
            return mgx.splat(number, mgx.tensor_type(dims, element_type(value)))
        source, layout, _ = trace(value)
        wide = definition(source)
        if isinstance(wide, mgx.ConvertOp) and source != value:
            # What makes the number stays narrow.
            return create_like(wide, [self._seen(wide.x, layout)], dims)
        return self._seen(source, layout)

    def _seen(self, source: ir.Value, layout: Layout) -> ir.Value:
        """A view of `source` in the new order; `layout` gives the old one."""
        turned = self.turned(layout)
        steps = None if turned is None else changes(turned, shape(source))
        if steps is not None:
            return in_views(source, steps)
        old = in_views(source, changes(layout, shape(source)) or ())
        return mgx.transpose(mgx.reshape(old, self.split(shape(old))), self.permutation)

    def back(self, value: ir.Value, like: ir.Value) -> ir.Value:
        """A value in the new order as it was before."""
        return mgx.reshape(mgx.transpose(value, self.inverse), list(shape(like)))

    @property
    def inverse(self) -> list[int]:
        return [self.permutation.index(n) for n in range(len(self.permutation))]


def _turn(value: ir.Value, rows: Rows) -> _Turn | None:
    """The order in which a value of the rows' shape lies in memory; None where it is the same."""
    if shape(value) != rows.whole or splat(value) is not None:
        return None
    source, layout, chain = trace(value)
    if mgx.TransposeOp not in chain or inverse(layout, shape(source)) is None:
        return None
    numbered = [
        (axis, factor) for axis, dim in enumerate(layout.dims) for factor in dim if factor[0] != 1
    ]
    merged: list[tuple[int, tuple[int, int]]] = []
    for axis, (size, stride) in numbered:
        if merged and merged[-1][0] == axis and merged[-1][1][1] == size * stride:
            merged[-1] = axis, (merged[-1][1][0] * size, stride)
        else:
            merged.append((axis, (size, stride)))
    order = sorted(range(len(merged)), key=lambda n: -merged[n][1][1])
    if order == sorted(order):
        return None
    parts = tuple(
        tuple(factor[0] for owner, factor in merged if owner == axis)
        for axis in range(len(rows.whole))
    )
    turn = _Turn(rows, parts, tuple(order))
    return turn if turn.axes else None


def _gain(group: Group, turn: _Turn) -> int:
    """How many transposes fewer are around the group after the turn."""
    before, after = turn.rows.whole, turn.dims(turn.rows.whole)
    gain = 0
    for value in group.inputs():
        if shape(value) == before and splat(value) is None:
            source, layout, _ = trace(value)
            sizes = shape(source)
            gain += _transposes(layout, sizes) - _transposes(turn.turned(layout), sizes)
    restored = whole(after).transposed(turn.inverse).reshaped(before)
    for value in group.outputs():
        if shape(value) == before:
            for path in _paths(value, group):
                old, new = (_along(path, start) for start in (whole(before), restored))
                gain += _transposes(old, before) - _transposes(new, after)
    return gain


def _paths(value: ir.Value, group: Group) -> Iterator[list[ir.OpView]]:
    """The chains of views, from a value on, that ops outside of the group read."""
    waiting: list[tuple[ir.Value, list[ir.OpView]]] = [(value, [])]
    for _ in range(MOST_USERS):
        if not waiting:
            return
        found, path = waiting.pop()
        readers = [user for user in users(found) if user not in group]
        views = [user for user in readers if is_view(user)]
        waiting += [(view.results[0], [*path, view]) for view in views]
        if len(views) < len(readers):
            yield path


def _along(path: Sequence[ir.OpView], layout: Layout | None) -> Layout | None:
    for view in path:
        layout = None if layout is None else apply(layout, view)
    return layout


def _transposes(layout: Layout | None, source: Sequence[int]) -> int:
    """The transposes in a view of a tensor of these sizes; one where strides cannot give it."""
    steps = None if layout is None else changes(layout, source)
    return 1 if steps is None else sum(step.name == "transpose" for step in steps)


def _move(group: Group, turn: _Turn) -> None:
    """Builds the group's ops again, and gives their readers outside the old order."""
    made: dict[ir.Value, ir.Value] = {}
    members, outputs = group.ordered(), group.outputs()
    for op in members:
        with ir.InsertionPoint(op), op.operation.location:
            for value in op.operands:
                if value not in made:
                    made[value] = turn.moved(value)
            operands, dims = [made[value] for value in op.operands], turn.dims(shape(op.results[0]))
            if isinstance(op, mgx.MultibroadcastOp):
                found = mgx.multibroadcast(operands[0], dims)
            else:
                axes = {"axes": ir.DenseI64ArrayAttr.get(turn.axes)} if rows_of(op) else {}
                found = create_like(op, operands, dims, **axes)
            made[op.results[0]] = found
    for value in outputs:
        with ir.InsertionPoint(value.owner), value.owner.location:
            value.replace_all_uses_with(turn.back(made[value], value))
    for op in reversed(members):
        op.operation.erase()
