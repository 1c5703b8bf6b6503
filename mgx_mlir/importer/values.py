"""Tensors while a model is imported: known constants, weights by reference, computed ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from mlir import ir

from mgx_mlir.artifact.weights import Weight, WeightStore
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import emit, folding
from mgx_mlir.importer.tensors import Dim, dims_of_type

# Larger constants that are not one repeated value become weights.
CONSTANT_ELEMENTS = 64


class Value:
    """One tensor of the model: `array`, `weight` or `tensor` is set.

    Or it is a sequence of tensors, its `items`. An array can be one value repeated (strides
    of zero) and then costs no memory.
    """

    def __init__(
        self,
        name: str,
        *,
        array: np.ndarray | None = None,
        weight: Weight | None = None,
        tensor: ir.Value | None = None,
        items: tuple[Value, ...] | None = None,
    ) -> None:
        self.name = name
        self.array = array
        self.weight = weight
        self.tensor = tensor
        self.items = items

    def require_tensor(self) -> None:
        """Raises UnsupportedError where this is a sequence."""
        if self.items is not None:
            raise UnsupportedError(f"the sequence '{self.name}' where tensors are supported")

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dimensions."""
        self.require_tensor()
        if self.array is not None:
            return self.array.shape
        if self.weight is not None:
            return self.weight.shape
        assert self.tensor is not None
        return dims_of_type(self.tensor.type)

    @property
    def dtype(self) -> np.dtype:
        """The element type, as numpy's."""
        self.require_tensor()
        if self.array is not None:
            return self.array.dtype
        if self.weight is not None:
            return self.weight.dtype
        assert self.tensor is not None
        return emit.numpy_type(self.tensor)

    @property
    def known(self) -> np.ndarray | None:
        """The elements, where they are known without running the model, and not too many."""
        if self.array is not None:
            return self.array
        if self.weight is not None and np.prod(self.weight.shape) <= folding.MAX_ELEMENTS:
            return self.weight.array()
        return None


class Constants:
    """Makes ops of constants and weights, at the top of a function, each once."""

    def __init__(self, block: ir.Block, weights: WeightStore) -> None:
        self._block = block
        self._weights = weights
        self._last: ir.Operation | None = None

    def materialise(self, value: Value) -> ir.Value:
        """The value as an operand."""
        value.require_tensor()
        if value.tensor is None:
            with self._next(), ir.Location.name(value.name):
                value.tensor = self._create(value)
            self._last = value.tensor.owner.operation
        return value.tensor

    def _next(self) -> ir.InsertionPoint:
        if self._last is None:
            return ir.InsertionPoint.at_block_begin(self._block)
        return ir.InsertionPoint.after(self._last)

    def _create(self, value: Value) -> ir.Value:
        element = mgx.element_type(value.dtype)
        if value.weight is not None:
            if np.prod(value.weight.shape) > CONSTANT_ELEMENTS:
                key = self._key(value.weight)
                return mgx.literal(key, mgx.tensor_type(value.weight.shape, element))
            value.array = value.weight.array()
        assert value.array is not None
        array = compact(value.array)
        if array.size <= CONSTANT_ELEMENTS or emit.is_repeated(array):
            return mgx.constant(array)
        key = self._weights.add_array(array)
        return mgx.literal(key, mgx.tensor_type(array.shape, element))

    def _key(self, weight: Weight) -> str:
        """The weight's key in the store; graphs inside others may reuse a name."""
        if weight.key not in self._weights:
            return self._weights.add(weight)
        if self._weights[weight.key] is weight:
            return weight.key
        return self._key(replace(weight, key=weight.key + "'"))


def compact(array: np.ndarray) -> np.ndarray:
    """The array, as one repeated value where all its elements are equal."""
    if array.size < 2 or emit.is_repeated(array):
        return array
    first = array.reshape(-1)[:1]
    if array.reshape(-1)[-1:].tobytes() != first.tobytes():
        return array
    data = np.ascontiguousarray(array)
    pattern = np.frombuffer(first.tobytes(), np.uint8)
    rows = data.reshape(-1).view(np.uint8).reshape(data.size, -1)
    return np.broadcast_to(first[0], array.shape) if (rows == pattern).all() else array


class UnavailableError(Exception):
    """A node needs a value that could not be converted, which is already noted."""
