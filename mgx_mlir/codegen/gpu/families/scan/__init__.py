"""Kernels of running sums, and of what is found by them: prefix_scan_sum, nonzero."""
