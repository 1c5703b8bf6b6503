"""The functions of a product of matrices: tiles through LDS, sums in registers.

A work-group owns one tile of C. `pipeline` moves its operands' tiles along k, and the sums leave
through the epilogue. Memory is read and written through raw buffers, so that sizes that no tile
divides need no branches. A function of its own packs operands that have to be packed first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TypeAlias, cast

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
from mgx_mlir.codegen.gpu.builders.lanes import uniform
from mgx_mlir.codegen.gpu.builders.layouts import LdsReader, index_of
from mgx_mlir.codegen.gpu.builders.program import GpuProgram, aligned
from mgx_mlir.codegen.gpu.families.contraction import finish, packing
from mgx_mlir.codegen.gpu.families.contraction.beginning import Beginning, WaveRows
from mgx_mlir.codegen.gpu.families.contraction.constraints import buffers
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.ending import Ending
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.expanding import source_of
from mgx_mlir.codegen.gpu.families.contraction.function import (
    Along,
    Parameter,
    Tensors,
    WorkGroups,
    add_function,
    outputs_of,
)
from mgx_mlir.codegen.gpu.families.contraction.pipeline import Pipeline
from mgx_mlir.codegen.gpu.families.contraction.plain import PlainPipeline
from mgx_mlir.codegen.gpu.families.contraction.results import Lane, Results
from mgx_mlir.codegen.gpu.families.contraction.scaling import Scaled, Scales
from mgx_mlir.codegen.gpu.families.contraction.sources import Strided
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule, Tiling
from mgx_mlir.codegen.gpu.families.contraction.split_k import SplitK
from mgx_mlir.codegen.gpu.families.contraction.straight import Straight, shared
from mgx_mlir.codegen.gpu.families.contraction.tile import Tile
from mgx_mlir.codegen.problem.match import used_arguments
from mgx_mlir.codegen.problem.problem import Contraction, Matrix
from mgx_mlir.sizes.arithmetic import ceil_div

# Work on the rows of results, or on the rows that are multiplied.
Beside: TypeAlias = Ending | Beginning


def generate(
    product: Product,
    sizes: tuple[Sequence[int], Sequence[int]],
    tiling: Tiling,
    name: str,
    ending: Beside | None = None,
) -> GpuProgram:
    """The functions `<name>_0` .. for a product that `constraints` do not refuse.

    sizes: elements of each input and of each result. With `ending`, the last work-groups reduce the
    rows of results, or each normalises the rows that it multiplies. Needs an active MLIR context
    and location.
    """
    return TilesGenerator(product, sizes, tiling, name, ending=ending).run()


class TilesGenerator:
    """Builds the functions. Sizes may be symbols where one function is emitted alone.

    along: the dimension of the grid along which tiles cross from image to image. split: split-K,
    where a run decides.
    """

    def __init__(
        self,
        product: Product,
        sizes: tuple[Sequence[int], Sequence[int]],
        tiling: Tiling,
        name: str,
        along: Along | None = None,
        ending: Beside | None = None,
        split: SplitK | None = None,
    ) -> None:
        self.ending = ending
        self.normal: WaveRows | None = None
        self.product, self.match, self.problem = product, product.match, product.match.problem
        self.tiling, self.name, self.sizes = tiling, name, sizes
        self.target, self.threads = tiling.target, tiling.threads
        self.schedule, self.unit = schedule, unit = tiling.schedule, tiling.unit
        self.split = split or SplitK(schedule.splits, schedule.splits)
        self.rows, self.columns = schedule.rows(unit), schedule.columns(unit)
        self.held = schedule.held(unit, self.target.wave_size)
        # Rows and columns; pixels of several images past the last ones are outside of its buffers.
        self.along = along
        self.extents = (self.problem.M, self.problem.N)
        if along == "x":
            self.extents = (self.rows, self.problem.N)
        elif along == "y":
            self.extents = (self.problem.M, self.columns)
        self.grid = (
            ceil_div(self.extents[0], self.rows),
            ceil_div(self.extents[1], self.columns),
            self.problem.batch * schedule.splits,
        )
        # Tiles along y and z of the grid.
        self.beside: tuple[Index, Index] = self.grid[1], self.problem.batch
        # Tiles whose results a lane stores together, to store 16 bytes.
        size = max(emit.element_bytes(e) for e in self.match.result_elements)
        wide = unit.kind == "mfma" and unit.values * size == 8 and schedule.tiles_n % 2 == 0
        self.joined = 2 if wide and not schedule.waves_k else 1
        # How waves divide the results; not as they divide the sums, where they share k.
        self.divided = schedule.results() if schedule.waves_k else schedule
        own = replace(tiling, schedule=self.divided), self.problem.accumulator
        self.shared = finish.Shared(*own, self.split.count)

    def run(self) -> GpuProgram:
        module, functions = gpu_module()
        launches: list[Launch] = []
        if self.product.packings:
            launches.append(self._packing(functions, f"{self.name}_0"))
        results = outputs_of(self.match.result_elements, self.sizes[1])
        scratch_bytes = self.product.scratch_bytes
        tiles, counters = self.grid[0] * self.grid[1] * self.problem.batch, 0
        if isinstance(self.ending, Beginning):
            results = [*self.ending.results]
        elif self.ending is not None:
            own = self.ending.scratch_bytes(results)
            results = self.ending.parameters(results, scratch_bytes)
            scratch_bytes, counters = scratch_bytes + own, self.grid[0]
        if self.schedule.splits > 1:
            place = Argument("scratch", scratch_bytes)
            sums, element = cast(int, self.shared.elements), self.shared.element
            results.append(Parameter(element, sums, place))
            scratch_bytes += aligned(tiles * sums * emit.element_bytes(element))
            counters += tiles * self.shared.counters
        if counters:
            results.append(Parameter("i32", counters, Argument("counters", counters)))
        launches.append(self._multiplication(functions, f"{self.name}_{len(launches)}", results))
        return GpuProgram(module, tuple(launches), scratch_bytes, 32)

    def _packing(self, functions: ir.Block, name: str) -> Launch:
        packings = list(self.product.packings.values())
        elements = {x.argument: x.element for p in packings for x in p.tensors}
        packed = [Parameter(p.element, p.elements, Argument("scratch", p.start)) for p in packings]
        groups = WorkGroups(packing.THREADS, (sum(p.blocks for p in packings), 1, 1))
        body = partial(packing.emit_packing, packings)
        return add_function(functions, name, (self._inputs(elements), packed), groups, body)

    def _multiplication(self, functions: ir.Block, name: str, results: list[Parameter]) -> Launch:
        used = dict(used_arguments(self.match))
        if self.ending is not None:
            used |= self.ending.inputs
        arrays = self.ending.arrays(self.rows, self.threads) if self.ending else ()
        groups = WorkGroups(self.threads, self.grid, self._lds, arrays=arrays)
        return add_function(functions, name, (self._inputs(used), results), groups, self.emit)

    @property
    def _lds(self) -> tuple[int, str]:
        """Elements of LDS, and their type."""
        if self.schedule.waves_k:
            return self.schedule.waves_k * self.rows * self.columns, self.problem.accumulator
        depth, splits = self.unit.tile_depth, self.schedule.splits
        tiles = [ceil_div(term.K, depth) // splits for term in self.match.terms]
        return max(map(buffers, tiles)) * sum(self.held) * depth, self.unit.element

    def lds(self) -> list[tuple[int, ir.Type]]:
        """The LDS of the function that multiplies: elements, and their type."""
        size, element = self._lds
        return [(size, emit.element_type(element))]

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
        problem, is_cut = self.problem, self.split.count != 1
        held = tensors.results
        if is_cut:
            held = [memory.early(pointer) for pointer in held]
            pointers = {n: memory.early(pointer) for n, pointer in tensors.pointers.items()}
            tensors = replace(tensors, pointers=pointers)
        tensors = replace(tensors, results=held[: len(self.match.result_elements)])
        thread = thread_number(self.threads)
        many = self.along is not None
        x = block_number("x", MAX_THREADS if many else self.grid[0])
        m0 = emit.mul(x, self.rows)
        y = block_number("y", MAX_THREADS if many else self.grid[1])
        n0 = emit.mul(y, self.columns)
        if self.along == "x":
            m0 = tensors.first
        elif self.along == "y":
            n0 = tensors.first
        extent_m, extent_n = self.extents
        z, split = self.split.place(self.beside[1])
        matrix: Index = z if problem.batch > 1 else 0
        self.tensors, self.all = tensors, replace(tensors, results=held)
        wave, number = self._wave(thread)
        epilogue = Epilogue(self.match, self.product.result, tensors.inputs, tensors.outputs)
        lane, straight = self._lane(thread, self.divided), self.schedule.waves_k > 0
        cut = self.divided, self.unit, self.joined
        results = Results(epilogue, self.match, cut, matrix, (m0, n0), lane)
        early = straight and (not is_cut or self.split.named is not None)
        if early:
            results.prepare()
        sums: list[ir.Value] | None = None
        for term in self.match.terms:
            if straight:
                sums = self._straight(term, lane, uniform(wave), (matrix, m0, n0, split), sums)
                continue
            a, b = self._tiles(term)
            a.begin(thread, matrix, m0, self._limit(0, self.rows))
            b.begin(thread, matrix, n0, self._limit(1, self.columns))
            sums = self._sums(term, a, b, lane, split, sums)
        assert sums is not None

        def store(sums: Callable[[], Sequence[ir.Value]]) -> None:
            if is_cut and not early:
                results.prepare()
            results.store(sums(), (extent_m, extent_n), (self.rows, self.columns))

        def finish(sums: Sequence[ir.Value]) -> None:
            if not is_cut:
                store(lambda: sums)
                return
            row = emit.linear(z, (x, self.beside[1]))
            tile = emit.linear(y, (row, self.beside[0]))
            self.shared.emit(sums, (held[-2], held[-1]), (tile, split, wave, number), store)

        if straight:
            place = uniform(wave), number
            self._share(sums, place, finish)
        else:
            finish(sums)
        if self.normal is not None:
            self.normal.store()
        if isinstance(self.ending, Ending):
            size = self.rows, self.threads, self.grid[1] * self.schedule.splits
            own = self.grid[0] * self.grid[1] * self.shared.counters if is_cut else 0
            self.ending.emit(self.all, (x, m0), size, own)

    def _limit(self, number: int, own: int) -> int | None:
        """The end of operand `number`'s rows, where a tile of `own` rows may read beyond it."""
        extent = self.extents[number]
        crosses = self.along == "xy"[number]
        return None if crosses or not (extent % own or self.held[number] > own) else extent

    def _tiles(self, term: Contraction) -> tuple[Tile, Tile]:
        pointers, lds = self.tensors.pointers, self.tensors.tiles
        unit, depth, threads = self.unit, self.unit.tile_depth, self.threads
        assert isinstance(term.b, Matrix)
        rows = source_of(term.a, False, term.K, depth, pointers)
        columns = source_of(term.b, True, term.K, depth, pointers)
        held, wide = self.held
        a = Tile(rows, unit, held, threads, lds, 0)
        return a, Tile(columns, unit, wide, threads, lds, held * depth)

    def _lane(self, thread: Index, schedule: ProductSchedule) -> Lane:
        """The lane, of a wave with the results that a schedule gives it."""
        unit = self.unit
        wave, lane = self._wave(thread)
        wave_m = emit.mul(emit.rem(wave, schedule.waves_m), schedule.tiles_m * unit.rows)
        wave_n = emit.mul(emit.div(wave, schedule.waves_m), schedule.tiles_n * unit.columns)
        return Lane(wave_m, wave_n, emit.rem(lane, unit.rows), emit.div(lane, unit.rows))

    def _wave(self, thread: Index) -> tuple[Index, Index]:
        """A thread's wave, and its lane."""
        size = self.target.wave_size
        wave = emit.div(thread, size) if self.schedule.waves > 1 else 0
        return wave, emit.rem(thread, size)

    def _straight(
        self,
        term: Contraction,
        lane: Lane,
        wave: Index,
        place: tuple[Index, Index, Index, Index],
        before: Sequence[ir.Value] | None,
    ) -> list[ir.Value]:
        """As `_sums`, of a wave that shares k with others. place: the matrix, the work-group's
        first row and column, and the part of split-K."""
        unit, schedule, pointers = self.unit, self.schedule, self.tensors.pointers
        (matrix, m0, n0, split), depth = place, schedule.step(unit)
        assert isinstance(term.b, Matrix)
        a = source_of(term.a, False, term.K, depth, pointers)
        b = source_of(term.b, True, term.K, depth, pointers)
        group: Index = lane.group if unit.groups > 1 else 0
        k = emit.linear(emit.mul(group, unit.chunk), (wave, unit.step_chunks * unit.chunk))
        (column,) = self._lane_columns(lane)
        first = emit.add(m0, lane.row)
        rows = [emit.add(first, i * unit.rows) for i in range(schedule.tiles_m)]
        first = emit.add(n0, column)
        columns = [emit.add(first, i) for i in self._tile_columns()]
        extent_m, extent_n = self.extents
        a.begin(matrix, rows, k, extent_m if extent_m % self.rows else None)
        b.begin(matrix, columns, k, extent_n if extent_n % self.columns else None)
        assert isinstance(a, Strided) and isinstance(b, Strided)
        loop = Straight(unit, schedule, a, b)
        if isinstance(self.ending, Beginning):
            part, across = emit.linear(group, (wave, unit.groups)), emit.div(n0, self.columns)
            own = rows, k, lane.row, part, (across, self.grid[1])
            self.normal = WaveRows(self.ending, self.all, schedule, *own)
            loop = replace(loop, normal=self.normal)
        return self.split.sums(loop, schedule, unit, (term.K, split), before)

    def _share(
        self,
        sums: Sequence[ir.Value],
        place: tuple[Index, Index],
        finish: Callable[[Sequence[ir.Value]], None],
    ) -> None:
        """Adds the sums of waves that shared k; waves with results finish theirs. place: the wave,
        and the lane."""
        (wave, lane), own, whole = place, self.divided, self.schedule
        lanes = lane, self.target.wave_size
        share = shared(sums, self.tensors.tiles, whole.waves_k, wave, lanes)
        row = emit.mul(emit.rem(wave, own.waves_m), own.tiles_m * whole.tiles_n)
        first = emit.linear(row, (emit.div(wave, own.waves_m), own.tiles_n))
        vectors = [
            i * whole.tiles_n + j for i, j in product(range(own.tiles_m), range(own.tiles_n))
        ]
        is_active = own.waves == whole.waves or emit.compare("slt", wave, own.waves)
        emit.when(is_active, lambda: finish(share(first, vectors)))

    def _sums(
        self,
        term: Contraction,
        a: Tile,
        b: Tile,
        lane: Lane,
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
        return self.split.sums(pipeline, self.schedule, unit, (term.K, split), before)

    def _scales(self, term: Contraction, a: Tile, b: Tile, lane: Lane) -> tuple[Scales, Scales]:
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

    def _lane_columns(self, lane: Lane) -> list[Index]:
        """The columns of a tile that a lane reads, such that its results are neighbours."""
        unit = self.unit
        held = unit.fragments.a.onto("r").then(unit.order(self.joined))
        lanes = held.split("lane", "row", "group", unit.rows.bit_length() - 1)
        first = index_of(lanes, row=lane.row, group=lane.group)
        return [emit.add(first, i) for i in range(1 << len(held.moving("value", "n")))]

    def _tile_columns(self) -> list[int]:
        """The first column of each tile; the columns of `joined` tiles alternate."""
        return [self.unit.first_column(j, self.joined) for j in range(self.schedule.tiles_n)]
