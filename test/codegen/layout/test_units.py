"""The chips' instructions with the tiles in LDS that their kernels read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.units import Unit, unit_for
from mgx_mlir.codegen.gpu.families.attention import layout
from mgx_mlir.codegen.layout.lds import SWIZZLES, swizzle
from mgx_mlir.codegen.layout.map import Map
from test.codegen.layout.banks import NEIGHBOURS, READS, READS_64_BANKS, Access, rows


def unit(chip: str, element: str) -> Unit:
    found = unit_for(Target.get(chip), element, "i32" if element == "i8" else "f32")
    assert found is not None and found.element == element
    return found


def lane_reads(operand: Map, order: Map) -> Map:
    """The row of LDS and the chunk of a step that each lane reads, where n orders the rows."""
    groups = [image for bit in operand.moving("lane", "k")
              for name, image in operand.image("lane", bit) if name == "k"]  # fmt: skip
    chunks = [f"chunk{groups.index(k)}" if k in groups else "-" for k in range(operand.bits("k"))]
    chunk, row = Map.of(k=" ".join(chunks)), order.renamed(n="row")
    columns = [*chunk.columns, *(column << chunk.bits("chunk") for column in row.columns)]
    inputs, outputs = chunk.inputs + row.inputs, chunk.outputs + row.outputs
    return operand.then(Map(inputs, outputs, tuple(columns)))


def readers(found: Unit, *orders: Map) -> Iterator[Map]:
    """Reads of rows of C, and of its columns in some orders."""
    fragments = found.fragments
    yield lane_reads(fragments.b, Map.of(c=f"n0-{fragments.b.bits('c') - 1}"))
    for order in orders:
        yield lane_reads(fragments.a, order)


@pytest.mark.parametrize(
    ("chip", "element"),
    [
        ("gfx908", "bf16"),
        ("gfx90a", "f32"),
        ("gfx942", "f16"),
        ("gfx942", "i8"),
        ("gfx950", "f16"),
        ("gfx950", "f8E4M3FN"),
        ("gfx1030", "f16"),
        ("gfx1030", "f32"),
        ("gfx1030", "i8"),
        ("gfx1100", "f16"),
        ("gfx1201", "f16"),
        ("gfx1201", "i8"),
        ("gfx1250", "f32"),
        ("gfx1250", "f16"),
        ("gfx1250", "i8"),
    ],
)
def test_operands_of_products_meet_no_bank_twice(chip: str, element: str) -> None:
    """Columns are in the order that makes the results of a lane neighbours."""
    found = unit(chip, element)
    span = (READS_64_BANKS if found.banks == 64 else READS)[16]
    # The swizzle moves with four bits of a row; tiles in pairs have five.
    lds = rows(found.row_chunks, swizzle(*SWIZZLES[found.banks, found.row_chunks], 0))
    orders = [found.order(joined) for joined in ((1, 2) if found.kind == "mfma" else (1,))]
    for lanes in readers(found, *orders):
        assert Access(lanes, span).turns(lds, found.banks) == 1


ATTENTION = pytest.mark.parametrize(
    ("chip", "element", "count"),
    [
        ("gfx942", "f16", 16),
        ("gfx942", "f16", 32),
        ("gfx942", "f32", 16),
        ("gfx942", "f32", 32),
        ("gfx950", "bf16", 16),
        ("gfx950", "bf16", 32),
        ("gfx1100", "f16", 16),
        ("gfx1201", "f16", 16),
        ("gfx1250", "bf16", 16),
    ],
)


@ATTENTION
def test_operands_of_attention_meet_no_bank_twice(chip: str, element: str, count: int) -> None:
    found = layout.shaped(unit(chip, element), count)
    wide = found.banks == 64
    span = (READS_64_BANKS if wide else READS if found.kind == "mfma" else NEIGHBOURS)[16]
    lds = rows(8, swizzle(*SWIZZLES[32, 8]))
    orders = [found.fragments.order(run) for run in (found.values, layout.run_keys(found))]
    for lanes in readers(found, *orders):
        assert Access(lanes, span).turns(lds, found.banks) == 1


@ATTENTION
def test_a_lane_holds_scores_of_neighbouring_keys(chip: str, element: str, count: int) -> None:
    """They are its operand of the second product: no score moves to another lane."""
    found = layout.shaped(unit(chip, element), count)
    c, run = found.fragments.c, layout.run_keys(found)
    keys = layout.block_keys(found)
    for lane in range(1 << c.bits("lane")):
        held = [
            int(layout.lane_key(found, c(lane=lane, value=i)["r"])) + layout.tile_key(found, tile)
            for tile in range(keys // found.columns)
            for i in range(found.values)
        ]
        first = lane // found.rows * run
        steps = range(first, keys, layout.step_keys(found))
        assert held == [step + i for step in steps for i in range(run)]
