"""Artifacts whose plans were changed are refused or run, and touch nothing but their memory."""

from __future__ import annotations

import pytest

from test.fuzz.command import fuzz


@pytest.mark.parametrize("target, count", [("cpu", 35), ("gfx942", 15)])
def test_changed_artifacts(target: str, count: int) -> None:
    said = fuzz("artifacts", "--target", target, "--count", str(count))
    assert " ran" in said and " refused" in said


@pytest.mark.slow
@pytest.mark.parametrize("target, count", [("cpu", 2500), ("gfx942", 500)])
def test_three_thousand_changed_artifacts(target: str, count: int) -> None:
    fuzz("artifacts", "--target", target, "--count", str(count), "--seed", "7", timeout=7200)
