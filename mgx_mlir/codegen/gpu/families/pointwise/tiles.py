"""The function of a pointwise kernel that transposes inputs in registers (see transposed)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import lanes, memory
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.pointwise.match import Elements
from mgx_mlir.codegen.gpu.families.pointwise.transposed import (
    BLOCK,
    TransposedSchedule,
    outer,
    strides,
)
from mgx_mlir.codegen.gpu.families.rows.evaluate import Chunk, Evaluator


def emit_tiles(
    elements: Elements,
    schedule: TransposedSchedule,
    buffers: Mapping[Argument, ir.Value],
    thread: Index,
    block: Index,
    target: Target,
) -> None:
    """Builds the body: each wave computes a tile."""
    tile = _Tile(elements, schedule, buffers, target)
    tile.begin(thread, block)
    values = Evaluator(elements, tile)
    chunks = [Chunk(number) for number in range(schedule.run_b)]
    # All reads go first: they are in flight together, and results may overwrite the inputs.
    for chunk in chunks:
        for value, source in elements.sources.items():
            if isinstance(source, MemoryOperand) and elements.is_whole(value):
                values.whole(value, chunk)
    for number, chunk in enumerate(chunks):
        for result in elements.results:
            x = values.whole(result.value, chunk)
            operand = elements.operand_of(result)
            made, start = tile.along_a(operand, number)
            buffer = buffers[Argument("output", result.number)]
            made.store(x, buffer, start, tile.a, tile.inside)


class _Tile:
    """A lane's part of a tile. A chunk's column is its number along B."""

    def __init__(
        self,
        elements: Elements,
        schedule: TransposedSchedule,
        buffers: Mapping[Argument, ir.Value],
        target: Target,
    ) -> None:
        self.elements, self.schedule, self.target = elements, schedule, target
        self.buffers = buffers
        self._read: dict[MemoryOperand, list[ir.Value]] = {}

    def begin(self, thread: Index, block: Index) -> None:
        schedule, wave = self.schedule, self.target.wave_size
        number = emit.add(emit.mul(block, BLOCK // wave), lanes.uniform(emit.div(thread, wave)))
        lane = emit.rem(thread, wave)
        inside = []
        if schedule.waves % (BLOCK // wave):
            inside.append(emit.compare("slt", number, schedule.waves))
        tile_a, tile_b = emit.rem(number, schedule.tiles[0]), emit.div(number, schedule.tiles[0])
        tile_b, rest = emit.rem(tile_b, schedule.tiles[1]), emit.div(tile_b, schedule.tiles[1])
        self.offsets: dict[int, Index] = {}
        for d in reversed(range(len(schedule.sizes) - 1)):
            if d != schedule.b:
                self.offsets[d] = emit.rem(rest, schedule.sizes[d])
                rest = emit.div(rest, schedule.sizes[d])
        along_a = emit.mul(emit.rem(lane, schedule.lanes_a), schedule.run_a)
        along_b = emit.mul(emit.div(lane, schedule.lanes_a), schedule.run_b)
        self.a = emit.add(emit.mul(tile_a, schedule.tile[0]), along_a)
        self.b = emit.add(emit.mul(tile_b, schedule.tile[1]), along_b)
        if schedule.sizes[-1] % schedule.tile[0]:
            inside.append(emit.compare("slt", self.a, schedule.sizes[-1]))
        if schedule.sizes[schedule.b] % schedule.tile[1]:
            inside.append(emit.compare("slt", self.b, schedule.sizes[schedule.b]))
        self.inside = inside

    def along_a(self, operand: MemoryOperand, number: int) -> tuple[MemoryOperand, Index]:
        """The operand with vectors along A, and the offset of the lane's vector `number` along
        B."""
        schedule = self.schedule
        last = len(schedule.sizes) - 1
        made, steps = outer(operand, schedule.sizes, last, schedule.whole[0])
        return made, self._start(operand, steps, (schedule.b, emit.add(self.b, number)))

    def _start(
        self, operand: MemoryOperand, steps: Sequence[int], *more: tuple[int, Index]
    ) -> Index:
        start: Index = operand.offset
        for d, index in [*self.offsets.items(), *more]:
            start = emit.add(start, emit.mul(index, steps[d]))
        return start

    def load(self, source: MemoryOperand, chunk: Chunk) -> ir.Value:
        assert isinstance(chunk.column, int)
        schedule = self.schedule
        steps = strides(source, schedule.sizes)
        assert steps is not None
        buffer = self.buffers[Argument("input", source.argument)]
        if steps[-1] in (0, 1) or steps[schedule.b] != 1:
            made, start = self.along_a(source, chunk.column)
            return made.load(buffer, start, self.a, schedule.run_a, self.inside)
        if source not in self._read:
            made, _ = outer(source, schedule.sizes, schedule.b, schedule.whole[1])
            last = len(schedule.sizes) - 1
            self._read[source] = [
                made.load(
                    buffer,
                    self._start(source, steps, (last, emit.add(self.a, i))),
                    self.b,
                    schedule.run_b,
                    self.inside,
                )
                for i in range(schedule.run_a)
            ]
        return memory.joined([memory.element(x, chunk.column) for x in self._read[source]])

    def load_row(self, source: MemoryOperand) -> ir.Value:
        buffer = self.buffers[Argument("input", source.argument)]
        return source.load_one(buffer, source.start(0))

    def of_row(self, value: ir.Value) -> ir.Value:
        return value

    def repeated(self, value: ir.Value) -> ir.Value:
        return emit.splat(value, self.schedule.run_a)

    def columns_of(self, chunk: Chunk) -> ir.Value:
        raise AssertionError("only reductions ask for indices")
