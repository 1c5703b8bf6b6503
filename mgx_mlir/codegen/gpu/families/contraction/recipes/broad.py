"""Products with few rows, where neighbours of B in memory lie along n.

    C[m, n] = sum over k of A[m, k] * B[k, n], few m, and neighbours of B in memory along n

A lane holds the sums of some neighbouring columns. It reads these columns of a few rows of B and
the elements of A that meet them, and prefetches the next ones while it multiplies. Lanes that
hold the same columns, and the waves of a work-group, share k; their sums are added in order in
LDS, once. As in `skinny`, B is read once and nothing of it goes through LDS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir
from mlir.dialects import arith, gpu

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import lanes as across
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import block_number, thread_number
from mgx_mlir.codegen.gpu.builders.multiply import dot_products
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.cost import Stream
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.few_rows import vectors
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors, WorkGroups
from mgx_mlir.codegen.gpu.families.contraction.plan import OneFunction, Recipe, Request
from mgx_mlir.codegen.gpu.families.contraction.recipes.skinny import few_rows
from mgx_mlir.codegen.problem.problem import Computed, Matrix, vector_width
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import ceil_div

# Lanes side by side along the columns, the most first: 8 lanes of 16 bytes coalesce to a line of a
# cache, 128 bytes.
_LANES = (8, 4, 2)
_MOST_WAVES = 8
_DPP_ROW = 16
# Results that a thread stores.
_RESULTS = 4


@dataclass(frozen=True)
class Broad(OneFunction):
    """`width` columns a lane, `lanes` side by side, `depth` rows of B a lane in a step."""

    product: Product
    target: Target
    width: int
    lanes: int
    depth: int
    waves: int

    @property
    def groups(self) -> WorkGroups:
        problem, threads = self.product.match.problem, self.waves * self.target.wave_size
        grid = ceil_div(problem.N, self.columns), 1, problem.batch
        return WorkGroups(threads, grid, (threads // _DPP_ROW * problem.M * self.columns, "f32"))

    @property
    def columns(self) -> int:
        """Columns of a work-group."""
        return self.width * self.lanes

    @property
    def pairs(self) -> bool:
        """Whether an instruction multiplies two neighbours of f16 along k."""
        problem = self.product.match.problem
        return self.target.gpu.dots_halves and problem.a.element == problem.b.element == "f16"

    @property
    def clocks(self) -> float:
        problem, width = self.product.match.problem, self.width
        size = emit.element_bytes(problem.b.element)
        # For each of a lane's rows of B, products and conversions; pairs have to be joined.
        work = (problem.M + 1) * width / 2 if self.pairs else problem.M * width
        work += problem.M + width if size < 4 and not self.pairs else 0
        steps = ceil_div(problem.K, self.groups.threads // self.lanes * self.depth)
        own, shared = self.depth * width * size, self.depth * problem.M * size
        return Stream(steps, own, shared, self.depth * work).clocks(self.groups, self.target)

    def describe(self) -> str:
        return f"{self.columns} columns a block of {self.waves} waves, {self.depth} rows a lane"

    def emit(self, tensors: Tensors) -> None:
        _Block(self, tensors).emit(self.epilogue(tensors))


def as_broad(request: Request) -> Broad | Refusal:
    """The plan for a product with few rows, or its transpose."""
    found = few_rows(request)
    if isinstance(found, Refusal):
        return found
    if any(isinstance(x, Computed) for x in (found.match.problem.a, found.match.problem.b)):
        return Refusal("computed operands")
    return _cut(found, request.target)


def _cut(found: Product, target: Target) -> Broad | Refusal:
    problem, b = found.match.problem, found.match.problem.b
    assert isinstance(b, Matrix)
    size = emit.element_bytes(b.element)
    width = vector_width(b.column, b.row, b.batch, offset=b.offset, limit=CHUNK_BYTES // size)
    if width * size < 8 or len(b.row.factors) != 1:
        return Refusal(f"columns that are read by {width * size} bytes")
    depth = math.gcd(problem.K, 8)
    if b.element == "f16" and depth % 2:
        return Refusal(f"K = {problem.K} of f16 is odd")
    # A quarter of the compute units take all of the memory's bandwidth.
    blocks = [ceil_div(problem.N, width * lanes) * problem.batch for lanes in _LANES]
    for lanes, count in zip(_LANES, blocks, strict=True):
        if 4 * count >= target.compute_units:
            return _filled(Broad(found, target, width, lanes, depth, 0))
    most = _filled(Broad(found, target, width, _LANES[-1], depth, 0))
    if size < 4:
        # `skinny` takes no single elements of fewer bytes, and matrix cores wait for their tiles.
        cuts = [_filled(replace(most, lanes=lanes)) for lanes in reversed(_LANES)]
        return min(cuts, key=lambda cut: cut.clocks)
    if most.waves < _MOST_WAVES:
        return Refusal(f"{blocks[-1]} blocks of {most.waves} waves leave the chip idle")
    return most


def _filled(cut: Broad) -> Broad:
    """With the most waves that have rows of B."""
    waves = cut.product.match.problem.K * cut.lanes // (cut.depth * cut.target.wave_size)
    return replace(cut, waves=max(1, min(_MOST_WAVES, 1 << max(1, waves).bit_length() - 1)))


class _Block:
    def __init__(self, cut: Broad, tensors: Tensors) -> None:
        self.cut, self.problem = cut, cut.product.match.problem
        self.inputs, self.lds = tensors.inputs, tensors.tiles
        problem, self.threads = self.problem, cut.groups.threads
        self.a, self.b = problem.a, problem.b
        self.step = self.threads // cut.lanes * cut.depth

    def emit(self, epilogue: Epilogue) -> None:
        problem, cut, grid = self.problem, self.cut, self.cut.groups.grid
        thread = thread_number(self.threads)
        block, batch = block_number("x", grid[0]), block_number("z", grid[2])
        side, group = emit.rem(thread, cut.lanes), emit.div(thread, cut.lanes)
        first = emit.mul(block, cut.columns)
        n = emit.add(first, emit.mul(side, cut.width))
        start = emit.mul(group, cut.depth)

        def read(k0: Index) -> list[ir.Value]:
            return self._read(batch, emit.add(start, k0), n)

        def body(k0: Index, *carried: ir.Value) -> list[ir.Value]:
            sums, values = list(carried[: problem.M]), list(carried[problem.M :])
            following = read(emit.add(k0, self.step))
            return [*self._multiply(values, sums), *following]

        zero = emit.constant(0, "f32", cut.width)
        carried = emit.loop(0, problem.K, self.step, body, [*[zero] * problem.M, *read(0)])
        self._share(carried[: problem.M], thread, side)
        self._finish(thread, first, batch, epilogue)

    def _read(self, batch: Index, k: Index, n: Index) -> list[ir.Value]:
        """Rows of B from k on, then vectors along A's rows; 0 past the ends."""
        problem, cut, a, b = self.problem, self.cut, self.a, self.b
        assert isinstance(b, Matrix)
        inside = emit.compare("slt", k, problem.K)
        columns = [inside]
        if problem.N % cut.columns:
            columns.append(emit.compare("slt", n, problem.N))
        size = emit.element_bytes(b.element)
        place = memory.guarded(b.at(batch, k, n), columns, size)
        buffer, stride = self.inputs[b.argument], b.row.factors[-1][1]
        found = [
            memory.load(buffer, emit.add(place, i * stride), cut.width) for i in range(cut.depth)
        ]
        for m in range(problem.M):
            found += vectors(self.inputs, a.transposed(), (batch, k, m), inside, cut.depth)
        return found

    def _multiply(self, values: list[ir.Value], sums: Sequence[ir.Value]) -> list[ir.Value]:
        """Adds the products of the values that `_read` gave to the sums of each row of A."""
        cut = self.cut
        rows, values = values[: cut.depth], values[cut.depth :]
        each = len(values) // self.problem.M
        left = []
        for m in range(self.problem.M):
            parts = values[m * each :][:each]
            left.append([memory.element(x, i) for x in parts for i in range(cut.depth // each)])
        totals = list(sums)
        if cut.pairs:
            for k in range(0, cut.depth, 2):
                pairs = [
                    memory.joined([memory.element(x, n) for x in rows[k : k + 2]])
                    for n in range(cut.width)
                ]
                right = memory.concatenated(pairs)
                for m, factors in enumerate(left):
                    both = memory.joined(factors[k : k + 2])
                    totals[m] = dot_products(
                        memory.concatenated([both] * cut.width), right, totals[m]
                    )
            return totals
        wide = [emit.convert(x, self.b.element, "f32") for x in rows]
        for m, factors in enumerate(left):
            for k, row in enumerate(wide):
                x = emit.convert(factors[k], self.a.element, "f32")
                totals[m] = emit.multiply_add(emit.splat(x, cut.width), row, totals[m], "f32")
        return totals

    def _share(self, sums: Sequence[ir.Value], thread: Index, side: Index) -> None:
        """Writes the sums of each row of 16 lanes to LDS: [part, m, column]."""
        cut = self.cut
        totals = []
        for x in sums:
            parts = [across.row_sum(memory.element(x, i), cut.lanes) for i in range(cut.width)]
            totals.append(memory.joined(parts))

        def put() -> None:
            part = emit.div(thread, _DPP_ROW)
            for m, x in enumerate(totals):
                place = emit.linear(
                    m * cut.columns, (part, len(sums) * cut.columns), (side, cut.width)
                )
                for i in range(0, cut.width, _RESULTS):
                    few = memory.part(x, i, min(_RESULTS, cut.width))
                    memory.store(few, self.lds, emit.add(place, i))

        emit.when(emit.compare("slt", emit.rem(thread, _DPP_ROW), cut.lanes), put)
        gpu.barrier()

    def _finish(self, thread: Index, first: Index, batch: Index, epilogue: Epilogue) -> None:
        """Adds the parts up in order; each thread a few results."""
        problem, cut, lds = self.problem, self.cut, self.lds
        wide = min(_RESULTS, cut.width)
        cells, parts = problem.M * cut.columns, self.threads // _DPP_ROW

        def put(cell: Index) -> None:
            total = memory.load(lds, cell, wide)
            for part in range(1, parts):
                total = arith.addf(total, memory.load(lds, emit.add(cell, part * cells), wide))
            m = emit.div(cell, cut.columns) if problem.M > 1 else 0
            n = emit.add(first, emit.rem(cell, cut.columns))
            inside = [emit.compare("slt", n, problem.N)] if problem.N % cut.columns else []
            epilogue(total, batch, m, n, inside, False)

        for turn in range(ceil_div(cells // wide, self.threads)):
            cell = emit.mul(emit.add(thread, turn * self.threads), wide)
            emit.when(emit.compare("slt", cell, cells), partial(put, cell))


RECIPE = Recipe("broad", as_broad)
