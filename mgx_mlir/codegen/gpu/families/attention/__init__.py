"""GPU kernels for attention: scores and shares stay in registers, keys pass through LDS."""
