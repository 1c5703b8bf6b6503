"""Runs the examples of a page of docs/, in an empty folder with `digits.onnx`.

    python -m scripts.doc_examples PAGE...     # writes what they print into the pages

In a block `console`, lines with `$ ` are commands of mgx and the lines after them what they print;
a block `python` is followed by a block `text` with what it prints. Numbers differ from machine to
machine, and are not compared.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mgx_mlir import emulator
from mgx_mlir.tools import driver
from mgx_mlir.tools.mgx import main as mgx

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
_COMMANDS = {"mgx": mgx, "mgx-driver": driver.main}
_NUMBER = re.compile(r"[0-9a-f]{16,}|\d+(\.\d+)?(e[+-]?\d+)?|-?\binf\b|\bnan\b")


def plain(text: str) -> list[str]:
    """The lines of a text, sorted, without their numbers and with single spaces, to be compared.

    Rows of a table come in the order of their times.
    """
    return sorted(" ".join(_NUMBER.sub("#", line).split()) for line in text.splitlines() if line)


def commands(block: str) -> Iterator[tuple[str, str]]:
    """The commands of a block `console`, each with the lines that stand after it."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def run_command(line: str) -> str:
    """What a command prints. Raises ValueError where it is none of mgx, or fails."""
    program, *words = shlex.split(line)
    if program not in _COMMANDS:
        raise ValueError(f"{line}: no command of {', '.join(_COMMANDS)}")
    # Times are modelled where nothing opened the emulated GPUs before.
    if program == "mgx" and words[:1] == ["perf"]:
        own = [sys.executable, "-m", "mgx_mlir.tools.mgx", *words]
        done = subprocess.run(own, stdout=subprocess.PIPE, text=True, check=False)
        code, text = done.returncode, done.stdout
    else:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            code = _COMMANDS[program](words)
        text = printed.getvalue()
    if code:
        raise ValueError(f"{line}: ended with {code}")
    return text


def run_python(text: str) -> str:
    """What lines of Python print."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(text, "example", "exec"), {})
    return printed.getvalue()


def prepare(folder: Path) -> None:
    """Puts the model of the examples into a folder."""
    shutil.copy(ROOT / "examples" / "digits.onnx", folder)


def _filled(text: str) -> str:
    """A page with what its examples print."""
    parts, end = [], 0
    blocks = list(BLOCK.finditer(text))
    for number, match in enumerate(blocks):
        language, block = match.groups()
        if language == "text" and number and blocks[number - 1][1] == "python":
            continue
        parts.append(text[end : match.start()])
        end = match.end()
        if language == "console":
            shown = [f"$ {line}\n{run_command(line)}" for line, _ in commands(block)]
            parts.append(f"```console\n{''.join(shown)}```")
        elif language == "python":
            parts.append(match[0])
            printed = run_python(block)
            follows = blocks[number + 1] if number + 1 < len(blocks) else None
            if follows is not None and follows[1] == "text":
                end = follows.end()
            parts.append(f"\n\n```text\n{printed}```" if printed else "")
        else:
            parts.append(match[0])
    return "".join([*parts, text[end:]])


def main(names: list[str]) -> int:
    emulator.model_times()  # before the device is opened
    for name in names:
        page = ROOT / "docs" / f"{name}.md"
        text = page.read_text()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            os.environ["MGX_CACHE_DIR"] = f"{folder}/cache"
            prepare(Path(folder))
            page.write_text(_filled(text))
            os.chdir(ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
