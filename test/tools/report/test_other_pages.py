"""The pages of compile, tune and quantize."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper

import mgx_mlir
from mgx_mlir.compiler import Report, compile_to_bytecode
from mgx_mlir.tools.mgx import main
from mgx_mlir.tools.report import compiling, tuning

from .browser import CHROMIUM, Browser
from .test_page import DIGITS, HOSTILE, Page, check_closed


def chain(layers: int, name: str = "layer") -> onnx.ModelProto:
    """MatMul, Add, Relu, so often."""
    nodes, weights = [], []
    for n in range(layers):
        weights += [
            helper.make_tensor(f"w{n}", T.FLOAT, [8, 8], np.eye(8, dtype=np.float32).ravel()),
            helper.make_tensor(f"b{n}", T.FLOAT, [8], np.ones(8, np.float32)),
        ]
        for op, reads, made in (
            ("MatMul", [f"x{n}", f"w{n}"], f"m{n}"),
            ("Add", [f"m{n}", f"b{n}"], f"a{n}"),
            ("Relu", [f"a{n}"], f"x{n + 1}"),
        ):
            nodes.append(helper.make_node(op, reads, [made], name=f"{name}{n}/{op}"))
    graph = helper.make_graph(
        nodes, "chain", [helper.make_tensor_value_info("x0", T.FLOAT, [4, 8])],
        [helper.make_tensor_value_info(f"x{layers}", T.FLOAT, [4, 8])], weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def compiled(model: onnx.ModelProto) -> dict[str, Any]:
    report = Report()
    artifact = compile_to_bytecode(model, report=report)
    found = Page(compiling.page("model", model, artifact, report))
    check_closed(found)
    return found.data


def kernels_of(graph: dict[str, Any]) -> set[str]:
    return {dict(step["facts"])["kernel"] for step in graph["steps"]}


def test_a_compilation_shows_the_graph_before_and_after() -> None:
    data = compiled(chain(3))
    before, after = data["graphs"]
    assert [s["under"].split()[0] for s in before["steps"]] == ["MatMul", "Add", "Relu"] * 3
    assert {s["under"].partition(" in ")[2] for s in before["steps"]} == kernels_of(before)
    assert [s["heat"] for s in before["steps"]] == [3] * 9
    assert [s["reads"] for s in before["steps"]] == [[], *([n] for n in range(8))]
    assert len(before["blocks"]) == 3
    facts = [dict(s["facts"]) for s in after["steps"]]
    assert facts[0]["fuses"] == "layer0/MatMul, layer0/Add, layer0/Relu"
    assert [s["reads"] for s in after["steps"]] == [[], [0], [1]]
    assert kernels_of(before) <= {f["kernel"] for f in facts}
    tables = {t["id"]: t["rows"] for t in data["tables"]}
    assert {"import", "fusion"} <= {row[0] for row in tables["stages"]}
    assert "mgx-fuse-pointwise" in {row[0] for row in tables["passes"]}
    assert any(row[0] == "mgx-fuse-pointwise" and row[2] >= 3 for row in tables["rewrites"])
    assert data["verdict"][0].startswith("9 nodes of ONNX, ")


def test_a_pass_that_names_weights_has_one_row_of_rewrites() -> None:
    report = Report()
    artifact = compile_to_bytecode(chain(1), report=report)
    report.fired.extend(("mgx-share-weights", f"w{n} is w", f"node{n}") for n in range(30))
    tables = Page(compiling.page("model", None, artifact, report)).data["tables"]
    rows = next(table["rows"] for table in tables if table["id"] == "rewrites")
    (row,) = [row for row in rows if row[0] == "mgx-share-weights"]
    assert row[1:3] == ["w0 is w, and 29 like it", 30]


def test_names_of_nodes_stay_texts() -> None:
    before = compiled(chain(1, HOSTILE))["graphs"][0]
    assert before["steps"][0]["node"] == f"{HOSTILE}0/MatMul"


def test_compile_writes_its_page(tmp_path: Path) -> None:
    report = tmp_path / "r.html"
    words = ["compile", DIGITS, "-o", tmp_path / "d.mgx", "--arch", "gfx942", "--report", report]
    assert main([*map(str, words)]) == 0
    data = Page(report.read_text()).data
    assert [g["id"] for g in data["graphs"]] == ["before", "after"]
    assert {row[0] for t in data["tables"] if t["id"] == "stages" for row in t["rows"]} >= {
        "finalize"
    }


def tuned(monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    """The page of a tuning of one product on the emulated device."""
    monkeypatch.setenv("MGX_CACHE_DIR", str(folder / "cache"))
    onnx.save(chain(1), folder / "m.onnx")
    report = folder / "t.html"
    words = ["tune", folder / "m.onnx", "--target", "gfx942", "--tried", "2", "--rounds", "1"]
    assert main([*map(str, [*words, "--report", report])]) == 0
    found = Page(report.read_text())
    check_closed(found)
    return found.data


def test_tuning_shows_estimates_beside_times(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = tuned(monkeypatch, tmp_path)
    problems, candidates = data["tables"]
    assert len(problems["rows"]) == 1 and len(candidates["rows"]) >= 2
    estimate, time, text = data["plots"][0]["points"][0]
    assert estimate > 0 and time > 0 and "dot" in text
    assert "modelled" in data["verdict"][0]


def test_a_page_of_nothing_tuned() -> None:
    found = Page(tuning.page("model", []))
    check_closed(found)
    assert found.data["plots"] == []


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_browser_shows_them(tmp_path: Path) -> None:
    model, report = chain(3, HOSTILE), Report()
    artifact = mgx_mlir.compile_to_bytecode(model, report=report)
    file = tmp_path / "page.html"
    file.write_text(compiling.page("model", model, artifact, report))
    with Browser(tmp_path) as browser:
        browser.open(file)
        assert browser.messages == [] and browser.texts("#after h2")[0].startswith("After")
        assert len(browser.texts("#before .node")) == 3
        browser.click("#before .node")
        assert len(browser.texts("#before .node")) == 5
        assert browser.texts("#before aside h2") == [f"{HOSTILE}0/MatMul"]
        browser.click("#after .node:last-of-type")
        assert browser.texts("#after aside dd")[1].endswith("2/Relu")
        assert browser.messages == []
