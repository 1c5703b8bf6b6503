"""Kernels of local response normalization: sums of squares of neighbouring channels."""
