"""Kernels that keep of boxes in order those that overlap none before them."""
