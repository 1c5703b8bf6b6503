"""The table of what each op computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from mgx_mlir.scan import import_modules

Array = np.ndarray[Any, np.dtype[Any]]
# A meaning gets the op (for its attributes and result types), its operands and the dtype in which
# sums of floats narrower than f64 are kept; it gives the result, or the list of results.
Meaning = Callable[[Any, Sequence[Array], Any], "Array | list[Array]"]

_MEANINGS: dict[str, Meaning] = {}


def meaning(*names: str) -> Callable[[Meaning], Meaning]:
    """Registers what the ops of these names compute."""

    def register(function: Meaning) -> Meaning:
        for name in names:
            _MEANINGS[f"mgx.{name}"] = function
        return function

    return register


@cache
def meanings() -> dict[str, Meaning]:
    """Op name -> meaning, for every op of one operation (no regions, no control flow)."""
    import_modules("mgx_mlir.reference.ops")
    return _MEANINGS


def enum(attribute: Any) -> str:
    """The word in an attribute of the dialect's enums: `#mgx<pad_mode edge>` is "edge"."""
    return str(attribute).rstrip(">").replace("<", " ").split()[-1]
