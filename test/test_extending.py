"""The recipes of docs/extending.md count the source files of their examples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text()
SUFFIXES = {".py", ".td", ".h", ".cpp"}


def sources(pattern: str, without: str) -> list[str]:
    """The source files that name an example, apart from the folders of `without`."""
    found = []
    for folder in ("mgx_mlir", "passes", "dialects"):
        for file in sorted((ROOT / folder).rglob("*")):
            name = file.relative_to(ROOT).as_posix()
            if file.suffix not in SUFFIXES or re.search(f"_native/|{without}", name):
                continue
            if re.search(pattern, file.read_text(), re.IGNORECASE):
                found.append(name)
    return found


@pytest.mark.parametrize(
    ("title", "pattern", "without"),
    [
        # A family makes an operator faster; pages of the tools list all operators.
        ("An ONNX operator: 1 source file, or {}", r"\blrn\b|LrnOp", "gpu/families|tools/"),
        ("A pass: {} source file and its line", "class SimplifyGathers", "phases.py"),
        ("A kernel family: {} source file", r".", "^(?!.*families/lrn/)"),
        ("An element type: {} source files", "f8E4M3FNUZ|(float8_?|fp8)e4m3fnuz", "pyi$"),
    ],
)
def test_recipes_count_their_files(title: str, pattern: str, without: str) -> None:
    files = sources(pattern, without)
    assert f"## {title.format(len(files))}" in PAGE, files
