"""Arguments beside the annotations of a function: which of them the caller has to change."""

from __future__ import annotations

import builtins
import inspect
import numbers
import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from types import UnionType
from typing import Any

# The longest text of a value that a message has.
_SHOWN = 60
# The numbers of numpy are numbers too.
_WIDER: dict[Any, tuple[type, ...]] = {
    bool: (bool, numbers.Integral),
    int: (numbers.Integral,),
    float: (numbers.Real,),
    bytes: (bytes, bytearray, memoryview),
}


def wrong_argument(
    function: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]
) -> str:
    """The first argument whose type its annotation rules out, in words; '' where there is none."""
    try:
        bound = inspect.signature(function).bind(*given, **named)
    except TypeError as error:
        return str(error)
    known = _Names(inspect.unwrap(function).__globals__)
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if said := _wrong(name, value, parameter.annotation, known):
            return said
    return ""


def wrong_field(record: Any) -> str:
    """As `wrong_argument`, of the fields of a dataclass."""
    known = _Names(vars(sys.modules[type(record).__module__]))
    told = (_wrong(f.name, getattr(record, f.name), f.type, known) for f in fields(record))
    return next(filter(None, told), "")


def _wrong(name: str, value: Any, annotation: Any, known: _Names) -> str:
    try:
        hint = eval(annotation, {}, known) if isinstance(annotation, str) else annotation
    except (NameError, TypeError):  # a name that only type checkers know
        return ""
    if hint is inspect.Parameter.empty or _fits(value, hint):
        return ""
    shown = f"{value!r}, " if len(repr(value)) < _SHOWN else ""
    wanted = annotation if isinstance(annotation, str) else getattr(hint, "__name__", hint)
    return f"{name} is {shown}of type {type(value).__name__}; it takes {wanted}"


class _Names(dict[str, Any]):
    """The names of a module, and the classes that it imports for type checkers alone."""

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            return getattr(builtins, name)
        for module in [m for n, m in sys.modules.items() if n.startswith("mgx_mlir")]:
            found = vars(module).get(name)
            if isinstance(found, type) and found.__name__ == name:
                return found
        raise KeyError(name)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value may be meant by an annotation; True where it cannot be told."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if hint is None or hint is Any:
        return value is None or hint is Any
    if origin in (typing.Union, UnionType):
        return any(_fits(value, each) for each in inside)
    if origin is typing.Literal:
        return value in inside
    kind = hint if origin is None else origin
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    if not issubclass(kind, Iterable) or issubclass(kind, str | bytes) or not inside:
        # A truth value is an int of Python's, and no size or number that anybody means.
        is_truth = isinstance(value, bool) and kind is int
        return isinstance(value, _WIDER.get(kind, (kind,))) and not is_truth
    if issubclass(kind, Mapping):
        return isinstance(value, Mapping) and all(
            _fits(key, inside[0]) and _fits(each, inside[1]) for key, each in value.items()
        )
    # A string has elements too, and is one where several are wanted.
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    return isinstance(value, typing.Iterator) or all(_fits(each, inside[0]) for each in value)
