"""The pages of passes: one generated and current, one that names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from mgx_mlir.pipelines.registry import pass_names
from mgx_mlir.tools import pass_page

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_is_current() -> None:
    written = (DOCS / "passes.md").read_text()
    assert written == pass_page.page(), "run python -m mgx_mlir.tools.pass_page > docs/passes.md"


def test_rewrites_name_passes_that_exist() -> None:
    named = set(re.findall(r"`(mgx-[a-z-]+)`", (DOCS / "rewrites.md").read_text()))
    assert named and named <= set(pass_names())
