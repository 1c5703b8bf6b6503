"""Measurements. Each figure is a ratio to a peer or a baseline in the same run."""
