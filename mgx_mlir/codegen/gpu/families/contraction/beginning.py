"""The beginning of a product whose rows are normalised: its waves do that to what they read.

    m, q = mean(x[row, ..]), sum((x[row, ..] - m)^2)    each lane, of its elements of a row
    a, b = factor(variance), (m - mean) * a             of all lanes of the row, in order
    fragments = ((x - m) * a + b) * scale + shift       in the registers that hold x

The rows stay in registers from one read on. The parts of a row are combined in order, by the
distances of their means, so that the variance is exact however far from 0 the mean is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir
from mlir.dialects import arith
from mlir.dialects import math as math_

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import thread_number
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.builders.ordering import barrier
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.contraction.cost import LANES_A_CLOCK
from mgx_mlir.codegen.gpu.families.contraction.function import Parameter, Tensors
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule, Tiling
from mgx_mlir.codegen.gpu.families.rows.evaluate import Evaluator, Layout
from mgx_mlir.codegen.gpu.families.rows.match import Rows
from mgx_mlir.codegen.meaning.element import bit_width
from mgx_mlir.codegen.problem.problem import Axis, Matrix
from mgx_mlir.codegen.problem.views import element_name
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.normalisation import Normalisation, normalisation_of
from mgx_mlir.sizes.arithmetic import ceil_div

# Vector instructions for an element: its conversion, two sums, and what becomes of it.
_WORK = 4
# Clocks of the exchange of rows' parts in LDS, and of a lane's sums, for a row of tiles.
_EXCHANGE = 400
# Registers of a lane for sums, fragments, and rows as f32, at most.
_REGISTERS = 240
_AT_ONCE = 4  # parts of a row that a lane reads from LDS at a time


@dataclass(frozen=True)
class Beginning:
    """The rows `x` of a product, which are normalised as `found` says.

    scale, shift: what columns are multiplied by, and what is added to them. results: the product's,
    and at last the normalised rows where the kernel `keeps` them.
    """

    reduced: Rows
    found: Normalisation
    x: Matrix
    scale: MemoryOperand | None
    shift: MemoryOperand | None
    unit: Unit
    target: Target
    results: tuple[Parameter, ...]
    keeps: bool

    @staticmethod
    def of(
        reduced: Rows, reduce: mgx.FusedReduceOp, unit: Unit, target: Target,
        results: Sequence[Parameter], keeps: bool,
    ) -> Beginning | Refusal:  # fmt: skip
        """The rows that a `mgx.fused_reduce` normalises, where fragments can be."""
        found, element = normalisation_of(reduce), unit.element
        if found is None:
            return Refusal("rows that are reduced in another way than normalised")
        x = reduced.sources[found.x]
        if not isinstance(x, MemoryOperand) or x.element.name != element:
            return Refusal(f"rows of other elements than {element}")
        beside: list[MemoryOperand | None] = []
        for value in (found.scale, found.shift):
            one = None if value is None else reduced.sources[value]
            if one is not None and not (
                isinstance(one, MemoryOperand) and one.inner == Axis.of((reduced.columns, 1))
                and all(stride == 0 for _, stride in one.outer.factors)
                and one.offset == 0 and one.element.name in (element, "f32")
            ):  # fmt: skip
                return Refusal("scales that are no numbers of the columns")
            beside.append(one)
        own = Matrix(x.argument, element, x.offset, Axis(()), x.outer, x.inner)
        scale, shift = beside
        return Beginning(reduced, found, own, scale, shift, unit, target, tuple(results), keeps)

    @property
    def inputs(self) -> dict[int, str]:
        """The elements of what is read besides the rows, by number."""
        return {x.argument: x.element.name for x in self.beside}

    @property
    def beside(self) -> list[MemoryOperand]:
        """The scales and the shifts of columns, where there are any."""
        return [x for x in (self.scale, self.shift) if x is not None]

    def parts(self, threads: int) -> int:
        """Lanes that have a part of a row."""
        return threads // self.target.wave_size * self.unit.groups

    def arrays(self, block: int, threads: int) -> tuple[tuple[int, ir.Type], ...]:
        """The arrays in LDS: of the means of rows' parts, of their squares' sums, and of what
        columns are scaled and shifted by."""
        size, turn = block * self._pitch(threads), threads * self.unit.chunk
        columns = ceil_div(self.reduced.columns, turn) * turn
        others = [(columns, emit.element_type(x.element.name)) for x in self.beside]
        return ((size, ir.F32Type.get()),) * 2 + tuple(others)

    def _pitch(self, threads: int) -> int:
        """Elements of a row of parts; neighbouring rows begin in other banks."""
        return self.parts(threads) + _AT_ONCE

    def of_tiling(self, tiling: Tiling) -> float:
        """The estimate beside that of the product; endless where waves do not hold all of a row."""
        schedule, unit, columns = tiling.schedule, tiling.unit, self.reduced.columns
        if not schedule.waves_k or schedule.splits > 1:
            return math.inf
        steps = columns // schedule.step(unit)
        held = steps * unit.fragment * (3 * schedule.tiles_m + schedule.tiles_n + 2)
        sums = schedule.tiles_m * schedule.tiles_n * unit.sums
        own, threads = schedule.rows(unit), tiling.threads
        lds = [(schedule.waves_k * own * schedule.columns(unit), ir.F32Type.get())]
        bytes_ = sum(n * bit_width(x) // 8 for n, x in (*lds, *self.arrays(own, threads)))
        if steps > schedule.prefetch or sums + held > _REGISTERS or bytes_ > self.target.lds_bytes:
            return math.inf
        wide = self.results[0].size // self.reduced.rows
        tiles = ceil_div(self.reduced.rows, own) * ceil_div(wide, schedule.columns(unit))
        turns = ceil_div(tiles, self.target.compute_units)
        return schedule.tiles_m * _EXCHANGE + turns * own * columns * _WORK / LANES_A_CLOCK


@dataclass
class WaveRows:
    """The rows of a wave's fragments: those of its tiles, from the lane's k on.

    part: the lane's number among those that have a part of a row. group: the number of the
    work-group, and how many have the same rows.
    """

    own: Beginning
    tensors: Tensors
    schedule: ProductSchedule
    rows: Sequence[Index]
    k: Index
    row: Index
    part: Index
    group: tuple[Index, int]

    def read(self, steps: Sequence[Index], parts: Sequence[int]) -> None:
        """Reads what columns are scaled and shifted by, to LDS: each lane needs all of a part."""
        self.columns = [emit.add(emit.add(self.k, k0), part) for k0 in steps for part in parts]
        chunk, threads = self.own.unit.chunk, self.schedule.waves * self.own.target.wave_size
        own = emit.mul(thread_number(threads), chunk)
        turns = range(0, self.own.reduced.columns, threads * chunk)
        self.beside = [
            (memory.load(self.tensors.inputs[x.argument], at, chunk), array, at)
            for x, array in zip(self.own.beside, self.tensors.arrays[2:], strict=True)
            for at in [emit.add(own, turn) for turn in turns]
        ]

    def normalised(self, values: Sequence[Sequence[ir.Value]]) -> list[list[ir.Value]]:
        """The fragments of each step, normalised."""
        own, unit, each = self.own, self.own.unit, self.own.unit.lane_chunks
        tiles = [
            [x for step in values for x in step[i * each : (i + 1) * each]]
            for i in range(self.schedule.tiles_m)
        ]
        wide = [[emit.convert(x, own.x.element, "f32") for x in tile] for tile in tiles]
        pitch = own._pitch(self.schedule.waves * own.target.wave_size)
        starts = [emit.mul(emit.add(self.row, i * unit.rows), pitch) for i in range(len(tiles))]
        parts = [self._part(tile) for tile in wide]
        for start, (mean, left) in zip(starts, parts, strict=True):
            sums = mean, self._squares(left)
            for x, array in zip(sums, self.tensors.arrays[:2], strict=True):
                emit.store(x, array, emit.add(start, self.part))
        for x, array, at in self.beside:
            memory.store(x, array, at)
        barrier()
        arrays = iter(self.tensors.arrays[2:])
        self.scales, self.shifts = (self._columns_of(next(arrays)) if x else []
                                    for x in (own.scale, own.shift))  # fmt: skip
        self.made = [
            self._applied(left, *self._row(start, mean, len(left) * unit.chunk))
            for start, (mean, left) in zip(starts, parts, strict=True)
        ]
        return [
            [x for tile in self.made for x in tile[t * each : (t + 1) * each]]
            for t in range(len(values))
        ]

    def _columns_of(self, array: ir.Value) -> list[ir.Value]:
        return [memory.load(array, column, self.own.unit.chunk) for column in self.columns]

    def _part(self, tile: Sequence[ir.Value]) -> tuple[ir.Value, list[ir.Value]]:
        """The mean of a lane's elements of a row, and their distances from it: from 0 where rows
        are not centred."""
        mean, left = emit.constant(0, "f32"), list(tile)
        if self.own.found.centred:
            count = len(tile) * self.own.unit.chunk
            total = tile[0]
            for x in tile[1:]:
                total = arith.addf(total, x)
            share = emit.constant(1 / count, "f32")
            mean = arith.mulf(emit.reduce_add(total, "f32"), share)
            # Added, so that CDNA does two at a time.
            away = emit.splat(arith.negf(mean), self.own.unit.chunk)
            left = [arith.addf(x, away) for x in tile]
        return mean, left

    def _squares(self, left: Sequence[ir.Value]) -> ir.Value:
        total: ir.Value = arith.mulf(left[0], left[0])
        for x in left[1:]:
            total = emit.multiply_add(x, x, total, "f32")
        return emit.reduce_add(total, "f32")

    def _row(self, start: Index, part: ir.Value, count: int) -> tuple[ir.Value, ir.Value]:
        """a and b of (x - part) * a + b, from a row's parts of `count` elements each."""
        own, found = self.own, self.own.found
        parts = own.parts(self.schedule.waves * own.target.wave_size)
        means, squares = (
            [memory.load(array, emit.add(start, i), _AT_ONCE) for i in range(0, parts, _AT_ONCE)]
            for array in self.tensors.arrays[:2]
        )

        def total(vectors: Sequence[ir.Value]) -> ir.Value:
            found = vectors[0]
            for x in vectors[1:]:
                found = arith.addf(found, x)
            return emit.reduce_add(found, "f32")

        moment, mean = total(squares), emit.constant(0, "f32")
        if found.centred:
            mean = arith.mulf(total(means), emit.constant(1 / parts, "f32"))
            left = [arith.subf(x, emit.splat(mean, _AT_ONCE)) for x in means]
            apart = arith.mulf(self._squares(left), emit.constant(count, "f32"))
            moment = arith.addf(moment, apart)
        if isinstance(found.moment, mgx.ReduceMeanOp):
            moment = arith.mulf(moment, emit.constant(1 / own.reduced.columns, "f32"))
        result = found.moment.results[0]
        evaluator = Evaluator(own.reduced, Layout())
        evaluator.define(result, emit.convert(moment, "f32", element_name(result.type)))
        factor = evaluator.row(found.factor)
        factor = emit.convert(factor, element_name(found.factor.type), "f32")
        if found.divides:
            factor = arith.divf(emit.constant(1, "f32"), factor)
        return factor, arith.mulf(arith.subf(part, mean), factor)

    def _applied(
        self, tile: Sequence[ir.Value], factor: ir.Value, offset: ir.Value
    ) -> list[ir.Value]:
        """The elements of a row, normalised: `tile` are their distances from a part's mean."""
        own, lanes = self.own, self.own.unit.chunk
        element, last = own.x.element, element_name(own.found.last.type)
        # f16 is multiplied and added as it is, two an instruction.
        kind = last if last in ("f16", "f32") else "f32"
        made = []
        for number, x in enumerate(tile):
            # One by one: an instruction widens f16, multiplies, adds, and narrows the result.
            each = (math_.fma(memory.element(x, i), factor, offset) for i in range(lanes))
            y = memory.joined([emit.convert(one, "f32", last) for one in each])
            y = emit.convert(y, last, kind)
            scale, shift = (
                emit.convert(values[number], operand.element.name, kind) if operand else None
                for values, operand in ((self.scales, own.scale), (self.shifts, own.shift))
            )
            if scale is not None and shift is not None:
                y = emit.multiply_add(y, scale, shift, kind)
            elif scale is not None:
                y = arith.mulf(y, scale)
            elif shift is not None:
                y = arith.addf(y, shift)
            made.append(emit.convert(y, kind, element))
        return made

    def store(self) -> None:
        """Stores the rows where the kernel gives them, each of a row's work-groups a part: after
        all that another wave waits for."""
        if not self.own.keeps:
            return
        (own, groups), buffer = self.group, self.tensors.outputs[-1]
        for number in range(len(self.columns)):
            turn = emit.compare("eq", own, number % groups)
            emit.when(turn, partial(self._store, buffer, number))

    def _store(self, buffer: ir.Value, number: int) -> None:
        for row, tile in zip(self.rows, self.made, strict=True):
            # Rows past the last one are outside of the buffer.
            start = emit.mul(row, self.own.reduced.columns)
            at = emit.add(start, self.columns[number])
            memory.store(tile[number], buffer, at)
