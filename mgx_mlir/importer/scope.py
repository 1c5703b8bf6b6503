"""The values that nodes can read, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mgx_mlir.errors import ModelError
from mgx_mlir.importer.values import Value


@dataclass
class Scope:
    """The values that nodes of one graph or function body can read.

    An absent optional input of a function is None. `used` holds the names that are read.
    `function` and `operator` name the node whose body this is; they are '' in a graph of the
    model.
    """

    opsets: Mapping[str, int]
    used: frozenset[str]
    outer: Scope | None = None
    function: str = ""
    operator: str = ""
    values: dict[str, Value | None] = field(default_factory=dict)

    def find(self, name: str) -> Value | None:
        """The value of that name, from here outwards."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise ModelError(f"nothing defines '{name}'")
