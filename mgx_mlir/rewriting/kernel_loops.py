"""Loops that are a kernel: a trip is little work, and the data do not decide how many there are."""

from __future__ import annotations

import math

import numpy as np
from mlir import ir

from mgx_mlir.capabilities import MOST_TRIP_ELEMENTS, MOST_TRIP_FLOPS, MOST_TRIPS
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.flops import flops_of_op
from mgx_mlir.rewriting.plan_attributes import MAX_ITERATIONS
from mgx_mlir.rewriting.queries import (
    definition,
    erase_dead,
    has_sizes,
    replace,
    shape,
    splat,
    yielded,
)
from mgx_mlir.rewriting.symbolic import sizes_of
from mgx_mlir.sizes.arithmetic import Number

# Ops that a kernel's loop may hold beside pointwise ops, reductions and views: each is a few nests
# over its elements.
_HELD = (
    mgx.ConcatOp,
    mgx.DotOp,
    mgx.FusedReduceOp,
    mgx.GatherOp,
    mgx.LogsoftmaxOp,
    mgx.PointwiseOp,
    mgx.QuantDotOp,
    mgx.SoftmaxOp,
    mgx.YieldOp,
    *mgx.SOURCES,
)


def fits_in_kernel(loop: mgx.LoopOp) -> bool:
    """Whether one work-group, or one for each part, does all trips of a loop sooner than a program
    that launches the kernels of each."""
    block = loop.body.blocks[0]
    if not is_counted(loop) or not loop.init or not has_sizes(loop) or not _is_known(loop):
        return False
    if not all(map(_is_held, block.operations)):
        return False
    # Numbers alone are no work; where a size is 0, only no work fits in that many parts.
    ops = [op for op in block.operations if any(shape(value) for value in op.results)]
    ops = [op for op in ops if not isinstance(op, mgx.SOURCES)]
    tensors = [value for op in ops for value in op.results if not mgx.is_view(op)]
    # Each may be a work-group of its own.
    parts = math.prod(leading_sizes(loop))
    elements = sum(math.prod(max(n, 1) for n in shape(value)) for value in tensors)
    flops = sum(map(flops_of_op, ops))
    return elements <= MOST_TRIP_ELEMENTS * parts and flops <= MOST_TRIP_FLOPS * parts


def has_loop(kernel: mgx.KernelOp) -> bool:
    """Whether a kernel holds a loop."""
    return any(isinstance(op, mgx.LoopOp) for op in kernel.body.blocks[0].operations)


def loop_of(kernel: mgx.KernelOp) -> mgx.LoopOp:
    """The kernel's loop."""
    return next(op for op in kernel.body.blocks[0].operations if isinstance(op, mgx.LoopOp))


def is_in_kernel(op: ir.OpView) -> bool:
    """Whether an op belongs to the body of a loop that is a kernel."""
    parent = op.operation.parent
    loop = parent.opview if parent is not None else None
    return isinstance(loop, mgx.LoopOp) and fits_in_kernel(loop)


def is_counted(loop: mgx.LoopOp) -> bool:
    """Whether only the number of trips ends a loop."""
    block = loop.body.blocks[0]
    again = yielded(block)[0]
    return _is_true(loop.condition) and (again == block.arguments[1] or _is_true(again))


def _is_known(loop: mgx.LoopOp) -> bool:
    """Whether sizes alone say which rows a loop fills, or its limit: those beyond are zeros."""
    trips = splat(loop.max_trip_count)
    rows = [shape(value)[0] for value in list(loop.outputs)[len(loop.init) :]]
    limit = loop.attributes.get(MAX_ITERATIONS)
    most = int(ir.IntegerAttr(limit)) if limit is not None else None
    if any(isinstance(count, int) and count > MOST_TRIPS for count in rows):
        return False
    if trips is None:
        return bool(rows) and all(not isinstance(count, int) or count == most for count in rows)
    fills = all(count == trips or int(trips) <= count == most for count in rows)
    return int(trips) <= MOST_TRIPS and fills


def _is_held(op: ir.OpView) -> bool:
    if mgx.is_view(op) or isinstance(op, mgx.RESHAPES):
        return has_sizes(op)
    fits = isinstance(op, _HELD) or mgx.is_pointwise(op) or mgx.is_reduction(op)
    return fits and (isinstance(op, mgx.YieldOp) or has_sizes(op))


def leading_sizes(loop: mgx.LoopOp) -> tuple[Number, ...]:
    """The sizes of the leading dimensions that all has that a loop carries beside its counter."""
    counters = counter_places(loop)
    carried = [value for number, value in enumerate(loop.init) if number not in counters]
    shapes = [sizes_of(value.type, None)[:-1] for value in carried]
    shared: list[Number] = []
    for first, *others in zip(*shapes, strict=False):
        if first is None or any(size != first for size in others):
            break
        shared.append(first)
    return tuple(shared)


def _is_true(value: ir.Value) -> bool:
    number = splat(value)
    return number is not None and bool(number)


def without_counter(loop: mgx.LoopOp) -> mgx.LoopOp:
    """The loop, in which the trip's number takes the place of carried values that equal it."""
    block = loop.body.blocks[0]
    again, *following = yielded(block)
    carried = list(block.arguments)[2:]
    counters = counter_places(loop)
    if not counters:
        return loop
    for number in counters:
        carried[number].replace_all_uses_with(block.arguments[0])
    kept = [number for number in range(len(following)) if number not in counters]
    terminator = list(block.operations)[-1]
    with ir.InsertionPoint(terminator), terminator.location:
        mgx.YieldOp([again, *(following[number] for number in kept)])
    terminator.erase()
    erase_dead(block)
    for number in reversed(counters):
        block.erase_argument(2 + number)
    results = list(loop.outputs)
    with ir.InsertionPoint(loop), loop.location:
        init = [value for number, value in enumerate(loop.init) if number not in counters]
        types = [results[number].type for number in kept]
        made = mgx.LoopOp(types, loop.max_trip_count, loop.condition, init)
    block.append_to(made.body)
    found = dict(zip(kept, made.outputs, strict=True))
    replace(loop, [found.get(number, results[number]) for number in range(len(results))])
    return made


def counter_places(loop: mgx.LoopOp) -> list[int]:
    """The places of carried values that equal the trip's number."""
    block = loop.body.blocks[0]
    following = yielded(block)[1:]
    return [
        number
        for number, (init, argument) in enumerate(
            zip(loop.init, list(block.arguments)[2:], strict=True)
        )
        if splat(init) == 0
        and not list(loop.outputs[number].uses)
        and argument.type == block.arguments[0].type
        and _is_next(following[number], argument)
    ]


def _is_next(value: ir.Value, argument: ir.Value) -> bool:
    """Whether a value is a carried one plus 1."""
    op = definition(value)
    terms: list[ir.Value] = []
    if isinstance(op, mgx.PointwiseOp) and list(op.inputs) == [argument]:
        inner = op.body.blocks[0]
        argument = inner.arguments[0]
        op = definition(yielded(inner)[ir.OpResult(value).result_number])
    if isinstance(op, mgx.AddOp):
        terms = [x for x in op.operands if x != argument]
    return len(terms) == 1 and _number(terms[0]) == 1


def _number(value: ir.Value) -> np.generic | int | None:
    op = definition(value)
    if isinstance(op, mgx.ConstantOp) and isinstance(op.value, ir.IntegerAttr):
        return ir.IntegerAttr(op.value).value
    return splat(value)
