"""How a caller gives a value that a message asks for: in Python's words, and the command line's.

Messages speak of Python. The tools translate them by `on_command_line`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

GIVE_SIZES = "give sizes (dim_params=, input_dims= or default_dim=)"
ALL_SIZES = "mode='full-dynamic'"

# An option of Python as messages write it, and its flag.
_FLAGS = (
    (r"dim_params=\{'([^']*)': N\}", r"--dim-param @\1 N"),
    (r"dim_params=\{'([^']*)': '\?'\}", r"--dim-param '@\1' '?'"),
    (r"\bdefault_dim=N", "--batch N"),
    (r"\bdefault_dim=", "--batch"),
    (r"\bdim_params=", "--dim-param"),
    (r"\binput_dims=", "--input-dim"),
    (r"\bmode='([\w-]+)'", r"--mode \1"),
    (r"\bgraph=False\b", "--no-graph"),
    (r"\btrust_code=True\b", "--trust-code"),
    (r"\bmax_loop_iterations=", "--max-loop-iterations"),
)


@dataclass(frozen=True)
class OpenDim:
    """A dimension of an input that has no size: `symbol`, in `shape` at index `place`.

    It may have sizes from `low` to `high`; None is no bound.
    """

    symbol: str
    input: str
    place: int
    shape: tuple[int | str, ...]
    low: int = 1
    high: int | None = None

    def __str__(self) -> str:
        return f"'{self.symbol}' (dimension {self.place} of input '{self.input}')"


def sizes(dims: Sequence[OpenDim]) -> str:
    """The dimensions without a size, each symbol once, and the ways to give them one."""
    listed = {dim.symbol: dim for dim in reversed(dims)}
    first, *rest = reversed(listed.values())
    shown = ", ".join(map(str, [first, *rest][:8])) + (", ..." if len(rest) > 7 else "")
    shape = ", ".join("N" if isinstance(size, str) else str(size) for size in first.shape)
    return (
        f"{shown} {'have no sizes; give them' if rest else 'has no size; give one'} by "
        f"dim_params={{'{first.symbol}': N}}, by input_dims={{'{first.input}': [{shape}]}}, "
        "or by default_dim=N for all"
    )


def on_command_line(message: str) -> str:
    """The message with options as flags of `mgx`."""
    message = re.sub(r"input_dims=\{'([^']*)': \[([^\]]*)\]\}", _shape, message)
    for python, flag in _FLAGS:
        message = re.sub(python, flag, message)
    return message


def _shape(found: re.Match[str]) -> str:
    return f"--input-dim @{found[1]} {found[2].replace(',', '')}"
