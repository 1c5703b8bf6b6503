"""Kernels of the families for sizes that are arguments."""
