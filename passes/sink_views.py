"""mgx-sink-views: an op works in the shape and order of its producer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    MOST_BEHIND,
    MOST_USERS,
    blocks,
    create_like,
    definition,
    element_type,
    erase_dead,
    has_one_use,
    in_views,
    is_constant,
    replace,
    shape,
    splat,
)
from mgx_mlir.rewriting.view_chains import Change, changes, inverse
from mgx_mlir.rewriting.views import Layout, trace


@dataclass(frozen=True)
class SinkViews(Pass):
    """Moves a view of a kernel's result below the pointwise op or reduction that reads it.

    Before:  %r = mgx.reshape %dot : tensor<128x384xf32> -> tensor<1x128x384xf32>
             %y = mgx.add %r, %bias : tensor<1x128x384xf32>, ...
    After:   %a = mgx.add %dot, %bias' : tensor<128x384xf32>, ...
             %y = mgx.reshape %a : tensor<128x384xf32> -> tensor<1x128x384xf32>

    Before:  %t = mgx.transpose %dot permutation = [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
             %s = mgx.reduce_sum %t axes = [0] : tensor<4x8xf32> -> tensor<1x8xf32>
    After:   %r = mgx.reduce_sum %dot axes = [1] : tensor<8x4xf32> -> tensor<8x1xf32>
             %s = mgx.reshape %r : tensor<8x1xf32> -> tensor<1x8xf32>

    Before:  %r = mgx.reshape %add : tensor<6x8xf32> -> tensor<2x3x8xf32>
             %s = mgx.reduce_sum %r axes = [2] : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
    After:   %r = mgx.reduce_sum %add axes = [1] : tensor<6x8xf32> -> tensor<6x1xf32>
             %s = mgx.reshape %r : tensor<6x1xf32> -> tensor<2x3x1xf32>

    The view has to keep every element once: reshapes and transposes. Other operands are read
    in the producer's order: constants, the same view of another value, broadcasts
    and reshapes that stay such. The view stays where anything but pointwise ops reads it.
    """

    max_rounds: int = 16

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-sink-views"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            # A view that sank, or is dead, may have kept another view from sinking.
            erase_dead(block)
            for _ in range(self.max_rounds):
                if not _round(block, context):
                    break
                erase_dead(block)


def _round(block: ir.Block, context: PassContext) -> bool:
    changed = False
    for op in list(block.operations):
        if not mgx.is_reduction(op) and not mgx.is_pointwise(op):
            continue
        sink = _sink_reduction if mgx.is_reduction(op) else _sink_pointwise
        node = node_name(op)
        with ir.InsertionPoint(op), op.location:
            if sink(op):
                context.note("view", node)
                changed = True
    return changed


@dataclass(frozen=True)
class _Bijection:
    """A value that is a view of `source` with each of its elements once; `back` inverts it."""

    source: ir.Value
    layout: Layout
    back: list[Change]


def _takes_work(op: ir.OpView | None) -> bool:
    """Whether an op's kernel can include further work."""
    return isinstance(op, mgx.CONTRACTIONS) or mgx.is_pointwise(op) or mgx.is_reduction(op)


def _bijection(value: ir.Value) -> _Bijection | None:
    source, layout, chain = trace(value)
    if not chain or not _takes_work(definition(source)):
        return None
    back = inverse(layout, shape(source))
    steps = None if back is None else changes(back, shape(value))
    return None if steps is None else _Bijection(source, layout, steps)


# Pointwise -------------------------------------------------------------------------------


def _sink_pointwise(op: ir.OpView) -> bool:
    view = next((v for value in op.operands if (v := _sinkable(value))), None)
    if view is None:
        return False
    plans = [plan for value in op.operands if (plan := _planned(value, view))]
    if len(plans) < len(op.operands):
        return False
    # Fewer views than before, or as many if the work can join a contraction: otherwise two views
    # would be exchanged for ever.
    gain = sum(plan.gain for plan in plans)
    worse = [plan.source for plan in plans if plan.gain < 0]
    joins = _joins_contraction(view.source) and not any(map(_joins_contraction, worse))
    if gain < 0 or (gain == 0 and not joins):
        return False
    dims = shape(view.source)
    steps = changes(view.layout, dims)
    if steps is None:
        return False
    operands = []
    for value, plan in zip(op.operands, plans, strict=True):
        number = splat(value)
        if number is not None:
            type_ = mgx.tensor_type(dims, element_type(value))
            operands.append(mgx.splat(number, type_))
        else:
            operands.append(in_views(plan.source, plan.steps))
    replace(op, [in_views(create_like(op, operands, dims), steps)])
    return True


def _sinkable(value: ir.Value) -> _Bijection | None:
    """The view that a value is, if it may sink below the pointwise ops that read it."""
    view = _bijection(value)
    if view is None:
        return None
    if mgx.is_reduction(definition(view.source)) and any(s.name != "reshape" for s in view.back):
        return None
    if not _all_pointwise(value):
        return None
    # Other readers of the source, or of a part of the chain, keep the view where it is.
    step = definition(value)
    while step is not None and step.results[0] != view.source:
        above = step.operands[0]
        if not _all_pointwise(above, step):
            return None
        step = definition(above)
    return view


def _joins_contraction(value: ir.Value) -> bool:
    """Whether work on a value can be the epilogue of the contraction that makes it."""
    waiting, seen = [value], {value}
    while waiting and len(seen) <= MOST_BEHIND:
        producer = definition(waiting.pop())
        if isinstance(producer, mgx.CONTRACTIONS):
            return True
        if producer is None or not mgx.is_pointwise(producer):
            continue
        operands = dict.fromkeys(producer.operands)
        more = [v for v in operands if v not in seen and _all_pointwise(v)]
        seen.update(more)
        waiting.extend(more)
    return False


def _all_pointwise(value: ir.Value, step: ir.OpView | None = None) -> bool:
    """Whether only pointwise ops read a value, and not too many; `step` may read it too."""
    for number, use in enumerate(value.uses):
        user = use.owner.opview
        if number == MOST_USERS:
            return False
        if not mgx.is_pointwise(user) and (step is None or user != step):
            return False
    return True


@dataclass(frozen=True)
class _Plan:
    """An operand read in another order: its source, its view ops, and the views saved."""

    source: ir.Value
    steps: list[Change]
    gain: int


def _planned(value: ir.Value, view: _Bijection) -> _Plan | None:
    """The plan to read an operand in the order of `view`'s source."""
    if splat(value) is not None:
        return _Plan(value, [], 0)
    source, layout, chain = trace(value)
    moved: Layout | None = layout
    for step in view.back:
        if moved is not None and step.name == "reshape":
            moved = moved.reshaped(cast("tuple[int, ...]", step.argument))
        elif moved is not None:
            moved = moved.transposed(cast("tuple[int, ...]", step.argument))
    steps = None if moved is None else changes(moved, shape(source))
    if steps is None or any(step.name == "multibroadcast" for step in steps[:-1]):
        return None
    if is_constant(source):
        return _Plan(source, steps, 0)  # its views are folded
    moves = sum(step.name != "reshape" for step in steps)
    if moves > sum(one not in mgx.RESHAPES for one in chain):
        return None
    return _Plan(source, steps, len(chain) - len(steps))


# Reductions ------------------------------------------------------------------------------


def _sink_reshape(op: ir.OpView, source: ir.Value) -> bool:
    """A reduction that alone reads a reshape of a pointwise op's result: the other readers of the
    rows are in that op's shape, and fuse with the reduction there (mgx-fuse-reduce).

    The reduced dimensions and those behind them are the source's own last ones.
    """
    if not mgx.is_pointwise(definition(source)) or not has_one_use(op.operands[0]):
        return False
    axes = list(ir.DenseI64ArrayAttr(op.attributes["axes"]))
    dims, have = shape(op.operands[0]), shape(source)
    count = len(dims) - min(axes)
    if dims[-count:] != have[-count:]:
        return False
    moved = [axis - len(dims) + len(have) for axis in axes]
    reduced = [1 if d in moved else size for d, size in enumerate(have)]
    result = create_like(op, [source], reduced, axes=ir.DenseI64ArrayAttr.get(moved))
    replace(op, [mgx.ReshapeOp(op.result.type, result).result])
    return True


def _sink_reduction(op: ir.OpView) -> bool:
    view = _bijection(op.operands[0])
    if view is None:
        return False
    if not any(step.name == "transpose" for step in view.back):
        return _sink_reshape(op, view.source)
    axes = set(ir.DenseI64ArrayAttr(op.attributes["axes"]))
    by_stride = {
        factor: axis
        for axis, dim in enumerate(view.layout.dims)
        for factor in dim
        if factor[0] != 1
    }
    if not all(isinstance(stride, int) for _, stride in by_stride):
        return False
    # The source, one dimension for each factor; the factors of the reduced axes are dropped.
    falling = sorted(by_stride, key=lambda factor: -factor[1])
    reduced = [number for number, factor in enumerate(falling) if by_stride[factor] in axes]
    kept = [number for number in range(len(falling)) if number not in reduced]
    ordered = [f for dim in view.layout.dims for f in dim if f in by_stride]
    permutation = [kept.index(falling.index(f)) for f in ordered if by_stride[f] not in axes]
    parts = in_views(view.source, [Change("reshape", tuple(size for size, _ in falling))])
    dims = [1 if number in reduced else size for number, (size, _) in enumerate(falling)]
    result = create_like(op, [parts], dims, axes=ir.DenseI64ArrayAttr.get(reduced))
    result = mgx.reshape(result, [dims[number] for number in kept])
    result = mgx.transpose(result, permutation)
    replace(op, [mgx.ReshapeOp(op.result.type, result).result])
    return True
