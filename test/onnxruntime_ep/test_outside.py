"""The page that says why ONNX's backend tests stay outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from test.onnxruntime_ep.outside import INCLUDED, REFUSED, SOME, outside, page

PAGE = (Path(__file__).resolve().parents[2] / "docs/onnxruntime-outside.md").read_text()


@pytest.mark.parametrize(("group", "name"), INCLUDED[7::67])
def test_a_case_is_listed_where_nothing_of_it_compiles(group: str, name: str) -> None:
    reason, operator = outside(group, name)
    rows = [line for line in PAGE.splitlines() if line.startswith(f"| {reason} |")]
    if reason in (SOME, REFUSED):
        assert not rows
    else:
        assert len(rows) == 1
        assert f" {operator} " in rows[0].replace("|", ",")


@pytest.mark.slow
def test_the_page_is_current() -> None:
    cases = (outside(group, name) for group, name in INCLUDED)
    assert page(cases) + "\n" == PAGE, "run python -m test.onnxruntime_ep.outside"
