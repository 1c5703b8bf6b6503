"""The page that says what of MIGraphX's interface is here."""

from __future__ import annotations

from pathlib import Path

from mgx_mlir.tools import migraphx_page


def test_the_page_is_that_of_the_code():
    written = (Path(__file__).resolve().parents[2] / "docs" / "migraphx.md").read_text()
    made = migraphx_page.page()
    assert written == made, "run python -m mgx_mlir.tools.migraphx_page > docs/migraphx.md"
