"""Kernels of independent pointwise work and moves, in one launch."""
