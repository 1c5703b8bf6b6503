"""The end of a product whose rows are reduced: the last work-group of some rows reduces them.

    x[row, column] = results              each work-group, all its waves; then its first one counts
    y = (x - mean(x)) / deviation(x)      the work-group that counts last

No work-group waits for another. The same input gives the same bits, whichever comes last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import thread_number
from mgx_mlir.codegen.gpu.builders.ordering import acquire, barrier, last_group
from mgx_mlir.codegen.gpu.builders.program import aligned
from mgx_mlir.codegen.gpu.families.contraction.function import Parameter, Tensors
from mgx_mlir.codegen.gpu.families.contraction.space import Tiling
from mgx_mlir.codegen.gpu.families.rows.body import RowsBody
from mgx_mlir.codegen.gpu.families.rows.cost import BARRIER, GLOBAL_LATENCY, instructions
from mgx_mlir.codegen.gpu.families.rows.evaluate import Reduction
from mgx_mlir.codegen.gpu.families.rows.layouts import Along, lds_arrays
from mgx_mlir.codegen.gpu.families.rows.match import Rows
from mgx_mlir.codegen.gpu.families.rows.space import (
    UNROLL,
    RowSchedule,
    lanes_of,
    schedule_refusal,
    schedules,
)
from mgx_mlir.sizes.arithmetic import ceil_div

# Bytes that a work-group reads, or writes, in a clock.
_BYTES_A_CLOCK = 64


@dataclass(frozen=True)
class Ending:
    """The rows of a product's results, whose last input these are.

    inputs: the elements of the rows' other inputs, by number. outputs: the results of the rows.
    place: that of the product's results among the kernel's; in scratch memory where it is None.
    """

    rows: Rows
    inputs: Mapping[int, str]
    outputs: tuple[Parameter, ...]
    place: Argument | None
    target: Target

    def parameters(self, results: Sequence[Parameter], scratch: int) -> list[Parameter]:
        """The product's results, and those of the rows. scratch: the bytes before its own."""
        place = self.place or Argument("scratch", scratch)
        return [*(replace(x, argument=place) for x in results), *self.outputs]

    def scratch_bytes(self, results: Sequence[Parameter]) -> int:
        """Scratch memory of the product's results."""
        (own,) = results
        return 0 if self.place else aligned(own.size * emit.element_bytes(own.element))

    def schedule(self, block: int, threads: int) -> RowSchedule | None:
        """How `threads` threads share `block` rows; None where they cannot."""
        rows, target = self.rows, self.target
        fits = [
            x for x in schedules(rows.columns, lanes_of(rows, False), threads, False)
            if x.block == threads and (block % x.together == 0 or block >= rows.rows)
            if not schedule_refusal(rows, x, target)
        ]  # fmt: skip
        return min(fits, key=lambda x: self._turns(x, block), default=None)

    def _turns(self, schedule: RowSchedule, block: int) -> float:
        """Clocks of a work-group's turns over `block` rows."""
        rows, target = self.rows, self.target
        waves = schedule.block // target.wave_size
        passes = 1 if schedule.resident else max(rows.levels.values()) + 1
        reads = passes * (1 if schedule.resident else ceil_div(schedule.chunks, UNROLL))
        work = instructions(rows, schedule, target) * target.gpu.issue_clocks
        work *= ceil_div(waves, target.gpu.simds)
        shared = len(rows.reductions) * BARRIER * (schedule.threads > target.wave_size)
        turns = ceil_div(min(block, rows.rows), schedule.together)
        moved = sum(x.element.bits // 8 for x in rows.operands) * rows.columns * schedule.together
        return turns * (GLOBAL_LATENCY * reads + work + shared + passes * moved / _BYTES_A_CLOCK)

    def of_tiling(self, tiling: Tiling) -> float:
        """The estimate beside that of a product of tiles."""
        return self.clocks(tiling.schedule.rows(tiling.unit), tiling.threads)

    def clocks(self, block: int, threads: int) -> float:
        """The estimate for all rows, by work-groups of some threads that have `block` rows."""
        schedule = self.schedule(block, threads)
        if schedule is None:
            return math.inf
        blocks = ceil_div(self.rows.rows, block)
        turns = ceil_div(blocks, self.target.compute_units) * self._turns(schedule, block)
        return BARRIER + GLOBAL_LATENCY + turns

    def arrays(self, block: int, threads: int) -> tuple[tuple[int, ir.Type], ...]:
        """The arrays in LDS: whether the work-group is the last, and those of the reductions."""
        schedule = self.schedule(block, threads)
        assert schedule is not None  # or the estimate is endless
        reductions = [Reduction(op) for op in self.rows.reductions]
        word = ir.IntegerType.get_signless(32)
        return (1, word), *lds_arrays(schedule, reductions, self.target)

    def emit(
        self, tensors: Tensors, place: tuple[Index, Index], size: tuple[int, int, int], others: int
    ) -> None:
        """Emits the work of a thread that has stored its results.

        tensors: the product's, the results of the rows among them, and the counters at last, of
        which `others` come before those of rows. place: the numbers of the block of rows, and of
        its first row. size: the rows of a block, the threads of a work-group, and the work-groups
        of a block.
        """
        (number, first), (block, threads, groups), lanes = place, size, self.target.wave_size
        thread, counter = thread_number(threads), (tensors.results[-1], emit.add(number, others))
        is_last = last_group(counter, groups, thread, lanes, tensors.arrays[0])
        emit.when(is_last, lambda: self._reduce(tensors, thread, first, (block, threads)))

    def _reduce(self, tensors: Tensors, thread: Index, first: Index, size: tuple[int, int]) -> None:
        acquire()
        rows, schedule = self.rows, self.schedule(*size)
        assert schedule is not None
        product, *results = tensors.results[: 1 + len(self.outputs)]
        pointers = {Argument("input", n): tensors.pointers.get(n, product) for n in rows.used}
        pointers |= {Argument("output", n): result for n, result in enumerate(results)}
        buffers = {argument: memory.buffer(x) for argument, x in pointers.items()}
        bounded = rows.rows % max(size[0], schedule.together) != 0
        begin = emit.div(first, schedule.together)

        def turn(number: Index) -> None:
            if not isinstance(number, int):
                barrier()  # the arrays' numbers of the turn before have been read
            layout = Along(rows, schedule, self.target, buffers, tensors.arrays[1:])
            layout.begin(thread, emit.add(begin, number))
            reductions = [Reduction(op) for op in rows.reductions]
            RowsBody(rows, schedule, layout, reductions, bounded).emit()

        emit.loop(0, ceil_div(min(size[0], rows.rows), schedule.together), 1, turn, rolled=True)
