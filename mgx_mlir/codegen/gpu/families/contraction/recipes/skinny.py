"""Products with few rows: B is read once, at the speed of memory, and does not go through LDS.

    C[m, n] = sum over k of A[m, k] * B[k, n], few m, and neighbours of B in memory along k

A wave computes some columns. Each lane reads 16 bytes of a column at a time and the elements of
A's rows that meet them, and prefetches the next ones while it multiplies. Then the lanes add up
their sums. Where there are few columns, several waves of a work-group share a column's k.

Where B's elements are smaller than A's, 16 bytes of B meet more of A, which the work-group brings
to LDS once (see `SharedRows`). Numbers of few bits are multiplied as they are (see `blocks`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

from mlir import ir
from mlir.dialects import arith, gpu

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES, FEW_ROWS
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import lanes as across
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import block_number, thread_number
from mgx_mlir.codegen.gpu.builders.multiply import dot_products
from mgx_mlir.codegen.gpu.families.contraction.blocks import Blocks, blocks_of
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.cost import DECODING, Stream, operations
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.expanding import expanded
from mgx_mlir.codegen.gpu.families.contraction.few_rows import (
    SharedRows,
    lanes_of,
    taken,
    vectors,
)
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors, WorkGroups
from mgx_mlir.codegen.gpu.families.contraction.plan import OneFunction, Recipe, Request
from mgx_mlir.codegen.problem.computed import readable, repeats
from mgx_mlir.codegen.problem.problem import (
    Computed,
    Contraction,
    Image,
    Matrix,
    Read,
    Windows,
    in_memory,
    vector_width,
)
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.elements import ELEMENTS
from mgx_mlir.rewriting.prologues import is_risky
from mgx_mlir.sizes.arithmetic import ceil_div

# Bytes of A that a lane holds of a step.
_MOST_BYTES = 192
# Waves that keep a compute unit's memory busy.
_WAVES_A_UNIT = 4
_BLOCK_WAVES = 4
_ELEMENTS = frozenset(("bf16", "f16", "f32"))
_SUMS = ("f32", "i32")
# Instructions that make an f16 of a number of 4 or 8 bits, and those of a block for each row.
_OF_NUMBER, _OF_BLOCK = 1.125, 6
# Factors of sums: a column, and its scale.
Column: TypeAlias = "tuple[ir.Value, ir.Value | None]"
# Floats of 8 bits of which chips without instructions for them make f16.
_HALVES = frozenset(("f8E4M3FN", "f8E5M2"))


@dataclass(frozen=True)
class Skinny(OneFunction):
    """A work-group has `waves`, of which `shared` compute the same `columns`.

    A lane takes `lanes` elements along k in a step.
    """

    product: Product
    target: Target
    lanes: int
    columns: int
    shared: int
    waves: int = _BLOCK_WAVES

    @property
    def problem(self) -> Contraction:
        return self.product.match.problem

    @property
    def groups(self) -> WorkGroups:
        problem = self.problem
        grid = ceil_div(problem.N, self.waves // self.shared * self.columns), 1, problem.batch
        sums = self.waves * problem.M * self.columns, problem.accumulator
        lds = sums if self.shared > 1 else None
        rows = self.rows
        arrays = ((rows.elements, emit.element_type(problem.a.element)),) if rows else ()
        return WorkGroups(self.waves * self.target.wave_size, grid, lds, arrays=arrays)

    @property
    def blocks(self) -> Blocks | None:
        """B as numbers that share scales, where an instruction multiplies two of them by f16."""
        b, whole = self.problem.b, self.pairs and self.lanes % 8 == 0
        return blocks_of(b, self.lanes) if whole and isinstance(b, Computed) else None

    @property
    def rows(self) -> SharedRows | None:
        """A's rows in LDS; None where a lane reads its part at once, or LDS has too little room."""
        a, wave_size = self.problem.a, self.target.wave_size
        lanes = self.lanes, self.shared * wave_size, self.waves * wave_size
        found = SharedRows(a, self.problem.M, *lanes, self.problem.K)
        size = emit.element_bytes(a.element)
        fits = found.chunks > 1 and 2 * found.elements * size <= self.target.lds_bytes
        return found if fits else None

    @property
    def pairs(self) -> bool:
        """Whether an instruction multiplies two neighbours of f16 and adds both to a sum in f32."""
        elements = {self.problem.a.element, self.problem.b.element}
        halves = elements == {"f16"} or (self._converting > 1 and elements <= _HALVES)
        return self.target.gpu.dots_halves and halves and self.lanes % 2 == 0

    @property
    def joined(self) -> int:
        """Neighbours along k that one instruction multiplies and adds: four of i8, two of f16."""
        return 4 if self.problem.accumulator == "i32" else 1 + self.pairs

    @property
    def clocks(self) -> float:
        problem, target, lanes = self.problem, self.target, self.lanes
        a, b = problem.a, problem.b
        own = float(emit.element_bytes(b.element))
        if isinstance(b, Computed):
            each = ((read, lanes_of(read, lanes) / lanes) for read in b.tensors)
            own = sum(emit.element_bytes(x.element) / x.per_byte * part for x, part in each)
        # For each of a lane's places along k, products and conversions.
        work: float = problem.M * self.columns / self.joined
        if self.blocks is not None:
            work += self.columns * (_OF_NUMBER + problem.M * _OF_BLOCK / lanes)
        elif b.element != "f32" and (self.joined == 1 or b.element in _HALVES):
            work += (problem.M + self.columns) * self._converting
        if self.blocks is None:
            work += self.columns * operations(b)
        shared: float = problem.M * emit.element_bytes(a.element)
        if self.rows is not None:
            shared *= self.shared / self.waves
        steps = ceil_div(problem.K, self.shared * target.wave_size * lanes)
        found = Stream(steps, lanes * self.columns * own, lanes * shared, lanes * work)
        return found.clocks(self.groups, target)

    @property
    def _converting(self) -> int:
        """Instructions that make an f32 of an element."""
        features = {row.feature for row in ELEMENTS if row.name == self.problem.b.element}
        return 1 if features <= {"", *self.target.features} else DECODING

    def describe(self) -> str:
        parts = f", k in {self.shared} parts" if self.shared > 1 else ""
        return f"{self.columns} columns a wave, {self.lanes} elements a lane{parts}"

    def emit(self, tensors: Tensors) -> None:
        _Wave(self, tensors).emit(self.epilogue(tensors))


def as_skinny(request: Request) -> Skinny | Refusal:
    """The plan for a product with few rows, or its transpose."""
    found = few_rows(request, _SUMS, _ELEMENTS | emit.BYTE_FLOATS)
    if isinstance(found, Refusal):
        return found
    if isinstance(found.match.problem.a, Computed):
        return Refusal("computed rows")
    return _cut(found, request.target)


def few_rows(
    request: Request, sums: Collection[str] = ("f32",), elements: Collection[str] = _ELEMENTS
) -> Product | Refusal:
    """The product, or its transpose, where that has few rows of elements that vectors hold."""
    found = request.product
    problem = found.match.problem
    if found.packings or found.match.added or problem.accumulator not in sums:
        return Refusal(f"packed operands, added products, or sums in {problem.accumulator}")
    operands = [x for operand in (problem.a, problem.b) for x in in_memory(operand)]
    if any(isinstance(x, Windows | Image) for x in operands):
        return Refusal("windows")
    if problem.accumulator == "i32":
        kinds = {problem.a.element, problem.b.element}
        if kinds != {"i8"} or isinstance(problem.a, Computed) or isinstance(problem.b, Computed):
            return Refusal(f"integers {', '.join(sorted(kinds))}, or computed ones")
    elif problem.a.element not in elements:
        return Refusal(f"elements of type {problem.a.element}")
    if problem.N < problem.M and found.match.causal is None:
        result = replace(found.result, row=found.result.column, column=found.result.row)
        found = replace(found, match=found.match.transposed(), result=result)
    rows = found.match.problem.M
    return Refusal(f"{rows} rows") if rows > FEW_ROWS else found


def _cut(found: Product, target: Target) -> Skinny | Refusal:
    problem, b = found.match.problem, found.match.problem.b
    assert isinstance(b, Matrix)
    lanes = _lanes(problem, b)
    least = max((x.per_byte for x in b.tensors), default=1) if isinstance(b, Computed) else 1
    least = max(least, 4 // emit.element_bytes(problem.a.element))
    # Along a short k, narrower reads keep more lanes busy.
    while lanes > least and lanes * target.wave_size > 2 * problem.K:
        lanes //= 2
    step = lanes * target.wave_size
    if lanes < least or step > 2 * problem.K:
        return Refusal(f"{lanes} neighbours along K = {problem.K} a lane")
    if isinstance(b, Computed) and problem.K % step and is_risky(b.op):
        return Refusal(f"elements beyond K = {problem.K} may not be finite")
    wanted = _WAVES_A_UNIT * target.compute_units
    results = problem.batch * problem.N
    fewest = 2 if found.match.pairs else 1
    wide = (n for n in (4, 2) if problem.N % n == 0 and results // n >= wanted)
    columns = max(next(wide, 1), fewest)
    shared = 1
    while shared < _BLOCK_WAVES and results // columns * shared <= wanted // 2:
        if 2 * shared * step > problem.K:
            break
        shared *= 2
    return Skinny(found, target, lanes, columns, shared)


def _lanes(problem: Contraction, b: Matrix) -> int:
    """Neighbours along k that a lane takes: 16 bytes of B, where all of B can be read so."""
    if isinstance(b, Computed):
        moving = [x for x in b.tensors if not repeats(x.matrix.row, 2)]
        sizes = (emit.element_bytes(x.matrix.element) / x.per_byte for x in moving)
        lanes = int(CHUNK_BYTES / min(sizes, default=CHUNK_BYTES))
    else:
        limit = CHUNK_BYTES // emit.element_bytes(b.element)
        lanes = vector_width(b.row, b.column, b.batch, offset=b.offset, limit=limit)
    rows = problem.M * emit.element_bytes(problem.a.element)
    most = 1 << (min(lanes, _MOST_BYTES // rows).bit_length() - 1)
    lanes = math.gcd(most, problem.K)
    while isinstance(b, Computed) and lanes > 1 and not readable(b, True, lanes):
        lanes //= 2
    return lanes


class _Wave:
    def __init__(self, cut: Skinny, tensors: Tensors) -> None:
        self.cut, self.problem, self.target = cut, cut.problem, cut.target
        self.pointers, self.inputs = tensors.pointers, tensors.inputs
        self.lds, self.arrays = tensors.lds, tensors.arrays
        self.shared, self.blocks = cut.rows, cut.blocks
        self.arranged = self.blocks.arranged if self.blocks else lambda x: x
        self.add = arith.addi if self.problem.accumulator == "i32" else arith.addf
        self.step = cut.shared * self.target.wave_size * cut.lanes
        self.element = "f32"
        if cut.joined > 1:
            self.element = "f16" if cut.pairs else self.problem.a.element

    def emit(self, epilogue: Epilogue) -> None:
        problem, cut, groups = self.problem, self.cut, self.cut.groups
        wave_size = self.target.wave_size
        thread = thread_number(groups.threads)
        block, batch = block_number("x", groups.grid[0]), block_number("z", groups.grid[2])
        wave = across.uniform(emit.div(thread, wave_size))
        lane = emit.rem(thread, wave_size)
        part, group = emit.rem(wave, cut.shared), emit.div(wave, cut.shared)
        first = emit.linear(group, (block, cut.waves // cut.shared))
        n = emit.mul(first, cut.columns)
        columns = [emit.minimum(emit.add(n, j), problem.N - 1) for j in range(cut.columns)]
        own = emit.linear(lane, (part, wave_size))
        start = emit.mul(own, cut.lanes)

        def read(k0: Index) -> list[ir.Value]:
            k, rows = emit.add(start, k0), self.shared
            read = rows.read(self.inputs, thread, batch, k0) if rows else self._rows(batch, k)
            return [*read, *self._columns(batch, k, columns)]

        cells = list(product(range(problem.M), range(cut.columns)))
        width = 1 if self.blocks else math.gcd(cut.lanes // cut.joined, 4)

        def body(k0: Index, *carried: ir.Value) -> list[ir.Value]:
            sums, values = list(carried[: len(cells)]), list(carried[len(cells) :])
            following = read(emit.add(k0, self.step))
            if self.shared is None:
                rows = [self.arranged(taken(values, cut.lanes)) for _ in range(problem.M)]
            else:
                turn = emit.div(k0, self.step)
                self.shared.write(values, self.arrays[0], thread, turn, self.arranged)
                rows = self.shared.rows(self.arrays[0], own, turn)
            left = [emit.convert(x, problem.a.element, self.element) for x in rows]
            right = [self._column(values) for _ in range(cut.columns)]
            added = [self._added(left[m], right[j], sums[at]) for at, (m, j) in enumerate(cells)]
            return [*added, *following]

        zero = emit.constant(0, problem.accumulator, width)
        carried = emit.loop(0, problem.K, self.step, body, [*[zero] * len(cells), *read(0)])
        sums = [emit.reduce_add(x, problem.accumulator) for x in carried[: len(cells)]]
        sums = across.reduce(
            sums, wave_size, lane, lambda a, b: list(map(self.add, a, b)), self.target
        )
        mine = [emit.compare("eq", lane, 0)]
        if self.lds is not None:
            sums = self._shared(sums, wave, lane)
            mine.append(emit.compare("eq", part, 0))
        if problem.N % (cut.columns * cut.waves // cut.shared):
            mine.append(emit.compare("slt", n, problem.N))
        for m in range(problem.M):
            row = memory.joined(sums[m * cut.columns :][: cut.columns])
            epilogue(row, batch, m, n, mine, False)

    def _added(self, left: ir.Value, column: Column, sums: ir.Value) -> ir.Value:
        """The sums, and the products of a lane's elements of a row and of a column."""
        (right, scale), width = column, ir.VectorType(sums.type).shape[0]
        total, step = emit.constant(0, "f32", 1) if scale else sums, width * self.cut.joined
        for i in range(0, self.cut.lanes, step):
            total = self._multiply(memory.part(left, i, step), memory.part(right, i, step), total)
        if scale is None:
            return total
        return emit.multiply_add(emit.splat(scale, 1), total, sums, "f32")

    def _multiply(self, a: ir.Value, b: ir.Value, sums: ir.Value) -> ir.Value:
        """Adds the products of elements to sums, of as many at once as an instruction takes."""
        if self.cut.joined > 1:
            return dot_products(a, b, sums, self.element, signs=self.target.gpu.matrix == "wmma")
        return emit.multiply_add(a, b, sums, "f32")

    def _shared(self, sums: list[ir.Value], wave: Index, lane: Index) -> list[ir.Value]:
        """The sums of all waves that share columns, in order."""
        assert self.lds is not None
        lds, count, shared = self.lds, len(sums), self.cut.shared

        def put() -> None:
            for i, x in enumerate(sums):
                emit.store(x, lds, emit.linear(i, (wave, count)))

        emit.when(emit.compare("eq", lane, 0), put)
        gpu.barrier()
        first = emit.sub(wave, emit.rem(wave, shared))
        totals = []
        for i in range(count):
            total = emit.load(lds, emit.linear(i, (first, count)))
            for other in range(1, shared):
                place = emit.linear(i + other * count, (first, count))
                total = self.add(total, emit.load(lds, place))
            totals.append(total)
        return totals

    def _rows(self, batch: Index, k: Index) -> list[ir.Value]:
        """Vectors along A's rows from k on, as memory holds them; 0 past the end."""
        a, inside = self.problem.a.transposed(), emit.compare("slt", k, self.problem.K)
        found: list[ir.Value] = []
        for m in range(self.problem.M):
            found += vectors(self.inputs, a, (batch, k, m), inside, self.cut.lanes)
        return found

    def _columns(self, batch: Index, k: Index, columns: Sequence[Index]) -> list[ir.Value]:
        """The same along B's columns."""
        b = self.problem.b
        assert isinstance(b, Matrix)
        reads = b.tensors if isinstance(b, Computed) else [Read(b, b.element)]
        uniform = all(s >= 0 for read in reads for _, s in read.matrix.row.factors)
        inputs = self.pointers if uniform else self.inputs
        inside = emit.compare("slt", k, self.problem.K)
        found: list[ir.Value] = []
        for n, read in product(columns, reads):
            place = inputs, read.matrix, (batch, k, n), inside
            found += vectors(*place, lanes_of(read, self.cut.lanes), read.per_byte, uniform)
        return found

    def _column(self, values: list[ir.Value]) -> Column:
        """The first column of `values`: its elements as factors, and a scale."""
        b, lanes = self.problem.b, self.cut.lanes
        assert isinstance(b, Matrix)
        if not isinstance(b, Computed):
            return emit.convert(taken(values, lanes), b.element, self.element), None
        parts = [taken(values, lanes_of(read, lanes), read.per_byte) for read in b.tensors]
        if self.blocks is not None:
            return self.blocks.factors(dict(zip(b.tensors, parts, strict=True)))
        return emit.convert(expanded(b, parts, lanes), b.element, self.element), None


RECIPE = Recipe("skinny", as_skinny)
