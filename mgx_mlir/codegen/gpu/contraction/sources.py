"""Where the elements of an operand lie in memory: rows along k, read as vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from mlir import ir

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.emit import Index
from mgx_mlir.codegen.contraction.problem import Axis, Matrix
from mgx_mlir.codegen.gpu.contraction import memory
from mgx_mlir.codegen.gpu.contraction.constraints import vector_width

# Emits a read, when it is called.
Load = Callable[[], ir.Value]


class Source(Protocol):
    """An operand as rows along k: rows of A, or columns of B.

    `along_k`: whether neighbours in memory lie along k; else they lie across the rows.
    """

    element: str
    along_k: bool

    def width(self, limit: int) -> int:
        """Elements that one read may take."""

    def begin(self, batch: Index, rows: Sequence[Index], k: Index, limit: int | None) -> None:
        """Builds what no step along k changes, for reads at some rows from `k` on.

        Rows from `limit` on are zero.
        """

    def loads(self, k0: Index, parts: Sequence[int], width: int) -> list[Load]:
        """For each row, a vector of `width` elements at k0 + k + part for each part.

        Elements outside of the operand are zero, or anything from the first step on that has
        none inside.
        """


class Strided:
    """Rows of a matrix; `tile_depth` elements along k are read in one step."""

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
        self.along_k = not _contiguous(row) or _contiguous(k)

    def width(self, limit: int) -> int:
        offset, batch = self.matrix.offset, self.matrix.batch
        if not self.along_k:
            return vector_width(self.row, self.k, batch, offset=offset, limit=limit)
        width = vector_width(self.k, self.row, batch, offset=offset, limit=limit)
        # A vector lies inside of a row or outside of it.
        return math.gcd(width, self.depth)

    @property
    def _even(self) -> bool:
        """Whether a step's elements are at one place plus what no step changes."""
        factors = self.k.factors
        inner = factors[-1][0] if len(factors) > 1 else self.depth
        steps = self.depth % self.tile_depth == 0 and inner % self.tile_depth == 0
        return steps and all(stride >= 0 for _, stride in factors)

    @property
    def _stride(self) -> int:
        """The distance of neighbours along k, inside of a read or a run of reads."""
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
            # Beyond the last step, the last one again: its rows' bounds are known to hold.
            step = self.k.offset(emit.minimum(k0, self.depth - self.tile_depth))
            return [
                self._at(emit.add(row, part * self._stride), width, step)
                for row in self.rows
                for part in parts
            ]
        size = emit.element_bytes(self.element)
        first = emit.add(self.first, k0)
        ahead = []
        for part in parts:
            k = emit.add(first, part)
            place = self.k.offset(k)
            ahead.append(memory.guarded(place, [emit.compare("slt", k, self.depth)], size))
        return [self._at(emit.add(row, place), width) for row in self.rows for place in ahead]

    def _at(self, place: Index, width: int, step: Index = 0) -> Load:
        if not (self.row.grows and self.k.grows and self.matrix.batch.grows):
            place = memory.opaque(place)
        return lambda: memory.load_far(self.buffer, place, step, width)


def left(matrix: Matrix, depth: int, tile_depth: int, buffer: ir.Value) -> Strided:
    return Strided(matrix, matrix.row, matrix.column, depth, tile_depth, buffer)


def right(matrix: Matrix, depth: int, tile_depth: int, buffer: ir.Value) -> Strided:
    return Strided(matrix, matrix.column, matrix.row, depth, tile_depth, buffer)


def _contiguous(axis: Axis) -> bool:
    return bool(axis.factors) and axis.factors[-1][1] == 1
