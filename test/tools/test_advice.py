"""Messages advise only things that exist: flags in the parsers, options in the calls."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mgx_mlir
from mgx_mlir import advice
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.tools import mgx, mgx_opt
from mgx_mlir.tools.driver_words import FLAGS, FORMS, OF_THEMSELVES, REFUSED

ROOT = Path(__file__).resolve().parents[2]
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
# Flags of other programs, and forms that mgx-opt takes for any pass.
OTHERS = {
    "--build-id", "--disassemble", "--gc-sections", "--hash-style", "--no-show-raw-insn",
    "--cse", "--mgx-",
    "--compile-to", "--iree-hal-target-device", "--iree-rocm-target", "--mlir-print-ir-after-all",
    "--cpu", "--module", "--pass-pipeline", "--split-sizes",
    "--no-nanny", "--nthreads", "--nworkers", "--resources",
    "--cflags", "--group-add", "--grpc", "--http", "--libs", "--port", "--replicas", "--usecase",
    "--wait",
}  # fmt: skip


def own_flags() -> set[str]:
    """Every flag of `mgx` and its verbs, and of mgx-opt."""
    found: set[str] = set()
    waiting = [mgx.parser_of(mgx.verb_names())]
    while waiting:
        for action in waiting.pop()._actions:
            found |= {text for text in action.option_strings if text.startswith("--")}
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()
    return found | set(FLAG.findall(inspect.getsource(mgx_opt)))


def texts() -> Iterator[tuple[Path, str]]:
    """Strings of the package's sources, and documents."""
    for folder in ("mgx_mlir", "passes"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            if "_native" in file.parts:
                continue
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield file, node.value
    for file in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        yield file, file.read_text()


def test_every_flag_that_is_named_exists() -> None:
    known = own_flags() | OTHERS | {*FLAGS, *FORMS, *REFUSED, *OF_THEMSELVES}
    files = [*(ROOT / "benchmarks").glob("*.py"), ROOT / "test/ratchet/__main__.py"]
    programs = "".join(file.read_text() for file in sorted(files))
    for file, text in texts():
        # A module that is run by itself has flags of its own; documents name some.
        own = programs if file.suffix == ".md" else file.read_text()
        strange = {flag for flag in FLAG.findall(text) if f'"{flag}"' not in own} - known
        assert not strange, f"{file} names {sorted(strange)}"


def test_no_message_advises_flags_to_callers_of_python() -> None:
    sizes = {"--input-dim", "--dim-param", "--batch", "--mode", "--no-graph"}
    for file, text in texts():
        inside = file.is_relative_to(ROOT / "mgx_mlir" / "tools") or file.suffix == ".md"
        if not inside and file.name != "advice.py":
            assert not sizes & set(FLAG.findall(text)), f"{file}: {text}"


def test_options_that_are_advised_exist() -> None:
    fields = set(CompileOptions.__dataclass_fields__)
    calls = set(inspect.signature(mgx_mlir.compile).parameters)
    for python, _ in advice._FLAGS:
        name = re.match(r"(?:\\b)?(\w+)=", python)
        assert name and name[1] in fields | calls


@pytest.mark.parametrize(
    ("python", "flags"),
    [
        ("by dim_params={'n': N}, by", "by --dim-param @n N, by"),
        ("by input_dims={'x y': [N, 3]}, by", "by --input-dim @x y N 3, by"),
        ("by default_dim=N for all", "by --batch N for all"),
        ("give sizes (dim_params=, input_dims= or default_dim=)",
         "give sizes (--dim-param, --input-dim or --batch)"),
        ("(mode='full-dynamic')", "(--mode full-dynamic)"),
        ("(graph=False)", "(--no-graph)"),
    ],
)  # fmt: skip
def test_the_command_line_gives_advice_in_its_words(python: str, flags: str) -> None:
    assert advice.on_command_line(python) == flags
