"""`mgx perf --report`, `--trace`, `--compare`, and the ranges of roctx."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html.parser
import io
import itertools
import json
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from mgx_mlir.tools.mgx import main
from mgx_mlir.tools.profile_record import compared, trace
from mgx_mlir.tools.report.profile import page

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits.onnx"
HOSTILE = "</title></svg><script>alert(1)</script><img src=http://x onerror=alert(2)>&\"'"


class Page(html.parser.HTMLParser):
    """The tags of a page, its scripts, and the record in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._inside.pop()

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._inside[-1] if self._inside else "", []).append(data)

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.texts["script"][0])
        return found


def check_closed(page: Page) -> None:
    """Nothing from outside, and a policy that lets run the page's two scripts alone."""
    assert not {tag for tag, _ in page.tags} & {"img", "link", "iframe", "object", "base"}
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "href")]
    (policy,) = [a["content"] or "" for _, a in page.tags if "http-equiv" in a]
    data, *scripts = page.texts["script"]
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    allowed = " ".join(f"'sha256-{text}'" for text in hashes)
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}"
    assert len(scripts) == 2 and "</" not in data


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
    for name in ("steps", "arena", "machine", "host_calls", "stages", "run_ms", "compared"):
        assert found.data[name] == record[name]
    for shown, kernel in zip(found.data["kernels"], record["kernels"], strict=True):
        assert shown.items() >= kernel.items()


def test_the_page_has_the_code_of_each_kernel(files: Path) -> None:
    for kernel in Page((files / "new.html").read_text()).data["kernels"]:
        code = json.loads(zlib.decompress(base64.b64decode(kernel["code"])))
        assert "mgx.kernel" in code["ir"] and "s_endpgm" in code["isa"]
        assert kernel["why"] in code["estimate"]
        assert kernel["types"].count(" -> ") == 1 and "f32[" in kernel["types"]
        for launch in kernel["code_launches"]:
            stats = kernel["stats"][launch["function"]]
            assert 1 <= stats["waves_per_simd"] <= 8 and stats["vgpr"] > 0


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


def test_the_threads_of_a_cpu_have_a_timeline_each(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("page.html", "trace.json")}
    command = ["perf", DIGITS, "--target", "cpu", "--runs", "2", "--json", "--report",
               files["page.html"], "--trace", files["trace.json"]]  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        assert main([*map(str, command)]) == 0
    record = json.loads(shown.getvalue())
    assert Page(files["page.html"].read_text()).data["threads"] == record["threads"]
    assert [thread["name"] for thread in record["threads"]][:1] == ["thread 0"]
    assert all(row["why"] for row in record["kernels"] if row["kernel"] >= 0)
    steps = [span["step"] for thread in record["threads"] for span in thread["spans"]]
    assert {*steps} == {*range(len(record["steps"]))}
    events = json.loads(files["trace.json"].read_text())["traceEvents"]
    assert sum(e["ph"] == "X" and e["tid"] > 2 for e in events) == len(steps)


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
    assert json.dumps(found.data).count(json.dumps(HOSTILE)[1:-1]) > 8
    assert json.loads(json.dumps(trace(record)))["traceEvents"][-1]["name"] == HOSTILE


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


def test_what_changed_between_two_runs_is_said() -> None:
    old, new = hostile_record(), hostile_record()
    for record, name, why in ((old, "gone", "tile 16x16"), (new, "new", "tile 32x32")):
        record["kernels"][0]["why"] = why
        record["steps"].append({**record["steps"][0], "node": name})
    new["steps"][0]["bytes"] = 4_000_008
    rows = {row["name"]: row for row in compared(old, new) if row["what"] == "step"}
    assert (
        rows[HOSTILE]["changed"] == "tile 16x16 -> tile 32x32; 1.6e-05 MB -> 4 MB"
        and rows[HOSTILE]["ratio"] == 1
    )
    assert rows["gone"]["changed"] == "in the other run only" and rows["gone"]["now"] == 0
    assert rows["new"]["changed"] == "not in the other run" and rows["new"]["ratio"] is None


def test_steps_are_ranges_of_roctx(tmp_path: Path) -> None:
    """A library of roctx's functions notes the ranges."""
    source, library = tmp_path / "roctx.c", tmp_path / "libroctx64.so.4"
    source.write_text(
        f'#include <stdio.h>\nstatic void note(const char *t) {{ FILE *f = fopen("{tmp_path}/log", '
        '"a"); fprintf(f, "%s\\n", t); fclose(f); }\n'
        "int roctxRangePushA(const char *t) { note(t); return 0; }\n"
        'int roctxRangePop(void) { note("pop"); return 0; }\n'
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    # The library is looked for once a process.
    words = ["perf", str(DIGITS), "--target", "gfx942", "--runs", "1"]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-m", "mgx_mlir.tools.mgx", *words], env=environment, check=True
    )
    names = re.findall(r"(.+)\npop\n", (tmp_path / "log").read_text())
    assert any("conv1" in name for name in names) and "pop" not in names
