"""The modes of compilation: which named pipelines run. Knows the pipelines by name alone."""

from __future__ import annotations

from dataclasses import dataclass

from mgx_mlir.errors import UsageError
from mgx_mlir.suggest import instead


@dataclass(frozen=True)
class Mode:
    """The pipelines that run, in order, and their purpose.

    With `symbolic`, sizes stay symbols: only the passes that are right for these run.
    """

    summary: str
    pipelines: tuple[str, ...]
    symbolic: bool = False


_EVERY = ("dynamic_shapes", "core", "quantization", "optimize", "fusion", "backend")

MODES: dict[str, Mode] = {
    "default": Mode("every pipeline", _EVERY),
    "fast": Mode("no rewrites", ("dynamic_shapes", "core", "quantization", "fusion", "backend")),
    "max": Mode(
        "rewrites run again on what they left",
        ("dynamic_shapes", "core", "quantization", "optimize", "optimize", "fusion", "backend"),
    ),
    "debug": Mode("a kernel for each op", ("dynamic_shapes", "core", "backend")),
    "full-dynamic": Mode(
        "one program for all sizes, whose kernels get them as arguments",
        _EVERY,
        symbolic=True,
    ),
}


def mode_pipelines(mode: str) -> tuple[str, ...]:
    """The names of a mode's pipelines. Raises UsageError with the modes there are."""
    if mode not in MODES:
        hint = instead(mode, MODES, f"there are: {', '.join(MODES)}")
        raise UsageError(f"there is no mode '{mode}'; {hint}")
    return MODES[mode].pipelines
