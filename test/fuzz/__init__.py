"""Artifacts and kernels that were made to harm: read without a crash, a hang or much memory."""
