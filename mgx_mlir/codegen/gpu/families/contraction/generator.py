"""The functions of a product of matrices: tiles through LDS, sums in registers.

A work-group owns one tile of C. `pipeline` moves its operands' tiles along k, and the sums leave
through the epilogue. Memory is read and written through raw buffers, so that sizes that no tile
divides need no branches. A function of its own packs operands that have to be packed first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import (
    MAX_THREADS,
    block_number,
    gpu_module,
    thread_number,
)
from mgx_mlir.codegen.gpu.builders.layouts import LdsReader, index_of
from mgx_mlir.codegen.gpu.builders.program import GpuProgram, aligned
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.contraction import finish, packing
from mgx_mlir.codegen.gpu.families.contraction.constraints import buffers
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.expanding import source_of
from mgx_mlir.codegen.gpu.families.contraction.function import (
    Along,
    DynamicRows,
    Parameter,
    Tensors,
    WorkGroups,
    add_function,
    outputs_of,
)
from mgx_mlir.codegen.gpu.families.contraction.pipeline import Pipeline
from mgx_mlir.codegen.gpu.families.contraction.plain import PlainPipeline
from mgx_mlir.codegen.gpu.families.contraction.scaling import Scaled, Scales
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule, Tiling
from mgx_mlir.codegen.gpu.families.contraction.tile import Tile
from mgx_mlir.codegen.gpu.families.rows.cost import weight
from mgx_mlir.codegen.problem.match import Match, used_arguments
from mgx_mlir.codegen.problem.problem import Contraction, Matrix
from mgx_mlir.sizes.arithmetic import ceil_div


def generate(
    product: Product,
    sizes: tuple[Sequence[int], Sequence[int]],
    tiling: Tiling,
    name: str,
    rows: DynamicRows | None = None,
) -> GpuProgram:
    """The functions `<name>_0` .. for a product that `constraints` do not refuse.

    sizes: elements of each input and of each result. With `rows`, the product is that of one
    work-group's dynamic rows; scratch memory is then that of one work-group. Needs an active MLIR
    context and location.
    """
    return TilesGenerator(product, sizes, tiling, name, rows).run()


@dataclass(frozen=True)
class _Lane:
    """A thread's offsets: its wave's in the tile of C, its row in a tile, its group along k."""

    wave_m: Index
    wave_n: Index
    row: Index
    group: Index


class TilesGenerator:
    """Builds the functions. Sizes may be symbols where one function is emitted alone.

    along: the dimension of the grid along which tiles cross from image to image. cut: the factor of
    split-K where work-groups along x count it, and not those along z.
    """

    cut = 1

    def __init__(
        self,
        product: Product,
        sizes: tuple[Sequence[int], Sequence[int]],
        tiling: Tiling,
        name: str,
        dynamic_rows: DynamicRows | None,
        along: Along | None = None,
    ) -> None:
        self.dynamic_rows = dynamic_rows
        self.product, self.match, self.problem = product, product.match, product.match.problem
        self.tiling, self.name, self.sizes = tiling, name, sizes
        self.target, self.threads = tiling.target, tiling.threads
        self.schedule, self.unit = schedule, unit = tiling.schedule, tiling.unit
        self.rows, self.columns = schedule.rows(unit), schedule.columns(unit)
        # Rows and columns; those past the last ones of a block of dynamic rows, or of pixels of
        # several images, are outside of its buffers.
        self.along = along
        self.extents = (self.problem.M, self.problem.N)
        if dynamic_rows is not None or along == "x":
            self.extents = (self.rows, self.problem.N)
        elif along == "y":
            self.extents = (self.problem.M, self.columns)
        self.grid = (
            ceil_div(self.extents[0], self.rows),
            ceil_div(self.extents[1], self.columns),
            self.problem.batch * schedule.splits,
        )
        # The tiles' sums become the results or, with split-K, partial sums in scratch memory.
        self.stored, self.place = self.match, product.result
        if schedule.splits > 1:
            self.stored, self.place = finish.parts_of(
                self.match, schedule.splits, dynamic_rows is not None, along is not None
            )
        # Tiles whose results a lane stores together, to store 16 bytes.
        size = max(emit.element_bytes(e) for e in self.stored.result_elements)
        self.joined = 1
        if unit.kind == "mfma" and unit.values * size == 8 and schedule.tiles_n % 2 == 0:
            self.joined = 2

    def run(self) -> GpuProgram:
        module, functions = gpu_module()
        launches: list[Launch] = []
        if self.product.packings:
            launches.append(self._packing(functions, f"{self.name}_0"))
        results = outputs_of(self.match.result_elements, self.sizes[1])
        stored, scratch_bytes = results, self.product.scratch_bytes
        if self.schedule.splits > 1:
            element = self.problem.accumulator
            size = self.schedule.splits * self.problem.batch * self.problem.M * self.problem.N
            stored = [Parameter(element, size, Argument("scratch", scratch_bytes))]
            scratch_bytes += aligned(size * emit.element_bytes(element))
        launches.append(self._multiplication(functions, f"{self.name}_{len(launches)}", stored))
        if self.schedule.splits > 1:
            name = f"{self.name}_{len(launches)}"
            launches.append(self._finish(functions, name, stored[0], results))
        return GpuProgram(module, tuple(launches), scratch_bytes, 32)

    def _packing(self, functions: ir.Block, name: str) -> Launch:
        packings = list(self.product.packings.values())
        elements = {x.argument: x.element for p in packings for x in p.tensors}
        packed = [Parameter(p.element, p.elements, Argument("scratch", p.start)) for p in packings]
        groups = WorkGroups(packing.THREADS, (sum(p.blocks for p in packings), 1, 1))
        body = partial(packing.emit_packing, packings)
        return add_function(functions, name, (self._inputs(elements), packed), groups, body)

    def _finish(
        self, functions: ir.Block, name: str, parts: Parameter, results: list[Parameter]
    ) -> Launch:
        match, place = self.match, self.product.result
        used = {s.argument: s.element for s in match.reads}
        reads = {**self._inputs(used), finish.PARTS: parts}
        blocks, rows = finish.blocks(match), self.dynamic_rows
        grid = (blocks, 1, 1) if rows is None else (1, blocks, 1)
        groups = WorkGroups(finish.THREADS, grid, rows=rows)
        along = "x" if rows is None else "y"
        by_row = rows is not None
        body = partial(finish.emit_finish, match, place, self.schedule.splits, along, by_row)
        return add_function(functions, name, (reads, results), groups, body)

    def _multiplication(self, functions: ir.Block, name: str, results: list[Parameter]) -> Launch:
        used = dict(used_arguments(self.stored))
        lds = (self._lds_elements, self.unit.element)
        groups = WorkGroups(self.threads, self.grid, lds, rows=self.dynamic_rows)
        return add_function(functions, name, (self._inputs(used), results), groups, self.emit)

    @property
    def _lds_elements(self) -> int:
        depth, splits = self.unit.tile_depth, self.schedule.splits
        tiles = [ceil_div(term.K, depth) // splits for term in self.match.terms]
        return max(map(buffers, tiles)) * (self.rows + self.columns) * depth

    def lds(self) -> list[tuple[int, ir.Type]]:
        """The LDS of the function that multiplies: elements, and their type."""
        return [(self._lds_elements, emit.element_type(self.unit.element))]

    def _inputs(self, elements: Mapping[int, str]) -> dict[int, Parameter]:
        """The parameters that read the inputs of some numbers, in order."""
        return {number: self._input(number, elements[number]) for number in sorted(elements)}

    def _input(self, number: int, element: str) -> Parameter:
        if number in self.product.packings:
            packed = self.product.packings[number]
            return Parameter(element, packed.elements, Argument("scratch", packed.start))
        return Parameter(element, self.sizes[0][number], Argument("input", number))

    def emit(self, tensors: Tensors) -> None:
        """Builds the body of the function that multiplies, on its tensors."""
        problem, outputs = self.problem, tensors.outputs
        thread = thread_number(self.threads)
        many = self.along is not None
        x = block_number("x", MAX_THREADS if many else self.grid[0] * self.cut)
        m0 = emit.mul(emit.div(x, self.cut), self.rows)
        n0 = emit.mul(block_number("y", MAX_THREADS if many else self.grid[1]), self.columns)
        of_all = m0, n0
        if self.dynamic_rows is not None or self.along == "x":
            m0 = tensors.first
        elif self.along == "y":
            n0 = tensors.first
        extent_m, extent_n = self.extents
        splits = self.schedule.splits
        batch = block_number("z", problem.batch * splits) if self.cut == 1 else emit.rem(x, splits)
        split = emit.div(batch, problem.batch) if splits > 1 else 0
        matrix = emit.rem(batch, problem.batch) if splits > 1 else batch
        self.tensors = tensors
        lane = self._lane(thread)
        sums: list[ir.Value] | None = None
        for term in self.match.terms:
            a, b = self._tiles(term)
            a.begin(thread, matrix, m0, extent_m)
            b.begin(thread, matrix, n0, extent_n)
            sums = self._sums(term, a, b, lane, split, sums)
        assert sums is not None
        if many and splits > 1:
            (m0, n0), self.extents = of_all, (problem.M, problem.N)
        epilogue = Epilogue(self.stored, self.place, tensors.inputs, outputs)
        self._store(sums, epilogue, lane, batch, m0, n0)

    def _tiles(self, term: Contraction) -> tuple[Tile, Tile]:
        pointers, lds = self.tensors.pointers, self.tensors.tiles
        unit, depth, threads = self.unit, self.unit.tile_depth, self.threads
        assert isinstance(term.b, Matrix)
        rows = source_of(term.a, False, term.K, depth, pointers)
        columns = source_of(term.b, True, term.K, depth, pointers)
        a = Tile(rows, unit, self.rows, threads, lds, 0)
        return a, Tile(columns, unit, self.columns, threads, lds, self.rows * depth)

    def _lane(self, thread: Index) -> _Lane:
        wave_size, schedule, unit = self.target.wave_size, self.schedule, self.unit
        wave: Index = emit.div(thread, wave_size)
        if schedule.waves == 1:
            wave = 0
        lane = emit.rem(thread, wave_size)
        wave_m = emit.mul(emit.rem(wave, schedule.waves_m), schedule.tiles_m * unit.rows)
        wave_n = emit.mul(emit.div(wave, schedule.waves_m), schedule.tiles_n * unit.columns)
        return _Lane(wave_m, wave_n, emit.rem(lane, unit.rows), emit.div(lane, unit.rows))

    def _sums(
        self,
        term: Contraction,
        a: Tile,
        b: Tile,
        lane: _Lane,
        split: Index,
        before: Sequence[ir.Value] | None,
    ) -> list[ir.Value]:
        """The sums of all tiles of the thread's wave, row by row of tiles, over one part of
        split-K. `before`: sums of the terms before this one, to which these are added."""
        unit = self.unit
        group: Index = lane.group if unit.groups > 1 else 0
        rows = LdsReader(a.held, emit.add(lane.wave_m, lane.row), group)
        columns = [
            LdsReader(b.held, emit.add(lane.wave_n, column), group)
            for column in self._lane_columns(lane)
        ]
        scales = self._scales(term, a, b, lane) if unit.scaled else ()
        kind = PlainPipeline if unit.kind == "fma" else Pipeline
        pipeline = kind(unit, self.schedule, a, b, rows, columns, self._tile_columns(), scales)
        tiles = ceil_div(term.K, unit.tile_depth) // self.schedule.splits
        return pipeline.run(tiles, emit.mul(split, tiles * unit.tile_depth), before)

    def _scales(self, term: Contraction, a: Tile, b: Tile, lane: _Lane) -> tuple[Scales, Scales]:
        """The readers of the scales of rows, and of columns."""
        unit, pointers = self.unit, self.tensors.pointers
        assert isinstance(term.a, Scaled) and isinstance(term.b, Scaled)
        (column,) = self._lane_columns(lane)
        row_starts = [i * unit.rows for i in range(self.schedule.tiles_m)]
        row = emit.add(a.first, emit.add(lane.wave_m, lane.row))
        column = emit.add(b.first, emit.add(lane.wave_n, column))
        return (
            Scales(term.a, unit, pointers, a.batch, row, row_starts, lane.group),
            Scales(
                term.b.transposed(),
                unit,
                pointers,
                b.batch,
                column,
                self._tile_columns(),
                lane.group,
            ),
        )

    def _lane_columns(self, lane: _Lane) -> list[Index]:
        """The columns of a tile that a lane reads, such that its results are neighbours."""
        unit = self.unit
        held = unit.fragments.a.onto("r").then(unit.order(self.joined))
        lanes = held.split("lane", "row", "group", unit.rows.bit_length() - 1)
        first = index_of(lanes, row=lane.row, group=lane.group)
        return [emit.add(first, i) for i in range(1 << len(held.moving("value", "n")))]

    def _tile_columns(self) -> list[int]:
        """The first column of each tile; the columns of `joined` tiles alternate."""
        return [self.unit.first_column(j, self.joined) for j in range(self.schedule.tiles_n)]

    def _store(
        self,
        sums: list[ir.Value],
        epilogue: Epilogue,
        lane: _Lane,
        batch: Index,
        m0: Index,
        n0: Index,
    ) -> None:
        schedule, unit, (extent_m, extent_n) = self.schedule, self.unit, self.extents
        bounded = extent_n % self.columns != 0
        values = unit.values * self.joined
        column = emit.add(lane.wave_n, emit.mul(lane.group, values))
        first_n = emit.add(n0, column)
        first_m = emit.add(m0, emit.add(lane.wave_m, lane.row))
        columns = [
            (j, emit.add(first_n, j * unit.columns))
            for j in range(0, schedule.tiles_n, self.joined)
        ]
        each = schedule.tiles_m // epilogue_turns(self.stored, schedule, unit)
        if each < schedule.tiles_m:
            for _, n in columns:
                epilogue.prepare(batch, n, values)

        def store(first: Index, *sums: ir.Value) -> list[ir.Value]:
            for i in range(each):
                m = emit.add(emit.add(first_m, first), i * unit.rows)
                inside = []
                if extent_m % self.rows:
                    inside = [emit.compare("slt", m, extent_m)]
                for j, n in columns:
                    at = i * schedule.tiles_n + j
                    x = memory.concatenated(sums[at : at + self.joined])
                    epilogue(x, batch, m, n, inside, bounded)
            # The sums of the next rows take the place of these.
            stored = each * schedule.tiles_n
            return [*sums[stored:], *sums[len(sums) - stored :]]

        rows = unit.rows
        emit.loop(0, schedule.tiles_m * rows, each * rows, store, sums, rolled=True)


# Instructions of an epilogue that are repeated for rows of tiles, at most: LLVM takes long for
# more. A loop moves the sums of the rows that are left, again for each of them.
MOST_REPEATED = 1024


def epilogue_work(match: Match) -> int:
    """About how many instructions the epilogue takes for one element."""
    relaxed = {*match.result_elements} <= {"f16", "bf16", "i8", "ui8"}
    return weight(match.epilogue, relaxed) if match.epilogue else 0


def epilogue_turns(match: Match, schedule: ProductSchedule, unit: Unit) -> int:
    """Iterations of the loop that takes a wave's rows of tiles through the epilogue."""
    if match.epilogue is None:
        return 1
    row = schedule.tiles_n * unit.values * epilogue_work(match)
    return next(
        (
            n
            for n in range(1, schedule.tiles_m)
            if schedule.tiles_m % n == 0 and schedule.tiles_m // n * row <= MOST_REPEATED
        ),
        schedule.tiles_m,
    )
