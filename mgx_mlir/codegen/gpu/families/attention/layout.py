"""The layout of keys and values in LDS, and the key of each score in a lane.

The first product computes scores[query, key] with queries in the rows of the result, so that
a lane holds scores of one query (see contraction.specs). The first operand of the second
product is, for each lane, shares of one query and of neighbouring keys. Both layouts agree
where the first product takes its columns in the right order: no score passes through LDS.

LDS holds rows of 128 bytes, eight chunks of 16 bytes. A row of keys runs along d, a row of
values, a column of v, along the keys. Longer rows are cut into panels of 128 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.layouts import index_of
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.layout.fragments import MFMA, QUERIES
from mgx_mlir.codegen.layout.lds import SWIZZLES, swizzle
from mgx_mlir.sizes.arithmetic import ceil_div

ROW_CHUNKS = 8
# Reads of operands in the order of `lane_key` meet no bank twice (a test counts).
SWIZZLE = swizzle(*SWIZZLES[32, ROW_CHUNKS])
# Kinds of units without matrix cores: a lane multiplies all elements along d of its keys itself.
PLAIN = frozenset(("dot", "fma"))
# Latency of a read of operands from LDS while other waves read too, in clocks.
READ_CLOCKS = 128


def row_elements(unit: Unit) -> int:
    """Elements in a row of 128 bytes."""
    return ROW_CHUNKS * unit.chunk


def plain_unit(element: str) -> Unit:
    """A unit of vector instructions: a lane has one query, and a chunk of keys of each step."""
    if element == "f16":
        return Unit("dot", "f16", "f32", QUERIES["f16"], 256)
    return Unit("fma", "f32", "f32", QUERIES["f32"], 128)


def shaped(unit: Unit, rows: int) -> Unit:
    """The matrix instruction of the same kind for tiles of `rows` rows: 16, or 32 of MFMA."""
    if rows == unit.rows:
        return unit
    return replace(unit, fragments=MFMA[f"{rows}x{rows}x{unit.per_lane * 64 // rows}"])


def block_keys(unit: Unit) -> int:
    """The least number of keys that is whole tiles of scores and whole steps of the second
    product."""
    return max(step_keys(unit), unit.columns)


def step_keys(unit: Unit) -> int:
    """Keys of one step: those that the lanes read from a row of v with 128 bits each."""
    return unit.step_chunks * unit.chunk


def step_depth(unit: Unit) -> int:
    """Elements along d of one step of the first product."""
    return unit.chunk if unit.kind in PLAIN else step_keys(unit)


def run_keys(unit: Unit) -> int:
    """Neighbouring keys of a step whose scores a lane holds."""
    return step_keys(unit) * unit.values // unit.columns


def lane_key(unit: Unit, column: Index) -> Index:
    """The key, in the first tile, whose row the lane of result column `column` reads."""
    return index_of(unit.fragments.order(run_keys(unit)), r=column)


def lane_column(unit: Unit, column: Index) -> Index:
    """The column of v that the lane of result column `column` reads, in the first tile."""
    return index_of(unit.fragments.order(_run_columns(unit)), r=column)


def _run_columns(unit: Unit) -> int:
    """Neighbouring columns of v that a lane holds in a tile of results, up to a chunk."""
    return min(unit.values, unit.chunk)


def tile_key(unit: Unit, tile: int) -> int:
    """The offset from `lane_key` to the key of tile number `tile`."""
    return unit.first_column(tile, block_keys(unit) // unit.columns)


def runs(unit: Unit, tiles: Sequence[ir.Value]) -> list[ir.Value]:
    """A lane's results of some tiles as vectors of `run_keys` neighbouring keys, by steps."""
    each = run_keys(unit)
    if unit.values >= each:
        return [memory.part(x, i, each) for x in tiles for i in range(0, unit.values, each)]
    count = each // unit.values
    return [memory.concatenated(tiles[i : i + count]) for i in range(0, len(tiles), count)]


def columns(
    unit: Unit, group: Index, tiles: Sequence[ir.Value], start: int = 0
) -> list[tuple[Index, ir.Value]]:
    """A lane's results of the second product as vectors of neighbouring columns of v, each
    with its first column. `group`: the lane's group along the columns; `start`: the number of
    tiles before these."""
    run = _run_columns(unit)
    each = unit.columns * run // unit.values
    found = [memory.part(x, i, run) for x in tiles for i in range(0, unit.values, run)]
    first = emit.add(emit.mul(group, run), start * unit.columns)
    return [(emit.add(first, i * each), x) for i, x in enumerate(found)]


def product_clocks(unit: Unit) -> int:
    """Clocks of the matrix cores of a SIMD for one instruction."""
    return 2 * unit.rows * unit.columns * unit.depth * 4 // unit.flops


def read_columns(unit: Unit, tiles: int) -> int:
    """Columns of a product whose operands are read together: enough that the next operands
    arrive while a wave multiplies with these."""
    each = product_clocks(unit) * unit.chunk_parts * tiles
    return 2 if unit.kind == "wmma" else max(2, ceil_div(READ_CLOCKS, each))


def reads_in_flight(tiles: int) -> int:
    """Chunks that a lane reads together for a unit of vector instructions."""
    return 8 if tiles == 1 else 4
