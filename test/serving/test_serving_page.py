"""The page on serving: its commands run, and the options that it names are there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from scripts import doc_examples
from test.serving.digits import SERVING, network

ROOT = SERVING.parents[1]
TEXT = (ROOT / "docs" / "serving.md").read_text()
LINES = re.findall(r"^    (mgx|python|curl|pip) (.+)$", TEXT, re.M)


def test_each_example_is_on_the_page_and_short() -> None:
    shown = {words.split()[0] for program, words in LINES if program == "python"}
    shown |= set(re.findall(r"`(examples/serving/\w+\.py)`", TEXT))
    assert shown == {str(file.relative_to(ROOT)) for file in SERVING.glob("*.py")}
    for name in shown:
        assert len((ROOT / name).read_text().splitlines()) < 150, name


def test_options_of_examples_are_theirs() -> None:
    for program, words in LINES:
        if program == "python":
            name, *rest = shlex.split(words)
            text = (ROOT / name).read_text()
            for option in (word for word in rest if word.startswith("--")):
                assert f'"{option}"' in text, f"{name} {option}"


@pytest.mark.slow
def test_commands_run(tmp_path: Path) -> None:
    """In a process of its own, with two emulated GPUs."""
    doc_examples.prepare(tmp_path)
    onnx.save(network(), tmp_path / "model.onnx")
    commands = [f"mgx {words}" for program, words in LINES if program == "mgx"]
    script = f"""
from scripts import doc_examples
from test.tools.test_docs_site import run_examples
for command in {commands!r}:
    doc_examples.run_command(command)
text = open({str(ROOT / "docs" / "serving.md")!r}).read()
run_examples(text, False)
"""
    paths = {"PYTHONPATH": str(ROOT), "MGX_CACHE_DIR": str(tmp_path / "cache")}
    devices = {"MGX_EMULATED_DEVICES": "gfx942,gfx942"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=os.environ | paths | devices,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
