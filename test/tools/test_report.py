"""`mgx perf --report`, `--trace`, `--compare`, and the ranges of roctx."""

from __future__ import annotations

import contextlib
import html.parser
import io
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import onnx
import pytest

from mgx_mlir.runtime.hip import ranges
from mgx_mlir.tools.mgx import main
from mgx_mlir.tools.profile_record import compared, trace
from mgx_mlir.tools.report import page

from ..onnx_models import MODELS

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits.onnx"
HOSTILE = "</title></svg><script>alert(1)</script><img src=http://x onerror=alert(2)>&\"'"


class Page(html.parser.HTMLParser):
    """The tags, the boxes' times, and all text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, name: str) -> list[float]:
        return [float(a[name]) for _, a in self.tags if a.get(name) is not None]  # type: ignore


def check_closed(page: Page) -> None:
    """Nothing from outside, no scripts, and a policy that lets none run."""
    assert not {tag for tag, _ in page.tags} & {"script", "img", "link", "iframe", "object", "base"}
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")]
        assert all(not (attributes.get(n) or "#").strip("#").count(":") for n in ("href", "src"))
    policies = [a["content"] for tag, a in page.tags if a.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs on an emulated device: the page and the trace of the second, and its record."""
    folder = tmp_path_factory.mktemp("report")
    command = ["perf", str(DIGITS), "--target", "gfx942", "--runs", "1", "--json"]
    for name, more in (
        ("old", []),
        ("new", ["--compare", folder / "old.json", "--report", folder / "new.html",
                 "--trace", folder / "trace.json"]),
    ):  # fmt: skip
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            assert main([*command, *map(str, more)]) == 0
        record = shown.getvalue()
        (folder / f"{name}.json").write_text(record)
    return folder


def test_the_page_has_the_numbers_of_the_record(files: Path) -> None:
    record = json.loads((files / "new.json").read_text())
    found = Page((files / "new.html").read_text())
    check_closed(found)
    assert found.values("data-ms") == [step["ms"] for step in record["steps"]]
    assert found.values("data-bytes") == [b["bytes"] for b in record["arena"]["buffers"]]
    for kernel in record["kernels"]:
        assert f"{kernel['ms']:.4f}" in found.text and kernel["why"] in found.text
    for title in (
        "Steps",
        "Timeline",
        "Roofline",
        "Memory",
        "Kernels",
        "Compilation",
        "Beside the",
    ):
        assert title in found.text


def test_the_record_fits_together(files: Path) -> None:
    record = json.loads((files / "new.json").read_text())
    steps, arena = record["steps"], record["arena"]
    assert [step["reads"] for step in steps[1:]] == [[n] for n in range(len(steps) - 1)]
    assert sum(k["ms"] for k in record["kernels"]) == pytest.approx(sum(s["ms"] for s in steps))
    for buffer in arena["buffers"]:
        assert buffer["offset"] + buffer["bytes"] <= arena["bytes"]
        assert 0 <= buffer["first"] <= buffer["last"] < len(steps)
    names = [call["name"] for call in record["host_calls"]]
    assert names == ["inputs", "launches", "wait", "results"]
    assert {row["name"] for row in record["compared"] if row["what"] == "run"} == {"graph", "plain"}
    assert record["stages"][0]["stage"] == "import"


def test_the_trace_has_every_step_and_call(files: Path) -> None:
    record = json.loads((files / "new.json").read_text())
    events = json.loads((files / "trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == len(record["steps"]) + len(record["host_calls"])
    kernels = [event for event in spans if event["tid"] == 2]
    for before, after in itertools.pairwise(kernels):
        assert after["ts"] == pytest.approx(before["ts"] + before["dur"])


def hostile_record() -> dict[str, Any]:
    step = {"kernel": 0, "node": HOSTILE, "ms": 0.5, "bytes": 8, "flops": 4, "launches": 1,
            "reads": []}  # fmt: skip
    kernel = {**step, "nodes": [HOSTILE], "share": 1.0, "gb_per_s": 1.0, "gflop_per_s": 1.0,
              "why": HOSTILE}  # fmt: skip
    return {
        "model": HOSTILE, "device": HOSTILE, "runs": 1, "times": "measured",
        "run_ms": {HOSTILE: {"p50": 1.0}}, "memory_bytes": {HOSTILE: 1},
        "steps": [step, {**step, "reads": [0]}], "kernels": [kernel],
        "machine": {"memory bytes": 1e12, HOSTILE: 1e14},
        "host_calls": [{"name": HOSTILE, "start_ms": 0.0, "ms": 1.0}],
        "arena": {"bytes": 8, "buffers": [{"offset": 0, "bytes": 8, "first": 0, "last": 1}]},
        "stages": [{"stage": HOSTILE, "ms": 1.0}],
    }  # fmt: skip


def test_texts_of_the_model_are_escaped() -> None:
    record = hostile_record()
    found = Page(page(record, compared(record, record)))
    check_closed(found)
    assert found.text.count(HOSTILE) > 8
    assert json.loads(json.dumps(trace(record)))["traceEvents"][-1]["name"] == HOSTILE


needs_chromium = pytest.mark.skipif(
    not shutil.which("chromium-headless-shell"), reason="needs Chromium"
)


def in_browser(file: Path, folder: Path) -> Page:
    """The page as Chromium has it in its tree; the picture has colours, the console no message."""
    shot = folder / f"{file.stem}.png"
    done = subprocess.run(
        ["chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={folder / 'profile'}", f"--screenshot={shot}", "--dump-dom",
         file.as_uri()],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr
    from PIL import Image

    with Image.open(shot) as image:
        assert len(image.convert("RGB").getcolors(1 << 24) or []) > 20
    return Page(done.stdout)


@needs_chromium
def test_a_browser_shows_the_page(files: Path, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page(hostile_record()))
    for file in (files / "new.html", tmp_path / "page.html"):
        shown = in_browser(file, tmp_path)
        assert shown.values("data-ms") == Page(file.read_text()).values("data-ms")
        assert not [tag for tag, _ in shown.tags if tag in ("script", "img")]


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes"), [("resnet", {}), ("bert", {"layers": 12, "width": 768, "tokens": 64})]
)
def test_a_browser_shows_the_kernels_of_whole_networks(
    name: str, sizes: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ResNet-50 and BERT-base on the CPU: the page's numbers are those of the record."""
    model, report = tmp_path / "model.onnx", tmp_path / "report.html"
    onnx.save(MODELS[name](**sizes), model)
    words = ["perf", model, "--target", "cpu", "--runs", "1", "--json", "--report", report]
    assert main([*map(str, words)]) == 0
    record = json.loads(capsys.readouterr().out)
    shown = in_browser(report, tmp_path)
    check_closed(shown)
    assert len(record["steps"]) > 40
    assert shown.values("data-ms") == [step["ms"] for step in record["steps"]]
    assert shown.values("data-bytes") == [b["bytes"] for b in record["arena"]["buffers"]]
    for kernel in record["kernels"]:
        assert f"{kernel['ms']:.4f}" in shown.text and kernel["nodes"][0] in shown.text
    for title in ("Steps", "Timeline", "Roofline", "Memory", "Kernels", "Compilation"):
        assert title in shown.text


@pytest.mark.parametrize(
    ("text", "message"), [("", "cannot be read"), ("[]", "no record"), ("[" * 10**5, "cannot be")]
)
def test_other_files_are_not_compared_with(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old.json").write_text(text)
    assert main(["perf", str(DIGITS), "--compare", str(tmp_path / "old.json")]) == 2
    assert message in capsys.readouterr().err


def test_a_record_of_something_else_compares_nothing() -> None:
    odd = {"run_ms": {"graph": 5, "plain": {"p50": "x"}}, "steps": [7, {"ms": "y"}]}
    assert compared(odd, hostile_record()) == []


def test_steps_are_ranges_of_roctx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library of roctx's functions notes the ranges."""
    source, library = tmp_path / "roctx.c", tmp_path / "libroctx.so"
    source.write_text(
        f'#include <stdio.h>\nstatic void note(const char *t) {{ FILE *f = fopen("{tmp_path}/log", '
        '"a"); fprintf(f, "%s\\n", t); fclose(f); }\n'
        "int roctxRangePushA(const char *t) { note(t); return 0; }\n"
        'int roctxRangePop(void) { note("pop"); return 0; }\n'
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setattr(ranges, "LIBRARIES", (str(library),))
    ranges._library.cache_clear()
    try:
        assert main(["perf", str(DIGITS), "--target", "gfx942", "--runs", "1"]) == 0
    finally:
        ranges._library.cache_clear()
    names = re.findall(r"(.+)\npop\n", (tmp_path / "log").read_text())
    assert any("conv1" in name for name in names) and "pop" not in names
