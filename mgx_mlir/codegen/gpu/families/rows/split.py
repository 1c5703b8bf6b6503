"""Rows that several work-groups share: few rows, of many elements.

The work-groups of a row write their partial results to scratch memory. The next function
combines them first. There is one function for each level of reductions that depend on one
another, and one for the results.

    reduce_sum of 1 x 1000000:  @k_0, 600 work-groups: a partial sum each
                                @k_1, 1 work-group: their sum
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import thread_number
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.families.rows.body import RowsBody
from mgx_mlir.codegen.gpu.families.rows.evaluate import Partial, Reduction
from mgx_mlir.codegen.gpu.families.rows.layouts import Across, Along, freed, held, lds_arrays
from mgx_mlir.codegen.gpu.families.rows.match import Rows
from mgx_mlir.codegen.gpu.families.rows.space import UNROLL, RowSchedule
from mgx_mlir.codegen.meaning.element import I32, Element
from mgx_mlir.sizes.arithmetic import ceil_div


def _held(element: Element) -> Element:
    """The element of a partial result in scratch memory: at least a word, as work-groups share no
    word."""
    return I32 if element.bits < 32 else element


class Split:
    """The functions of rows in `schedule.parts` parts: `build` adds them to those of `launches`."""

    def __init__(
        self, rows: Rows, launches: Launches, schedule: RowSchedule, target: Target
    ) -> None:
        self.rows, self.launches, self.schedule, self.target = rows, launches, schedule, target
        self.reductions = [Reduction(op) for op in rows.reductions]
        self.level = {r.result: rows.levels[r.result] for r in self.reductions}
        # The partial results of all rows in scratch memory.
        size = rows.rows * schedule.parts
        self.pieces = {
            r.result: [(e, self.launches.scratch(size, _held(e))) for e in r.elements]
            for r in self.reductions
        }

    def build(self) -> None:
        """Adds the functions."""
        last = max(self.level.values()) + 1
        for level in range(1, last + 1):
            self._function(level, level == last)

    def _function(self, level: int, is_last: bool) -> None:
        """The function of one level: it stores partial results, or, as the last, the results."""
        schedule = self.schedule
        known = [r for r in self.reductions if self.level[r.result] < level]
        now = [r for r in self.reductions if self.level[r.result] == level]
        parts = schedule.parts
        if is_last and not any(result.whole for result in self.rows.results):
            parts = 1
        inputs = self.launches.inputs(self.rows.used)
        outputs = self.launches.results if is_last else []
        read = [*inputs, *(scratch for r in known for _, scratch in self.pieces[r.result])]
        written = [*outputs, *(scratch for r in now for _, scratch in self.pieces[r.result])]
        vectors = self.rows.rows // (schedule.lanes if schedule.across else 1)
        blocks = ceil_div(vectors, schedule.together) * parts
        lds = lds_arrays(schedule, [*known, *now], self.target)
        with self.launches.groups(read, written, schedule.block, blocks, lds) as group:
            some, part = emit.div(group.number, parts), emit.rem(group.number, parts)
            kind = Across if schedule.across else Along
            layout = kind(self.rows, schedule, self.target, group.buffers, group.lds)
            layout.block_part = part
            layout.begin(thread_number(schedule.block), some)
            first = emit.value(emit.mul(part, schedule.chunks))
            bounded = vectors % schedule.together != 0 or bool(group.inside)
            body = RowsBody(self.rows, schedule, layout, self.reductions, bounded, first)
            for reduction in known:
                single = self._restored(reduction, layout)
                body.finish(reduction, layout.reduce_one(reduction, single))
            if is_last:
                body.store()
            for reduction, partial in zip(now, body.partials(now) if now else (), strict=True):
                found = layout.reduce(reduction, partial)
                self._keep(reduction, found, layout, bounded)

    def _keep(
        self, reduction: Reduction, found: Partial, layout: Along | Across, bounded: bool
    ) -> None:
        """Stores a work-group's partial results: one thread of each row does."""
        guards = [*layout.first_only(), *layout.guards(bounded)]
        for x, (element, scratch) in zip(found, self.pieces[reduction.result], strict=True):
            kept = layout.kept(_held(element))
            x = held(x) if layout.lanes_kept else emit.splat(held(x), 1)
            buffer = layout.buffers[scratch]
            kept.store(x, buffer, kept.start(layout.block_part), layout.row, guards)

    def _restored(self, reduction: Reduction, layout: Along | Across) -> Partial:
        """Loads the partial results of a row's work-groups, spread over a work-group's threads."""
        lanes, threads, parts = layout.lanes_kept, self.schedule.threads, self.schedule.parts
        nothing = reduction.initial(lanes)

        def part(at: Index) -> Partial:
            inside = emit.compare("slt", at, parts)
            values = []
            for (element, scratch), other in zip(
                self.pieces[reduction.result], nothing, strict=True
            ):
                kept = layout.kept(_held(element))
                buffer, start = layout.buffers[scratch], kept.start(at)
                read = kept.load(buffer, start, layout.row, lanes or 1, [inside])
                x = freed(read if lanes else memory.element(read, 0), other)
                values.append(arith.select(inside, x, other))
            return tuple(values)

        def step(first: Index, *carried: ir.Value) -> Partial:
            offsets = [emit.add(layout.part, emit.add(first, i * threads)) for i in range(UNROLL)]
            return reduction.fold([carried, *map(part, offsets)])

        return tuple(emit.loop(0, parts, UNROLL * threads, step, nothing))
