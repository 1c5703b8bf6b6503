"""One gpu.func for a kernel of rows: one work-group works on each row."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.families.family import Family, Scheduled, inputs_in_front
from mgx_mlir.codegen.gpu.families.rows import blocks
from mgx_mlir.codegen.gpu.families.rows.body import RowsBody
from mgx_mlir.codegen.gpu.families.rows.constraints import lanes_of
from mgx_mlir.codegen.gpu.families.rows.cost import choose
from mgx_mlir.codegen.gpu.families.rows.evaluate import Reduction
from mgx_mlir.codegen.gpu.families.rows.layouts import Across, Along, lds_arrays
from mgx_mlir.codegen.gpu.families.rows.match import Rows, match_rows
from mgx_mlir.codegen.gpu.families.rows.space import RowSchedule
from mgx_mlir.codegen.gpu.families.rows.split import Split
from mgx_mlir.sizes.arithmetic import ceil_div


def build(rows: Rows, launches: Launches, schedule: RowSchedule, target: Target) -> None:
    """Adds the functions of rows that `constraints` do not refuse to those of `launches`."""
    if launches.is_symbolic and not schedule.across:
        blocks.build(rows, launches, schedule, target)
        return
    if schedule.across and schedule.lanes > lanes_of(rows, True):
        _, rows = blocks.divided_by(rows, True)
    if schedule.parts > 1:
        Split(rows, launches, schedule, target).build()
        return
    vectors = rows.rows // schedule.lanes if schedule.across else rows.rows
    count = ceil_div(vectors, schedule.together)
    reductions = [Reduction(op) for op in rows.reductions]
    lds = lds_arrays(schedule, reductions, target)
    grid = (count, 1, 1) if launches.is_symbolic else builder.grid_of(count)
    read, results = launches.inputs(rows.used), launches.results
    with launches.function(read, results, schedule.block, grid, lds) as (_, frame):
        numbers = {number: position for position, number in enumerate(rows.used)}
        kind = Across if schedule.across else Along
        layout = kind(rows, schedule, target, frame, numbers)
        if launches.is_symbolic:
            number: Index = builder.block_number("x", builder.MAX_THREADS)
        else:
            number = builder.linear_block(grid)
        layout.begin(builder.thread_number(schedule.block), number)
        bounded = vectors % schedule.together != 0 or count != grid[0] * grid[1]
        RowsBody(rows, schedule, layout, reductions, bounded).emit()


rows_program = Scheduled(match_rows, choose, build, blocks.regimes, inputs_in_front)
FAMILY = Family("rows", 50, rows_program, symbolic=True)
