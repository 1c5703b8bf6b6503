"""The page of operators: generated, current, and true of the converters."""

from __future__ import annotations

from pathlib import Path

import pytest

from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer.node import Node
from mgx_mlir.tools import converters, coverage, gpu_paths

SIDES = ("left", "right")
LIMIT = 3


def test_the_page_is_current():
    page = Path(__file__).resolve().parents[2] / "docs" / "operators.md"
    assert page.read_text() == coverage.page(), "run python -m mgx_mlir.tools.coverage"


@pytest.mark.slow
def test_no_operator_falls_back_to_the_generic_path():
    """A node that a generator took when the page was made still has one."""
    found = gpu_paths.measure(gpu_paths.onnx_cases())
    for what, known in gpu_paths.gpu_paths().items():
        native = {name for name, paths in known.items() if set(paths) - {"generic"}}
        still = {name for name, paths in found[what].items() if set(paths) - {"generic"}}
        assert native <= still, "run python -m mgx_mlir.tools.gpu_paths"


def helped(node: Node) -> None:
    if node.attribute("count") > LIMIT:
        raise UnsupportedError(f"count = {node.attribute('count')}; up to {LIMIT} are supported")


def converter(node: Node) -> None:
    node.only("mode", 0)
    node.integers(1, "axes")
    for side in SIDES:
        node.attribute(f"pad_{side}")
    helped(node)


def test_what_a_converter_says_is_read_from_its_source(monkeypatch):
    monkeypatch.setattr(converters, "_PACKAGE", __name__)
    monkeypatch.setattr(converters, "_CONVERTERS", __name__)
    strings, patterns = converters.strings_read(converter)
    assert {"mode", "count", *SIDES} <= strings
    assert r"pad_\w+" in patterns
    assert converters.constants(converter) == ["axes"]
    assert converters.refusals(converter) == [
        "count = ...; up to 3 are supported",
        "mode other than 0",
    ]


def test_an_operator_is_described_in_every_domain():
    text = coverage.describe("gridsample")
    assert text.splitlines()[0] == "GridSample"
    assert "com.microsoft::GridSample" in text
    assert "becomes        gathernd floor" in text
    assert coverage.describe("Nonsense") == ""


def test_what_the_host_runs_says_why():
    assert "host: strings have no form" in coverage.describe("StringConcat")
    assert "else host: the data decide" in coverage.describe("NonZero")
