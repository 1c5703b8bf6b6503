"""A sort of unsigned numbers in LDS: a bitonic network, the largest first."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith, llvm

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.ordering import barrier


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
