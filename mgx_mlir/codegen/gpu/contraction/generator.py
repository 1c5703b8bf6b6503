"""One gpu.func that multiplies matrices: tiles through LDS, sums in registers.

A block of threads owns one tile of C. In every step along k it writes the operands' tiles
from registers to LDS, starts reading the next ones from memory, and multiplies what lies in
LDS; the sums leave through the epilogue. Memory is read and written through raw buffers, so
that sizes that no tile divides need no branches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import amdgpu, gpu

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.emit import Index
from mgx_mlir.codegen.contraction.match import Match, used_arguments
from mgx_mlir.codegen.contraction.problem import Matrix
from mgx_mlir.codegen.gpu.contraction import memory, multiply
from mgx_mlir.codegen.gpu.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.contraction.space import Schedule
from mgx_mlir.codegen.gpu.contraction.specs import ROW_CHUNKS, Unit
from mgx_mlir.codegen.gpu.contraction.tile import Source, Tile
from mgx_mlir.codegen.gpu.generic import GpuProgram
from mgx_mlir.finalizer.code_object import Argument, Launch
from mgx_mlir.target import Target

_DIALECTS = ("amdgpu", "arith", "gpu", "llvm", "math", "memref", "rocdl", "scf", "vector")


def generate(
    match: Match,
    sizes: tuple[Sequence[int], Sequence[int]],
    schedule: Schedule,
    unit: Unit,
    target: Target,
    name: str,
) -> GpuProgram:
    """The function `<name>_0` for a match that `constraints` do not refuse, and its launch.

    sizes: elements of each input and of each result. Needs an active MLIR context and
    location.
    """
    for dialect in _DIALECTS:
        ir.Context.current.get_dialect_descriptor(dialect)  # loads it
    return _Generator(match, sizes, schedule, unit, target, f"{name}_0").run()


@dataclass(frozen=True)
class _Lane:
    """Where a thread stands: in its wave's tiles of C, and along k."""

    wave_m: Index
    wave_n: Index
    row: Index
    group: Index


class _Generator:
    def __init__(
        self,
        match: Match,
        sizes: tuple[Sequence[int], Sequence[int]],
        schedule: Schedule,
        unit: Unit,
        target: Target,
        name: str,
    ) -> None:
        self.match, self.problem = match, match.problem
        self.schedule, self.unit, self.target, self.name = schedule, unit, target, name
        self.sizes = sizes
        self.threads = schedule.waves * target.wave_size
        self.rows, self.columns = schedule.rows(unit), schedule.columns(unit)
        self.grid = (
            math.ceil(self.problem.M / self.rows),
            math.ceil(self.problem.N / self.columns),
            self.problem.batch,
        )

    def run(self) -> GpuProgram:
        module = ir.Module.create()
        module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
        with ir.InsertionPoint(module.body):
            kernels = gpu.GPUModuleOp(ir.StringAttr.get("kernels"))
        arguments = self._function(kernels.regions[0].blocks.append())
        launch = Launch(self.name, self.grid, (self.threads, 1, 1), arguments)
        return GpuProgram(module, (launch,), 0, 32)

    def _function(self, block: ir.Block) -> tuple[Argument, ...]:
        used = used_arguments(self.match)
        shapes = [(element, self.sizes[0][number]) for number, element in used]
        shapes += zip(self.match.result_elements, self.sizes[1], strict=True)
        types = [
            ir.MemRefType.get(
                [size],
                emit.memory_type(element),
                memory_space=ir.Attribute.parse("#gpu.address_space<global>"),
            )
            for element, size in shapes
        ]
        unit = ir.UnitAttr.get()
        promises = [{"llvm.noalias": unit, "llvm.readonly": unit}] * len(used)
        promises += [{"llvm.noalias": unit}] * len(self.match.result_elements)
        op = ir.Operation.create(
            "gpu.func",
            attributes={
                "sym_name": ir.StringAttr.get(self.name),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
                "arg_attrs": ir.ArrayAttr.get([ir.DictAttr.get(p) for p in promises]),
                "gpu.kernel": unit,
                "known_block_size": ir.DenseI32ArrayAttr.get([self.threads, 1, 1]),
                "known_grid_size": ir.DenseI32ArrayAttr.get(list(self.grid)),
                "workgroup_attributions": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 2),
            },
            regions=1,
            ip=ir.InsertionPoint(block),
        )
        space = ir.Attribute.parse("#gpu.address_space<workgroup>")
        element, depth = emit.element_type(self.unit.element), self.unit.tile_depth
        tiles = [
            ir.MemRefType.get([size * depth], element, memory_space=space)
            for size in (self.rows, self.columns)
        ]
        location = ir.Location.unknown()
        entry = op.regions[0].blocks.append(*types, *tiles, arg_locs=[location] * (len(types) + 2))
        with ir.InsertionPoint(entry):
            pointers = list(entry.arguments)
            buffers = [memory.buffer(p) for p in pointers[: len(types)]]
            inputs = {number: b for (number, _), b in zip(used, buffers, strict=False)}
            self._body(inputs, buffers[len(used) :], pointers[-2], pointers[-1])
            gpu.return_([])
        outputs = [Argument("output", n) for n in range(len(self.match.result_elements))]
        return (*(Argument("input", number) for number, _ in used), *outputs)

    def _body(
        self,
        inputs: dict[int, ir.Value],
        outputs: Sequence[ir.Value],
        lds_a: ir.Value,
        lds_b: ir.Value,
    ) -> None:
        problem, unit = self.problem, self.unit
        assert isinstance(problem.b, Matrix)
        thread = _position("gpu.thread_id", "x", self.threads)
        m0, n0 = (
            emit.mul(_block(dimension, blocks), size)
            for dimension, blocks, size in zip(
                "xy", self.grid, (self.rows, self.columns), strict=False
            )
        )
        batch = _block("z", problem.batch)
        left, right = Source.left(problem.a, problem.K), Source.right(problem.b, problem.K)
        a = Tile(left, unit, self.rows, self.threads, inputs[problem.a.argument], lds_a)
        b = Tile(right, unit, self.columns, self.threads, inputs[problem.b.argument], lds_b)
        a.begin(thread, batch, m0)
        b.begin(thread, batch, n0)
        lane = self._lane(thread)
        sums = self._sums(a, b, lane)
        self._store(sums, Epilogue(self.match, inputs, outputs), lane, batch, m0, n0)

    def _lane(self, thread: ir.Value) -> _Lane:
        wave_size, schedule, unit = self.target.wave_size, self.schedule, self.unit
        wave: Index = emit.div(thread, wave_size)
        if schedule.waves == 1:
            wave = 0
        lane = emit.rem(thread, wave_size)
        wave_m = emit.mul(emit.rem(wave, schedule.waves_m), schedule.tiles_m * unit.rows)
        wave_n = emit.mul(emit.div(wave, schedule.waves_m), schedule.tiles_n * unit.columns)
        return _Lane(wave_m, wave_n, emit.rem(lane, unit.rows), emit.div(lane, unit.rows))

    def _sums(self, a: Tile, b: Tile, lane: _Lane) -> list[ir.Value]:
        """The sums of all tiles of the thread's wave, row by row of tiles."""
        unit, schedule = self.unit, self.schedule
        depth = unit.tile_depth
        steps = ROW_CHUNKS // unit.step_chunks
        group: Index = lane.group if unit.groups > 1 else 0
        rows = multiply.Operand(unit, a.lds, emit.add(lane.wave_m, lane.row), group)
        columns = [
            multiply.Operand(unit, b.lds, emit.add(lane.wave_n, column), group)
            for column in self._lane_columns(lane)
        ]
        tile_rows = [i * unit.rows for i in range(schedule.tiles_m)]
        tile_columns = [j * unit.columns for j in range(schedule.tiles_n)]
        if unit.kind != "fma":
            rows.prepare(tile_rows, steps)
            for operand in columns:
                operand.prepare(tile_columns, steps)
        b_element = self.problem.b.element
        unsigned = (self.problem.a.element == "ui8", b_element == "ui8")

        def step(number: Index, sums: list[ir.Value]) -> list[ir.Value]:
            left = [multiply.pieces(unit, rows.read(row, number)) for row in tile_rows]
            right = [
                [multiply.pieces(unit, operand.read(first, number)) for operand in columns]
                for first in tile_columns
            ]
            result = list(sums)
            # Instructions that add to the same sums are far apart: the second waits for
            # the first.
            for part in range(len(left[0])):
                for at in range(len(result)):
                    row = left[at // schedule.tiles_n][part]
                    column = [x[part] for x in right[at % schedule.tiles_n]]
                    result[at] = multiply.multiply(unit, row, column, result[at], unsigned)
            return result

        def multiplied(sums: list[ir.Value]) -> list[ir.Value]:
            if unit.kind == "fma":
                # Hundreds of instructions a step: repeating them only takes registers.
                return _rolled(steps, sums, step)
            for number in range(steps):
                sums = step(number, sums)
            return sums

        def pass_on(values: Sequence[ir.Value], first: bool) -> None:
            if not first:
                amdgpu.LDSBarrierOp()  # nobody reads the tile before any more
            a.store(values[: len(values) - len(ahead_b)])
            b.store(values[len(values) - len(ahead_b) :])
            amdgpu.LDSBarrierOp()

        count = schedule.tiles_m * schedule.tiles_n
        sums = [multiply.zero(unit) for _ in range(count)]
        ahead_a, ahead_b = a.load(0), b.load(0)
        tiles = math.ceil(self.problem.K / depth)
        pass_on([*ahead_a, *ahead_b], True)
        if tiles > 1:

            def body(k: ir.Value, *carried: ir.Value) -> list[ir.Value]:
                ahead = [*a.load(k), *b.load(k)]
                result = multiplied(list(carried))
                pass_on(ahead, False)
                return result

            sums = emit.loop(depth, tiles * depth, depth, body, sums)
        return multiplied(sums)

    def _lane_columns(self, lane: _Lane) -> list[Index]:
        """The column of a tile that a lane reads: such that its results are neighbours."""
        unit = self.unit
        if unit.kind == "fma":
            return [emit.add(emit.mul(lane.group, unit.values), i) for i in range(unit.values)]
        if unit.kind == "wmma" and unit.groups == 1:
            # RDNA 3: result i of a lane is row 2 * i + lane / 16 of its tile.
            odd = emit.mul(emit.rem(lane.row, 2), unit.values)
            return [emit.add(odd, emit.div(lane.row, 2))]
        return [lane.row]

    def _store(
        self,
        sums: list[ir.Value],
        epilogue: Epilogue,
        lane: _Lane,
        batch: Index,
        m0: Index,
        n0: Index,
    ) -> None:
        schedule, unit, problem = self.schedule, self.unit, self.problem
        bounded = problem.N % self.columns != 0
        for i in range(schedule.tiles_m):
            m = emit.add(emit.add(m0, emit.add(lane.wave_m, lane.row)), i * unit.rows)
            inside = []
            if problem.M % self.rows:
                inside = [emit.compare("slt", m, problem.M)]
            for j in range(schedule.tiles_n):
                column = emit.add(lane.wave_n, emit.mul(lane.group, unit.values))
                n = emit.add(emit.add(n0, column), j * unit.columns)
                epilogue(sums[i * schedule.tiles_n + j], batch, m, n, inside, bounded)


def _rolled(
    steps: int, sums: list[ir.Value], step: Callable[[Index, list[ir.Value]], list[ir.Value]]
) -> list[ir.Value]:
    """The steps as a loop that LLVM does not unroll."""
    sums = emit.loop(0, steps, 1, lambda number, *carried: step(number, list(carried)), sums)
    if steps > 1:
        loop = sums[0].owner
        loop.attributes["llvm.loop_annotation"] = ir.Attribute.parse(
            "#llvm.loop_annotation<unroll = <disable = true>>"
        )
    return sums


def _block(dimension: str, blocks: int) -> Index:
    return 0 if blocks == 1 else _position("gpu.block_id", dimension, blocks)


def _position(op: str, dimension: str, bound: int) -> ir.Value:
    return ir.Operation.create(
        op,
        results=[ir.IndexType.get()],
        attributes={
            "dimension": ir.Attribute.parse(f"#gpu<dim {dimension}>"),
            "upper_bound": ir.IntegerAttr.get(ir.IndexType.get(), bound),
        },
    ).result
