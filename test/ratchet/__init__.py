"""The code of a fixed set of kernels, as a table that every change of the generators shows in."""
