"""A tile of an operand on its way from memory through registers to LDS.

In LDS every row of A, and every column of B, is a row of 128 bytes along k, in chunks of
16 bytes whose order is swizzled (see specs). Where the operand's neighbours in memory lie
along k, a thread moves chunks; otherwise it reads vectors across the rows at several k and
turns them in registers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.emit import Index
from mgx_mlir.codegen.contraction.problem import Axis, Matrix
from mgx_mlir.codegen.gpu.contraction import memory
from mgx_mlir.codegen.gpu.contraction.constraints import vector_width
from mgx_mlir.codegen.gpu.contraction.specs import ROW_CHUNKS, SWIZZLE, Unit, swizzle


@dataclass(frozen=True)
class Source:
    """An operand as rows along k: `rows` of A, or columns of B."""

    matrix: Matrix
    row: Axis
    k: Axis
    depth: int

    @staticmethod
    def left(matrix: Matrix, depth: int) -> Source:
        return Source(matrix, matrix.row, matrix.column, depth)

    @staticmethod
    def right(matrix: Matrix, depth: int) -> Source:
        return Source(matrix, matrix.column, matrix.row, depth)

    @property
    def along_k(self) -> bool:
        """Whether neighbours in memory lie along k."""
        return not _contiguous(self.row) or _contiguous(self.k)

    def width(self, limit: int) -> int:
        """Elements that one read may take."""
        offset, batch = self.matrix.offset, self.matrix.batch
        if not self.along_k:
            return vector_width(self.row, self.k, batch, offset=offset, limit=limit)
        width = vector_width(self.k, self.row, batch, offset=offset, limit=limit)
        # A vector lies inside of a row or outside of it.
        return math.gcd(width, self.depth)


def _contiguous(axis: Axis) -> bool:
    return bool(axis.factors) and axis.factors[-1][1] == 1


def swizzled(row: Index) -> Index:
    """`specs.swizzle` of a row that is known at run time."""
    if isinstance(row, int):
        return swizzle(row)
    result: Index = emit.value(0)
    for bit, value in enumerate(SWIZZLE):
        flag = emit.rem(emit.div(row, 1 << bit), 2)
        result = arith.xori(result, emit.value(emit.mul(flag, value)))
    return result


def exclusive_or(a: Index, b: Index) -> Index:
    """a ^ b."""
    if isinstance(a, int) and isinstance(b, int):
        return a ^ b
    if isinstance(b, int) and b == 0:
        return a
    if isinstance(a, int) and a == 0:
        return b
    return arith.xori(emit.value(a), emit.value(b))


class Tile:
    """Moves tiles of `rows` rows of an operand; all of a block's threads take part."""

    def __init__(
        self,
        source: Source,
        unit: Unit,
        rows: int,
        threads: int,
        buffer: ir.Value,
        lds: ir.Value,
    ) -> None:
        self.source, self.unit, self.rows, self.threads = source, unit, rows, threads
        self.buffer, self.lds = buffer, lds
        self.chunk = unit.chunk
        self.bytes = emit.element_bytes(source.matrix.element)
        each = rows * unit.tile_depth // threads
        self.width = source.width(16 // self.bytes)
        if source.along_k:
            self.width = min(self.width, self.chunk)
            self.run = self.chunk
        else:
            self.run, self.width = _turned(self.chunk, self.width, each, self.bytes)
        self.moves = each // (self.run if source.along_k else self.run * self.width)

    def begin(self, thread: ir.Value, batch: Index, first: Index) -> None:
        """Builds what no step changes: the thread's places in memory and in LDS."""
        self.start = self.source.matrix.start(batch)
        self.places: list[tuple[Index, Index]] = []  # row's offset in memory, first k
        self.targets: list[tuple[Index, Index, Index]] = []  # row of LDS, chunk's place, rest
        for move in range(self.moves):
            number = emit.add(thread, move * self.threads)
            if self.source.along_k:
                row, chunk = emit.div(number, ROW_CHUNKS), emit.rem(thread, ROW_CHUNKS)
                k, rest = emit.mul(chunk, self.chunk), 0
            else:
                across = self.rows // self.width
                row = emit.mul(emit.rem(number, across), self.width)
                k = emit.mul(emit.div(number, across), self.run)
                chunk, rest = emit.div(k, self.chunk), emit.rem(k, self.chunk)
            offset = emit.add(self.start, self.source.row.offset(emit.add(first, row)))
            self.places.append((offset, k))
            self.targets.append((row, exclusive_or(chunk, swizzled(row)), rest))

    def load(self, k0: Index) -> list[ir.Value]:
        """The vectors of the thread's part of the tile from k0 on; zeros beyond the depth."""
        result = []
        step = self.width if self.source.along_k else 1
        for offset, first in self.places:
            for part in range(0, self.run, step):
                k = emit.add(emit.add(first, part), k0)
                place = emit.add(offset, self.source.k.offset(k))
                inside: list[ir.Value] = []
                if self.source.depth % self.unit.tile_depth:
                    inside = [emit.compare("slt", k, self.source.depth)]
                place = memory.guarded(place, inside, self.bytes)
                result.append(memory.load(self.buffer, place, self.width))
        return result

    def store(self, values: Sequence[ir.Value]) -> None:
        """Writes what `load` gave to LDS."""
        each = len(values) // self.moves
        for move, (row, place, rest) in enumerate(self.targets):
            mine = [self._converted(v) for v in values[move * each :][:each]]
            if self.source.along_k:
                self._write(mine, row, place, 0)
                continue
            for i in range(self.width):
                column = memory.joined([memory.element(v, i) for v in mine])
                turned = exclusive_or(place, swizzle(i))
                self._write([column], emit.add(row, i), turned, rest)

    def _write(self, parts: Sequence[ir.Value], row: Index, place: Index, rest: Index) -> None:
        x = parts[0]
        if len(parts) > 1:
            lanes = ir.VectorType(x.type).shape[0]
            x = memory.joined([memory.element(p, i) for p in parts for i in range(lanes)])
        at = emit.add(emit.mul(row, self.unit.tile_depth), emit.mul(place, self.chunk))
        memory.store(x, self.lds, emit.add(at, rest))

    def _converted(self, x: ir.Value) -> ir.Value:
        return emit.convert(x, self.source.matrix.element, self.unit.element)


def _turned(chunk: int, width: int, each: int, size: int) -> tuple[int, int]:
    """How many k's and rows a thread turns at a time, of `each` elements that it moves.

    The longest run along k, for wide writes to LDS, that leaves reads of 8 bytes.
    """
    run = chunk
    while run > 1:
        across = min(width, each // run)
        if across * size >= 8:
            return run, across
        run //= 2
    run = min(chunk, each)
    return run, max(1, min(width, each // run))
