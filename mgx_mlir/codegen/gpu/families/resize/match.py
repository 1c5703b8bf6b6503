"""Matches kernels that are a resize, or a pad with elements, and lists each result's reads.

The reads along a dimension are from tables, or computed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.family import anchored
from mgx_mlir.codegen.loops.body import Body, Function
from mgx_mlir.codegen.loops.ops.movement import word
from mgx_mlir.codegen.loops.ops.resize import Axis as Resized
from mgx_mlir.codegen.loops.ops.resize import axes_of, nearest_place, repeats_exactly, taps_of
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.element import Element, element_of
from mgx_mlir.codegen.meaning.index import Index as Result
from mgx_mlir.codegen.meaning.index import fixed
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.problem.views import resolve
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import shape_of
from mgx_mlir.sizes.arithmetic import Size, exact

Array = np.ndarray[Any, Any]
MAX_NUMBERS = 1 << 18  # the most numbers in a kernel's tables
# Up to this number of taps the code is unrolled; more are a loop.
_UNROLLED = 4


@dataclass(frozen=True, eq=False)
class Taps:
    """The reads of results along one dimension: indices [taps, size] and their weights; None
    for one tap of weight 1. Indices beyond an end mean the end; `offsets` has the offset of
    each index in x. `inside`: which results lie in x, None for all."""

    offsets: Array
    indices: Array
    weights: Array | None
    inside: Array | None

    @property
    def count(self) -> int:
        return len(self.indices)

    def places(self, indices: Array) -> Array:
        """The offsets of indices in memory."""
        found: Array = self.offsets[np.clip(indices, 0, len(self.offsets) - 1)]
        return found


@dataclass(frozen=True)
class Formula:
    """The reads of results along one dimension of symbolic size, which code computes.

    stride: the axis of the dimension in x.
    """

    op: mgx.ResizeOp
    axis: Resized
    stride: Axis

    @property
    def count(self) -> int:
        return {"nearest": 1, "linear": 2, "cubic": 4}[word(self.op.mode)]

    def repeated(self, results: int) -> tuple[Taps, int] | None:
        """The reads of a few indices, of which those of each group of `results` are, and how far
        apart groups are in x; None where groups differ."""
        times = exact(self.axis.wanted, self.axis.size)
        if not isinstance(times, int) or not repeats_exactly(self.axis) or results % times:
            return None
        if self.op.exclude_outside.value:
            return None
        few = replace(self.axis, size=4 * results, wanted=4 * results * times)
        return _taps(self.op, few, Axis.of((4 * results, 1))), results // times


@dataclass(frozen=True, eq=False)
class Shared:
    """The reads that a group of neighbouring results shares along a dimension.

    indices [rows, groups]: the indices of a group's rows. taps [taps, results of a group]: the
    row of the group that each tap is.
    """

    indices: Array
    taps: Array

    @staticmethod
    def of(taps: Taps, results: int) -> Shared | None:
        """The shared reads of groups of `results`; None if groups differ, or share little."""
        count, size = taps.indices.shape
        if size % results:
            return None
        parts = taps.indices.reshape(count, size // results, results)
        first = parts.min(axis=(0, 2), keepdims=True)
        apart = parts - first
        if (apart != apart[:, :1]).any():
            return None
        rows, which = np.unique(apart[:, 0], return_inverse=True)
        if len(rows) * 4 > count * results * 3:
            return None
        return Shared(rows[:, None] + first[0, :, 0], which.reshape(count, results))


@dataclass(frozen=True)
class Resize:
    """A resize, or a pad, of the dimensions in `taps`; those after the last of them are copied.

    `strides` has the axis of each dimension, for the offset of its indices. `source` has
    the dimensions after `last` as its inner index.
    """

    name: str
    shape: tuple[int, ...]
    source: MemoryOperand
    strides: tuple[Axis, ...]
    taps: dict[int, Taps | Formula]
    outside: float
    nearest: bool

    @property
    def element(self) -> Element:
        return self.source.element

    @property
    def last(self) -> int:
        return max(self.taps)

    @property
    def copied(self) -> int:
        """Elements of the dimensions after the last one that is resized."""
        return math.prod(self.shape[self.last + 1 :])


@anchored(mgx.PadOp, mgx.ResizeOp)
def match_resize(op: mgx.PadOp | mgx.ResizeOp) -> Resize | Refusal | None:
    """The op as a resize, or why it does not match; None for a pad with a constant."""
    result = op.y
    if isinstance(op, mgx.PadOp) and word(op.mode) == "constant":
        return None
    view, shape = resolve(op.x), shape_of(result.type)
    if view is None:
        return Refusal("an input that is no strided view")
    element = element_of(result.type)
    if 0 in view.shape:
        return Refusal("no elements")
    strides = tuple(view.axis(d, d + 1) for d in range(len(shape)))
    taps: dict[int, Taps | Formula] = {}
    # A part of given size may lie in memory whose size is symbolic: its strides are formulas.
    symbolic = not all(x.type.has_static_shape for x in (op.x, result))
    symbolic |= any(isinstance(step, Size) for axis in strides for _, step in axis.factors)
    outside, nearest = 0.0, True
    if isinstance(op, mgx.PadOp):
        if symbolic:
            return Refusal("padding of symbolic sizes")
        taps |= _padded(op, view.shape, shape, strides)
    else:
        outside, nearest = op.extrapolation_value.value, word(op.mode) == "nearest"
        axes = [x for x in enumerate(axes_of(op, view.shape, shape)) if not x[1].is_identity]
        if symbolic and (op.antialias.value or any(axis.crops for _, axis in axes)):
            return Refusal("antialias, or cropping, of symbolic sizes")
        for d, axis in axes:
            taps[d] = Formula(op, axis, strides[d]) if symbolic else _taps(op, axis, strides[d])
    last = max(taps, default=0)
    numbers = sum(2 * t.indices.size for t in taps.values() if isinstance(t, Taps))
    source = MemoryOperand.row(view, element, last + 1)
    if not taps:
        return Refusal("all results are where they were")
    if element.is_byte_float and not nearest:
        return Refusal(f"elements of type {element.name}")
    if numbers > MAX_NUMBERS:
        return Refusal(f"{numbers} numbers, more than {MAX_NUMBERS}, say what results read")
    return Resize(op.OPERATION_NAME, shape, source, strides, taps, outside, nearest)


def _padded(
    op: mgx.PadOp, have: Sequence[int], shape: Sequence[int], strides: Sequence[Axis]
) -> dict[int, Taps]:
    """The taps of a pad, along the dimensions that are padded."""
    taps, mode = {}, word(op.mode)
    for d, (size, low) in enumerate(zip(have, op.low, strict=True)):
        if size == shape[d] and not low:
            continue
        index = np.arange(shape[d]) - low
        if mode == "wrap":
            index %= size
        elif mode == "reflect" and size > 1:
            index %= 2 * (size - 1)
            index = np.minimum(index, 2 * (size - 1) - index)
        offsets = np.array([strides[d].offset(i) for i in range(size)], np.int32)
        taps[d] = Taps(offsets, index[None], None, None)
    return taps


def _taps(op: mgx.ResizeOp, axis: Resized, stride: Axis) -> Taps:
    where = axis.places()
    offsets = np.array([stride.offset(i) for i in range(fixed(axis.size))], np.int32)
    inside = None
    if axis.crops:
        inside = ((where >= 0) & (where <= axis.size - 1)).astype(np.int32)
    if word(op.mode) == "nearest":
        return Taps(offsets, axis.nearest(word(op.nearest_mode))[None], None, inside)
    f32, cubic = np.float32, word(op.mode) == "cubic"
    stretch = f32(min(axis.scale, 1.0) if op.antialias.value else 1.0)
    reach = math.ceil((2 if cubic else 1) / float(stretch))
    positions = np.floor(where) + np.arange(1 - reach, reach + 1, dtype=f32)[:, None]
    distance = np.abs(positions - where) * stretch
    weights = (
        _cubic(distance, f32(op.cubic_coeff_a.value)) if cubic else np.maximum(1 - distance, 0)
    )
    if op.exclude_outside.value:
        weights = np.where((positions >= 0) & (positions <= axis.size - 1), weights, f32(0))
    if op.exclude_outside.value or op.antialias.value:
        weights = weights / weights.sum(0, dtype=f32)
    # Taps whose weights are all 0 are not read.
    used = weights.any(axis=1)
    return Taps(offsets, positions[used].astype(np.int64), weights[used].astype(f32), inside)


def _cubic(d: Array, a: Any) -> Array:
    """Keys' cubic kernel (see lowering.ops.resize)."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, np.zeros_like(d)))


def index_of(x: ir.Value) -> ir.Value:
    return arith.index_cast(ir.IndexType.get(), x)


class Reads(ABC):
    """The reads of results along a dimension."""

    count: int

    @abstractmethod
    def tap(self, tap: Index, index: Index) -> tuple[Index, ir.Value | None]:
        """The offset in x of a tap of a result index, and its weight as f32."""

    def inside(self, _index: Index) -> ir.Value | None:
        """Whether a result index lies in x; None where all do."""
        return None

    def each(
        self,
        index: Index,
        zero: ir.Value,
        term: Callable[[Index, ir.Value | None], ir.Value],
        a: Arithmetic,
    ) -> ir.Value:
        """The sum of a term for each tap; for a nearest resize, the only term."""

        def step(tap: Index, total: ir.Value | None) -> list[ir.Value]:
            x = term(*self.tap(tap, index))
            return [x if total is None else a.add(total, x)]

        if self.count > _UNROLLED:
            return emit.loop(0, self.count, 1, step, [zero])[0]
        found: ir.Value | None = None
        for tap in range(self.count):
            (found,) = step(tap, found)
        assert found is not None
        return found


class Tables(Reads):
    """The tables of a dimension's taps, read at run time."""

    def __init__(self, taps: Taps, launches: Launches) -> None:
        self.taps, self.count = taps, taps.count
        self.places = launches.table(taps.places(taps.indices))
        self.weights = launches.table(taps.weights) if taps.weights is not None else None
        self._inside = launches.table(taps.inside) if taps.inside is not None else None

    def tap(self, tap: Index, index: Index) -> tuple[Index, ir.Value | None]:
        at = emit.add(emit.mul(tap, self.taps.indices.shape[1]), index)
        return index_of(read_table(self.places, at)), read_table(
            self.weights, at
        ) if self.weights is not None else None

    def inside(self, index: Index) -> ir.Value | None:
        if self._inside is None:
            return None
        zero = emit.constant(0, "i32")
        return arith.cmpi(arith.CmpIPredicate.ne, read_table(self._inside, index), zero)


class Computed(Reads):
    """A dimension's taps, computed for each index."""

    def __init__(self, formula: Formula) -> None:
        self.formula, self.count = formula, formula.count
        self._known: dict[Index, list[tuple[Index, ir.Value | None]]] = {}

    def tap(self, tap: Index, index: Index) -> tuple[Index, ir.Value | None]:
        assert isinstance(tap, int)  # few taps are unrolled
        if index not in self._known:
            own, block = self.formula, ir.InsertionPoint.current.block
            body = Body(block, [], Function(block))
            at = Result.runtime(emit.value(index), 0, own.axis.wanted - 1)
            if word(own.op.mode) == "nearest":
                taps: list[Any] = [(nearest_place(own.op, own.axis)(body, at), None)]
            else:
                taps = list(taps_of(body, own.op, own.axis, at))
            self._known[index] = [(own.stride.offset(body.scalar(x)), w) for x, w in taps]
        return self._known[index][tap]


def read_table(table: Callable[[], ir.Value], at: Index) -> ir.Value:
    return memory.element(memory.load(table(), at, 1), 0)
