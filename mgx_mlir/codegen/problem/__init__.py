"""Kernels as contractions, for any target: the sums, and the layouts of their operands."""
