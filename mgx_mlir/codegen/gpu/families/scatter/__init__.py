"""Kernels that put elements at places which indices name: scatters of all kinds."""
