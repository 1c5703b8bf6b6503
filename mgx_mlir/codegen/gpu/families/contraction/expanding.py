"""Operands that are computed between memory and LDS: weights of few bits, above all.

Values wait in registers as memory holds them, and become elements on their way to LDS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.families.contraction.blocks import in_halves
from mgx_mlir.codegen.gpu.families.contraction.scaling import Scaled
from mgx_mlir.codegen.gpu.families.contraction.sources import (
    Load,
    Source,
    Strided,
    Windowed,
    filled,
    known,
    strided,
)
from mgx_mlir.codegen.problem.computed import compute, numbers_of, repeats
from mgx_mlir.codegen.problem.problem import (
    Axis,
    Computed,
    Contraction,
    Matrix,
    Read,
    Windows,
    vector_width,
)
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.rewriting.prologues import is_risky
from mgx_mlir.sizes.arithmetic import common_factor


def source_of(
    matrix: Matrix,
    columns: bool,
    depth: int,
    tile_depth: int,
    buffers: Mapping[int, ir.Value] | None = None,
) -> Source:
    """The source that reads a matrix' rows, or its columns, along k."""
    if isinstance(matrix, Computed) and not isinstance(matrix, Scaled):
        return Expanding(matrix, columns, depth, tile_depth, buffers)
    buffer = buffers[matrix.argument] if buffers is not None else None
    return strided(matrix, columns, depth, tile_depth, buffer)


def expanded(matrix: Computed, values: Sequence[ir.Value], lanes: int) -> ir.Value:
    """`lanes` elements, from the `values` that memory holds for them of each tensor read.

    In `values`, packed numbers still share bytes; a single element serves all lanes.
    """
    blocks = in_halves(matrix, lanes)
    if blocks is not None:
        return blocks.elements(dict(zip(matrix.tensors, values, strict=True)))
    tensors = []
    for read, x in zip(matrix.tensors, values, strict=True):
        x = numbers_of(x, read.per_byte)
        if ir.VectorType(x.type).shape[0] != lanes:
            x = emit.splat(memory.element(x, 0), lanes)
        tensors.append(x)
    x = compute(matrix, tensors)
    # `scaling.exact_match` found this to be exact.
    is_f32 = isinstance(ir.VectorType(x.type).element_type, ir.F32Type)
    return emit.upper_half(x) if is_f32 and matrix.element == "bf16" else x


def expanding_refusal(terms: Sequence[Contraction], tile_depth: int) -> Refusal | None:
    """Why operands cannot be computed on their way to LDS; None where they can, or none are."""
    for term in terms:
        found = [source_of(term.a, False, term.K, tile_depth)]
        if isinstance(term.b, Matrix):
            found.append(source_of(term.b, True, term.K, tile_depth))
        expanding = [source for source in found if isinstance(source, Expanding)]
        if len(expanding) == 2 and common_factor(term.K) % tile_depth:
            return Refusal(f"two computed operands with a rest of K = {term.K}")
        for source in expanding:
            if refusal := source.refusal(tile_depth):
                return refusal
    return None


class Expanding:
    """Rows of a computed matrix; see `sources.Source`. `columns`: rows are the matrix' columns."""

    def __init__(
        self,
        matrix: Computed,
        columns: bool,
        depth: int,
        tile_depth: int,
        buffers: Mapping[int, ir.Value] | None = None,
    ) -> None:
        self.matrix, self.element, self.depth = matrix, matrix.element, depth
        self._columns = columns
        self.sides = [
            _Side(read, *self._axes(read), depth, tile_depth, buffers)
            if not isinstance(read.matrix, Windows)
            else _WindowSide(read, *self._axes(read), depth, tile_depth, buffers)
            for read in matrix.tensors
        ]
        # Elements beyond an image's edges are `fill`; they are not computed from zeros.
        self._windows = next((x for x in self.sides if isinstance(x, _WindowSide)), None)
        row, k = (matrix.column, matrix.row) if columns else (matrix.row, matrix.column)
        self.along_k = Strided(matrix, row, k, depth, tile_depth).along_k

    def _axes(self, read: Read) -> tuple[Axis, Axis]:
        mine = read.matrix
        return (mine.column, mine.row) if self._columns else (mine.row, mine.column)

    def width(self, limit: int) -> int:
        for side in self.sides:
            axis, other = (side.k, side.row) if self.along_k else (side.row, side.k)
            if all(stride == 0 for _, stride in axis.factors):
                continue
            if axis.factors[-1][1] == 0:
                limit = math.gcd(limit, axis.factors[-1][0])
                continue
            matrix = side.matrix
            limit = vector_width(axis, other, matrix.batch, offset=matrix.offset, limit=limit)
        return math.gcd(limit, common_factor(self.depth)) if self.along_k else limit

    @property
    def reads(self) -> int:
        """Reads in `loads` for one vector of elements."""
        return len(self.sides) + (self._windows is not None)

    def refusal(self, tile_depth: int) -> Refusal | None:
        """Why the operand cannot be computed on its way to LDS; None where it can."""
        least = max(read.per_byte for read in self.matrix.tensors)
        if self.width(16) < least or (least > 1 and not self.along_k):
            return Refusal("packed numbers that are no neighbours along k")
        if (
            common_factor(self.depth) % tile_depth
            and self._windows is None
            and is_risky(self.matrix.op)
        ):
            return Refusal(f"what is computed beyond k = {self.depth} may not be finite")
        return None

    def begin(self, batch: Index, rows: Sequence[Index], k: Index, limit: int | None) -> None:
        for side in self.sides:
            side.begin(batch, rows, k, limit)

    def loads(self, k0: Index, parts: Sequence[int], width: int) -> list[Load]:
        """For each row and part, the reads of each tensor, and a flag for reads outside."""
        self._lanes = width
        found = [side.loads(k0, parts, side.lanes(self.along_k, width)) for side in self.sides]
        if self._windows is not None:
            beyond = self._windows.beyond(k0, parts)
            found.append([partial(known, flag) for flag in beyond])
        return [load for loads in zip(*found, strict=True) for load in loads]

    def finish(self, values: Sequence[ir.Value]) -> list[ir.Value]:
        """The vectors of elements computed from the values that `loads` read."""
        count, made = len(self.sides), []
        for at in range(0, len(values), self.reads):
            x = expanded(self.matrix, values[at : at + count], self._lanes)
            if self._windows is not None:
                fill = self._windows.matrix.fill
                x = filled(x, values[at + count], fill, self.element)
            made.append(x)
        return made


class _Side(Strided):
    """One of the tensors that elements are computed from; offsets count its numbers."""

    def __init__(
        self,
        read: Read,
        row: Axis,
        k: Axis,
        depth: int,
        tile_depth: int,
        buffers: Mapping[int, ir.Value] | None,
    ) -> None:
        buffer = buffers[read.matrix.argument] if buffers is not None else None
        super().__init__(read.matrix, row, k, depth, tile_depth, buffer)
        self._per_byte = read.per_byte

    def lanes(self, along_k: bool, width: int) -> int:
        """Elements to read for `width` neighbours."""
        axis = self.k if along_k else self.row
        return 1 if self._per_byte == 1 and repeats(axis, width) else width

    def _at(self, place: Index, width: int, step: Index = 0) -> Load:
        per_byte = self._per_byte
        if per_byte > 1:
            place, step = emit.div(place, per_byte), emit.div(step, per_byte)
        return super()._at(place, width // per_byte, step)


class _WindowSide(_Side, Windowed):
    """A `_Side` whose tensor is an image, read by windows."""
