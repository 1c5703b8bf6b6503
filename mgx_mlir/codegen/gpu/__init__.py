"""Code for AMD GPUs, through the gpu, amdgpu and rocdl dialects."""
