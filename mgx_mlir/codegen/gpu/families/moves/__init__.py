"""Kernels that only move elements: gather, concat, pad."""
