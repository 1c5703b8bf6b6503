"""mgx-hoist-invariants: what does not depend on the trips before is computed before a loop."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.kernel_loops import counter_places, is_counted
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    create_like,
    definition,
    erase_dead,
    has_sizes,
    replace,
    shape,
    splat,
    used_values,
)
from mgx_mlir.sizes.arithmetic import Number


@dataclass(frozen=True)
class HoistInvariants(Pass):
    """Moves ops of a loop's body that depend on nothing in it, and products of rows, before it.

    Before:  %r = mgx.loop %n, %c init(%x) ... {
             ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<2x2xf32>):
               %u = mgx.exp %w : tensor<2x2xf32>      // %w is defined outside
               %d = mgx.dot %v, %u : ...
               mgx.yield %true, %d : ...
             }
    After:   %u = mgx.exp %w : tensor<2x2xf32>
             %r = mgx.loop %n, %c init(%x) ... { ... %d = mgx.dot %v, %u ... }

    An `mgx.if` moves whole or stays whole: no op leaves a branch.

    Where the trips take the rows of a tensor in turn, and multiply each by a matrix, one product of
    all rows reads the matrix once:

    Before:  %r = mgx.loop %n, %true ... { %x = mgx.gather %xs[%i] axis = 0 : tensor<40x3x8xf32> ...
                                           %p = mgx.dot %x, %w : tensor<3x8xf32>, ... }
    After:   %ps = mgx.dot %xs, %w : tensor<120x8xf32>, tensor<8x32xf32> -> tensor<120x32xf32>
             %r = mgx.loop %n, %true ... { %p = mgx.gather %ps[%i] axis = 0 : tensor<40x3x32xf32> }
    """

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-hoist-invariants"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        loops = [
            op
            for block in blocks(main_function(module))
            for op in block.operations
            if isinstance(op, mgx.LoopOp)
        ]
        for loop in reversed(loops):  # inner loops first: their invariants may leave outer ones too
            inside = _hoist(loop, context)
            if is_counted(loop):
                _hoist_products(loop, inside, context)


def _hoist(loop: mgx.LoopOp, context: PassContext) -> set[ir.Value]:
    """Moves what depends on nothing in a loop; gives the values that are left in it."""
    block = loop.body.blocks[0]
    inside: set[ir.Value] = set(block.arguments)
    *ops, _ = block.operations
    for op in ops:
        # Values of the op's own regions depend on nothing else.
        if inside.isdisjoint(used_values(op)):
            context.note("hoist", node_name(op))
            op.move_before(loop)
        else:
            inside.update(op.results)
    return inside


def _hoist_products(loop: mgx.LoopOp, inside: Container[ir.Value], context: PassContext) -> None:
    """Multiplies all rows that the trips of a counted loop take in turn before it."""
    block = loop.body.blocks[0]
    trips = _size(loop.max_trip_count)
    numbers = {block.arguments[0], *(block.arguments[2 + place] for place in counter_places(loop))}
    for op in list(block.operations):
        rows = definition(op.operands[0]) if isinstance(op, mgx.DOTS) else None
        if not isinstance(rows, mgx.GatherOp) or not (has_sizes(op) and has_sizes(rows)):
            continue
        if shape(rows.indices) or _counter(rows.indices) not in numbers:
            continue
        matrix, sizes, axis = op.operands[1], shape(rows.x), rows.axis.value
        if len(shape(matrix)) > 2 or rows.x in inside or matrix in inside:
            continue
        if axis == len(sizes) - 1 or sizes[axis] != trips:
            continue
        depth, columns = shape(matrix)
        with ir.InsertionPoint(loop), op.location:
            flat = mgx.reshape(rows.x, [prod(sizes[:-1]), depth])
            made = create_like(op, [flat, matrix], [prod(sizes[:-1]), columns])
            made = mgx.reshape(made, [*sizes[:-1], columns])
        with ir.InsertionPoint(op), op.location:
            own = mgx.GatherOp(made, rows.indices, rows.axis, results=[op.result.type])
        context.note("product", node_name(op))
        replace(op, [own.y])
    erase_dead(block)


def _counter(value: ir.Value) -> ir.Value:
    """The value of which a number is a conversion, or itself."""
    op = definition(value)
    while isinstance(op, (mgx.ConvertOp, *mgx.RESHAPES)):
        value, op = op.x, definition(op.x)
    return value


def _size(value: ir.Value) -> Number | None:
    """The size that a number of one element is; None where it is another."""
    op = definition(_counter(value))
    if isinstance(op, mgx.DimensionsOfOp):
        return shape(op.x)[op.start.value]
    number = splat(value)
    return None if number is None else int(number)
