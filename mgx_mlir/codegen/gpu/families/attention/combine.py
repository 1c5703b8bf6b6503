"""Split-K of attention: work-groups with different keys of a query, whose parts are combined.

Each work-group stores the sums of its values, not yet divided, and for each query its row
maximum and the sum of the exponentials relative to it. The last one of the same queries combines
them, in order; a second function does where sizes are symbolic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory, precision
from mgx_mlir.codegen.gpu.families.attention import softmax
from mgx_mlir.codegen.gpu.families.attention.space import PARTS, AttentionSchedule
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.problem.attention import Attention


@dataclass(frozen=True)
class Partial:
    """The scratch memory of the parts: f32, [parts, queries, columns] of values
    and [parts, queries, 2] of row maxima and sums."""

    parts: int
    queries: int
    columns: int

    @staticmethod
    def of(attention: Attention, schedule: AttentionSchedule) -> Partial:
        return Partial(schedule.parts, attention.batch * attention.M, attention.E)

    @property
    def width(self) -> int:
        """Columns that a thread combines."""
        return math.gcd(self.columns, 4)

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
    """Vector `number` of the results, in row-major order, of all parts. The softmax takes exp of
    `scale` times a score."""
    values, ends = buffers
    query = emit.div(number, partial.columns // partial.width)
    first_value, size = emit.mul(number, partial.width), partial.queries * partial.columns
    log2, lowest = (emit.constant(x, "f32") for x in (scale * softmax.LOG2_E, -math.inf))
    is_known = isinstance(partial.parts, int)
    row_maxima: list[ir.Value] = []
    sums: list[ir.Value] = []
    places: list[Index] = []
    for part in range(partial.parts if is_known else PARTS[-1]):
        at = emit.mul(emit.add(query, emit.mul(part, partial.queries)), 2)
        place = emit.add(first_value, emit.mul(part, size))
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
    total, share = emit.constant(0, "f32"), emit.constant(0, "f32", partial.width)
    for x, y, place in zip(row_maxima, sums, places, strict=True):
        exponent = softmax.multiply(softmax.subtract(x, row_maximum), log2)
        weight = precision.exp2(exponent)
        value = memory.load(values, place, partial.width)
        total = softmax.add(total, softmax.multiply(weight, y))
        each = emit.splat(weight, partial.width)
        share = softmax.add(share, softmax.multiply(each, value))
    return softmax.divided(share, total, attention)


def combine(
    buffers: tuple[ir.Value, ir.Value],
    epilogue: Epilogue,
    attention: Attention,
    partial: Partial,
    scale: float,
    place: tuple[Index, Index],
) -> None:
    """Combines the parts of a vector of results and stores it. buffers: the partial results. place:
    the vector's number, and that of the first one which is not to be stored."""
    given, end = place
    # Beyond it are other work-groups' results, which may not be there yet.
    number = emit.minimum(given, emit.sub(end, 1))
    y = combined(partial, buffers, number, scale, attention)
    vectors, width = attention.E // partial.width, partial.width
    query, column = emit.div(number, vectors), emit.mul(emit.rem(number, vectors), width)
    batch: Index = 0
    if attention.batch != 1:
        batch, query = emit.div(query, attention.M), emit.rem(query, attention.M)
    inside = [emit.compare("slt", given, end)]
    epilogue(y, batch, query, column, inside, bounded=False)
