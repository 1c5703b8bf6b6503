"""Types of the MLIR bindings for type checkers, in build/types: upstream installs none.

The native modules get stubs by nanobind's generator. The dialects' modules are read as they
are, by links, but where one redefines a name that it imports with all others from generated
code (`class ForOp(ForOp)`): there the import is spelled out, for a type checker to follow it.

    .venv/bin/python scripts/binding_types.py [--missing]

With `--missing` they are made where there are none, or older ones than the native modules.
"""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

ROOT = Path(__file__).resolve().parents[1]
TYPES = ROOT / "build" / "types"
# Native modules: those of MLIR, and the project's own, whose stub lies beside it.
NATIVE = (
    "_mlir",
    "_mlir.ir",
    "_mlir.passmanager",
    "_mlir.rewrite",
    "_mlirDialectsAMDGPU",
    "_mlirDialectsGPU",
    "_mlirDialectsLLVM",
    "_mlirDialectsLinalg",
)
# Types that the generator cannot know, as (pattern, replacement): that of a value, which upstream
# gives as a parameter; arguments with defaults that have no text; class variables.
CORRECTIONS = (
    (r"^    _\w*_ = __new__\n", ""),
    (r"^    _(use_args|\w*members?|\w*names|\w*map|\w*values|\w*repr|\w*type)_: .*\n", ""),
    (
        r'^_T = TypeVar\("_T", bound=Type\)',
        '_T = typing_extensions.TypeVar("_T", bound=Type, default=Type, covariant=True)',
    ),
    (r"(class Value\(Generic\[_T\]\):(?:.*\n)+?    def type\(self\)) -> Type:", r"\1 -> _T:"),
    (r"^from typing import ", r"from typing import ClassVar, Generic, "),
    (r"^(    def get_asm\(.*\)) -> object:", r"\1 -> str:"),
    (r"current: Location \| None", "current: Location"),  # raises where there is none
    (r"walk_order: WalkOrder\)", "walk_order: WalkOrder = ...)"),
    (r"^(class OpView\(_OperationBase\):\n)", r"\1    OPERATION_NAME: ClassVar[str]\n\n"),
)
SITE = """from collections.abc import Sequence
from typing import Any

from mlir._mlir_libs._mlir.ir import DiagnosticInfo, DialectRegistry, _BaseContext

class Context(_BaseContext):
    def __init__(
        self, load_on_create_dialects: Sequence[str] | None = None, thread_pool: Any = None
    ) -> None: ...

class MLIRError(Exception):
    message: str
    error_diagnostics: list[DiagnosticInfo]

def get_dialect_registry() -> DialectRegistry: ...
def get_include_dirs() -> Sequence[str]: ...
def append_load_on_create_dialect(dialect: str) -> None: ...
def get_load_on_create_dialects() -> list[str]: ...
"""


def main() -> None:
    import mlir

    installed = Path(next(iter(mlir.__path__)))
    made = ROOT / "mgx_mlir" / "_native" / "_mgx.pyi"  # the last
    sources = [Path(__file__), installed / "ir.py", *made.parent.glob("_mgx.*.so")]
    newest = max(file.stat().st_mtime for file in sources)
    is_made = TYPES.exists() and made.exists() and made.stat().st_mtime > newest
    if is_made and "--missing" in sys.argv:
        return
    shutil.rmtree(TYPES, ignore_errors=True)
    for source in sorted(installed.rglob("*.py")):
        target = TYPES / "mlir" / source.relative_to(installed)
        if "_mlir_libs" in source.parts:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text()
        if (followable := spelled_out(text, source)) == text:
            target.symlink_to(source)
        else:
            target.write_text(followable)
    libraries = TYPES / "mlir" / "_mlir_libs"
    (libraries / "_mlir").mkdir(parents=True)
    (libraries / "__init__.pyi").write_text(SITE)
    for name in NATIVE:
        file = f"{name.replace('.', '/')}.pyi" if name != "_mlir" else "_mlir/__init__.pyi"
        (libraries / file).write_text(stub(f"mlir._mlir_libs.{name}"))
    made.write_text(stub("mgx_mlir._native._mgx"))


def stub(module: str) -> str:
    """The text of a native module's stub."""
    generator = StubGen(
        importlib.import_module(module), include_docstrings=False, include_private=True
    )
    generator.put(generator.module)
    text: str = generator.get()
    for pattern, replacement in CORRECTIONS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def spelled_out(text: str, source: Path) -> str:
    """A module's text that imports by name from generated modules whose names it redefines."""
    text = text.replace("value: Union[int, float, _array]", "value: Any")  # attributes too
    own = names(text)
    for line, prefix, module in re.findall(
        r"^(from (\.+)(\w+_gen) import \*)$", text, re.MULTILINE
    ):
        folder = source.parents[len(prefix) - 1]
        generated = names((folder / f"{module}.py").read_text())
        again = sorted(own & generated)
        if not again:
            continue
        kept = [f"{name} as {name}" for name in sorted(generated - own)]
        kept += [f"{name} as _generated_{name}" for name in again]
        text = text.replace(line, f"from {prefix}{module} import ({', '.join(kept)})", 1)
        text = re.sub(r"^class (\w+)\(\1\):", r"class \1(_generated_\1):", text, flags=re.MULTILINE)
    return text


def names(text: str) -> set[str]:
    """The public classes and functions that a module defines."""
    found = (
        node.name
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    )
    return {name for name in found if not name.startswith("_")}


if __name__ == "__main__":
    main()
