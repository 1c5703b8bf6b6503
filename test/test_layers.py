"""Imports point downward: each folder may know those before it in the list, and none after it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# The floors of the package, the lowest first. A module belongs to the longest name that it
# begins with. Imports inside of functions, and those for type checkers, count like all others.
FLOORS = """
    version text suggest elements arguments errors array_files advice scan scopes
    settings sizes capabilities
    dialects
    machine
    artifact
    trust
    emulator
    rewriting
    reference
    importer
    codegen.refusal codegen.stages
    codegen.choice codegen.regimes
    codegen.meaning
    codegen.layout
    codegen.builders
    codegen.problem
    codegen.loops
    codegen.gpu.builders
    codegen.gpu.loops codegen.gpu.repeat
    codegen.gpu.families.family
    codegen.gpu.families.rows
    codegen.gpu.families.contraction
    codegen.gpu.families
    codegen.gpu
    codegen.cpu
    codegen
    finalizer
    tuning.record tuning.database tuning.problem tuning.lookup tuning.exchange
    passes
    pipelines
    runtime
    compiler
    loader
    chain
    tuning
    models
    quantization
    backend migraphx torch
    tools
"""
FLOOR_OF = {name: floor for floor, line in enumerate(FLOORS.split("\n")) for name in line.split()}
TOP = max(FLOOR_OF.values())
# The folders that the package finds by links.
LINKED = {"passes": ROOT / "passes", "dialects": ROOT / "dialects" / "python"}


@cache
def modules() -> Mapping[str, Path]:
    """Every module of the package by its name, without that of the package."""
    package = ROOT / "mgx_mlir"
    files = [(file.relative_to(package), file) for file in sorted(package.rglob("*.py"))]
    for name, folder in LINKED.items():
        files += [(Path(name) / file.name, file) for file in sorted(folder.glob("*.py"))]
    return {
        ".".join(place.with_suffix("").parts).removesuffix("__init__").removesuffix("."): file
        for place, file in files
        if "_native" not in place.parts
    }


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found = inner.removeprefix("mgx_mlir.") in modules()
                yield inner if found else str(node.module)


@cache
def edges() -> Mapping[str, tuple[str, ...]]:
    """The modules of the package that each of them imports."""
    known = modules()
    return {
        name: tuple(
            sorted(
                {
                    other.removeprefix("mgx_mlir.")
                    for other in imported(file)
                    if other.startswith("mgx_mlir.") and other.removeprefix("mgx_mlir.") in known
                }
                - {name}
            )
        )
        for name, file in known.items()
    }


def floor_of(module: str) -> int:
    """The floor that a module belongs to; the package's own module is above all."""
    parts = module.split(".")
    for size in range(len(parts), 0, -1):
        floor = FLOOR_OF.get(".".join(parts[:size]))
        if floor is not None:
            return floor
    assert module == "", f"{module} belongs to no floor: enter its folder in FLOORS"
    return TOP + 1


def test_no_import_points_upward() -> None:
    upward = [
        f"{module} imports {other}"
        for module, others in edges().items()
        for other in others
        if floor_of(other) > floor_of(module)
    ]
    assert not upward


def test_no_modules_import_each_other() -> None:
    """Modules that import none of those left, or that none of them imports, are taken away."""
    left = {module: set(others) for module, others in edges().items()}
    while True:
        needed = set().union(*left.values())
        free = [module for module, others in left.items() if not others or module not in needed]
        if not free:
            break
        for module in free:
            del left[module]
        for others in left.values():
            others.difference_update(free)
    assert not left, f"circles among {sorted(left)}"


@pytest.mark.parametrize("folder", ["runtime", "codegen/layout"])
def test_the_runtime_and_the_layouts_need_no_mlir(folder: str) -> None:
    for file in (ROOT / "mgx_mlir" / folder).rglob("*.py"):
        assert not [name for name in imported(file) if name.split(".")[0] == "mlir"], file


def test_only_settings_reads_the_environment() -> None:
    package = ROOT / "mgx_mlir"
    # The emulated device is a library of its own, with variables of its own, which the
    # tools set for it.
    allowed = {"settings.py", "emulator/__init__.py", "emulator/__main__.py"}
    for file in package.rglob("*.py"):
        if "_native" in file.parts or str(file.relative_to(package)) in allowed:
            continue
        text = file.read_text()
        assert "os.environ" not in text and "getenv" not in text, file


def test_torch_is_imported_by_what_is_for_it_alone() -> None:
    """Elsewhere, functions import it that get something of torch."""
    for name, file in modules().items():
        if name.split(".")[0] == "torch":
            continue
        top = ast.parse(file.read_text()).body
        found = [alias.name for node in top if isinstance(node, ast.Import) for alias in node.names]
        found += [str(node.module) for node in top if isinstance(node, ast.ImportFrom)]
        assert not {"torch", "onnx_ir", "onnxscript"} & {n.split(".")[0] for n in found}, file


def test_families_name_no_instruction_of_a_chip() -> None:
    """Dialects and intrinsics of chips are for the builders."""
    names = re.compile(r"\b(rocdl|amdgpu|nvvm|nvgpu)\b|llvm\.amdgcn")
    for file in (ROOT / "mgx_mlir/codegen/gpu/families").rglob("*.py"):
        assert not names.search(file.read_text()), file
