"""Selection of the k largest of a work-group's numbers, without a sort.

Each thread keeps some numbers in registers. A threshold is found bit by bit, from the highest
bit on: a bit is set where at least k numbers reach the threshold with it. The search ends where
exactly k numbers do, usually after some of the bits. For equal keys the lower halves of the
numbers, which differ, decide. The selected numbers are stored to LDS, in no order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, memref

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import lanes
from mgx_mlir.codegen.gpu.builders.ordering import barrier
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.element import bit_width

# (key, low): a number's upper half, and the lower one, as an i32. No number has 0 and 0.
Halves = tuple[ir.Value, ir.Value]
_LOW = 32


def counters(key_bits: int) -> int:
    """Words of LDS: a counter for each bit of a number, and one of the stored numbers."""
    return key_bits + _LOW + 1


class Select:
    """Selects the `k` largest of the numbers that all threads of a work-group hold.

    words, found: LDS of `counters` words, and of k numbers, all zeros at the start. low_bits:
    the number of low bits in which the lower halves differ; their other bits are ones.
    """

    def __init__(
        self, k: int, low_bits: int, words: ir.Value, found: ir.Value, thread: Index, target: Target
    ) -> None:
        self.k, self.low_bits, self.words, self.found = k, low_bits, words, found
        self.thread, self.target = thread, target
        self.a, self.i32 = Arithmetic(), ir.IntegerType.get_signless(32)

    def run(self, held: Sequence[Halves]) -> None:
        """Stores the largest numbers to LDS; the caller adds the barrier."""
        a, key = self.a, held[0][0].type
        threshold, count = self._threshold(
            bit_width(key),
            (a.constant(0, key), a.constant(-1, self.i32)),
            _LOW,
            lambda probe: [a.icompare("uge", x, probe) for x, _ in held],
        )
        above = [a.icompare("ugt", x, threshold) for x, _ in held]
        same = [a.icompare("eq", x, threshold) for x, _ in held]

        def reached(probe: ir.Value) -> list[ir.Value]:
            return [
                arith.ori(up, arith.andi(tie, a.icompare("uge", low, probe)))
                for up, tie, (_, low) in zip(above, same, held, strict=True)
            ]

        lowest = a.constant(-(1 << self.low_bits), self.i32)
        lowest, _ = self._threshold(self.low_bits, (lowest, count), 0, reached)
        for chosen, (x, low) in zip(reached(lowest), held, strict=True):
            emit.when(chosen, self._putting(x, low))

    def _threshold(
        self,
        bits: int,
        start: tuple[ir.Value, ir.Value],
        word: int,
        reached: Callable[[ir.Value], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """The largest threshold, from `start` by its lowest `bits`, that at least k numbers
        reach, and how many do.

        start: a threshold and its count, which is returned where no bit is set. Bits below the
        one with which exactly k numbers reach the threshold stay 0. word: the index of the
        lowest bit's counter.
        """
        a, type_ = self.a, start[0].type
        one = a.constant(1, type_)

        def more(bit: ir.Value, _: ir.Value, count: ir.Value) -> ir.Value:
            unfinished = a.icompare("ne", count, a.constant(self.k, self.i32))
            return arith.andi(a.icompare("sge", bit, a.constant(0, self.i32)), unfinished)

        def step(bit: ir.Value, threshold: ir.Value, count: ir.Value) -> list[ir.Value]:
            shift = bit if type_ == self.i32 else arith.extui(type_, bit)
            probe = arith.ori(threshold, arith.shli(one, shift))
            at = emit.add(arith.index_cast(ir.IndexType.get(), bit), word)
            found = self._count(reached(probe), at)
            enough = a.icompare("sge", found, a.constant(self.k, self.i32))
            after = a.select(enough, probe, threshold)
            before = arith.subi(bit, a.constant(1, self.i32))
            return [before, after, a.select(enough, found, count)]

        return emit.repeat([a.constant(bits - 1, self.i32), *start], more, step)[1:]

    def _count(self, flags: Sequence[ir.Value], at: Index) -> ir.Value:
        """The number of set flags of all threads; `at` is a counter for this count alone."""
        total: ir.Value = arith.extui(self.i32, flags[0])
        for flag in flags[1:]:
            total = arith.addi(total, arith.extui(self.i32, flag))
        wave = self.target.wave_size
        lane = emit.rem(self.thread, wave)
        (total,) = lanes.reduce(
            [total], wave, lane, lambda x, y: [arith.addi(x[0], y[0])], self.target
        )

        def add() -> None:
            self._add(total, at)

        emit.when(emit.compare("eq", lane, 0), add)
        barrier()
        return lanes.first(emit.load(self.words, at))

    def _add(self, x: ir.Value, at: Index) -> ir.Value:
        kind = arith.AtomicRMWKind.addi
        return memref.atomic_rmw(kind, x, self.words, [emit.value(at)])

    def _putting(self, key: ir.Value, low: ir.Value) -> Callable[[], None]:
        def put() -> None:
            wide = ir.MemRefType(self.found.type).element_type
            last = ir.MemRefType(self.words.type).shape[0] - 1
            rank = self._add(self.a.constant(1, self.i32), last)
            high = arith.shli(arith.extui(wide, key), self.a.constant(_LOW, wide))
            number = arith.ori(high, arith.extui(wide, low))
            emit.store(number, self.found, arith.index_cast(ir.IndexType.get(), rank))

        return put
