"""The pictures of benchmarks: a bar for each figure, as long as it is large."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks.plots import (
    compile_table,
    compile_times,
    latencies,
    portable_table,
    with_table,
    written,
)  # fmt: skip

COST = {"megabytes": 1.0}
FIGURES = {
    "net<1>": {
        "portable": {"seconds": 1.0, **COST},
        "gfx942": {"seconds": 2.0, **COST},
        "cpu": {"seconds": 3.0, **COST},
        "iree gfx942": {"seconds": 8.0, **COST},
        "iree cpu": None,
        "latency 1": 3.0,
        "onnxruntime 1": 2.0,
        "latency 2": 1.0,
        "onnxruntime 2": None,
    }
}


def bars(picture: str) -> list[float]:
    root = ElementTree.fromstring(picture)
    boxes = [e for e in root if e.tag.endswith("rect") and e.get("x") == "170"]
    return [float(e.get("width", "")) for e in boxes if e.get("height") == "13"]


def test_compile_times_are_bars_beside_those_of_the_peer() -> None:
    ours, theirs, cpu = bars(compile_times(FIGURES))
    assert theirs == pytest.approx(4 * ours, rel=0.01) and cpu == pytest.approx(
        1.5 * ours, rel=0.01
    )
    assert "net&lt;1&gt;, gfx942" in compile_times(FIGURES) and "8.00 s" in compile_times(FIGURES)


def test_latencies_are_ratios_where_both_were_measured() -> None:
    picture = latencies(FIGURES)
    assert len(bars(picture)) == 1 and ">1.50<" in picture


def test_the_pictures_of_the_documents_are_those_of_the_figures() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    for file, text in written(docs).items():
        assert file.read_text() == text, "run python -m benchmarks.plots"


def test_tables_leave_what_was_not_measured_empty() -> None:
    assert compile_table(FIGURES).splitlines()[2:] == [
        "| net<1> | 1.0 s, 1 MB | 2.0 s | 8.0 s | 3.0 s |  | 1.50 |"
    ]
    costs = {"portable": {"seconds": 1.0, **COST}, "finalize": {"seconds": 2.04, **COST}}
    its = {**costs, "iree": None, "warm load": 0.5, "artifact bytes": 1234567, "vmfb bytes": None}
    assert portable_table({"bert": its}).splitlines()[2:] == [
        "| BERT, 6 layers | 1.0 s, 1 MB | 2.0 s, 1 MB |  | 0.50 s | 1235 kB |  |"
    ]
    text = "a <!-- t -->old<!-- end of t --> b"
    assert with_table(text, "t", "|x|") == "a <!-- t -->\n\n|x|\n\n<!-- end of t --> b"
    with pytest.raises(ValueError, match="has no part"):
        with_table(text, "other", "|x|")
