"""The pictures of benchmarks: a bar for each figure, as long as it is large."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks.plots import compile_times, latencies

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
    figures = json.loads((docs / "measured.json").read_text())
    made = {"compile.svg": compile_times(figures), "latency.svg": latencies(figures)}
    for name, picture in made.items():
        message = "run python -m benchmarks.plots docs/measured.json docs/pictures"
        assert (docs / "pictures" / name).read_text() == picture, message
