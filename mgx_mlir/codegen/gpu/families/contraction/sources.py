"""Where the elements of an operand lie in memory: rows along k, read as vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Protocol

from mlir import ir
from mlir.dialects import arith, vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.problem.problem import Axis, Edge, Matrix, Windows, vector_width
from mgx_mlir.sizes.arithmetic import Size, common_factor

# Emits a read, when it is called.
Load = Callable[[], ir.Value]


class Source(Protocol):
    """An operand as rows along k: rows of A, or columns of B.

    `along_k`: whether neighbours in memory lie along k; else they lie across the rows.
    """

    element: str
    along_k: bool

    @property
    def reads(self) -> int: ...

    def finish(self, values: Sequence[ir.Value]) -> Sequence[ir.Value]: ...

    def width(self, limit: int) -> int:
        """Elements that one read may take."""

    def begin(self, batch: Index, rows: Sequence[Index], k: Index, limit: int | None) -> None:
        """Builds the values that no step along k changes, for reads of `rows` from `k` on.

        Rows from `limit` on are zero.
        """

    def loads(self, k0: Index, parts: Sequence[int], width: int) -> list[Load]:
        """For each row and each part, the reads of a vector of `width` elements at k0 + k + part.

        A vector takes `reads` reads, and `finish` makes it from their values. Elements outside of
        the operand are zero; in steps that have no element inside they may have any value.
        """


class Strided:
    """Rows of a matrix; `tile_depth` elements along k are read in one step.

    ends: whether no step past the last one is read.
    """

    ends = False

    def __init__(
        self,
        matrix: Matrix,
        row: Axis,
        k: Axis,
        depth: int,
        tile_depth: int,
        buffer: ir.Value | None = None,
    ) -> None:
        self.matrix, self.row, self.k = matrix, row, k
        self.depth, self.tile_depth, self.buffer = depth, tile_depth, buffer
        self.element = matrix.element
        self.along_k = not row.contiguous(1) or k.contiguous(1)

    def width(self, limit: int) -> int:
        offset, batch = self.matrix.offset, self.matrix.batch
        if not self.along_k:
            return vector_width(self.row, self.k, batch, offset=offset, limit=limit)
        width = vector_width(self.k, self.row, batch, offset=offset, limit=limit)
        # A vector lies inside of a row or outside of it.
        return math.gcd(width, common_factor(self.depth))

    @property
    def reads(self) -> int:
        return 1

    def finish(self, values: Sequence[ir.Value]) -> Sequence[ir.Value]:
        return values

    @property
    def _even(self) -> bool:
        return self.is_even(self.tile_depth)

    def is_even(self, tile_depth: int) -> bool:
        """Whether the offsets of a step of this depth are one offset of the step plus offsets that
        no step changes."""
        factors = self.k.factors
        if isinstance(self.depth, Size):
            return False  # steps beyond the last one read zeros
        inner = factors[-1][0] if len(factors) > 1 else self.depth
        steps = self.depth % tile_depth == 0 and inner % tile_depth == 0
        return steps and all(stride >= 0 for _, stride in factors)

    @property
    def _stride(self) -> int:
        """The distance in memory of neighbours along k, inside of a read or a run of reads."""
        return self.k.factors[-1][1] if self.k.factors else 0

    def begin(self, batch: Index, rows: Sequence[Index], k: Index, limit: int | None) -> None:
        start = self.matrix.start(batch)
        if self._even:
            start = emit.add(start, emit.mul(k, self._stride))
        self.rows, self.first = [], k
        for row in rows:
            place = emit.add(start, self.row.offset(row))
            inside = [] if limit is None else [emit.compare("slt", row, limit)]
            self.rows.append(memory.guarded(place, inside, emit.element_bytes(self.element)))

    def loads(self, k0: Index, parts: Sequence[int], width: int) -> list[Load]:
        if self._even:
            step = self.k.offset(self._step(k0))
            return [
                self._at(emit.add(row, part * self._stride), width, step)
                for row in self.rows
                for part in parts
            ]
        size = emit.element_bytes(self.element)
        first = emit.add(self.first, k0)
        offsets = []
        for part in parts:
            k = emit.add(first, part)
            place = self.k.offset(k)
            offsets.append(memory.guarded(place, [emit.compare("slt", k, self.depth)], size))
        return [self._at(emit.add(row, place), width) for row in self.rows for place in offsets]

    def _step(self, k0: Index) -> Index:
        """A step's first k. Past the last step, the last one is read again: its rows' bounds are
        known to hold."""
        return k0 if self.ends else emit.minimum(k0, self.depth - self.tile_depth)

    def _at(self, place: Index, width: int, step: Index = 0) -> Load:
        buffer = self.buffer
        assert buffer is not None
        place = memory.unsplit(place, self.matrix)
        return lambda: memory.load_far(buffer, place, step, width)


class Windowed(Strided):
    """Rows are windows of an image, k their taps. Elements beyond the image's edges are zero.

    For each row and edge, one register has a bit for each tap: whether it is outside. This bit,
    as the highest bit of an offset in bytes, puts a read outside of the buffer.
    """

    matrix: Windows

    def width(self, limit: int) -> int:
        # Elements of a vector have one window and one tap.
        return math.gcd(super().width(limit), self.matrix.run) if self.along_k else 1

    def is_even(self, tile_depth: int) -> bool:
        """Whether all elements of such a step have the same tap, and differ only in channel."""
        return self.matrix.run % tile_depth == 0

    def begin(self, batch: Index, rows: Sequence[Index], k: Index, limit: int | None) -> None:
        start = self.matrix.start(batch)
        if self._even:
            start = emit.add(start, emit.mul(k, self._stride))
        self.first = k
        self.rows = [emit.add(start, self.row.offset(row)) for row in rows]
        self.outside = [
            [_outside(edge, row, self.row.size) for edge in self.matrix.edges] for row in rows
        ]
        if limit is not None:
            for row, bits in zip(rows, self.outside, strict=True):
                inside = emit.compare("slt", row, limit)
                bits[0] = arith.select(inside, bits[0], emit.value(-1))

    def loads(self, k0: Index, parts: Sequence[int], width: int) -> list[Load]:
        near = [0]
        if self._even:
            # Parts of a step are neighbours of one place.
            near, parts = [part * self._stride for part in parts], [0]
        steps, beyond = self._offsets(k0, parts)
        places = [emit.add(row, step) for row in self.rows for step in steps]
        found = []
        for place, bit in zip(places, beyond, strict=True):
            place = arith.ori(emit.value(place), bit)
            if any(edge.pad for edge in self.matrix.edges):
                place = memory.opaque(place)  # its terms may be negative
            found += [self._at(emit.add(place, more), width) for more in near]
        return found

    def beyond(self, k0: Index, parts: Sequence[int]) -> list[ir.Value]:
        """For each of `loads`, a value that is not 0 where the read lies beyond an edge."""
        return self._offsets(k0, parts)[1]

    def _offsets(self, k0: Index, parts: Sequence[int]) -> tuple[list[Index], list[ir.Value]]:
        """The offset of each part from a row's start, and `beyond`."""
        steps: list[Index] = []
        found: list[tuple[list[Index], list[ir.Value]]] = []
        if self._even:
            k0 = self._step(k0)
            step, taps = self.k.offset(k0), self._taps(k0)
            steps = [emit.add(step, part * self._stride) for part in parts]
            found = [(taps, [])] * len(parts)
        else:
            for part in parts:
                k = emit.add(emit.add(self.first, k0), part)
                past: list[ir.Value] = []
                if self.depth % self.tile_depth:
                    over = emit.compare("sge", k, self.depth)
                    past = [arith.select(over, emit.value(-1), emit.value(0))]
                steps.append(self.k.offset(k))
                found.append((self._taps(k), past))
        return steps, [self._beyond(bits, *where) for bits in self.outside for where in found]

    def _taps(self, k: Index) -> list[Index]:
        """The tap, along each edge, of the element at k."""
        return [
            emit.rem(emit.div(k, edge.taps), edge.window)
            if edge.taps * edge.window < self.depth
            else emit.div(k, edge.taps)
            for edge in self.matrix.edges
        ]

    def _beyond(
        self, bits: Sequence[ir.Value], taps: Sequence[Index], past: Sequence[ir.Value]
    ) -> ir.Value:
        top = 32 - emit.element_bytes(self.element).bit_length()
        flags = [
            arith.shli(mine, emit.value(emit.sub(top, tap)))
            for mine, tap in zip(bits, taps, strict=True)
        ]
        highest = emit.value(1 << top if top < 31 else -1 << 31)
        return arith.andi(reduce(arith.ori, [*flags, *past]), highest)

    def _at(self, place: Index, width: int, step: Index = 0) -> Load:
        buffer = self.buffer
        assert buffer is not None
        return lambda: memory.load_far(buffer, place, step, width)


class Filled(Windowed):
    """Rows are windows of an image; elements beyond its edges are a number that is not zero."""

    @property
    def reads(self) -> int:
        return 2  # the elements, and whether they lie beyond

    def loads(self, k0: Index, parts: Sequence[int], width: int) -> list[Load]:
        loads, beyond = super().loads(k0, parts, width), self.beyond(k0, parts)
        flags = (partial(known, flag) for flag in beyond)
        return [load for pair in zip(loads, flags, strict=True) for load in pair]

    def finish(self, values: Sequence[ir.Value]) -> Sequence[ir.Value]:
        found = []
        for x, beyond in zip(values[::2], values[1::2], strict=True):
            found.append(filled(x, beyond, self.matrix.fill, self.element))
        return found


def filled(x: ir.Value, beyond: ir.Value, fill: float, element: str) -> ir.Value:
    """A vector of elements that a read gave; `fill` where the flag `beyond` is not 0."""
    lanes = ir.VectorType(x.type).shape[0]
    inside = emit.compare("eq", beyond, 0)
    return memory.select(inside, x, emit.constant(fill, element, lanes))


def known(x: ir.Value) -> ir.Value:
    """A `Load`, with its value, of what needs no read."""
    return x


class Cut(Strided):
    """Rows are windows of an image, k runs of their taps; the first `kept` elements of a run count.

    A step takes whole runs.
    """

    matrix: Windows

    def begin(self, batch: Index, rows: Sequence[Index], k: Index, limit: int | None) -> None:
        super().begin(batch, rows, k, limit)
        self.masks: list[ir.Value] = []

    def loads(self, k0: Index, parts: Sequence[int], width: int) -> list[Load]:
        if not self.masks:
            self.masks = [self._mask(emit.add(self.first, part), width) for part in parts]
        return super().loads(k0, parts, width)

    def finish(self, values: Sequence[ir.Value]) -> Sequence[ir.Value]:
        pairs = zip(values, self.masks, strict=True)
        return [
            vector.bitcast(x.type, arith.andi(vector.bitcast(mask.type, x), mask))
            for x, mask in pairs
        ]

    def _mask(self, k: Index, width: int) -> ir.Value:
        """A mask of `width` elements from k on: all bits of the words that count."""
        each = 4 // emit.element_bytes(self.element)
        all_, none = (emit.constant(x, "i32") for x in (-1, 0))
        places = [emit.rem(emit.add(k, i), self.matrix.run) for i in range(0, width, each)]
        return memory.joined(
            [
                arith.select(emit.compare("slt", place, self.matrix.kept), all_, none)
                for place in places
            ]
        )


def _outside(edge: Edge, row: Index, rows: int) -> ir.Value:
    """A word for a window, whose bit t tells whether tap t lies beyond the edge."""
    position = emit.div(row, edge.windows)
    if edge.windows * edge.outputs != rows:
        position = emit.rem(position, edge.outputs)
    start = emit.sub(emit.mul(position, edge.step), edge.pad)

    def taps(limit: int) -> Index:
        """The number of taps before `limit` in the image."""
        count = emit.maximum(emit.sub(limit, start), 0)
        count = emit.div(emit.add(count, edge.dilation - 1), edge.dilation)
        return emit.minimum(count, edge.window)

    before = emit.sub(arith.shli(emit.value(1), emit.value(taps(0))), 1)
    after = arith.shli(emit.value(-1), emit.value(taps(edge.size)))
    return arith.ori(emit.value(before), after)


def strided(
    matrix: Matrix, columns: bool, depth: int, tile_depth: int, buffer: ir.Value | None = None
) -> Strided:
    """The source of a matrix' rows, or of its columns."""
    row, k = (matrix.column, matrix.row) if columns else (matrix.row, matrix.column)
    kind = Strided
    if isinstance(matrix, Windows):
        kind = Cut if matrix.kept else Filled if matrix.fill and matrix.edges else Windowed
    return kind(matrix, row, k, depth, tile_depth, buffer)
