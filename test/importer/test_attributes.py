"""Every attribute that an operator's definition has is read by its converter, or refused.

A node that states an attribute which nothing reads is refused when it is imported. Here the
names that converters read are compared with the definitions, so that each refusal is known.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import onnx
import onnxruntime.capi.onnxruntime_pybind11_state as onnxruntime_state
import pytest

from mgx_mlir.importer import operators
from mgx_mlir.importer.node import WITHOUT_EFFECT, Node
from mgx_mlir.importer.registry import Operator, is_listed

# Attributes that no converter reads, so that nodes which state them are refused, and why.
STRINGS = "strings have no form on a device; where the host takes them, it reads them itself"
REFUSED: dict[tuple[str, str], str] = {
    ("Constant", "sparse_value"): "made dense before",
    ("Constant", "value_string"): STRINGS,
    ("Constant", "value_strings"): STRINGS,
    ("LinearClassifier", "classlabels_strings"): STRINGS,
    ("OneHotEncoder", "cats_strings"): STRINGS,
    ("TreeEnsembleClassifier", "classlabels_strings"): STRINGS,
}

TABLE = [row for row in operators() if row.converter is not None]


def attributes_of(row: Operator) -> set[str]:
    """Those of every version that the converter takes."""
    if row.domain == "com.microsoft":
        schemas = onnxruntime_state.get_all_operator_schema()
        found = [s for s in schemas if (s.domain, s.name) == (row.domain, row.name)]
    else:
        oldest, newest = row.versions
        found = [
            s
            for s in onnx.defs.get_all_schemas_with_history()
            if (s.domain, s.name) == (row.domain, row.name) and oldest <= s.since_version <= newest
        ]
    assert found or not is_listed(row), f"no definition of {row.name} is known"
    return {name for schema in found for name in schema.attributes}


def strings_of(function: Any, seen: set[int]) -> Iterator[str]:
    """The string constants of a function and of all of the importer's that it may call."""
    if id(function) in seen:
        return
    seen.add(id(function))
    if isinstance(function, type):
        for member in vars(function).values():
            if isinstance(member, types.FunctionType):
                yield from strings_of(member, seen)
        return
    if isinstance(function, property):
        yield from strings_of(function.fget, seen)
    if not isinstance(function, types.FunctionType):
        return
    yield from patterns_of(function)
    for cell in function.__closure__ or ():
        yield from strings_in(cell.cell_contents)
        yield from strings_of(cell.cell_contents, seen)
    yield from strings_in(function.__defaults__)
    for code in codes_of(function.__code__):
        yield from strings_in(code.co_consts)
        for name in code.co_names:
            yield from strings_in(getattr(vars(Node).get(name), "__defaults__", None))
            for value in named(name, function.__globals__):
                yield from strings_in(value)
                yield from strings_of(value, seen)


def patterns_of(function: types.FunctionType) -> Iterator[str]:
    """Strings that the function puts together, as regular expressions."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (SyntaxError, OSError):  # a lambda inside an expression
        return
    for found in ast.walk(tree):
        if isinstance(found, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else None for p in found.values]
            if any(p and not set(p) & set(" ,;") for p in parts):
                yield "".join(r"\w+" if p is None else re.escape(p) for p in parts)


def codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


def named(name: str, scope: dict[str, Any]) -> Iterator[Any]:
    """What a name may stand for: something of the module, or of a converters' module it has."""
    if name in scope:
        value = scope[name]
        where = getattr(value, "__module__", "mgx_mlir.importer")
        if where.startswith("mgx_mlir.importer"):
            yield value
    for value in scope.values():
        is_module = isinstance(value, types.ModuleType)
        if is_module and value.__name__.startswith("mgx_mlir.importer") and hasattr(value, name):
            yield getattr(value, name)


def strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | frozenset):
        for item in value:
            yield from strings_in(item)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.domain or 'onnx'}-{row.name}")
def test_attributes_are_read_or_known_to_be_refused(row):
    read = set(strings_of(row.converter, set()))
    wanted = attributes_of(row) - read - WITHOUT_EFFECT
    unread = {name for name in wanted if not any(re.fullmatch(p, name) for p in read if "w+" in p)}
    assert unread == {name for operator, name in REFUSED if operator == row.name}
