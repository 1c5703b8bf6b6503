"""Pages of reference for the documentation site, from docstrings and --help."""

from __future__ import annotations

import argparse
import inspect
from typing import Any

import mgx_mlir
from mgx_mlir.tools.mgx import parser_of, verb_names

_INTRO = "Made from docstrings by `make docs`.\n"


def commands() -> str:
    """The help of each verb of mgx, and of mgx itself."""
    parser = parser_of(verb_names())
    (verbs,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    parts = ["# Commands\n", _INTRO, _block(parser)]
    for name in verb_names():
        parts += [f"## mgx {name}\n", _block(verbs.choices[name])]
    return "\n".join(parts)


def _block(parser: argparse.ArgumentParser) -> str:
    return f"```text\n{parser.format_help().rstrip()}\n```\n"


def python() -> str:
    """Every public name of the package: its signature, its docstring, and those of its members."""
    parts = ["# Python\n", _INTRO]
    for name in mgx_mlir.__all__:
        value = getattr(mgx_mlir, name)
        if name.startswith("_"):
            continue
        parts += [f"## {name}\n", _entry(f"mgx_mlir.{name}", value)]
        if inspect.isclass(value) and not issubclass(value, BaseException):
            for member in dir(value):
                inner = inspect.getattr_static(value, member)
                if not member.startswith("_") and inspect.getdoc(inner):
                    parts += [f"### {name}.{member}\n", _entry(member, inner)]
    return "\n".join(parts)


def _entry(name: str, value: Any) -> str:
    """A signature, where there is one, and the docstring as it is."""
    value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    signature = ""
    if callable(value):
        try:
            signature = f"```python\n{name}{inspect.signature(value)}\n```\n\n"
        except (TypeError, ValueError):  # of a type that has none
            signature = ""
    return f"{signature}```text\n{inspect.getdoc(value) or ''}\n```\n"
