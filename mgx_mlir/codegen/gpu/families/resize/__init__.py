"""Kernels of resize and pad: what each result reads is known, and comes from tables."""
