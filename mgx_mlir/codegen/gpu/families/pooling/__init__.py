"""Kernels of pooling: maxima and averages of windows."""
