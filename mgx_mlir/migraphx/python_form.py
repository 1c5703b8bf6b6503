"""Programs from the Python text that `program.to_py` writes, which is read, never executed."""

from __future__ import annotations

import ast
import logging
from collections.abc import Callable, Mapping
from typing import Any

from mgx_mlir.errors import ArtifactError, MgxError
from mgx_mlir.migraphx.argument import create_argument, fill_argument, generate_argument
from mgx_mlir.migraphx.macros import macro
from mgx_mlir.migraphx.module import module
from mgx_mlir.migraphx.operators import op
from mgx_mlir.migraphx.program import program
from mgx_mlir.migraphx.shape import dynamic_dimension, shape

_log = logging.getLogger(__name__)

# The functions and methods that the text may call.
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "migraphx.create_argument": create_argument,
    "migraphx.fill_argument": fill_argument,
    "migraphx.generate_argument": generate_argument,
    "migraphx.macro": macro,
    "migraphx.op": op,
    "migraphx.program": program,
    "migraphx.shape": shape,
    "migraphx.shape.dynamic_dimension": dynamic_dimension,
}
_METHODS = {
    module: ("add_instruction", "add_literal", "add_macro", "add_parameter", "add_return"),
    program: ("create_module", "get_main_module"),
}
# Numbers that Python's text has no literal for.
_NUMBERS = ("nan", "inf", "-inf")


class _OddError(Exception):
    """A piece of the text that is none of what `to_py` writes."""

    def __init__(self, node: ast.AST) -> None:
        super().__init__(ast.unparse(node)[:80])
        self.line = getattr(node, "lineno", 0)


def from_python(text: str) -> program:
    """The program called p of the text. Raises ArtifactError for any other text than `to_py`'s."""
    reader = _Reader()
    try:
        for statement in ast.parse(text).body:
            reader.statement(statement)
    except SyntaxError as error:
        raise ArtifactError(f"line {error.lineno} is no Python: {error.msg}") from error
    except _OddError as error:
        raise ArtifactError(
            f"line {error.line}: '{error}' is none of the statements that to_py writes; this text "
            "is read, not executed: `python -m mgx_mlir.migraphx FILE` runs scripts"
        ) from error
    except RecursionError as error:
        raise ArtifactError("an expression is nested too deeply") from error
    except (MgxError, TypeError, ValueError) as error:
        raise ArtifactError(f"line {reader.line}: {error}") from error
    found = reader.names.get("p")
    if not isinstance(found, program):
        raise ArtifactError("the text makes no program called p, as to_py does")
    if reader.generated:
        _log.warning(
            "%d constants are random ones, as to_py writes those of many elements; `mgx read "
            "--json` and `--program` keep them",
            reader.generated,
        )
    return found


class _Reader:
    """The values of the names so far. `generated`: the number of random constants."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.generated = 0
        self.line = 0

    def statement(self, node: ast.stmt) -> None:
        self.line = node.lineno
        if isinstance(node, ast.Import) and [a.name for a in node.names] == ["migraphx"]:
            return
        if isinstance(node, ast.Expr):
            self._call(node.value)
            return
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            raise _OddError(node)
        target = node.targets[0]
        if not isinstance(target, ast.Name):
            raise _OddError(node)
        self.names[target.id] = self._value(node.value)

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._value(node.operand)
            if type(value) in (int, float):
                return -value
            raise _OddError(node)
        if isinstance(node, ast.List | ast.Tuple):
            return [self._value(item) for item in node.elts]
        if isinstance(node, ast.Name) and node.id in self.names:
            return self.names[node.id]
        return self._call(node)

    def _call(self, node: ast.expr) -> Any:
        if not isinstance(node, ast.Call):
            raise _OddError(node)
        given = [self._value(item) for item in node.args]
        named = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise _OddError(node)
            named[keyword.arg] = self._value(keyword.value)
        if isinstance(node.func, ast.Name) and node.func.id == "float":
            if named or len(given) != 1 or given[0] not in _NUMBERS:
                raise _OddError(node)
            return float(given[0])
        called = self._function(node.func)
        self.generated += called is generate_argument
        return called(*given, **named)

    def _function(self, node: ast.expr) -> Callable[..., Any]:
        if not isinstance(node, ast.Attribute):
            raise _OddError(node)
        owner = node.value
        if isinstance(owner, ast.Name) and owner.id in self.names:
            value = self.names[owner.id]
            for kind, methods in _METHODS.items():
                if isinstance(value, kind) and node.attr in methods:
                    found: Callable[..., Any] = getattr(value, node.attr)
                    return found
        found_function = _FUNCTIONS.get(ast.unparse(node))
        if found_function is None:
            raise _OddError(node)
        return found_function
