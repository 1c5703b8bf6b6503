"""The package's own names: typed, misspelt ones are found, and importing it loads nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mgx_mlir

INIT = Path(mgx_mlir.__file__)
# Modules of an editable installation.
FINDERS = {name for name in sys.modules if "editable" in name}


def test_importing_the_package_loads_nothing() -> None:
    program = "import sys, mgx_mlir; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded = set(found.stdout.split())
    assert {name for name in loaded if "mgx" in name} <= {"mgx_mlir", "mgx_mlir.version"} | FINDERS
    assert not loaded & {"numpy", "onnx", "mlir", "argparse", "logging", "subprocess"}


def test_every_name_is_there_for_people_and_for_type_checkers() -> None:
    (block,) = (n for n in ast.parse(INIT.read_text()).body if isinstance(n, ast.If) and n.body
                if isinstance(n.body[0], ast.ImportFrom))  # fmt: skip
    typed = {a.name: n.module for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert typed == {name: f"mgx_mlir.{home}" for name, home in mgx_mlir._HOME.items()}
    assert sorted([*typed, "__version__"]) == sorted(mgx_mlir.__all__) == sorted(dir(mgx_mlir))
    for name in mgx_mlir.__all__:
        assert getattr(mgx_mlir, name) is not None


def test_misspelt_names_are_type_errors(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    script = tmp_path / "script.py"
    names = [name for name in mgx_mlir.__all__ if not name.startswith("_")]
    lines = ["import mgx_mlir", *(f"mgx_mlir.{name}" for name in names), "mgx_mlir.compil('m')"]
    script.write_text("\n".join(lines))
    # The package's own file and no other one, which would take a minute.
    alone = ["--follow-imports=skip", "--config-file=", f"--cache-dir={tmp_path}"]
    out, _, code = api.run([*alone, "--strict", "--allow-untyped-defs", str(INIT), str(script)])
    of_script = [line for line in out.splitlines() if str(script) in line]
    assert code == 1 and len(of_script) == 1, out
    assert f'{script}:{len(lines)}: error: Module has no attribute "compil"' in of_script[0]
