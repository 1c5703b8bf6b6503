"""Swizzles of a tile's rows in LDS, under which no access has a bank conflict."""

from __future__ import annotations

from mgx_mlir.codegen.layout.map import Map

# Swizzles without bank conflicts in any phase: neither in reads of rows as operands of matrix or
# vector instructions, nor in writes of successive rows, or of every second, fourth or eighth. By
# banks and chunks of a row, for the lowest bits of a row's number. A test searches for them anew.
SWIZZLES = {
    (32, 4): (0, 5, 6, 6),
    (32, 8): (1, 2, 4, 5, 2, 1),
    (64, 4): (0, 0, 4, 6),
    (64, 8): (0, 2, 4, 5),
}


def swizzle(*values: int) -> Map:
    """(row) -> chunk: bit i of a row's number moves its chunks by XOR with `values[i]`."""
    size = max(values).bit_length()
    return Map((("row", len(values)),), (("chunk", size),) if size else (), values)
