"""Kernels of non-maximum suppression: a box is kept if it overlaps no box kept before it."""
