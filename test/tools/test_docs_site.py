"""The documentation: its links lead somewhere, its examples run, its reference is whole."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

import mgx_mlir
from mgx_mlir.tools import driver, reference_pages
from mgx_mlir.tools.mgx import main, verb_names
from scripts.docs import site_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "runtime" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
COMMANDS = {"mgx": main, "mgx-driver": driver.main}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    heads = re.findall(r"^#+ (.+)$", BLOCK.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link in LINK.findall(BLOCK.sub("", page.read_text())):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), link
        assert not anchor or anchor in anchors(file.read_text()), link


def run_examples(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the blocks of a page, one after another, in a folder that has a model."""
    shutil.copy(ROOT / "examples" / "digits.onnx", folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MGX_CACHE_DIR", str(folder / "cache"))
    blocks = BLOCK.findall((ROOT / "docs" / f"{name}.md").read_text())
    assert blocks
    for language, text in blocks:
        if language == "python":
            exec(compile(text, f"{name}.md", "exec"), {})
            continue
        assert language == "console"
        for line in text.splitlines():
            prompt, program, *words = shlex.split(line)
            assert prompt == "$" and program in COMMANDS
            assert COMMANDS[program](words) == 0, line


@pytest.mark.parametrize("name", ["tutorial", "howto", "from-iree", "from-onnxruntime", "migraphx"])
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_examples(name, tmp_path, monkeypatch)
    if name == "tutorial":
        assert {"digits.mgx", "report.html", "trace.json"} <= {f.name for f in tmp_path.iterdir()}


def test_the_reference_has_every_verb_and_every_name() -> None:
    commands, python = reference_pages.commands(), reference_pages.python()
    assert re.findall(r"^## mgx (.+)$", commands, re.M) == verb_names()
    names = [name for name in mgx_mlir.__all__ if not name.startswith("_")]
    assert re.findall(r"^## (.+)$", python, re.M) == names
    assert "### Model.run_async" in python and "--report FILE.html" in commands


def test_every_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("nav:\n")[2]
    listed = set(re.findall(r": (\S+\.md)$", nav, re.M))
    made = {"index.md", "commands.md", "python.md"}
    assert listed == made | {file.name for file in (ROOT / "docs").glob("*.md")}


def test_links_of_the_readme_are_those_of_the_site() -> None:
    text = "[a](docs/gpu.md#b) [c](runtime/README.md) [d](https://e.org) [f](#g)"
    assert (
        site_page(text, ".") == "[a](gpu.md#b) c (`runtime/README.md`) [d](https://e.org) [f](#g)"
    )
