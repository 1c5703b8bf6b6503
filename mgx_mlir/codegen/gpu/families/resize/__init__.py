"""Kernels of resize and pad: tables hold the indices and weights that each result reads."""
