"""MIGraphX's `compile_modes`."""

from __future__ import annotations

import enum

from mgx_mlir.errors import UsageError


class compile_modes(enum.Enum):
    """How long a compilation may take: `max` times schedules, as `exhaustive_tune` does."""

    eager = 0
    balanced = 50
    max = 100


def nearest_mode(mode: compile_modes | int | str) -> compile_modes:
    """The mode of a name, or nearest to a number from 0 to 100. Raises UsageError for others."""
    if isinstance(mode, compile_modes):
        return mode
    text = str(mode).lower()
    if text in compile_modes.__members__:
        return compile_modes[text]
    if not text.isdecimal() or int(text) > 100:
        names = ", ".join(compile_modes.__members__)
        raise UsageError(f"'{mode}' is no compile mode: {names}, or a number from 0 to 100")
    return min(compile_modes, key=lambda known: abs(known.value - int(text)))
