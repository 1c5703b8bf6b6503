"""The work of a thread in a kernel of rows, pass after pass over the row.

The first pass computes all reductions that depend on no other one, the next pass those that
depend on them, and so on. The last pass computes the whole results. Where a thread's part of
the row stays in registers, the passes share the loaded and computed values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.ordering import fence
from mgx_mlir.codegen.gpu.families.rows.evaluate import Chunk, Evaluator, Partial, Reduction
from mgx_mlir.codegen.gpu.families.rows.layouts import Across, Along
from mgx_mlir.codegen.gpu.families.rows.match import Rows
from mgx_mlir.codegen.gpu.families.rows.space import UNROLL, RowSchedule
from mgx_mlir.sizes.arithmetic import Size, ceil_div


class RowsBody:
    """The work of a thread on its chunks; `first` is the number of the first chunk."""

    def __init__(
        self,
        rows: Rows,
        schedule: RowSchedule,
        layout: Along | Across,
        reductions: Sequence[Reduction],
        bounded: bool,
        first: Index = 0,
    ) -> None:
        self.first = first
        self.rows, self.schedule, self.layout = rows, schedule, layout
        self.reductions, self.bounded = reductions, bounded
        self.values = Evaluator(rows, layout)
        self.step = step = schedule.threads * (1 if schedule.across else schedule.lanes)
        # Chunks that lie inside for all threads, as far as this is known.
        self.full = 0 if isinstance(rows.columns, Size) else rows.columns // step
        if not isinstance(first, int):
            # The numbers of these chunks are only known at run time.
            everywhere = rows.columns == step * schedule.chunks * schedule.parts
            self.full = schedule.chunks if everywhere else 0
        self.kept: dict[int, Chunk] = {}

    def emit(self) -> None:
        levels = self.rows.levels
        for level in range(1, max(levels.values()) + 1):
            reductions = [r for r in self.reductions if levels[r.result] == level]
            for reduction, partial in zip(reductions, self.partials(reductions), strict=True):
                self.finish(reduction, self.layout.reduce(reduction, partial))
        self.store()

    def finish(self, reduction: Reduction, found: Partial) -> None:
        """Defines the result of a reduction."""
        self.values.define(reduction.result, reduction.finish(found))

    def store(self) -> None:
        """Stores all results; their reductions are finished."""
        self.values.prepare([result.value for result in self.rows.results])
        whole = [result for result in self.rows.results if result.whole]
        if whole:
            self._each(self._store)
        for result in self.rows.results:
            if not result.whole:
                self.layout.store_row(result, self.values.row(result.value), self.bounded)

    def partials(self, reductions: Sequence[Reduction]) -> list[Partial]:
        """A thread's partial vectors of reductions of one level."""
        self.values.prepare([reduction.value for reduction in reductions])
        lanes = self.schedule.lanes

        def step(chunks: Sequence[Chunk], carried: list[Partial]) -> list[Partial]:
            if any(chunk.inside for chunk in chunks[:-1]):
                # LLVM would issue reads under conditions when others have been waited for.
                for chunk in chunks:
                    for reduction in reductions:
                        self.values.read(reduction.value, chunk)
                fence()
            terms = [[r.terms(self.values, chunk) for chunk in chunks] for r in reductions]
            before = [[partial] for partial in carried] or [[] for _ in reductions]
            return [
                r.fold([*first, *rest])
                for r, first, rest in zip(reductions, before, terms, strict=True)
            ]

        if self.schedule.resident:
            return step([self._kept(n) for n in range(self.schedule.chunks)], [])
        return self._loop(step, [r.initial(lanes) for r in reductions])

    def _store(self, chunk: Chunk) -> None:
        for result in self.rows.results:
            if result.whole:
                value = self.values.whole(result.value, chunk)
                self.layout.store(result, value, chunk, self.bounded)

    def _each(self, work: Callable[[Chunk], None]) -> None:
        """Applies `work` to each chunk."""
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
        return self.layout.chunk(emit.add(self.first, number), last)

    def _loop(
        self,
        step: Callable[[Sequence[Chunk], list[Partial]], list[Partial]],
        initial: list[Partial],
    ) -> list[Partial]:
        """Steps over all chunks in a loop, `UNROLL` at a time; the remainder follows it. Of a
        symbolic length the loop has it too. Before it goes one over the most of a long row that
        is read once, with twice as many at a time and no conditions."""
        sizes = [len(partial) for partial in initial]

        def grouped(values: Sequence[ir.Value]) -> list[Partial]:
            rest = list(values)
            return [tuple(rest.pop(0) for _ in range(size)) for size in sizes]

        def flat(partials: Sequence[Partial]) -> list[ir.Value]:
            return [x for partial in partials for x in partial]

        def over(
            first: Index, end: Index, carried: list[Partial], checked: bool, count: int = UNROLL
        ) -> list[Partial]:
            def body(number: ir.Value, *carried: ir.Value) -> list[ir.Value]:
                chunks = [self._chunk(emit.add(number, i), checked) for i in range(count)]
                return flat(step(chunks, grouped(carried)))

            return grouped(emit.loop(first, end, count, body, flat(carried)))

        columns, chunks = self.rows.columns, self.schedule.chunks
        if isinstance(columns, Size):  # the last ones may lie outside
            once = len(self.reductions) == 1 and not any(x.whole for x in self.rows.results)
            wide = 2 * UNROLL if once and chunks >= 8 * UNROLL else 0
            whole = columns // (self.step * wide) * wide if wide else 0
            carried = over(0, whole, initial, False, wide)
            return over(whole, ceil_div(columns, self.step * UNROLL) * UNROLL, carried, True)
        checked = not isinstance(self.first, int) and not self.full
        whole = (chunks if checked else self.full) // UNROLL * UNROLL
        carried = over(0, whole, initial, checked)
        rest = range(whole, chunks)
        return step([self._chunk(number, number >= self.full) for number in rest], carried)
