"""The examples of the pages for users of PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import doc_examples
from test.tools.test_docs_site import ROOT, run_examples

pytest.importorskip("torch", reason="torch is not installed: make test-torch")
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["from-torch"])
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    doc_examples.prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "cache"))
    run_examples((ROOT / "docs" / f"{name}.md").read_text(), False)
