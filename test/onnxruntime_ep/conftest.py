from __future__ import annotations

import pytest

from test import onnx_suite


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    onnx_suite.share_cache(monkeypatch, tmp_path_factory)
