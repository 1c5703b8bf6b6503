"""Every instruction's layouts hold each element once, but for copies."""

from __future__ import annotations

import pytest

from mgx_mlir.codegen.layout import fragments
from mgx_mlir.codegen.layout.fragments import Fragments
from mgx_mlir.codegen.layout.map import Map
from test.codegen.layout.banks import rank

TABLE: dict[str, Fragments] = {
    **{f"mfma {shape}": found for shape, found in fragments.MFMA.items()},
    **{f"gfx1250 {shape}": found for shape, found in fragments.WMMA_GFX1250.items()},
    "mfma f64": fragments.MFMA_F64,
    "gfx11": fragments.WMMA_GFX11,
    "gfx12": fragments.WMMA_GFX12,
}


@pytest.mark.parametrize("name", TABLE)
def test_each_element_of_an_operand_and_result_is_held_once(name: str) -> None:
    found = TABLE[name]
    for layout in (found.a, found.b, found.c):
        places = layout.bits("lane") + layout.bits("value")
        elements = sum(size for _, size in layout.outputs)
        assert places - elements == layout.columns.count(0)
        assert rank(layout.columns) == elements
    assert 0 not in found.c.columns
    lanes = 64 if name.startswith("mfma") else 32
    assert 1 << found.c.bits("lane") == 1 << found.a.bits("lane") == lanes
    assert found.rows * found.columns == lanes * found.values


@pytest.mark.parametrize("name", TABLE)
def test_results_of_a_lane_are_neighbours_in_their_order(name: str) -> None:
    found = TABLE[name]
    for joined in (1, 2, 4):
        order, run = found.order(found.values * joined), found.values * joined
        assert rank(order.columns) == order.bits("n") == len(order.columns)
        tiles = [{"tile": tile} if joined > 1 else {} for tile in range(joined)]
        for lane in range(1 << found.c.bits("lane")):
            rows = [found.c(lane=lane, value=value)["r"] for value in range(found.values)]
            held = [order(r=row, **tile)["n"] for tile in tiles for row in rows]
            assert held == list(range(held[0], held[0] + run)) and held[0] % run == 0


def test_runs_shorter_than_a_lane_s_results_alternate_between_lanes() -> None:
    """32 x 32 results: 16 a lane, whose runs of 8 are neighbours."""
    found, order = fragments.MFMA["32x32x8"], fragments.MFMA["32x32x8"].order(8)
    for lane, first in ((0, 0), (32, 8)):
        held = [order(r=found.c(lane=lane, value=value)["r"])["n"] for value in range(16)]
        assert held == [*range(first, first + 8), *range(first + 16, first + 24)]


def test_interleaved_results_have_an_order() -> None:
    """Result i of a lane: RDNA 3 alternates rows between half-waves, f64 takes every fourth."""
    assert [fragments.WMMA_GFX11.c(lane=16, value=i)["r"] for i in range(3)] == [1, 3, 5]
    assert [fragments.MFMA_F64.c(lane=16, value=i)["r"] for i in range(4)] == [1, 5, 9, 13]
    assert fragments.WMMA_GFX11.order(8) == Map.of(r="n3 n0-2")
    assert fragments.MFMA["16x16x16"].order(8) == Map.of(r="n0-1 n3-4", tile="n2")
