"""One gpu.func for a kernel of rows.

Reductions that wait for none go first, together, in one pass over the row; then those that
wait for them; in the end one pass makes the whole results. Where a thread's part of the row
stays in registers, the passes share what they read and compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.emit import Index
from mgx_mlir.codegen.gpu import builder
from mgx_mlir.codegen.gpu.generic import GpuProgram
from mgx_mlir.codegen.gpu.operands import Operand
from mgx_mlir.codegen.gpu.rows.evaluate import Chunk, Evaluator, Partial, Reduction
from mgx_mlir.codegen.gpu.rows.layouts import Across, Along, lds_arrays
from mgx_mlir.codegen.gpu.rows.match import Rows
from mgx_mlir.codegen.gpu.rows.space import UNROLL, Schedule
from mgx_mlir.finalizer.code_object import Argument, Launch
from mgx_mlir.target import Target


def generate(
    rows: Rows,
    types: tuple[Sequence[ir.Type], Sequence[ir.Type]],
    schedule: Schedule,
    target: Target,
    name: str,
) -> GpuProgram:
    """The function `<name>_0` for rows that `constraints` do not refuse, and its launch.

    types: of the kernel's inputs and results. Needs an active MLIR context and location.
    """
    inputs, results = types
    operands = [source for source in rows.sources.values() if isinstance(source, Operand)]
    used = sorted({operand.argument for operand in operands})
    arguments = [builder.tensor_of(inputs[number]) for number in used]
    arguments += [builder.tensor_of(type_, written=True) for type_ in results]
    vectors = rows.rows // schedule.lanes if schedule.across else rows.rows
    blocks = -(-vectors // schedule.together)
    reductions = [Reduction(op) for op in rows.reductions]
    lds = lds_arrays(schedule, reductions, target)
    module, block = builder.gpu_module()
    function = f"{name}_0"
    grid = builder.grid_of(blocks)
    with builder.function(block, function, arguments, schedule.block, grid, lds) as frame:
        numbers = {number: position for position, number in enumerate(used)}
        kind = Across if schedule.across else Along
        layout = kind(rows, schedule, target, frame, numbers)
        layout.begin(builder.thread_number(schedule.block), builder.linear_block(grid))
        bounded = vectors % schedule.together != 0 or blocks != grid[0] * grid[1]
        _Body(rows, schedule, layout, reductions, bounded).emit()
    passed = [Argument("input", number) for number in used]
    passed += [Argument("output", number) for number in range(len(results))]
    launch = Launch(function, grid, (schedule.block, 1, 1), tuple(passed))
    return GpuProgram(module, (launch,), 0, 32)


class _Body:
    def __init__(
        self,
        rows: Rows,
        schedule: Schedule,
        layout: Along | Across,
        reductions: Sequence[Reduction],
        bounded: bool,
    ) -> None:
        self.rows, self.schedule, self.layout = rows, schedule, layout
        self.reductions, self.bounded = reductions, bounded
        self.values = Evaluator(rows, layout)
        step = schedule.threads * (1 if schedule.across else schedule.lanes)
        self.full = rows.columns // step  # chunks that lie inside for all threads
        self.kept: dict[int, Chunk] = {}

    def emit(self) -> None:
        levels = self.rows.levels
        for level in range(1, max(levels.values()) + 1):
            self._reduce([r for r in self.reductions if levels[r.result] == level])
        self.values.prepare([result.value for result in self.rows.results])
        whole = [result for result in self.rows.results if result.whole]
        if whole:
            self._each(self._store)
        for result in self.rows.results:
            if not result.whole:
                self.layout.store_row(result, self.values.row(result.value), self.bounded)

    def _reduce(self, reductions: Sequence[Reduction]) -> None:
        """Makes the results of reductions of one level known."""
        self.values.prepare([reduction.value for reduction in reductions])
        lanes = self.schedule.lanes

        def step(chunks: Sequence[Chunk], carried: list[Partial]) -> list[Partial]:
            terms = [[r.terms(self.values, chunk) for chunk in chunks] for r in reductions]
            before = [[partial] for partial in carried] or [[] for _ in reductions]
            return [
                r.fold([*first, *rest])
                for r, first, rest in zip(reductions, before, terms, strict=True)
            ]

        if self.schedule.resident:
            partials = step([self._kept(n) for n in range(self.schedule.chunks)], [])
        else:
            partials = self._loop(step, [r.initial(lanes) for r in reductions])
        for reduction, partial in zip(reductions, partials, strict=True):
            found = self.layout.reduce(reduction, partial)
            self.values.define(reduction.result, reduction.finish(found))

    def _store(self, chunk: Chunk) -> None:
        for result in self.rows.results:
            if result.whole:
                value = self.values.whole(result.value, chunk)
                self.layout.store(result, value, chunk, self.bounded)

    def _each(self, work: Callable[[Chunk], None]) -> None:
        """Does work on each chunk."""
        if self.schedule.resident:
            for number in range(self.schedule.chunks):
                work(self._kept(number))
            return

        def step(chunks: Sequence[Chunk], carried: list[Partial]) -> list[Partial]:
            for chunk in chunks:
                work(chunk)
            return carried

        self._loop(step, [])

    def _kept(self, number: int) -> Chunk:
        if number not in self.kept:
            self.kept[number] = self._chunk(number, number >= self.full)
        return self.kept[number]

    def _chunk(self, number: Index, last: bool) -> Chunk:
        return self.layout.chunk(number, last)

    def _loop(
        self,
        step: Callable[[Sequence[Chunk], list[Partial]], list[Partial]],
        initial: list[Partial],
    ) -> list[Partial]:
        """Goes over all chunks in a loop, several at a time; the rest follows."""
        sizes = [len(partial) for partial in initial]

        def grouped(values: Sequence[ir.Value]) -> list[Partial]:
            rest = list(values)
            return [tuple(rest.pop(0) for _ in range(size)) for size in sizes]

        def flat(partials: Sequence[Partial]) -> list[ir.Value]:
            return [x for partial in partials for x in partial]

        whole = self.full // UNROLL * UNROLL

        def body(number: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            chunks = [self._chunk(emit.add(number, i), False) for i in range(UNROLL)]
            return flat(step(chunks, grouped(carried)))

        carried = grouped(emit.loop(0, whole, UNROLL, body, flat(initial)))
        rest = range(whole, self.schedule.chunks)
        return step([self._chunk(n, n >= self.full) for n in rest], carried)
