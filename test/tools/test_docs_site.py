"""The documentation: its links lead somewhere, its examples run, its reference is whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mgx_mlir
from mgx_mlir.tools import reference_pages
from mgx_mlir.tools.mgx import main, verb_names
from scripts import doc_examples
from scripts.doc_examples import BLOCK, plain
from scripts.docs import site_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "runtime" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


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


def run_examples(text: str, shows: bool) -> None:
    """Runs the blocks of a page; where it `shows` what they print, they print that."""
    blocks = BLOCK.findall(text)
    assert blocks
    for number, (language, block) in enumerate(blocks):
        if language == "python":
            printed = doc_examples.run_python(block)
            follows, shown = [*blocks, ("", "")][number + 1]
            if shows and printed:
                assert follows == "text" and plain(printed) == plain(shown)
        elif language == "console":
            for line, shown in doc_examples.commands(block):
                printed = doc_examples.run_command(line)
                assert not shows or plain(printed) == plain(shown), line
        else:
            assert language == "text" and number and blocks[number - 1][0] == "python"


# Pages that show what their examples print: python -m scripts.doc_examples tutorial
TASKS = [f"tasks/{file.stem}" for file in sorted((ROOT / "docs" / "tasks").glob("*.md"))]
SHOWN = ["tutorial", "tasks/ship-one-file", "tasks/serve-any-batch"]


@pytest.mark.parametrize("name", ["tutorial", "from-iree", "from-onnxruntime", "migraphx", *TASKS])
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    doc_examples.prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "cache"))
    run_examples((ROOT / "docs" / f"{name}.md").read_text(), name in SHOWN)
    if name == "tutorial":
        assert {"digits.mgx", "report.html", "trace.json"} <= {f.name for f in tmp_path.iterdir()}


def test_examples_that_print_otherwise_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doc_examples.prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    run_examples("```python\nprint(2)\n```\n\n```text\n3\n```\n", True)
    for text in ("```python\nprint('a')\n```\n\n```text\nb\n```\n", "```python\nprint(2)\n```\n",
                 "```console\n$ mgx op Relu\nsomething else\n```\n"):  # fmt: skip
        with pytest.raises(AssertionError):
            run_examples(text, True)
    for line in ("ls", "mgx check nothing.onnx"):
        with pytest.raises(ValueError, match=line):
            run_examples(f"```console\n$ {line}\n```\n", False)


def test_docs_lists_pages_and_shows_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in listed} >= {"serve-any-batch", "tutorial", "trust"}
    assert main(["docs", "serve-any-batch"]) == 0
    assert capsys.readouterr().out.startswith("# Serve any batch")
    assert main(["docs", "serve-any-bath"]) == 2
    assert "did you mean serve-any-batch?" in capsys.readouterr().err


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
    pages = {str(file.relative_to(ROOT / "docs")) for file in (ROOT / "docs").rglob("*.md")}
    assert listed == made | pages


def test_pages_of_tasks_are_under_a_screen() -> None:
    for name in TASKS:
        text = (ROOT / "docs" / f"{name}.md").read_text()
        assert len(text.splitlines()) <= 60 and text.startswith("# "), name


def test_links_of_the_readme_are_those_of_the_site() -> None:
    text = "[a](docs/gpu.md#b) [c](runtime/README.md) [d](https://e.org) [f](#g)"
    assert (
        site_page(text, ".") == "[a](gpu.md#b) c (`runtime/README.md`) [d](https://e.org) [f](#g)"
    )
