"""A lane's first operands of the products with keys: its queries, in registers or from LDS."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory, multiply
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.attention import layout
from mgx_mlir.codegen.gpu.families.attention.space import AttentionSchedule
from mgx_mlir.codegen.gpu.families.attention.tile import AttentionTile, Reader
from mgx_mlir.codegen.gpu.families.attention.work import LaneOffsets, Queries
from mgx_mlir.codegen.problem.problem import Matrix, vector_width


def in_registers(
    q: Matrix, depth: int, steps: int, unit: Unit, offsets: LaneOffsets, buffer: ir.Value
) -> Queries:
    """Reads the lane's queries of `depth` elements, in `steps` steps, from memory."""
    size, step_depth = emit.element_bytes(q.element), layout.step_depth(unit)
    width = math.gcd(
        vector_width(q.column, q.row, q.batch, offset=q.offset, limit=unit.chunk), depth
    )
    found = []
    for query in offsets.queries:
        start = emit.add(q.start(offsets.batch), q.row.offset(query))
        row = []
        for step in range(steps):
            first: Index = step * step_depth
            if unit.groups > 1 and unit.kind not in layout.PLAIN:
                first = emit.add(emit.mul(offsets.group, unit.lane_chunks * unit.chunk), first)
            parts = []
            for part in range(0, unit.lane_chunks * unit.chunk, width):
                d = emit.add(first, part)
                inside = [emit.compare("slt", d, depth)] if depth % step_depth else []
                at = memory.unsplit(emit.add(start, q.column.offset(d)), q)
                at = memory.guarded(at, inside, size)
                parts.append(memory.load(buffer, at, width))
            whole = emit.convert(memory.concatenated(parts), q.element, unit.element)
            starts = range(0, unit.lane_chunks * unit.chunk, unit.chunk)
            vectors = [memory.part(whole, start, unit.chunk) for start in starts]
            row.append(multiply.pieces(unit, vectors))
        found.append(row)
    return lambda step: [row[step] for row in found]


def in_lds(
    tile: AttentionTile, schedule: AttentionSchedule, lane_row: Index, group: Index
) -> Queries:
    """Reads the lane's queries from the work-group's tile in LDS, again for each product.

    lane_row: the row of the lane's first query.
    """
    unit = tile.unit
    plain = unit.kind in layout.PLAIN
    along = group if unit.groups > 1 and not plain else 0
    reader = Reader(tile, lane_row, along, step_chunks=1 if plain else None)

    def read(step: int) -> list[list[ir.Value]]:
        rows: Sequence[int] = range(0, schedule.wave_queries, unit.rows)
        return [multiply.pieces(unit, reader.read(row, step)) for row in rows]

    return read
