"""The memory of torch's tensors: which share it, in which order it lies, and whether it changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

# The integers of an element's bits.
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def memory_of(value: Any) -> int | None:
    """A key of the memory of a living tensor, fake or not; None: it has none."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return int(value.untyped_storage()._cdata)


def order_of(value: torch.Tensor) -> tuple[int, ...]:
    """The dimensions of a dense tensor from the outermost in memory on; () for row-major order."""
    if value.layout is not torch.strided:
        return ()
    sizes, strides = _hints(value.shape), _hints(value.stride())
    axes = [axis for axis, size in enumerate(sizes) if size != 1]
    order = sorted(axes, key=lambda axis: -strides[axis])
    dense = 1
    for axis in reversed(order):
        if strides[axis] != dense:
            return ()
        dense *= sizes[axis]
    if order == axes:
        return ()
    return (*(axis for axis in range(value.ndim) if axis not in axes), *order)


def _hints(sizes: Sequence[Any]) -> list[int]:
    """The sizes that the trace met, without a guard on them."""
    return [
        int(size.node.hint or 0) if isinstance(size, torch.SymInt) else int(size) for size in sizes
    ]


def in_order(tensor: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """The tensor with its memory in an order of dimensions."""
    if not order:
        return tensor
    laid = torch.empty_permuted(tensor.shape, order, dtype=tensor.dtype, device=tensor.device)
    return laid.copy_(tensor)


def overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the memory between the first and the last element of two tensors overlaps."""
    (first, last), (begin, end) = _extent(one), _extent(other)
    return one.device == other.device and first < end and begin < last


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    if tensor.layout is not torch.strided or not tensor.numel():
        return (0, 0)
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    elements = 1 + sum((size - 1) * stride for size, stride in pairs)
    start = tensor.data_ptr()
    return start, start + elements * tensor.element_size()


class Watch:
    """Whether tensors are those that they were: their memory, versions, and two elements of each.

    Writes through `.data`, numpy or inference mode count no version; elements show most of them.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._tensors = tensors
        self._known = self._marks()
        self._places = [place for tensor in tensors for place in _places(tensor)]
        self._elements = [view[index] for view, index in self._places]

    def holds(self) -> bool:
        """Whether nothing has changed."""
        if self._marks() != self._known:
            return False
        return [view[index] for view, index in self._places] == self._elements

    def _marks(self) -> list[tuple[int, int]]:
        return [
            (
                0 if t.is_inference() else t._version,
                t.data_ptr() if t.layout is torch.strided else 0,
            )
            for t in self._tensors
        ]


def _places(tensor: torch.Tensor) -> Iterator[tuple[Any, Any]]:
    """Two elements of a tensor of the host as bits in place, not 0 where such are found."""
    count, kind = tensor.numel(), _INTEGERS.get(tensor.element_size())
    host = tensor.device.type == "cpu" and tensor.layout is torch.strided
    if not count or not host or kind is None or tensor.is_complex():
        return
    view = memoryview(tensor.detach().view(kind).numpy())
    tries = [_index(n * (count - 1) // 7, tensor.shape) for n in range(8)]
    full = [index for index in tries if view[index]]
    for index in (full or tries)[:: max(1, len(full or tries) - 1)][:2]:
        yield view, index


def _index(number: int, shape: Sequence[int]) -> tuple[int, ...]:
    found: list[int] = []
    for size in reversed(shape):
        found.insert(0, number % size)
        number //= size
    return tuple(found)
