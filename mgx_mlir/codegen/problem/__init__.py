"""Kernels as contractions, for any target: what is computed, and where its operands lie."""
