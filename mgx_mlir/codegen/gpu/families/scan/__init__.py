"""Kernels of prefix sums, and of searches by them: prefix_scan_sum, nonzero."""
