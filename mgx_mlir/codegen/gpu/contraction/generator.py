"""One gpu.func that multiplies matrices: tiles through LDS, sums in registers.

A block of threads owns one tile of C. In every step along k it writes the operands' tiles
from registers to LDS, starts reading the next ones from memory, and multiplies what lies in
LDS; the sums leave through the epilogue. Memory is read and written through raw buffers, so
that sizes that no tile divides need no branches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import gpu

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.emit import Index
from mgx_mlir.codegen.contraction.match import Match, used_arguments
from mgx_mlir.codegen.contraction.problem import Matrix
from mgx_mlir.codegen.gpu.contraction import memory, multiply, sources
from mgx_mlir.codegen.gpu.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.contraction.pipeline import Pipeline
from mgx_mlir.codegen.gpu.contraction.space import Schedule
from mgx_mlir.codegen.gpu.contraction.specs import SIDES, Unit
from mgx_mlir.codegen.gpu.contraction.tile import Tile
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
                "workgroup_attributions": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 1),
            },
            regions=1,
            ip=ir.InsertionPoint(block),
        )
        space = ir.Attribute.parse("#gpu.address_space<workgroup>")
        element, depth = emit.element_type(self.unit.element), self.unit.tile_depth
        size = SIDES * (self.rows + self.columns) * depth
        lds = ir.MemRefType.get([size], element, memory_space=space)
        location = ir.Location.unknown()
        entry = op.regions[0].blocks.append(*types, lds, arg_locs=[location] * (len(types) + 1))
        with ir.InsertionPoint(entry):
            pointers = list(entry.arguments)
            buffers = [memory.buffer(p) for p in pointers[: len(types)]]
            inputs = {number: b for (number, _), b in zip(used, buffers, strict=False)}
            places = {number: p for (number, _), p in zip(used, pointers, strict=False)}
            self._body(places, inputs, buffers[len(used) :], pointers[-1])
            gpu.return_([])
        outputs = [Argument("output", n) for n in range(len(self.match.result_elements))]
        return (*(Argument("input", number) for number, _ in used), *outputs)

    def _body(
        self,
        pointers: dict[int, ir.Value],
        inputs: dict[int, ir.Value],
        outputs: Sequence[ir.Value],
        lds: ir.Value,
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
        depth, threads = unit.tile_depth, self.threads
        rows = sources.left(problem.a, problem.K, depth, pointers[problem.a.argument])
        columns = sources.right(problem.b, problem.K, depth, pointers[problem.b.argument])
        a = Tile(rows, unit, self.rows, threads, lds, 0)
        b = Tile(columns, unit, self.columns, threads, lds, self.rows * depth)
        a.begin(thread, batch, m0, problem.M)
        b.begin(thread, batch, n0, problem.N)
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
        unit = self.unit
        group: Index = lane.group if unit.groups > 1 else 0
        rows = multiply.Operand(unit, a.lds, a.start, emit.add(lane.wave_m, lane.row), group)
        columns = [
            multiply.Operand(unit, b.lds, b.start, emit.add(lane.wave_n, column), group)
            for column in self._lane_columns(lane)
        ]
        unsigned = (a.source.element == "ui8", b.source.element == "ui8")
        pipeline = Pipeline(unit, self.schedule, a, b, rows, columns, unsigned)
        return pipeline.run(math.ceil(self.problem.K / unit.tile_depth))

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
