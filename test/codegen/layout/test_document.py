"""docs/codegen.md shows the layouts that kernels have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mgx_mlir.codegen.layout import fragments
from mgx_mlir.codegen.layout.fragments import Fragments
from mgx_mlir.codegen.layout.lds import SWIZZLES, swizzle
from mgx_mlir.codegen.layout.map import Map
from test.codegen.layout.banks import rows

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "codegen.md").read_text()
NAMED = {
    "MFMA 16x16x16": fragments.MFMA["16x16x16"],
    "MFMA 32x32x8": fragments.MFMA["32x32x8"],
    "MFMA f64": fragments.MFMA_F64,
    "WMMA of RDNA 3": fragments.WMMA_GFX11,
    "WMMA of RDNA 4": fragments.WMMA_GFX12,
    "WMMA 16x16x32 of gfx1250": fragments.WMMA_GFX1250["16x16x32"],
}
ROWS = re.findall(r"^\| (.*) \| `(.*);(.*)` \| `(.*);(.*)` \|$", TEXT, re.MULTILINE)


def test_the_table_names_every_kind() -> None:
    assert [name for name, *_ in ROWS] == list(NAMED)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_table_has_the_layouts_of_the_code(row: tuple[str, ...]) -> None:
    name, *texts = row
    found: Fragments = NAMED[name]
    lane, value, result_lane, result_value = texts
    assert found.a == Map.of(lane=lane, value=value)
    assert found.c == Map.of(lane=result_lane, value=result_value)


def test_the_picture_of_banks_has_the_chunks_in_their_places() -> None:
    pictures = re.findall(r"^    (\d)     (.{17}) {11}(.{17})$", TEXT, re.MULTILINE)
    assert [row for row, *_ in pictures] == list("012345")
    for row, *shown in pictures:
        for picture, values in zip(shown, ((0, 0, 0, 0), SWIZZLES[32, 4]), strict=True):
            lds, slots = rows(4, swizzle(*values)), ["."] * 8
            for chunk in range(4):
                slots[lds(row=int(row), chunk=chunk)["byte"] // 16 % 8] = str(chunk)
            assert picture == " ".join([*slots[:4], "|", *slots[4:]])
