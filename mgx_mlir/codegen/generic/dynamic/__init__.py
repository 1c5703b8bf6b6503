"""Kernels whose sizes are arguments: loops built straight from the lowering's rules."""
