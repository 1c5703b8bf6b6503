"""The compiler's layouts of operands and results, against the formulas of the manuals."""

from __future__ import annotations

import numpy as np
import pytest
from matrix_model import layouts, parse

from mgx_mlir.codegen.layout import fragments
from mgx_mlir.codegen.layout.fragments import Fragments
from mgx_mlir.codegen.layout.map import Map

MFMA = fragments.MFMA
CASES = [
    ("v_mfma_f32_16x16x4_f32", "gfx942", 64, MFMA["16x16x4"], "f32"),
    ("v_mfma_f32_32x32x2_f32", "gfx942", 64, MFMA["32x32x2"], "f32"),
    ("v_mfma_f32_16x16x8_bf16", "gfx90a", 64, MFMA["16x16x8"], "bf16"),
    ("v_mfma_f32_32x32x4_bf16", "gfx90a", 64, MFMA["32x32x4"], "bf16"),
    ("v_mfma_f32_16x16x16_f16", "gfx942", 64, MFMA["16x16x16"], "f16"),
    ("v_mfma_f32_32x32x8_f16", "gfx942", 64, MFMA["32x32x8"], "f16"),
    ("v_mfma_i32_16x16x16_i8", "gfx90a", 64, MFMA["16x16x16"], "i8"),
    ("v_mfma_f32_16x16x32_fp8_fp8", "gfx942", 64, MFMA["16x16x32"], "fp8"),
    ("v_mfma_i32_32x32x16_i8", "gfx942", 64, MFMA["32x32x16"], "i8"),
    ("v_mfma_f32_16x16x32_bf16", "gfx950", 64, MFMA["16x16x32"], "bf16"),
    ("v_mfma_i32_16x16x64_i8", "gfx950", 64, MFMA["16x16x64"], "i8"),
    ("v_mfma_i32_32x32x32_i8", "gfx950", 64, MFMA["32x32x32"], "i8"),
    ("v_mfma_f32_16x16x128_f8f6f4", "gfx950", 64, MFMA["16x16x128"], "fp8"),
    ("v_mfma_f32_32x32x64_f8f6f4", "gfx950", 64, MFMA["32x32x64"], "fp8"),
    ("v_mfma_f64_16x16x4_f64", "gfx942", 64, fragments.MFMA_F64, "f64"),
    ("v_wmma_f32_16x16x16_f16", "gfx1100", 32, fragments.WMMA_GFX11, "f16"),
    ("v_wmma_i32_16x16x16_iu8", "gfx1100", 32, fragments.WMMA_GFX11, "iu8"),
    ("v_wmma_f32_16x16x16_f16", "gfx1201", 32, fragments.WMMA_GFX12, "f16"),
    ("v_wmma_f32_16x16x16_fp8_fp8", "gfx1201", 32, fragments.WMMA_GFX12, "fp8"),
]


def table(layout: Map, names: tuple[str, str]) -> np.ndarray:
    """The two numbers of the element of each (lane, value)."""
    lanes, values = 1 << layout.bits("lane"), 1 << layout.bits("value")
    found = np.zeros((lanes, values, 2), int)
    for lane, value in np.ndindex(lanes, values):
        element = layout(lane=lane) if values == 1 else layout(lane=lane, value=value)
        found[lane, value] = [element[name] for name in names]
    return found


@pytest.mark.parametrize(
    ("mnemonic", "chip", "wave", "found", "element"),
    CASES,
    ids=[f"{chip}-{mnemonic}" for mnemonic, chip, *_ in CASES],
)
def test_lanes_hold_the_elements_that_the_manual_says(
    mnemonic: str, chip: str, wave: int, found: Fragments, element: str
) -> None:
    instruction = parse(mnemonic, chip, wave)
    assert (instruction.m, instruction.n, instruction.k) == (found.rows, found.columns, found.depth)
    a, b, c = layouts(instruction, (element, element))
    ks = []
    for layout, name, (lane, item) in ((found.a, "r", a), (found.b, "c", b)):
        held = table(layout, (name, "k"))[lane[0], item[0]]
        rows = np.arange(held.shape[0])
        assert (held[:, :, 0] == rows[:, None]).all()
        # Any order of k serves that both operands share, for every row.
        assert (held[:, :, 1] == held[:1, :, 1]).all()
        assert sorted(held[0, :, 1]) == list(range(found.depth))
        ks.append(held[0, :, 1].tolist())
    assert ks[0] == ks[1]
    lane, item = c
    held = table(found.c, ("r", "c"))[lane[0], item[0]]
    i, j = np.indices(held.shape[:2])
    assert (held[:, :, 0] == i).all() and (held[:, :, 1] == j).all()


def test_scaled_instructions_have_the_order_of_k_that_scales_ask_for() -> None:
    for shape in ("16x16x128", "32x32x64"):
        a, _, _ = layouts(parse(f"v_mfma_f32_{shape}_f8f6f4", "gfx950", 64), ("fp8", "fp8"))
        lane, item = (x[0] for x in a)
        held = table(MFMA[shape].a, ("r", "k"))[lane, item]
        assert (held[:, :, 1] == np.arange(lane.shape[1])).all()
