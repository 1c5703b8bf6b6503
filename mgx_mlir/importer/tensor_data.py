"""The elements of tensors in a model: their count, their size, their values. Nothing is trusted."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import element_types

MAX_ELEMENTS = 1 << 40
# Sparse tensors are made dense up to this size.
MAX_DENSE_ELEMENTS = 1 << 26


def element_count(tensor: TensorProto, name: str) -> int:
    """How many elements a tensor declares. Raises ModelError where that is absurd."""
    if any(d < 0 for d in tensor.dims):
        raise ModelError(f"initialiser '{name}' has a negative size: {list(tensor.dims)}")
    count = math.prod(tensor.dims)
    if count > MAX_ELEMENTS:
        raise ModelError(
            f"initialiser '{name}' declares {list(tensor.dims)}, {count} elements; "
            f"at most {MAX_ELEMENTS} are possible"
        )
    return count


def check_size(tensor: TensorProto, name: str) -> None:
    """Raises ModelError where a tensor's data do not have the size that it declares."""
    count = element_count(tensor, name)
    if is_text(tensor):
        have = len(tensor.string_data)
        if have != count:
            raise wrong_size(name, "string", tuple(tensor.dims), count, have)
        return
    if tensor.data_location == TensorProto.EXTERNAL:
        raise UnsupportedError(f"external data of '{name}', a tensor inside a node")
    try:
        element = element_types.of_onnx(tensor.data_type)
    except UnsupportedError:
        return  # an unused constant of another type does no harm
    if tensor.HasField("raw_data"):
        needed = bytes_needed(element, count)
        if len(tensor.raw_data) != needed:
            shape = tuple(tensor.dims)
            raise wrong_size(name, element.name, shape, needed, len(tensor.raw_data))
        return
    array = to_array(tensor, name)
    assert array.size == count


def small_array(tensor: TensorProto, name: str) -> np.ndarray:
    """The value of a tensor in the model itself. Raises ModelError, UnsupportedError."""
    check_size(tensor, name)
    element = element_types.of_onnx(tensor.data_type)
    return to_array(tensor, name).astype(element.numpy, copy=False)


def dense_array(sparse: onnx.SparseTensorProto, name: str) -> np.ndarray:
    """The value of a sparse tensor, zeros included.

    Its indices are positions in the flattened tensor, or rows of coordinates. Raises ModelError,
    UnsupportedError.
    """
    values, indices = small_array(sparse.values, name), small_array(sparse.indices, name)
    sizes = tuple(sparse.dims)
    if min(sizes, default=1) < 1 or math.prod(sizes) > MAX_DENSE_ELEMENTS:
        raise ModelError(
            f"the sparse tensor '{name}' of {list(sizes)}; at most {MAX_DENSE_ELEMENTS} elements "
            "are possible"
        )
    if indices.ndim == 2 and indices.shape[1] == len(sizes):
        if (indices < 0).any() or (indices >= sizes).any():
            raise ModelError(f"the sparse tensor '{name}' has indices out of {list(sizes)}")
        indices = np.ravel_multi_index(tuple(indices.T), sizes)
    if indices.shape != values.shape or indices.dtype != np.int64:
        raise ModelError(f"the sparse tensor '{name}' has {values.size} values and other indices")
    if indices.size and not 0 <= indices.min() <= indices.max() < math.prod(sizes):
        raise ModelError(f"the sparse tensor '{name}' has indices out of {list(sizes)}")
    dense = np.zeros(math.prod(sizes), values.dtype)
    dense[indices] = values
    return dense.reshape(sizes)


def to_array(tensor: TensorProto, name: str) -> np.ndarray:
    """The elements, in the type that onnx's library gives them. Raises ModelError."""
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"initialiser '{name}' cannot be read: {error}") from error


def is_text(tensor: TensorProto) -> bool:
    """Whether the elements are strings."""
    return tensor.data_type == TensorProto.STRING


def bytes_needed(element: element_types.ElementType, count: int) -> int:
    """The bytes of packed elements."""
    return (count * element.bits + 7) // 8


def wrong_size(name: str, kind: str, shape: tuple[int, ...], needed: int, have: int) -> ModelError:
    """The error of a tensor that declares another size than its data have."""
    return ModelError(
        f"initialiser '{name}' declares {kind} {list(shape)}, which takes {needed} bytes, "
        f"and holds {have}"
    )
