"""The functions of a topk: rows, or pieces of them, are sorted in LDS.

An element is sorted as one number of 64 bits, or of 128 where it has 64 itself: its key, which
is larger the earlier it comes, and below it the complement of its index, so that of equal
elements the first one wins. Of a row that is longer than what is sorted at a time, the first
elements of each piece are sorted again, until they fit. Where more elements are wanted than half
a piece has, sorted pieces are merged instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.emit import Index
from mgx_mlir.codegen.gpu import builder
from mgx_mlir.codegen.gpu.contraction import memory
from mgx_mlir.codegen.gpu.generic import GpuProgram
from mgx_mlir.codegen.gpu.launches import Launches
from mgx_mlir.codegen.gpu.operands import Operand
from mgx_mlir.codegen.gpu.topk.match import MOST, Topk
from mgx_mlir.codegen.gpu.topk.merge import merge
from mgx_mlir.codegen.gpu.topk.sort import Sort
from mgx_mlir.codegen.lowering.arithmetic import Arithmetic
from mgx_mlir.codegen.lowering.convert import load
from mgx_mlir.codegen.lowering.element import I64, SIGNED, Element
from mgx_mlir.finalizer.code_object import Argument
from mgx_mlir.target import Target

_BLOCK = 256
_OUTPUTS = (Argument("output", 0), Argument("output", 1))
Buffers = dict[Argument, ir.Value]


@dataclass(frozen=True)
class Schedule:
    """`threads` threads sort twice as many elements; a block has `together` of such pieces.

    rounds: the pieces of a row that are sorted, round after round. merged: whether the pieces
    of the only round are merged.
    """

    threads: int
    together: int
    rounds: tuple[int, ...]
    merged: bool

    @staticmethod
    def of(topk: Topk) -> Schedule:
        """A thread for each pair that is compared."""
        threads = topk.sorted // 2
        merged = topk.columns > MOST and topk.k > MOST // 2
        rounds, columns = [-(-topk.columns // topk.sorted)], topk.columns
        while rounds[-1] > 1 and not merged:
            columns = rounds[-1] * topk.k
            rounds.append(-(-columns // topk.sorted))
        return Schedule(threads, max(1, _BLOCK // threads), tuple(rounds), merged)

    def describe(self) -> str:
        """For people."""
        pieces = ", then ".join(map(str, self.rounds)) + " pieces a row"
        rest = ", merged" if self.merged else ""
        size = f"{2 * self.threads} elements sorted at a time, {self.together} together"
        return f"{size}, {pieces}{rest}"


def generate(
    topk: Topk,
    types: tuple[Sequence[ir.Type], Sequence[ir.Type]],
    schedule: Schedule,
    target: Target,
    name: str,
) -> GpuProgram:
    """The functions `<name>_0` .., and their launches.

    types: of the kernel's inputs and results. Needs an active MLIR context and location.
    """
    return _Functions(topk, Launches(name, types), schedule, target).program()


class _Functions:
    def __init__(self, topk: Topk, launches: Launches, schedule: Schedule, target: Target) -> None:
        self.topk, self.launches, self.schedule, self.target = topk, launches, schedule, target
        self.input = Argument("input", topk.source.argument)
        self.size = 2 * schedule.threads  # of a piece
        self.number = Element("i128", SIGNED, 128) if topk.source.element.bits > 32 else I64
        self.bytes = self.number.bits // 8

    def program(self) -> GpuProgram:
        topk, rounds = self.topk, self.schedule.rounds
        if self.schedule.merged:
            (runs,) = rounds
            pieces = self._parts(self.size, runs)
            self._sort(pieces, runs, topk.columns, self.size)
            rows = merge(self.launches, pieces, self.number, topk.rows, runs, self.size)
            self._merged(rows, runs * self.size)
            return self.launches.program()
        source, columns = None, topk.columns
        for parts in rounds[:-1]:
            kept = self._parts(topk.k, parts)
            self._sort(kept, parts, columns, topk.k, source)
            source, columns = kept, parts * topk.k
        self._sort(None, 1, columns, topk.k, source)
        return self.launches.program()

    def _parts(self, size: int, parts: int) -> Argument:
        """Room for so many numbers of each part of each row."""
        return self.launches.scratch(self.topk.rows * parts * size, self.number)

    def _sort(
        self,
        to: Argument | None,
        parts: int,
        columns: int,
        kept: int,
        source: Argument | None = None,
    ) -> None:
        """The function that sorts each row of so many columns in parts, of which it keeps the
        first numbers in scratch memory, or as the results. It reads numbers, or the elements."""
        topk, schedule = self.topk, self.schedule
        threads, count = schedule.threads * schedule.together, topk.rows * parts
        grid = builder.grid_of(-(-count // schedule.together))
        lds = [(2 * threads, self.number.storage())]
        written = [to] if to is not None else list(_OUTPUTS)
        read = [self.input] if source is None or to is None else []
        read += [source] if source is not None else []
        with self.launches.function(read, written, threads, grid, lds) as (buffers, frame):
            thread = builder.thread_number(threads)
            group, part = emit.div(thread, schedule.threads), emit.rem(thread, schedule.threads)
            number = emit.mul(builder.linear_block(grid), schedule.together)
            number = emit.add(number, group)
            row, first = emit.div(number, parts), emit.mul(emit.rem(number, parts), self.size)
            start = emit.mul(group, self.size)
            wave = self.target.wave_size
            sort = Sort(frame.lds[0], schedule.threads, start, part, wave)

            def get(column: Index) -> ir.Value:
                """0, which is less than all others, beyond the end of the row."""
                column = emit.add(first, column)
                there = emit.compare("slt", column, columns)
                if source is None:
                    x = self._packed(buffers, row, column, there)
                else:
                    place = emit.add(emit.mul(row, columns), column)
                    place = memory.guarded(place, [there], self.bytes)
                    x = memory.element(memory.load(buffers[source], place, 1), 0)
                return arith.select(there, x, emit.constant(0, self.number.name))

            sort.run(get)
            guards = []
            if grid[0] * grid[1] * schedule.together != count:
                guards.append(emit.compare("slt", number, count))
            for ahead in range(0, kept, schedule.threads):
                rank = emit.add(part, ahead)
                inside = list(guards)
                if ahead + schedule.threads > kept:
                    inside.append(emit.compare("slt", rank, kept))
                if to is None:
                    self._store(buffers, row, rank, sort.get(rank), inside)
                else:
                    place = emit.add(emit.mul(number, kept), rank)
                    place = memory.guarded(place, inside, self.bytes)
                    memory.store(emit.splat(sort.get(rank), 1), buffers[to], place)

    def _merged(self, source: Argument, length: int) -> None:
        """The function that gives the results from sorted rows."""
        topk = self.topk
        with self.launches.each([self.input, source], _OUTPUTS, topk.rows * topk.k) as work:
            row, rank = emit.div(work.place, topk.k), emit.rem(work.place, topk.k)
            at = emit.add(emit.mul(row, length), rank)
            x = memory.element(memory.load(work.buffers[source], at, 1), 0)
            self._store(work.buffers, row, rank, x, work.inside)

    def _packed(self, buffers: Buffers, row: Index, column: Index, there: ir.Value) -> ir.Value:
        """The number of an element."""
        i32, wide = ir.IntegerType.get_signless(32), self.number.storage()
        source = self.topk.source
        x = source.load(buffers[self.input], source.start(row), column, 1, [there])
        complement = arith.xori(arith.index_cast(i32, emit.value(column)), emit.constant(-1, "i32"))
        key = arith.extui(wide, self._key(memory.element(x, 0)))
        high = arith.shli(key, emit.constant(32, self.number.name))
        return arith.ori(high, arith.extui(wide, complement))

    def _key(self, x: ir.Value) -> ir.Value:
        """An unsigned number, of 32 bits or more, that is larger the earlier the element comes."""
        a, element = Arithmetic(), self.topk.source.element
        type_ = ir.IntegerType.get_signless(self.number.bits // 2)
        x = load(a, element, x)
        sign = a.constant(1 << (type_.width - 1), type_)
        ones = a.constant(-1, type_)
        if element.is_float:
            # -0 is equal to 0, and NaN above every number.
            nan = a.compare("uno", x, x)
            bits = arith.bitcast(type_, arith.addf(x, a.float(0.0, x)))
            negative = a.icompare("slt", bits, a.int(0, bits))
            key = a.select(negative, arith.xori(bits, ones), arith.ori(bits, sign))
            key = a.select(nan, ones, key)
        else:
            if x.type != type_:
                x = a.extend(element, x, type_)
            key = arith.xori(x, sign) if element.kind == SIGNED else x
        return key if self.topk.largest else arith.xori(key, ones)

    def _store(
        self,
        buffers: Buffers,
        row: Index,
        rank: Index,
        packed: ir.Value,
        guards: Sequence[ir.Value],
    ) -> None:
        """The element that has come to a place of the result, and where it comes from."""
        topk = self.topk
        i32 = ir.IntegerType.get_signless(32)
        index = arith.xori(arith.trunci(i32, packed), emit.constant(-1, "i32"))
        column = arith.index_cast(ir.IndexType.get(), index)
        x = topk.source.load(buffers[self.input], topk.source.start(row), column, 1, guards)
        wide = topk.indices.element
        if wide.bits > 32:
            index = arith.extsi(wide.storage(), index)
        results: list[tuple[Operand, ir.Value]] = [
            (topk.values, x),
            (topk.indices, emit.splat(index, 1)),
        ]
        for (operand, value), output in zip(results, _OUTPUTS, strict=True):
            operand.store(value, buffers[output], operand.start(row), rank, guards)
