"""Dependencies point one way: tools, compiler, its stages; the runtime knows none of them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "mgx_mlir"

# What each part may not import, by the beginning of the module's name.
STAGES = ("importer", "passes", "codegen", "finalizer", "portable", "runtime", "reference")
TOP = ("tools", "compiler", "loader", "specialize", "staged", "backend")
FORBIDDEN = {
    "codegen": (*TOP, "importer", "passes", "runtime", "reference", "artifact"),
    "dialects": (*TOP, *STAGES, "artifact", "plan"),
    "emulator": (*TOP, *STAGES, "dialects", "artifact"),
    "finalizer": (*TOP, "importer", "passes", "runtime", "reference"),
    "host": (*TOP, *STAGES, "dialects", "artifact", "plan"),
    "importer": (
        *(*TOP, "host", "passes", "codegen", "finalizer", "portable", "runtime", "reference"),
    ),
    "passes": (*TOP, "importer", "codegen", "finalizer", "portable", "runtime"),
    "reference": (*TOP, "importer", "passes", "codegen", "finalizer", "portable", "runtime"),
    "runtime": (
        *(*TOP, "importer", "passes", "codegen", "portable", "reference", "dialects"),
        *("pass_manager", "pipelines", "rewriting", "graph", "planning"),
    ),
}


def imports(file: Path) -> Iterator[str]:
    """The modules that a file imports, wherever in it; type checkers' imports are none."""
    tree = ast.parse(file.read_text())
    checked_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in checked_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("part", sorted(FORBIDDEN))
def test_imports_point_one_way(part: str) -> None:
    files = sorted((PACKAGE / part).rglob("*.py"))
    assert files
    refused = tuple(f"mgx_mlir.{name}." for name in FORBIDDEN[part])
    found = [
        f"{file.relative_to(PACKAGE)} imports {name}"
        for file in files
        for name in imports(file)
        if f"{name}.".startswith(refused)
    ]
    assert not found


def test_the_runtime_needs_no_mlir() -> None:
    for file in (PACKAGE / "runtime").rglob("*.py"):
        assert not [name for name in imports(file) if name.split(".")[0] == "mlir"], file


def test_only_settings_reads_the_environment() -> None:
    # The emulated device is a library of its own, with variables of its own, which the
    # tools set for it.
    allowed = {
        *("settings.py", "emulator/__init__.py", "emulator/__main__.py"),
        "tools/verbs/perf.py",
    }
    for file in PACKAGE.rglob("*.py"):
        if "_native" in file.parts or str(file.relative_to(PACKAGE)) in allowed:
            continue
        text = file.read_text()
        assert "os.environ" not in text and "getenv" not in text, file


def test_a_finalized_program_starts_without_a_compiler() -> None:
    """What `mgx_mlir.load` and `compile` of an artifact import: no MLIR, no ONNX, no passes."""
    code = (
        "import sys, mgx_mlir.loader, mgx_mlir.runtime.program, mgx_mlir.runtime.hip.program\n"
        "print(sorted({n.split('.')[0] for n in sys.modules} & {'mlir', 'onnx'}),"
        " [n for n in sys.modules if n.startswith(('mgx_mlir.importer', 'mgx_mlir.passes',"
        " 'mgx_mlir.codegen', 'mgx_mlir.compiler'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] []\n"
