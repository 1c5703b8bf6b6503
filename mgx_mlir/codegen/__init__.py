"""Code generation: kernels of mgx ops to MLIR for GPUs and CPUs."""
