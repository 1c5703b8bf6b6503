"""Typed access to untrusted JSON values."""

from __future__ import annotations

from typing import Any

from mgx_mlir.errors import ArtifactError

MAX_BYTES = 1 << 46


class Reader:
    """Typed access to JSON values, with ArtifactError for anything unexpected."""

    def __init__(self, what: str) -> None:
        self.what = what
        # Numbers below 0 refer to formulas.
        self.low = 0

    def field(self, value: Any, name: str, kind: type) -> Any:
        if not isinstance(value, dict) or type(value.get(name)) is not kind:
            raise ArtifactError(f"{self.what}: '{name}' is missing or not a {kind.__name__}")
        return value[name]

    def list(self, value: Any, name: str) -> list[Any]:
        result: list[Any] = self.field(value, name, list)
        return result

    def text(self, value: Any, name: str) -> str:
        result: str = self.field(value, name, str)
        return result

    def integer(self, value: Any, name: str, low: int = 0, high: int = MAX_BYTES) -> int:
        number: int = self.field(value, name, int)
        return self.bounded(number, name, low, high)

    def integers(self, value: Any, name: str, low: int = 0) -> tuple[int, ...]:
        return tuple(self.bounded(v, name, low) for v in self.list(value, name))

    def bounded(self, number: Any, name: str, low: int = 0, high: int = MAX_BYTES) -> int:
        if type(number) is not int or not low <= number <= high:
            raise ArtifactError(f"{self.what}: '{name}' holds {number!r}, which is out of range")
        return number
