"""Sizes that are numbers or formulas of symbols: arithmetic, tensor types, values of shapes."""
