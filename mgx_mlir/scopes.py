"""Context variables that have a value inside of a block of code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def holding(variable: ContextVar[Any], value: T) -> Iterator[T]:
    """Inside of the context the variable has the value, which it gives; after it the old one."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
