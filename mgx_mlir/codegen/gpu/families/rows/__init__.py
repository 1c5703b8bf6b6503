"""Kernels of reductions and the pointwise work around them: rows of elements."""
