"""One gpu.func for a topk: a bitonic sort in LDS, of a row or of what may still come first.

An element is sorted as one number of 64 bits: its key, which is larger the earlier it comes,
and below it the complement of its index, so that of equal elements the first one wins. Rows
that are longer than what is sorted at a time come in pieces, each of which meets the first
half of what was sorted before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import amdgpu, arith

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.emit import Index
from mgx_mlir.codegen.gpu import builder
from mgx_mlir.codegen.gpu.contraction import memory
from mgx_mlir.codegen.gpu.generic import GpuProgram
from mgx_mlir.codegen.gpu.operands import Operand
from mgx_mlir.codegen.gpu.topk.match import Topk
from mgx_mlir.codegen.lowering.arithmetic import Arithmetic
from mgx_mlir.codegen.lowering.convert import load
from mgx_mlir.codegen.lowering.element import SIGNED
from mgx_mlir.finalizer.code_object import Argument, Launch

_BLOCK = 256


@dataclass(frozen=True)
class Schedule:
    """`threads` threads sort a row; a block has `together` rows."""

    threads: int
    together: int

    @staticmethod
    def of(topk: Topk) -> Schedule:
        """A thread for each pair that is compared."""
        threads = topk.sorted // 2
        return Schedule(threads, max(1, _BLOCK // threads))

    def describe(self) -> str:
        """For people."""
        return f"{2 * self.threads} elements sorted at a time, {self.together} rows together"


def generate(
    topk: Topk,
    types: tuple[Sequence[ir.Type], Sequence[ir.Type]],
    schedule: Schedule,
    name: str,
) -> GpuProgram:
    """The function `<name>_0`, and its launch.

    types: of the kernel's inputs and results. Needs an active MLIR context and location.
    """
    inputs, results = types
    used = topk.source.argument
    arguments = [builder.tensor_of(inputs[used])]
    arguments += [builder.tensor_of(type_, written=True) for type_ in results]
    module, block = builder.gpu_module()
    function = f"{name}_0"
    threads = schedule.threads * schedule.together
    grid = builder.grid_of(-(-topk.rows // schedule.together))
    lds = [(topk.sorted * schedule.together, ir.IntegerType.get_signless(64))]
    with builder.function(block, function, arguments, threads, grid, lds) as frame:
        thread = builder.thread_number(threads)
        group = emit.div(thread, schedule.threads)
        row = emit.add(emit.mul(builder.linear_block(grid), schedule.together), group)
        part = emit.rem(thread, schedule.threads)
        start = emit.mul(group, topk.sorted)
        _Sort(topk, schedule, frame, row, part, start).emit()
    passed = (Argument("input", used), Argument("output", 0), Argument("output", 1))
    return GpuProgram(module, (Launch(function, grid, (threads, 1, 1), passed),), 0, 32)


class _Sort:
    """One row; `start` is where its elements begin in LDS."""

    def __init__(
        self,
        topk: Topk,
        schedule: Schedule,
        frame: builder.Frame,
        row: Index,
        part: Index,
        start: Index,
    ) -> None:
        self.topk, self.threads, self.frame = topk, schedule.threads, frame
        self.row, self.part, self.start = row, part, start
        self.lds = frame.lds[0]
        self.place = topk.source.start(row)
        self.bounded = topk.rows % schedule.together != 0

    def emit(self) -> None:
        topk, half = self.topk, self.threads
        for first in (0, half):
            self._fill(first, first)
        self._sort()

        def piece(column: ir.Value) -> None:
            self._fill(half, column)
            self._sort()

        emit.loop(2 * half, topk.columns, half, piece)
        for first in range(0, topk.k, half):
            self._store(emit.add(self.part, first), first + half > topk.k)

    def _fill(self, at: int, first: Index) -> None:
        """Puts the elements from `first` on, one of each thread, to `at` .. in LDS."""
        column = emit.add(self.part, first)
        there = emit.compare("slt", column, self.topk.columns)
        x = self.topk.source.load(self.frame.buffers[0], self.place, column, 1, [there])
        zero = emit.constant(0, "i64")
        packed = arith.select(there, self._packed(memory.element(x, 0), column), zero)
        emit.store(packed, self.lds, emit.add(self.start, emit.add(self.part, at)))

    def _packed(self, x: ir.Value, column: Index) -> ir.Value:
        i32, i64 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)
        complement = arith.xori(arith.index_cast(i32, emit.value(column)), emit.constant(-1, "i32"))
        high = arith.shli(arith.extui(i64, self._key(x)), emit.constant(32, "i64"))
        return arith.ori(high, arith.extui(i64, complement))

    def _key(self, x: ir.Value) -> ir.Value:
        """An unsigned number of 32 bits that is larger the earlier the element comes."""
        a, element = Arithmetic(), self.topk.source.element
        i32 = ir.IntegerType.get_signless(32)
        x = load(a, element, x)
        sign = emit.constant(-(1 << 31), "i32")
        ones = emit.constant(-1, "i32")
        if element.is_float:
            # -0 is equal to 0, and NaN above every number.
            nan = a.compare("uno", x, x)
            bits = arith.bitcast(i32, arith.addf(x, a.float(0.0, x)))
            negative = a.icompare("slt", bits, emit.constant(0, "i32"))
            key = a.select(negative, arith.xori(bits, ones), arith.ori(bits, sign))
            key = a.select(nan, ones, key)
        else:
            if x.type != i32:
                x = a.extend(element, x, i32)
            key = arith.xori(x, sign) if element.kind == SIGNED else x
        return key if self.topk.largest else arith.xori(key, ones)

    def _sort(self) -> None:
        """Sorts what is in LDS, the largest first."""
        amdgpu.LDSBarrierOp()
        stages = (2 * self.threads).bit_length() - 1

        def stage(number: ir.Value) -> None:
            def step(back: ir.Value) -> None:
                shift = emit.sub(emit.sub(number, 1), back)
                self._exchange(emit.value(shift), number)
                amdgpu.LDSBarrierOp()

            emit.loop(0, number, 1, step)

        emit.loop(1, stages + 1, 1, lambda number: stage(emit.value(number)))

    def _exchange(self, shift: ir.Value, stage: ir.Value) -> None:
        """Compares the thread's two elements, 2^shift apart, and puts them in order."""
        one, part = emit.value(1), emit.value(self.part)
        apart = arith.shli(one, shift)
        low = arith.andi(part, arith.subi(apart, one))
        first = arith.addi(arith.shli(arith.subi(part, low), one), low)
        # Runs of 2^stage are sorted one down and the next one up.
        up = arith.andi(arith.shrui(first, stage), one)
        at = arith.addi(emit.value(self.start), first)
        other = arith.addi(at, apart)
        x, y = emit.load(self.lds, at), emit.load(self.lds, other)
        less = arith.cmpi(arith.CmpIPredicate.ult, x, y)
        swap = arith.xori(less, emit.compare("ne", up, 0))
        emit.store(arith.select(swap, y, x), self.lds, at)
        emit.store(arith.select(swap, x, y), self.lds, other)

    def _store(self, rank: Index, bounded: bool) -> None:
        """The element that has come to a place of the result, and where it comes from."""
        topk = self.topk
        i32 = ir.IntegerType.get_signless(32)
        packed = emit.load(self.lds, emit.add(self.start, rank))
        index = arith.xori(arith.trunci(i32, packed), emit.constant(-1, "i32"))
        column = arith.index_cast(ir.IndexType.get(), index)
        guards = [emit.compare("slt", rank, topk.k)] if bounded else []
        if self.bounded:
            guards.append(emit.compare("slt", self.row, topk.rows))
        x = topk.source.load(self.frame.buffers[0], self.place, column, 1, guards)
        self._put(topk.values, 1, x, rank, guards)
        wide = (
            arith.extsi(topk.indices.element.storage(), index)
            if (topk.indices.element.bits > 32)
            else index
        )
        self._put(topk.indices, 2, emit.splat(wide, 1), rank, guards)

    def _put(
        self, operand: Operand, buffer: int, x: ir.Value, rank: Index, guards: Sequence[ir.Value]
    ) -> None:
        start = operand.start(self.row)
        operand.store(x, self.frame.buffers[buffer], start, rank, guards)
