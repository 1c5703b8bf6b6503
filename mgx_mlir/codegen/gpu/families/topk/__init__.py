"""Kernels that sort rows: the first k elements of each row, and their indices."""
