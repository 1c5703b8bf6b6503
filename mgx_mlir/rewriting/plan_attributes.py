"""The attributes of a plan, which passes leave on a program: the dialect declares them."""

from __future__ import annotations

from mgx_mlir._native._mgx import (
    ARENA_BYTES,
    IN_PLACE,
    MAX_ITERATIONS,
    OFFSETS,
    OVERWRITABLE,
    STAGED,
)

__all__ = ["ARENA_BYTES", "IN_PLACE", "MAX_ITERATIONS", "OFFSETS", "OVERWRITABLE", "STAGED"]
