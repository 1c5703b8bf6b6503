"""Kernels whose sizes are arguments: loops built directly from the lowering's rules."""
