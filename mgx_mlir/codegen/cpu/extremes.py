"""Takes the largest or smallest of a row of floats by vectors, which LLVM does not.

    for k in 0 .. K:                 for k in 0 .. K step 16:
      m = max(m, x[k])                 v = max(v, x[k .. k + 16])
                                     m = max of the lanes of v; the rest one by one

The largest of some numbers does not depend on their order; where one is NaN, NaN is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, scf, vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.rewriting.queries import definition, ops_inside

# Ops of which the place of a row is made.
_PLACES = (arith.AddIOp, arith.ConstantOp, arith.MulIOp)
_KINDS = {arith.MaximumFOp: "maximumf", arith.MinimumFOp: "minimumf"}


def widen_extremes(block: ir.Block, lanes: int) -> None:
    """Takes the extremes of neighbours in f32 memory by vectors of `lanes`, below a block."""
    for op in block.operations:
        for loop in ops_inside(op, scf.ForOp):
            found = _extreme(loop)
            if found is not None:
                _widen(loop, found, lanes)


@dataclass(frozen=True)
class _Extreme:
    """The op that finds the extreme of what is loaded; `before`: the elements before the loop's,
    by the ops `invariant` of the body, which are the same in each iteration."""

    op: arith.MaximumFOp | arith.MinimumFOp
    load: memref.LoadOp
    before: ir.Value | None = None
    invariant: Sequence[ir.OpView] = ()


def _extreme(loop: scf.ForOp) -> _Extreme | None:
    """The one extreme that a loop finds of neighbours that it loads."""
    *operations, last = (op.opview for op in loop.body.operations)
    step = definition(loop.step)
    if len(loop.inner_iter_args) != 1 or not isinstance(step, arith.ConstantOp):
        return None
    if len(operations) < 2 or step.value.value != 1:
        return None
    *places, load, op = operations
    if not isinstance(load, memref.LoadOp) or not isinstance(
        op, arith.MaximumFOp | arith.MinimumFOp
    ):
        return None
    if not isinstance(load.result.type, ir.F32Type) or last.operands[0] != op.result:
        return None
    if {op.lhs, op.rhs} != {loop.inner_iter_args[0], load.result}:
        return None
    (index,), own = load.indices, loop.induction_variable
    if not places:
        return _Extreme(op, load) if index == own else None
    *invariant, place = places
    if not isinstance(place, arith.AddIOp) or place.result != index or own not in place.operands:
        return None
    if not all(type(x) in _PLACES and own not in x.operands for x in invariant):
        return None
    (before,) = [x for x in place.operands if x != own] or [own]
    return None if before == own else _Extreme(op, load, before, invariant)


def _widen(loop: scf.ForOp, found: _Extreme, lanes: int) -> None:
    kind, load = type(found.op), found.load
    type_ = ir.VectorType.get([lanes], load.result.type)
    (start,) = loop.initArgs
    for op in found.invariant:
        op.operation.move_before(loop.operation)
    with ir.InsertionPoint(loop), loop.location:
        count = emit.div(emit.sub(loop.upperBound, loop.lowerBound), lanes)
        end = emit.value(emit.add(loop.lowerBound, emit.mul(count, lanes)))
        first = vector.broadcast(type_, start)
        whole = scf.ForOp(loop.lowerBound, end, emit.value(lanes), [first])
        with ir.InsertionPoint(whole.body):
            place = emit.add(whole.induction_variable, 0 if found.before is None else found.before)
            some = vector.load(type_, load.memref, [emit.value(place)])
            scf.YieldOp([kind(whole.inner_iter_args[0], some).result])
        lanes_kind = ir.Attribute.parse(f"#vector.kind<{_KINDS[kind]}>")
        total = vector.reduction(load.result.type, lanes_kind, whole.results[0])
    loop.operation.operands[0] = end
    loop.operation.operands[3] = total
