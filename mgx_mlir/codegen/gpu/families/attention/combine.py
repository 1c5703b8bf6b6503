"""Split-K of attention: a second function combines work-groups with different keys of a query.

Each work-group stores the sums of its values, not yet divided, and for each query its row
maximum and the sum of the exponentials relative to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory, precision
from mgx_mlir.codegen.gpu.builders.function import Frame, grid_of, linear_block, thread_number
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.families.attention import softmax
from mgx_mlir.codegen.gpu.families.attention.space import PARTS, AttentionSchedule
from mgx_mlir.codegen.gpu.families.contraction.convolution import row_major
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.problem.attention import Attention
from mgx_mlir.sizes.arithmetic import ceil_div

THREADS = 256


@dataclass(frozen=True)
class Partial:
    """The scratch memory between the two functions: f32, [parts, queries, columns] of values
    and [parts, queries, 2] of row maxima and sums."""

    parts: int
    queries: int
    columns: int

    @staticmethod
    def of(attention: Attention, schedule: AttentionSchedule) -> Partial:
        return Partial(schedule.parts, attention.batch * attention.M, attention.E)

    @property
    def sizes(self) -> tuple[int, int]:
        """Elements of the two tensors."""
        return self.parts * self.queries * self.columns, self.parts * self.queries * 2


def store_partial(
    partial: Partial,
    buffers: Sequence[ir.Value],
    part: Index,
    query: Index,
    inside: Sequence[ir.Value],
    columns: Sequence[tuple[Index, ir.Value]],
    ends: tuple[ir.Value, ir.Value],
) -> None:
    """Stores a lane's results of one query: vectors of values, each with its first column, and
    `ends`, the row maximum and the sum."""
    row = emit.add(emit.mul(part, partial.queries), query)
    for first, x in columns:
        count = softmax.lane_count(x)
        width = math.gcd(partial.columns, count, 4)
        for start in range(0, count, width):
            e = emit.add(first, start)
            conditions = [*inside, emit.compare("slt", e, partial.columns)]
            offset = memory.guarded(emit.linear(e, (row, partial.columns)), conditions, 4)
            memory.store(memory.part(x, start, width), buffers[0], offset)
    # One of the lanes with the same query stores the ends.
    conditions = [*inside, emit.compare("eq", columns[0][0], 0)]
    memory.store(
        memory.joined(list(ends)), buffers[1], memory.guarded(emit.mul(row, 2), conditions, 4)
    )


def combined(
    partial: Partial,
    buffers: tuple[ir.Value, ir.Value],
    number: Index,
    scale: float,
    attention: Attention,
) -> ir.Value:
    """Result `number`, in row-major order, of all parts. The softmax takes exp of `scale` times a
    score."""
    values, ends = buffers
    query, size = emit.div(number, partial.columns), partial.queries * partial.columns
    log2, lowest = (emit.constant(x, "f32") for x in (scale * softmax.LOG2_E, -math.inf))
    is_known = isinstance(partial.parts, int)
    row_maxima: list[ir.Value] = []
    sums: list[ir.Value] = []
    places: list[Index] = []
    for part in range(partial.parts if is_known else PARTS[-1]):
        at = emit.mul(emit.add(query, emit.mul(part, partial.queries)), 2)
        place = emit.add(number, emit.mul(part, size))
        exists: list[ir.Value] = []
        if not is_known:  # reads of parts that a run does not have give 0
            exists = [emit.compare("slt", part, partial.parts)]
            at, place = (memory.guarded(x, exists, 4) for x in (at, place))
        x = memory.load(ends, at, 2)
        first = memory.element(x, 0)
        row_maxima.append(arith.select(exists[0], first, lowest) if exists else first)
        sums.append(memory.element(x, 1))
        places.append(place)
    row_maximum = row_maxima[0]
    for x in row_maxima[1:]:
        row_maximum = softmax.maximum(row_maximum, x)
    total, share = emit.constant(0, "f32"), emit.constant(0, "f32")
    for x, y, place in zip(row_maxima, sums, places, strict=True):
        exponent = softmax.multiply(softmax.subtract(x, row_maximum), log2)
        weight = precision.exp2(exponent)
        value = memory.element(memory.load(values, place, 1), 0)
        total = softmax.add(total, softmax.multiply(weight, y))
        share = softmax.add(share, softmax.multiply(weight, value))
    return softmax.divided(share, total, attention)


def combine(
    frame: Frame,
    attention: Attention,
    partial: Partial,
    used: Sequence[int],
    scale: float,
    block: Index,
) -> None:
    """The body of the second function: a result of work-group `block` for each thread.

    used: the inputs that the function reads, besides the partial results.
    """
    size, match = attention.batch * attention.M * attention.E, attention.result
    values, ends, *rest = frame.buffers
    place = match.place or row_major(match.problem)
    epilogue = Epilogue(match, place, dict(zip(used, rest, strict=False)), rest[len(used) :])
    number = emit.add(emit.mul(block, THREADS), thread_number(THREADS))
    y = combined(partial, (values, ends), number, scale, attention)
    query, column = emit.div(number, attention.E), emit.rem(number, attention.E)
    batch: Index = 0
    if attention.batch != 1:
        batch, query = emit.div(query, attention.M), emit.rem(query, attention.M)
    inside = [emit.compare("slt", number, size)]
    epilogue(memory.joined([y]), batch, query, column, inside, bounded=False)


def add_combination(
    launches: Launches,
    attention: Attention,
    partial: Partial,
    scratch: Sequence[Argument],
    scale: float,
) -> None:
    """Adds the second function to those of `launches`. The softmax takes exp of `scale` times a
    score."""
    grid = grid_of(ceil_div(attention.batch * attention.M * attention.E, THREADS))
    used = sorted({x.argument for x in attention.result.reads})
    read = [*scratch, *launches.inputs(used)]
    with launches.function(read, launches.results, THREADS, grid) as (_, frame):
        combine(frame, attention, partial, used, scale, linear_block(grid))
