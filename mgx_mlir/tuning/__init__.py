"""Tuning: the schedules of kernels by their times, and the databases that keep them."""
