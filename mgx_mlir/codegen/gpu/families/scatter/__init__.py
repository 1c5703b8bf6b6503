"""Kernels that store elements at the slots that indices name: scatters of all kinds."""
