"""Numbers that depend on sizes, among numbers that do not.

In a program with symbolic sizes a number from 0 is itself, and -1 - n refers to formula n of
a list of texts (see mgx_mlir.sizes) in the plan or in a code object. Binding the sizes
replaces it by its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mgx_mlir.errors import ArtifactError
from mgx_mlir.sizes.arithmetic import Number, Size, evaluate
from mgx_mlir.sizes.parser import parse

# No number of a program is larger: bytes of a buffer, blocks of a grid.
MOST = 1 << 46


@dataclass
class Formulas:
    """A list of formulas under construction."""

    texts: dict[str, int] = field(default_factory=dict)

    def number(self, size: Number) -> int:
        """The number of a size: the size itself, or -1 - n for formula n."""
        if isinstance(size, Size):
            return -1 - self.texts.setdefault(str(size), len(self.texts))
        assert size >= 0
        return size

    def value(self, number: int) -> Number:
        """The size that a number stands for."""
        return number if number >= 0 else parse(list(self.texts)[-1 - number])


def values(texts: Iterable[str], known: Mapping[str, int]) -> list[int]:
    """The formulas' values where the symbols have these sizes.

    Raises ArtifactError for a text that is no formula, or gives no number of a program.
    """
    found = []
    for text in texts:
        try:
            value = evaluate(parse(text), known)
        except (ValueError, KeyError, ZeroDivisionError) as error:
            raise ArtifactError(f"'{text:.80}' is not a formula of the program's sizes") from error
        if not 0 <= value <= MOST:
            raise ArtifactError(f"'{text:.80}' is {value}, which is out of range")
        found.append(value)
    return found


def bound(number: int, found: list[int]) -> int:
    """The number itself, or the value of the formula that it refers to."""
    return number if number >= 0 else found[-1 - number]
