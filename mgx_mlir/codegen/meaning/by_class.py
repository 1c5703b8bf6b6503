"""Tables of functions by the op class that each is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from mlir import ir

F = TypeVar("F", bound=Callable[..., Any])


class ByClass(Generic[F]):
    """A table that functions enter by being marked with their op classes.

    lowers: ByClass[Lowering] = ByClass()

    @lowers(mgx.ReshapeOp, mgx.SqueezeOp)
    def reshaped(kernel, op, operands): ...
    """

    def __init__(self) -> None:
        self._functions: dict[type[ir.OpView], F] = {}

    def __call__(self, *classes: type[ir.OpView]) -> Callable[[F], F]:
        def enter(function: F) -> F:
            self._functions.update(dict.fromkeys(classes, function))
            return function

        return enter

    def of(self, op: ir.OpView) -> F | None:
        """The function for an op; None where there is none."""
        return self._functions.get(type(op))

    def classes(self) -> tuple[type[ir.OpView], ...]:
        """The op classes that have a function, sorted by name."""
        return tuple(sorted(self._functions, key=lambda class_: class_.OPERATION_NAME))
