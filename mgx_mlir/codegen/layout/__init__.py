"""Layouts as data: which lane, register, bank or address holds which element; no MLIR."""
