"""Selection of the k largest of a work-group's numbers, without a sort.

Each thread keeps some numbers in registers. A threshold is found bit by bit, from the highest
bit on: a bit is set where at least k numbers reach the threshold with it. The search ends where
exactly k numbers do, usually after some of the bits. For equal keys the lower halves of the
numbers, which differ, decide. The selected numbers are stored to LDS, in no order.

A sort of numbers in LDS, a bitonic network, and a merge of sorted runs put the largest first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, llvm, memref

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import lanes, memory
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.builders.ordering import barrier
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.element import Element, bit_width
from mgx_mlir.sizes.arithmetic import is_more

# Merges of rows of a symbolic number of runs, at most: each is launched where there are so many.
MERGES = 12
# (key, low): a number's upper half, and the lower one, as an i32. No number has 0 and 0.
Halves = tuple[ir.Value, ir.Value]
_LOW = 32


class Sort:
    """Sorts 2 * `threads` numbers from `start` on in `lds`; `part` is the thread's number.

    wave: the number of threads that need no barrier among each other. more: whether there are
    threads with higher numbers, which only wait at barriers.
    """

    def __init__(
        self,
        lds: ir.Value,
        threads: int,
        start: Index,
        part: Index,
        wave: int,
        more: bool = False,
    ) -> None:
        self.lds, self.threads, self.start, self.part = lds, threads, start, part
        self.works: ir.Value | bool = emit.compare("slt", part, threads) if more else True
        self.local = wave.bit_length() - 1  # a wave exchanges alone up to a distance of 2^this

    def run(self, read: Callable[[Index], ir.Value]) -> None:
        """Sorts the numbers that `read` returns for 0 .. 2 * threads."""
        for first in (0, self.threads):
            column = emit.add(self.part, first)
            emit.store(read(column), self.lds, emit.add(self.start, column))
        self.sort()

    def get(self, rank: Index) -> ir.Value:
        return emit.load(self.lds, emit.add(self.start, rank))

    def sort(self) -> None:
        """Sorts the numbers in LDS, the largest first."""
        barrier()
        stages = (2 * self.threads).bit_length() - 1

        def stage(number: ir.Value) -> None:
            def step(back: ir.Value) -> None:
                shift = emit.sub(emit.sub(number, 1), back)
                emit.when(self.works, lambda: self._exchange(emit.value(shift), number))
                # A barrier is needed where this exchange, or the next stage, reads the stores of
                # other waves.
                far = emit.compare("sgt", shift, self.local)
                following = emit.compare("sgt", number, self.local)
                following = arith.andi(emit.compare("eq", shift, 0), following)
                # The fence orders exchanges within a wave too: LLVM may move a read of another
                # thread's store before a store to another address.
                llvm.fence(llvm.AtomicOrdering.acq_rel, syncscope="wavefront")
                emit.when(arith.ori(far, following), barrier)

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


def merge(
    launches: Launches, source: Argument, number: Element, rows: int, runs: int, size: int
) -> list[Argument]:
    """The functions that merge `runs` runs of `size` numbers in each row; returns where sorted rows
    are: in the first place, or, of a symbolic number of runs, in the other if `is_swapped`.

    Runs and rows have the largest number first. A number's rank is its rank in its own run plus
    the rank in the other run, which a binary search finds. No two numbers are equal except for
    0, which pads the end of the last run.
    """
    length = runs * size
    if runs == 1:
        return [source]
    places = [source, launches.scratch(rows * length, number)]
    merges = (runs - 1).bit_length() if isinstance(runs, int) else MERGES
    for done in range(merges):
        with launches.when(is_more(runs, 1 << done)):
            _merge_pairs(launches, places, number, rows * length, (length, size << done))
        places.reverse()
    return places[:1] if isinstance(runs, int) else places


def is_swapped(runs: int) -> ir.Value:
    """Whether a symbolic number of runs takes an odd number of merges."""
    is_odd: ir.Value = emit.constant(0, "i1")
    for done in range(MERGES):
        is_odd = arith.xori(is_odd, emit.compare("sgt", runs, 1 << done))
    return is_odd


def _merge_pairs(
    launches: Launches,
    places: Sequence[Argument],
    number: Element,
    count: int,
    sizes: tuple[int, int],
) -> None:
    """The function that merges each two neighbouring runs of `count` numbers.

    places: of the runs, and of merged ones. sizes: of a row, and of a run.
    """
    (length, size), (source, to), wide = sizes, places, number.bits // 8
    with launches.each([source], [to], count) as work:
        offset, bufs = work.offset, work.buffers
        row, at = emit.div(offset, length), emit.rem(offset, length)
        x = memory.element(memory.load(bufs[source], offset, 1), 0)
        pair, own = emit.div(at, 2 * size), emit.rem(at, size)
        second = emit.compare("sge", emit.rem(at, 2 * size), size)
        base = emit.add(emit.mul(row, length), emit.mul(pair, 2 * size))
        other = arith.select(second, emit.value(0), emit.value(size))
        end = emit.sub(length, emit.mul(pair, 2 * size))
        rank: Index = 0
        for bit in reversed(range(size.bit_length())):
            probe = emit.add(rank, 1 << bit)
            there = [
                emit.compare("sle", probe, size),
                emit.compare("sle", emit.add(other, probe), end),
            ]
            place = emit.add(emit.add(base, other), emit.sub(probe, 1))
            place = memory.guarded(place, there, wide)
            y = memory.element(memory.load(bufs[source], place, 1), 0)
            # Numbers outside read as 0, which is larger than no number.
            larger = arith.cmpi(arith.CmpIPredicate.ugt, y, x)
            rank = arith.select(larger, emit.value(probe), emit.value(rank))
        place = memory.guarded(emit.add(emit.add(base, own), rank), work.inside, wide)
        memory.store(emit.splat(x, 1), bufs[to], place)


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
