"""Matches kernels of works beside each other: concats, gathers, paddings, and pointwise ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from mlir import ir

from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.builders.places import Places, by_element, by_slice, by_tuple
from mgx_mlir.codegen.gpu.families.family import is_free
from mgx_mlir.codegen.gpu.families.pointwise.match import Elements, Result, elements_of
from mgx_mlir.codegen.gpu.families.rows.match import Source
from mgx_mlir.codegen.loops.ops.movement import word
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.problem.match import through_reshapes
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.problem.views import View, resolve, splat_constant
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import conversion_of, definition, users
from mgx_mlir.rewriting.symbolic import shape_of

Gathering: TypeAlias = mgx.GatherOp | mgx.GatherElementsOp | mgx.GatherndOp


@dataclass(frozen=True)
class Copy:
    """One part: `size` elements of `source`, in row-major order, are copied to `target`."""

    size: int
    source: Source
    target: MemoryOperand


@dataclass(frozen=True)
class Gather:
    """Copies runs of `source`, whose outer index is a slot and whose inner index runs along it.

    `places` name a slot for each run of the result.
    """

    size: int
    source: MemoryOperand
    places: Places
    run: int
    target: MemoryOperand


@dataclass(frozen=True)
class Span:
    """One dimension of a padded tensor: `inside` of its `size` elements, from `low` on, are
    x's."""

    size: int
    low: int
    inside: int
    axis: Axis

    @property
    def padded(self) -> bool:
        return self.low != 0 or self.inside != self.size


@dataclass(frozen=True)
class Pad:
    """x, padded with one value."""

    size: int
    source: MemoryOperand
    spans: tuple[Span, ...]
    value: float
    target: MemoryOperand


Move: TypeAlias = "Copy | Gather | Pad"
Part: TypeAlias = "Move | Elements"


@dataclass(frozen=True)
class Moves:
    """A kernel in parts; each element of its results belongs to one part."""

    name: str
    parts: tuple[Part, ...]

    @property
    def is_one(self) -> bool:
        """Whether one result is made by moves alone."""
        return not any(isinstance(x, Elements) or x.target.argument for x in self.parts)


def match_moves(kernel: mgx.KernelOp) -> Moves | Refusal | None:
    """The kernel as parts, or why it does not match; None where it holds other work.

    A concat may read what a pointwise op of the kernel computes: that is stored where it belongs.
    """
    *ops, terminator = kernel.regions[0].blocks[0].operations
    returned = [through_reshapes(value) for value in terminator.operands]
    work = [op for op in ops if not _is_copied(op)]
    is_alone = len(work) == 1 and returned == list(work[0].results)
    if not is_alone:
        work = [op for op in ops if not is_free(op)]
    if not all(isinstance(op, (mgx.PointwiseOp, *mgx.MOVERS)) for op in work):
        return None
    name = work[0].operation.name if is_alone else "works beside each other"
    pointwise = [op for op in work if isinstance(op, mgx.PointwiseOp)]
    made: set[ir.Value] = {value for op in pointwise for value in op.results}
    if any(0 in shape_of(value.type) for value in terminator.operands):
        return Refusal(f"{name}: a result without elements")
    parts: list[Part] = []
    stored: dict[ir.Value, list[Result]] = {}
    for number, value in enumerate(returned):
        op = definition(value)
        if value in made:
            stored.setdefault(value, []).append(Result(value, number, element_of(value.type)))
            continue

        def is_made(operand: ir.Value, place: MemoryOperand, number: int = number) -> bool:
            if (own := through_reshapes(operand)) not in made:
                return False
            result = Result(own, number, element_of(own.type), place)
            stored.setdefault(own, []).append(result)
            return True

        moved: Sequence[Part] | Move | Refusal | None
        if isinstance(op, mgx.ConcatOp):
            moved = moves_of(op, number, is_made)
        elif isinstance(op, mgx.MOVERS):
            moved = move_of(op, number)
        else:
            size = math.prod(shape_of(value.type))
            moved = copy_of(value, MemoryOperand.flat(number, element_of(value.type), size))
        if moved is None or isinstance(moved, Refusal):
            return moved
        parts += moved if isinstance(moved, Sequence) else [moved]
    for op in pointwise:
        results = [result for value in op.results for result in stored.get(value, ())]
        size = math.prod(shape_of(op.results[0].type))
        if not results or size == 0:
            continue
        found = elements_of(op.operation.name, [op], results, size)
        if isinstance(found, Refusal):
            return found
        parts.append(found)
    return Moves(name, tuple(parts))


def moves_of(
    op: mgx.ConcatOp,
    number: int = 0,
    stored: Callable[[ir.Value, MemoryOperand], bool] = lambda _value, _place: False,
) -> list[Move] | Refusal:
    """The moves of a concat's operands to their places in result `number`.

    Gathers choose elements as they are written. stored: whether something else stores an operand at
    its place.
    """
    shape, element, parts, start = shape_of(op.y.type), element_of(op.y.type), list[Move](), 0
    axis = op.axis.value % len(shape)
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    for value in op.xs:
        size = shape_of(value.type)
        own = size[axis] * inner
        rows = Axis.of((outer, shape[axis] * inner), (own, 1))
        place = MemoryOperand(number, element, start, Axis(()), rows)
        start += own
        if math.prod(size) == 0 or stored(value, place):
            continue
        gather = definition(value)
        found = move_of(gather) if isinstance(gather, mgx.GATHERS) else copy_of(value, place)
        if found is None or isinstance(found, Refusal):
            return found or Refusal(f"{op.OPERATION_NAME}: an input that is no strided view")
        parts.append(replace(found, target=place))
    return parts


def copy_of(value: ir.Value, place: MemoryOperand) -> Copy | Refusal:
    """The copy of a view of an input, which may be converted, or of a constant, to its place."""
    size, constant = math.prod(shape_of(value.type)), splat_constant(value)
    element = place.element
    if constant is not None and not element.is_byte_float and not 1 < element.bits <= 4:
        return Copy(size, constant, place)
    source = conversion_of(definition(value)) or value
    view = resolve(source)
    if view is None:
        return Refusal("a copy: an input that is no strided view")
    return Copy(size, MemoryOperand.row(view, element_of(source.type)), place)


def move_of(op: ir.OpView, number: int = 0) -> Move | Refusal | None:
    """A gather, or a padding with a constant, of inputs to result `number`; None for other ops."""
    found = [view for value in op.operands if (view := resolve(value)) is not None]
    if len(found) < len(op.operands):
        return Refusal(f"{op.operation.name}: an input that is no strided view")
    shape = shape_of(op.results[0].type)
    if isinstance(op, mgx.GATHERS):
        if 0 in found[0].shape:
            return Refusal(f"{op.OPERATION_NAME}: no elements to choose from")
        return _gather(op, found[0], found[1], shape, number)
    if not isinstance(op, mgx.PadOp) or word(op.mode) != "constant":
        return None
    return _pad(op, found[0], shape, number)


def _is_copied(op: ir.OpView) -> bool:
    """Whether an op takes no kernel of its own: it is free, or converts what a concat copies."""
    if is_free(op):
        return True
    taken = isinstance(op, mgx.GATHERS) or conversion_of(op) is not None
    readers = users(op.results[0]) if taken else []
    return [type(reader) for reader in readers] == [mgx.ConcatOp]


def _gather(
    op: Gathering,
    view: View,
    indices: View,
    shape: tuple[int, ...],
    number: int,
) -> Gather:
    type_ = op.indices.type
    if isinstance(op, mgx.GatherndOp):
        places = by_tuple(indices, type_, view.shape, op.batch_dims.value)
    else:
        named = by_slice if isinstance(op, mgx.GatherOp) else by_element
        places = named(indices, type_, view.shape, op.axis.value % len(view.shape))
    depth, size = places.depth, math.prod(shape)
    element = element_of(op.results[0].type)
    return Gather(
        size,
        MemoryOperand.row(view, element, depth),
        places,
        math.prod(view.shape[depth:]),
        MemoryOperand.flat(number, element, size),
    )


def _pad(op: mgx.PadOp, view: View, shape: tuple[int, ...], number: int) -> Pad:
    low = list(op.low)
    groups: list[list[int]] = []
    for d, (have, want) in enumerate(zip(view.shape, shape, strict=True)):
        # A dimension without padding is merged with the one before it.
        if groups and low[d] == 0 and have == want:
            groups[-1].append(d)
        else:
            groups.append([d])
    spans = []
    for group in groups:
        inner = math.prod(shape[d] for d in group[1:])
        first = group[0]
        axis = view.axis(first, group[-1] + 1)
        spans.append(
            Span(shape[first] * inner, low[first] * inner, view.shape[first] * inner, axis)
        )
    size, element = math.prod(shape), element_of(op.y.type)
    outer = Axis.of(*(factor for span in spans[:-1] for factor in span.axis.factors))
    last = spans[-1].axis if spans else Axis(())
    source = MemoryOperand(view.argument, element, view.offset, outer, last)
    target = MemoryOperand.flat(number, element, size)
    return Pad(size, source, tuple(spans), op.value.value, target)
