"""Programs on AMD GPUs: HIP through hip-python, on the real libamdhip64 or the emulated one."""
