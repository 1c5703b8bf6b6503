"""The names that others rely on, a line each: of Python, of the verbs of mgx, of mgx.h.

python -m mgx_mlir.tools.public_names > test/public_names.txt
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mgx_mlir
from mgx_mlir.tools.mgx import parser_of, verb_names

_HEADER = Path(__file__).parents[2] / "libmgx" / "include" / "mgx.h"


def lines() -> list[str]:
    """All names with their arguments, sorted."""
    return sorted({*_python(), *_verbs(), *_header()})


def _python() -> Iterator[str]:
    for name in mgx_mlir.__all__:
        if name.startswith("_"):
            continue
        value = getattr(mgx_mlir, name)
        yield _signature(f"mgx_mlir.{name}", value)
        if inspect.isclass(value) and not issubclass(value, BaseException):
            for member in dir(value):
                if not member.startswith("_"):
                    inner = inspect.getattr_static(value, member)
                    yield _signature(f"mgx_mlir.{name}.{member}", inner)


def _signature(name: str, value: Any) -> str:
    """The name, with the names and defaults of arguments where it is called."""
    value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    if not callable(value):
        return name
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):  # of a type that has none
        return name
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in found]
    return f"{name}({', '.join(map(_argument, plain))})"


def _argument(parameter: inspect.Parameter) -> str:
    """An argument; a default that is a function has an address as text, and goes without."""
    if callable(parameter.default) and parameter.default is not inspect.Parameter.empty:
        return f"{parameter.name}=..."
    return str(parameter)


def _verbs() -> Iterator[str]:
    parser = parser_of(verb_names())
    (verbs,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for verb in verb_names():
        for action in verbs.choices[verb]._actions:
            names = action.option_strings or [action.dest.upper()]
            yield f"mgx {verb} {' '.join(names)}"


def _header() -> Iterator[str]:
    text = re.sub(r"/\*.*?\*/", " ", _HEADER.read_text(encoding="utf-8"), flags=re.S)
    for match in re.finditer(r"^MGX_API ([^;]*);", text, re.M):
        yield f"mgx.h {' '.join(match[1].split())}"


if __name__ == "__main__":
    print("\n".join(lines()))
