"""The examples of the pages for users of PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

from test.tools.test_docs_site import run_examples

pytest.importorskip("torch", reason="torch is not installed: make test-torch")
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["from-torch"])
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_examples(name, tmp_path, monkeypatch)
