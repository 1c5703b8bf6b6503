"""Tensors of the host as arrays of numpy, and back, in place."""

from __future__ import annotations

import numpy as np
import torch

from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.elements import ELEMENTS

# Element types that torch does not give numpy, nor numpy torch: the same bits go as integers.
_AS_INTEGERS = {
    getattr(torch, row.numpy): (getattr(torch, f"int{row.bits}"), numpy_dtype(row.numpy))
    for row in ELEMENTS
    if row.bits >= 8 and hasattr(torch, row.numpy) and not hasattr(np, row.numpy)
}
_AS_TORCH = {dtype: kind for kind, (_, dtype) in _AS_INTEGERS.items()}


def host_array(tensor: torch.Tensor) -> np.ndarray:
    """The elements of a tensor of the host, in place where they lie in row-major order."""
    tensor = tensor.detach().contiguous()
    if tensor.dtype not in _AS_INTEGERS:
        return tensor.resolve_conj().resolve_neg().numpy()
    integers, dtype = _AS_INTEGERS[tensor.dtype]
    return tensor.view(integers).numpy().view(dtype)


def host_tensor(array: np.ndarray) -> torch.Tensor:
    """The tensor of an array, in place."""
    kind = _AS_TORCH.get(array.dtype)
    if kind is None:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"i{array.itemsize}")).view(kind)
