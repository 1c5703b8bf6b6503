"""Where keys and values lie in LDS, and which key each lane's scores belong to.

The first product computes scores[query, key] with queries in the rows of the result, so that
a lane holds scores of one query (see contraction.specs). The second product wants for each
lane, as its first operand, shares of one query and of neighbouring keys. Both layouts agree
where the first product takes its columns in the right order: no score passes through LDS.

LDS holds rows of 128 bytes, eight chunks of 16: rows of keys along d, rows of columns of v
along the keys. Longer rows are cut into panels of 128 bytes.
"""

from __future__ import annotations

from mlir.dialects import arith

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.emit import Index
from mgx_mlir.codegen.gpu.contraction.specs import Unit

ROW_BYTES = 128
ROW_CHUNKS = 8
# Chunk c of row r lies at place c ^ swizzle(r) of its row. `swizzle` is linear in r's bits;
# these are its values for bits 0 .. 5. Chosen so that no phase of an LDS access (8 lanes for
# 128 bits, 16 for 64) meets a bank twice: rows as operands of MFMA and WMMA need them in the
# order of `lane_key`, rows written one after another, and every eighth (a test counts).
SWIZZLE = (1, 2, 4, 5, 2, 1)


def swizzle(row: int) -> int:
    """What the chunks of a row are XORed with."""
    result = 0
    for bit, turn in enumerate(SWIZZLE):
        if row >> bit & 1:
            result ^= turn
    return result


def swizzled(row: Index) -> Index:
    """`swizzle` of a row that is known at run time."""
    if isinstance(row, int):
        return swizzle(row)
    result: Index = 0
    for bit, turn in enumerate(SWIZZLE):
        result = exclusive_or(result, emit.mul(emit.rem(emit.div(row, 1 << bit), 2), turn))
    return result


def exclusive_or(a: Index, b: Index) -> Index:
    """a ^ b."""
    if isinstance(a, int) and isinstance(b, int):
        return a ^ b
    if isinstance(a, int):
        a, b = b, a
    if isinstance(b, int) and b == 0:
        return a
    return arith.xori(emit.value(a), emit.value(b))


def row_elements(unit: Unit) -> int:
    """Elements in a row of 128 bytes."""
    return ROW_CHUNKS * unit.chunk


def step_tiles(unit: Unit) -> int:
    """Tiles of scores whose keys one step of the second product takes."""
    return step_keys(unit) // unit.columns


def step_keys(unit: Unit) -> int:
    """Keys of one step: what the lanes read of a row of v with 128 bits each."""
    return unit.step_chunks * unit.chunk


def lane_key(unit: Unit, column: Index) -> Index:
    """The key, in a step, whose row the lane reads that gives a column of the first tile."""
    if unit.kind == "wmma" and unit.groups == 1:
        # RDNA 3: result i of a lane is row 2 * i + lane / 16 of its tile.
        odd = emit.mul(emit.rem(column, 2), unit.values)
        return emit.add(odd, emit.div(column, 2))
    run = unit.values * step_tiles(unit)
    return emit.add(emit.mul(emit.div(column, unit.values), run), emit.rem(column, unit.values))


def tile_key(unit: Unit, tile: int) -> int:
    """What is added to `lane_key` for tile number `tile` of all."""
    step, inner = divmod(tile, step_tiles(unit))
    return step * step_keys(unit) + inner * unit.values
