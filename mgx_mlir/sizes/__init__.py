"""Sizes that are numbers or formulas of symbols: arithmetic, tensor types, values of shapes."""

from mgx_mlir.sizes.range import Range

__all__ = ["Range"]
