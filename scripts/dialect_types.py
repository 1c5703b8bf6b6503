"""Writes dialects/python/mgx.pyi: the ops' classes, accessors and functions for type checkers.

.venv/bin/python -m scripts.dialect_types
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

from mgx_mlir._native import _mgx_enum_gen, _mgx_ops_gen
from mgx_mlir.dialects import builders, groups, mgx, regions

FILE = Path(__file__).resolve().parents[1] / "dialects" / "python" / "mgx.pyi"

HEAD = '''"""The ops of mgx, for type checkers. Made by `python -m scripts.dialect_types`."""

from collections.abc import Sequence
from enum import IntEnum

from mlir import ir
'''
# The names of other modules that `mgx` hands on.
FROM = {
    "mgx_mlir._native._mgx": ("ArchAttr", "DimAttr", "DimsAttr"),
    "mgx_mlir.dialects.constants": (
        "attribute_array",
        "constant",
        "constant_array",
        "dense_attribute",
        "splat",
    ),
    "mgx_mlir.dialects.groups": ("is_pointwise", "is_reduction", "is_view"),
    "mgx_mlir.dialects.types": ("byte_size", "element_type", "numpy_dtype", "tensor_type"),
}
# The types that a function takes for an operand or an attribute, by that of its accessor.
TAKES = {
    "ir.BoolAttr": "bool | ir.Attribute",
    "ir.FloatAttr": "float | ir.Attribute",
    "ir.IntegerAttr": "int | ir.Attribute",
    "ir.StringAttr": "str | ir.Attribute",
    "ir.FlatSymbolRefAttr": "str | ir.Attribute",
    "ir.DenseI64ArrayAttr": "Sequence[int] | ir.Attribute",
    "ir.DenseF32ArrayAttr": "Sequence[float] | ir.Attribute",
    "ir.ArrayAttr": "Sequence[ir.Attribute] | ir.Attribute",
    "ir.TypeAttr": "ir.Type | ir.Attribute",
    "ir.Attribute": "IntEnum | ir.Attribute",
    "ir.OpOperandList": "Sequence[ir.Value]",
}
AT = "loc: ir.Location | None = None, ip: ir.InsertionPoint | None = None"


def text() -> str:
    """The text of the stub."""
    parts = [HEAD]
    own = {
        module.__name__: tuple(name for name in vars(module) if _is_builder(module, name))
        for module in (builders, regions)
    }
    for module, names in sorted((FROM | own).items()):
        parts.append(f"from {module} import ({', '.join(f'{n} as {n}' for n in sorted(names))})\n")
    parts.append("OPS: frozenset[str]\n")
    for name, ops in sorted(vars(groups).items()):
        if name.startswith("_") or not name.isupper():
            continue
        if isinstance(ops, dict):
            parts.append(f"{name}: dict[type[ir.OpView], int]\n")
        else:
            parts.append(f"{name}: tuple[{', '.join(f'type[{op.__name__}]' for op in ops)}]\n")
    parts += [_enum(node) for node in _nodes(_mgx_enum_gen) if isinstance(node, ast.ClassDef)]
    handed_on = {name for names in (FROM | own).values() for name in names}
    nodes = {node.name: node for node in _nodes(_mgx_ops_gen) if not node.name.startswith("_")}
    for node in nodes.values():
        if isinstance(node, ast.ClassDef):
            parts.append(_op_class(node))
        elif node.name not in handed_on and hasattr(mgx, node.name):
            parts.append(_function(node, nodes))
    return "\n".join(parts)


def _is_builder(module: object, name: str) -> bool:
    made = getattr(module, name)
    here = getattr(made, "__module__", "") == getattr(module, "__name__", None)
    return here and inspect.isfunction(made) and not name.startswith("_") and hasattr(mgx, name)


def _nodes(module: object) -> list[ast.ClassDef | ast.FunctionDef]:
    tree = ast.parse(Path(inspect.getfile(module)).read_text())  # type: ignore[arg-type]
    return [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]


def _enum(node: ast.ClassDef) -> str:
    members = [ast.unparse(line) for line in node.body if isinstance(line, ast.Assign)]
    return f"class {node.name}(IntEnum):\n" + "".join(f"    {member}\n" for member in members)


def _op_class(node: ast.ClassDef) -> str:
    lines = [f"class {node.name}(ir.OpView):\n"]
    for accessor in node.body:
        if not isinstance(accessor, ast.FunctionDef):
            continue
        if accessor.name == "__init__":
            parameters = _parameters(accessor, node)
            lines.append(f"    def __init__({parameters}) -> None: ...\n")
            continue
        name, decorator = accessor.name, ast.unparse(accessor.decorator_list[0])
        if decorator == "builtins.property":
            kind = _type(accessor.returns)
            lines.append(f"    @property\n    def {name}(self) -> {kind}: ...\n")
        elif decorator == f"{name}.setter":
            given = f"value: {kind.removesuffix(' | None')}"
            lines.append(f"    @{decorator}\n    def {name}(self, {given}) -> None: ...\n")
        elif decorator == f"{name}.deleter":
            lines.append(f"    @{decorator}\n    def {name}(self) -> None: ...\n")
    return "".join(lines) if len(lines) > 1 else lines[0].rstrip() + " ...\n"


def _function(node: ast.FunctionDef, nodes: dict[str, ast.ClassDef | ast.FunctionDef]) -> str:
    made = ast.unparse(node.body[-1])
    op = nodes[re.findall(r"\b(\w+Op)\(", made)[0]]
    assert isinstance(op, ast.ClassDef)
    returns = _type(node.returns).partition(" | ")[0].replace("ir.OpResult[", "ir.Value[")
    returns = re.sub(r"^ir.OpResult$", "ir.Value", returns)
    return f"def {node.name}({_parameters(node, op)}) -> {returns}: ...\n"


def _parameters(node: ast.FunctionDef, op: ast.ClassDef) -> str:
    """The parameters of an op's function or constructor, with types."""
    accessors = {
        inner.name: _type(inner.returns)
        for inner in op.body
        if isinstance(inner, ast.FunctionDef) and inner.returns is not None
    }
    needed = [a.arg for a in node.args.args]
    optional = [a.arg for a in node.args.kwonlyargs if a.arg not in ("results", "loc", "ip")]
    parts = [name if name == "self" else _parameter(name, accessors) for name in needed]
    parts += ["*", *(f"{_parameter(name, accessors)} | None = None" for name in optional)]
    if any(a.arg == "results" for a in node.args.kwonlyargs):
        parts.append("results: Sequence[ir.Type] | None = None")
    return ", ".join([*parts, AT])


def _parameter(name: str, accessors: dict[str, str]) -> str:
    kind = accessors.get(name, "").removesuffix(" | None")
    if kind.startswith(("ir.Value", "ir.OpResult")) or not kind:
        # A result is given by its type.
        kind = "ir.Type" if kind.startswith("ir.OpResult") else "ir.Value"
        return f"{name}: Sequence[ir.Type]" if name == "outputs" else f"{name}: {kind}"
    return f"{name}: {TAKES.get(kind, kind)}"


def _type(node: ast.expr | None) -> str:
    """The annotation of an accessor or a function, in today's notation."""
    assert node is not None
    kind = ast.unparse(node).replace("_ods_ir.", "ir.").replace("builtins.", "")
    kind = re.sub(r"^_Optional\[(.*)\]$", r"\1 | None", kind)
    return re.sub(r"^_Union\[(.*)\]$", lambda m: m[1].replace(", ", " | "), kind)


def formatted() -> str:
    """The text of the stub as the formatter has it."""
    made = text()
    for command in (["check", "--fix", "--select=I"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", FILE, "-"]
        made = subprocess.run(ruff, input=made, capture_output=True, text=True, check=True).stdout
    return made


if __name__ == "__main__":
    FILE.write_text(formatted())
