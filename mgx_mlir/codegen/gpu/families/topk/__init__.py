"""Kernels that sort rows: the first k of each, and where they come from."""
