"""Blocks of keys and values: copied from memory through registers to LDS, and read from LDS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.layouts import LdsReader, LdsTile
from mgx_mlir.codegen.gpu.builders.ordering import fence
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.attention import streams
from mgx_mlir.codegen.gpu.families.attention.layout import (
    ROW_CHUNKS,
    SWIZZLE,
    row_elements,
    step_depth,
)
from mgx_mlir.codegen.gpu.families.attention.streams import Stream
from mgx_mlir.codegen.gpu.families.contraction.tile import columns
from mgx_mlir.codegen.problem.problem import Axis, Matrix, vector_width
from mgx_mlir.sizes.arithmetic import ceil_div, common_factor

# Moves in flight together where registers are few.
MOVES_TOGETHER = 8


@dataclass(frozen=True)
class TileShape:
    """A tile in LDS: `rows` rows, of which `threads` threads fill `length` elements, along k."""

    matrix: Matrix
    row: Axis
    k: Axis
    rows: int
    length: int
    unit: Unit
    threads: int

    @staticmethod
    def keys(k: Matrix, keys: int, depth: int, unit: Unit, threads: int) -> TileShape:
        """Keys, or queries, as rows along d: zeros pad them to whole steps of the product, which
        reads all of its last step, and until all threads have equal work."""
        length = ceil_div(depth, step_depth(unit)) * step_depth(unit)
        while keys * length // unit.chunk % threads:
            length += unit.chunk
        return TileShape(k, k.row, k.column, keys, length, unit, threads)

    @staticmethod
    def values(v: Matrix, keys: int, columns: int, unit: Unit, threads: int) -> TileShape:
        """Columns of v as rows along the keys, padded until all threads have equal work."""
        rows = ceil_div(columns, unit.columns) * unit.columns
        while rows * keys % (threads * unit.chunk):
            rows += unit.columns
        return TileShape(v, v.column, v.row, rows, keys, unit, threads)

    @property
    def along_k(self) -> bool:
        """Whether neighbours in memory lie along the rows of LDS; otherwise a move transposes."""
        return not self.row.contiguous(1) or self.k.contiguous(1)

    def width(self, element_bytes: int) -> int:
        """The most elements that one read of memory may take."""
        limit, matrix = CHUNK_BYTES // element_bytes, self.matrix
        axes = (self.k, self.row) if self.along_k else (self.row, self.k)
        return vector_width(*axes, matrix.batch, offset=matrix.offset, limit=limit)

    def block(self) -> tuple[int, int]:
        """Elements along k, and rows, of one move of a thread: each row is one write to LDS."""
        size = emit.element_bytes(self.matrix.element)
        if self.along_k:
            return self.unit.chunk, 1
        each = self.rows * self.length // self.threads
        return transposed_block(self.unit.chunk, self.width(size), each, self.rows, size)

    def elements(self) -> int:
        """Elements of LDS that the tile takes."""
        length = row_elements(self.unit)
        return self.rows * ceil_div(self.length, length) * length


class AttentionTile:
    """Moves tiles of one shape, one after another along the keys; all threads take part.

    `extent` bounds the elements along k that are read: others are zero in LDS. `keys`: the
    number of keys of the attention. `source`: the input, as a raw buffer and as a pointer.
    `start`: the tile's first element of `lds`.
    """

    def __init__(
        self,
        shape: TileShape,
        extent: int,
        keys: int,
        source: tuple[ir.Value, ir.Value],
        lds: ir.Value,
        start: int,
    ) -> None:
        self.shape, self.extent, self.keys, self.unit = shape, extent, keys, shape.unit
        self.buffer, self.pointer = source
        self.held = LdsTile(lds, start, shape.rows, ROW_CHUNKS, self.unit.chunk, SWIZZLE)
        self.bytes = emit.element_bytes(shape.matrix.element)
        self.keys_are_rows = shape.row == shape.matrix.row
        each = shape.rows * shape.length // shape.threads
        self.run, self.across = shape.block()
        self.width = self.across
        if shape.along_k:
            self.width = math.gcd(shape.width(self.bytes), self.unit.chunk, common_factor(extent))
        self.moves = each // (self.run * self.across)

    def begin(self, thread: Index, batch: Index) -> None:
        """Builds what is the same for all blocks: the thread's offsets in memory and in LDS."""
        shape, self.thread, self.batch = self.shape, thread, batch
        self.batch_start = shape.matrix.start(batch)
        runs, strips = shape.length // self.run, shape.rows // self.across
        self.advanced = shape.row if self.keys_are_rows else shape.k
        self.offsets: list[Index] = []
        self.firsts: list[tuple[Index, Index]] = []  # row, first k
        self.targets: list[Index] = []
        for move in range(self.moves):
            number = emit.add(thread, move * shape.threads)
            if shape.along_k:
                row, k = emit.div(number, runs), emit.mul(emit.rem(number, runs), self.run)
            else:
                row = emit.mul(emit.rem(number, strips), self.across)
                k = emit.mul(emit.div(number, strips), self.run)
            offset = self._offset(row, k, 0)
            self.offsets.append(offset)
            self.firsts.append((row, k))
            self.targets.append(self._target(row, k))

    def move(self, key: Index) -> None:
        """Copies a tile, `MOVES_TOGETHER` moves at a time. Computes the addresses anew, so that
        they hold no registers between two tiles."""
        source = (self.buffer, self.pointer)
        here = AttentionTile(
            self.shape, self.extent, self.keys, source, self.held.lds, self.held.start
        )
        here.begin(_not_hoisted(self.thread), self.batch)
        all_ = list(zip(here.offsets, here.firsts, here.targets, strict=True))
        for first in range(0, len(all_), MOVES_TOGETHER):
            some = all_[first:][:MOVES_TOGETHER]
            here.moves = len(some)
            here.offsets, here.firsts, here.targets = (list(x) for x in zip(*some, strict=True))
            here.store(here.load(key))
            fence()

    @property
    def reads(self) -> int:
        """Vectors that `load` gives."""
        return self.moves * (self.run // (self.width if self.shape.along_k else 1))

    def _target(self, row: Index, k: Index) -> Index:
        """The offset in LDS of element k of a row."""
        held = self.held
        panel = emit.mul(emit.div(k, held.length), held.panel)
        at = emit.add(panel, held.at(row, emit.rem(k, held.length)))
        return emit.add(at, held.start)

    @property
    def _even(self) -> bool:
        """Whether the next tile's address is this one's plus an offset uniform over threads."""
        whole = self.keys % (self.shape.rows if self.keys_are_rows else self.shape.length) == 0
        stride = self.advanced.stride
        return whole and stride is not None and stride >= 0 and self.shape.k.stride is not None

    def load(self, key: Index) -> list[ir.Value]:
        """The vectors of the thread's part of the tile whose first key is `key`."""
        result: list[ir.Value] = []
        streams.run(self.loading(key, result))
        return result

    def loading(self, key: Index, result: list[ir.Value]) -> Stream:
        """The stream of `load`, which appends to `result`."""
        shape, advanced = self.shape, self.advanced
        step = self.width if shape.along_k else 1
        if self._even:
            # Beyond the last tile, the last one is read again: its bounds are known to hold.
            last = self.keys - (shape.rows if self.keys_are_rows else shape.length)
            far = emit.mul(emit.minimum(key, last), advanced.stride or 0)
            key = 0
        for (row, k), base in zip(self.firsts, self.offsets, strict=True):
            for part in range(0, self.run, step):
                if advanced.stride is not None and shape.k.stride is not None:
                    offset = emit.add(base, emit.mul(key, advanced.stride))
                    offset = emit.add(offset, part * shape.k.stride)
                else:
                    offset = self._offset(row, emit.add(k, part), key)
                at = emit.add(k, part) if self.keys_are_rows else emit.add(emit.add(k, part), key)
                inside = self._inside(at)
                if self._even and not self.keys_are_rows and shape.rows > shape.row.size:
                    # Rows beyond the end lie beyond the tensor for the last keys.
                    inside.append(emit.compare("slt", row, shape.row.size))
                offset = memory.guarded(offset, inside, self.bytes)
                if self._even:
                    result.append(memory.load_far(self.pointer, offset, far, self.width))
                else:
                    result.append(memory.load(self.buffer, offset, self.width))
                yield streams.SLOT_CLOCKS

    def _offset(self, row: Index, k: Index, key: Index) -> Index:
        if self.keys_are_rows:
            row = emit.add(row, key)
        else:
            k = emit.add(k, key)
        offset = emit.add(self.shape.row.offset(row), self.shape.k.offset(k))
        return memory.unsplit(emit.add(self.batch_start, offset), self.shape.matrix)

    def _inside(self, k: Index) -> list[ir.Value]:
        if self.extent % self.shape.length == 0:
            return []
        return [emit.compare("slt", k, self.extent)]

    def store(self, values: Sequence[ir.Value]) -> None:
        """Writes the vectors of `load` to LDS."""
        streams.run(self.storing(values))

    def zeros(self) -> list[ir.Value]:
        """Zero vectors in the form of `load`'s."""
        return [emit.constant(0, self.shape.matrix.element, self.width)] * self.reads

    def storing(self, values: Sequence[ir.Value]) -> Stream:
        each = len(values) // self.moves
        for move, target in enumerate(self.targets):
            mine = [self._converted(x) for x in values[move * each :][:each]]
            if self.shape.along_k:
                memory.store(memory.concatenated(mine), self.held.lds, target)
                yield streams.SLOT_CLOCKS
                continue
            column = columns(mine)
            for i in range(self.across):
                memory.store(column(i), self.held.lds, self.held.below(target, i))
                yield streams.SLOT_CLOCKS * (1 + self.run // 2)

    def _converted(self, x: ir.Value) -> ir.Value:
        return emit.convert(x, self.shape.matrix.element, self.unit.element)


def _not_hoisted(index: Index) -> Index:
    """The same number. LLVM cannot hoist computations with it out of a loop."""
    if isinstance(index, int):
        return index
    i32 = ir.IntegerType.get_signless(32)
    number = arith.index_cast(i32, index)
    return arith.index_cast(ir.IndexType.get(), memory.opaque_word(number, stays=True))


def transposed_block(chunk: int, width: int, each: int, rows: int, size: int) -> tuple[int, int]:
    """How many elements along k, and rows, a thread transposes at a time; it moves `each`.

    First, writes to LDS take 8 bytes at least, where that is possible. Second, reads of memory
    do. Third, the run along k is the longest. The product divides `each`; the second number
    divides `width` and `rows`.
    """
    runs = [chunk >> i for i in range(chunk.bit_length()) if each % (chunk >> i) == 0]
    pairs = [(run, math.gcd(width, each // run, rows)) for run in runs]
    wide = [pair for pair in pairs if pair[0] * size >= 8] or pairs
    return max(wide, key=lambda pair: (min(pair[1] * size, 8), pair[0]))


class Reader:
    """The rows of a tile in LDS that a lane reads: `lane_row` and those at a distance.

    `group`: the lane's group along k, whose chunks of a step are neighbours. `first`: the element
    along k where its wave begins. A step takes `step_chunks` chunks, by default the unit's.
    """

    def __init__(
        self,
        tile: AttentionTile,
        lane_row: Index,
        group: Index,
        first: Index = 0,
        step_chunks: int | None = None,
    ) -> None:
        self.tile, unit, held = tile, tile.unit, tile.held
        self.step_chunks = step_chunks or unit.step_chunks
        chunk = emit.mul(group, unit.lane_chunks)
        chunk = emit.add(chunk, emit.div(emit.rem(first, held.length), unit.chunk))
        self.chunks = LdsReader(held, lane_row, chunk, emit.div(first, held.length))
        self.chunks.prepare()

    def read(self, row: int, step: int) -> list[ir.Value]:
        """The lane's chunks of step `step` along k, of the row at distance `row`."""
        first = step * self.step_chunks
        return [self.chunks.read(row, first + i) for i in range(self.tile.unit.lane_chunks)]
