"""Products with few rows: B is read once, at the speed of memory, and nothing goes through LDS.

    C[m, n] = sum over k of A[m, k] * B[k, n], few m, and neighbours of B in memory along k

A wave computes some columns. Each lane reads 16 bytes of a column at a time and the elements of
A's rows that meet them, and prefetches the next ones while it multiplies. Then the lanes add up
their sums. Where there are few columns, several waves of a work-group share a column's k.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from mlir import ir
from mlir.dialects import arith, gpu, vector

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES, FEW_ROWS
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import lanes as across
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import block_number, thread_number
from mgx_mlir.codegen.gpu.builders.multiply import dot_product
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.cost import DECODING, Stream, operations
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.expanding import expanded
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

# Elements of A that a lane holds of a step.
_MOST_ELEMENTS = 64
# Waves that keep a compute unit's memory busy.
_WAVES_A_UNIT = 4
_BLOCK_WAVES = 4
_ELEMENTS = frozenset(("bf16", "f16", "f32"))
_SUMS = ("f32", "i32")
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
        return WorkGroups(self.waves * self.target.wave_size, grid, lds)

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
        problem, target = self.problem, self.target
        a, b = (emit.element_bytes(x.element) for x in (problem.a, problem.b))
        wide = float(b)
        if isinstance(problem.b, Computed):
            wide = sum(emit.element_bytes(x.element) / x.per_byte for x in problem.b.tensors)
        # For each of a lane's places along k, products and conversions.
        work = self.columns * operations(problem.b)
        work += problem.M * self.columns / self.joined
        if b < 4 and (self.joined == 1 or problem.b.element in _HALVES):
            work += (problem.M + self.columns) * self._converting
        steps = ceil_div(problem.K, self.shared * target.wave_size * self.lanes)
        own, shared = self.columns * wide, problem.M * a
        found = Stream(steps, self.lanes * own, self.lanes * shared, self.lanes * work)
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
    most = 1 << (min(lanes, _MOST_ELEMENTS // problem.M).bit_length() - 1)
    lanes = math.gcd(most, problem.K)
    while isinstance(b, Computed) and lanes > 1 and not readable(b, True, lanes):
        lanes //= 2
    return lanes


def dot_products(a: ir.Value, b: ir.Value, sums: ir.Value) -> ir.Value:
    """Adds to each sum, in f32, the products of two neighbours of f16."""
    totals = []
    for i in range(ir.VectorType(sums.type).shape[0]):
        factors = memory.part(a, 2 * i, 2), memory.part(b, 2 * i, 2)
        totals.append(dot_product("f16", *factors, memory.element(sums, i)))
    return memory.joined(totals)


def byte_products(a: ir.Value, b: ir.Value, sums: ir.Value, *, signs: bool) -> ir.Value:
    """Adds to each sum, in i32, the products of four neighbours of i8."""
    words = ir.VectorType.get(ir.VectorType(sums.type).shape, emit.element_type("i32"))
    left, right = (vector.BitCastOp(words, x).result for x in (a, b))
    totals = [
        dot_product("i8", *(memory.element(x, i) for x in (left, right, sums)), signs=signs)
        for i in range(words.shape[0])
    ]
    return memory.joined(totals)


def vectors(
    inputs: Mapping[int, ir.Value],
    matrix: Matrix,
    start: tuple[Index, Index, Index],
    inside: ir.Value,
    lanes: int,
    per_byte: int = 1,
) -> list[ir.Value]:
    """`lanes` neighbours along the matrix' rows from `start` on, in reads of up to 16 bytes.

    start: (batch, row, column), of a row that lanes divide.
    """
    size, width = emit.element_bytes(matrix.element), lanes
    if per_byte == 1:
        others = matrix.column, matrix.batch
        width = vector_width(matrix.row, *others, offset=matrix.offset, limit=lanes)
    width = min(width, CHUNK_BYTES // size * per_byte)
    batch, row, column = start
    place, factors = matrix.at(*start), matrix.row.factors
    found = []
    for first in range(0, lanes, width):
        if len(factors) < 2 or factors[-1][0] % lanes == 0:
            at = emit.add(place, first * (factors[-1][1] if factors else 0))
        else:
            at = matrix.at(batch, emit.add(row, first), column)
        at = memory.guarded(emit.div(at, per_byte), [inside], size)
        found.append(memory.load(inputs[matrix.argument], at, width // per_byte))
    return found


class _Wave:
    def __init__(self, cut: Skinny, tensors: Tensors) -> None:
        self.cut, self.problem, self.target = cut, cut.problem, cut.target
        self.inputs, self.lds = tensors.inputs, tensors.lds
        self.add = arith.addi if self.problem.accumulator == "i32" else arith.addf
        self.step = cut.shared * self.target.wave_size * cut.lanes

    def emit(self, epilogue: Epilogue) -> None:
        problem, cut, wave_size = self.problem, self.cut, self.target.wave_size
        groups = cut.groups
        thread = thread_number(groups.threads)
        block = block_number("x", groups.grid[0])
        batch = block_number("z", groups.grid[2])
        wave = across.uniform(emit.div(thread, wave_size))
        lane = emit.rem(thread, wave_size)
        part, group = emit.rem(wave, cut.shared), emit.div(wave, cut.shared)
        first = emit.linear(group, (block, cut.waves // cut.shared))
        n = emit.mul(first, cut.columns)
        columns = [emit.minimum(emit.add(n, j), problem.N - 1) for j in range(cut.columns)]
        start = emit.mul(emit.linear(lane, (part, wave_size)), cut.lanes)

        def read(k0: Index) -> list[ir.Value]:
            return self._read(batch, emit.add(start, k0), columns)

        cells = list(product(range(problem.M), range(cut.columns)))
        width = math.gcd(cut.lanes // cut.joined, 4)
        step = cut.joined * width

        def body(k0: Index, *carried: ir.Value) -> list[ir.Value]:
            sums, values = list(carried[: len(cells)]), list(carried[len(cells) :])
            following = read(emit.add(k0, self.step))
            rows, right = self._elements(values)
            for at, (m, j) in enumerate(cells):
                for i in range(0, cut.lanes, step):
                    a, b = memory.part(rows[m], i, step), memory.part(right[j], i, step)
                    sums[at] = self._multiply(a, b, sums[at])
            return [*sums, *following]

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

    def _multiply(self, a: ir.Value, b: ir.Value, sums: ir.Value) -> ir.Value:
        """Adds the products of elements to sums, of as many at once as an instruction takes."""
        if self.problem.accumulator == "i32":
            return byte_products(a, b, sums, signs=self.target.gpu.matrix == "wmma")
        return dot_products(a, b, sums) if self.cut.pairs else emit.multiply_add(a, b, sums, "f32")

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

    def _read(self, batch: Index, k: Index, columns: Sequence[Index]) -> list[ir.Value]:
        """Vectors from k on, as memory holds them: A's rows, then B's columns; 0 past the end."""
        a, b, lanes = self.problem.a, self.problem.b, self.cut.lanes
        assert isinstance(b, Matrix)
        inside = emit.compare("slt", k, self.problem.K)
        found: list[ir.Value] = []
        for m in range(self.problem.M):
            found += vectors(self.inputs, a.transposed(), (batch, k, m), inside, lanes)
        for n in columns:
            if not isinstance(b, Computed):
                found += vectors(self.inputs, b, (batch, k, n), inside, lanes)
                continue
            for read in b.tensors:
                count = 1 if self._is_one(read) else lanes
                own = self.inputs, read.matrix, (batch, k, n), inside
                found += vectors(*own, count, read.per_byte)
        return found

    def _elements(self, values: list[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
        """Factors of `_multiply`: A's rows and B's columns as vectors, from `_read`'s values."""
        problem, lanes, b = self.problem, self.cut.lanes, self.problem.b
        assert isinstance(b, Matrix)

        def take(per_byte: int = 1, single: bool = False) -> ir.Value:
            """The next vector, as memory holds it."""
            x = values.pop(0)
            while not single and ir.VectorType(x.type).shape[0] * per_byte < lanes:
                x = memory.concatenated([x, values.pop(0)])
            return x

        element = "f32"
        if self.cut.joined > 1:
            element = "f16" if self.cut.pairs else problem.a.element
        rows = [emit.convert(take(), problem.a.element, element) for _ in range(problem.M)]
        right = []
        for _ in range(self.cut.columns):
            if isinstance(b, Computed):
                parts = [take(read.per_byte, self._is_one(read)) for read in b.tensors]
                x = expanded(b, parts, lanes)
            else:
                x = take()
            right.append(emit.convert(x, b.element, element))
        return rows, right

    def _is_one(self, read: Read) -> bool:
        """Whether a lane's elements along k are all the same."""
        return read.per_byte == 1 and repeats(read.matrix.row, self.cut.lanes)


RECIPE = Recipe("skinny", as_skinny)
