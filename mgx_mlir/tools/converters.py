"""Facts in the source of converters: the attributes they read, and the forms they refuse."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator
from functools import cache
from typing import Any

from mgx_mlir.importer.node import Node

_PACKAGE = "mgx_mlir.importer"
_CONVERTERS = "mgx_mlir.importer.converters"


def strings_read(converter: Any) -> tuple[set[str], set[str]]:
    """The strings by which a converter, and the importer's functions it calls, may name attributes.

    The second set holds regular expressions of names that are put together.
    """
    strings: set[str] = set()
    patterns: set[str] = set()
    for function in _reachable(converter, _PACKAGE):
        patterns.update(_patterns(function))
        strings.update(_strings(function.__defaults__))
        for cell in function.__closure__ or ():
            strings.update(_strings(_content(cell)))
        for code in _codes(function.__code__):
            strings.update(_strings(code.co_consts))
            for name in code.co_names:
                strings.update(_strings(getattr(vars(Node).get(name), "__defaults__", None)))
        for value in _named(function):
            strings.update(_strings(value))
    return strings, patterns


def refusals(converter: Any) -> list[str]:
    """The refusals of a converter, in the words of its errors; '...' marks the parts that vary."""
    found: dict[str, None] = {}
    for function in _reachable(converter, _CONVERTERS):
        for node in ast.walk(_source(function)):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                if _callee(node.exc) in ("UnsupportedError", "OpenError"):
                    found[_text(node.exc.args[0], function)] = None
            elif isinstance(node, ast.Call) and _callee(node) == "only":
                name, value = (_text(a, function) for a in node.args)
                found[f"{name} other than {value}"] = None
    return sorted(found)


def constants(converter: Any) -> list[str]:
    """The inputs whose values have to be known when a program is compiled, by name."""
    found: dict[str, None] = {}
    for function in _reachable(converter, _CONVERTERS):
        for node in ast.walk(_source(function)):
            if isinstance(node, ast.Call) and _callee(node) in ("constant", "integers"):
                if len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
                    found[str(node.args[1].value)] = None
            elif isinstance(node, ast.Call) and _callee(node) == "axes" and len(node.args) == 3:
                found[_text(node.args[0], function)] = None
    return sorted(found)


def _callee(call: ast.Call) -> str:
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _text(node: ast.expr, function: types.FunctionType) -> str:
    """A string as it is written, with the module's own numbers in it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, function)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, function) for part in node.values)
    if isinstance(node, ast.Name) and isinstance(function.__globals__.get(node.id), int):
        return str(function.__globals__[node.id])
    return "..."


def _reachable(converter: Any, package: str) -> list[types.FunctionType]:
    """The converter and the functions of a package that it may call."""
    found: list[types.FunctionType] = []
    waiting = [converter]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, type):
            waiting += vars(value).values()
        elif isinstance(value, property):
            waiting.append(value.fget)
        elif isinstance(value, types.FunctionType) and value.__module__.startswith(package):
            found.append(value)
            waiting += [_content(cell) for cell in value.__closure__ or ()]
            waiting += _named(value)
    return found


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # of a name that is deleted
        return None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _named(function: types.FunctionType) -> Iterator[Any]:
    """The values of the names in a function: those of its module and of others."""
    scope = function.__globals__
    for node in ast.walk(_source(function)):
        if isinstance(node, ast.Name) and node.id in scope:
            yield scope[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = scope.get(node.value.id)
            if isinstance(module, types.ModuleType):
                yield getattr(module, node.attr, None)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | frozenset):
        for item in value:
            yield from _strings(item)


@cache
def _source(function: types.FunctionType) -> ast.AST:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):  # made by a decorator; a lambda inside an expression
        return ast.Module([], [])


def _patterns(function: types.FunctionType) -> Iterator[str]:
    """Names that the function puts together, as regular expressions."""
    for found in ast.walk(_source(function)):
        if isinstance(found, ast.JoinedStr):
            parts = [str(p.value) if isinstance(p, ast.Constant) else None for p in found.values]
            if all(p is None or p.isidentifier() for p in parts) and any(parts):
                yield "".join(r"\w+" if p is None else p for p in parts)
