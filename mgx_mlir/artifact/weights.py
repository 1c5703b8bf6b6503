"""Weights by reference: the location of the bytes of a model's large constants.

Programs name weights by key; the bytes stay in the file that holds them and are mapped
into memory when something reads them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np

from mgx_mlir.errors import ModelError

CHUNK_BYTES = 1 << 20

# Sides of the blocks in which turned matrices are copied: one fits into a core's cache.
_BLOCK = 256
# Elements between its rows, so that a column does not fall into one set of the cache.
_PADDED = _BLOCK + 8


@dataclass(frozen=True)
class Weight:
    """One weight: `nbytes` bytes of `dtype` elements in row-major order.

    The bytes lie in `file` from `offset`, or in `data` where they were computed. `data` may
    be a broadcast of one element (a splat), however large. Where there is an `order`, what is
    stored there has other dimensions, and the weight has these in that order, as numpy's
    transpose takes them. Instead of bytes it may have `parts`, of one shape: its entries along
    dimension `axis` are theirs in turn.
    """

    key: str
    dtype: np.dtype
    shape: tuple[int, ...]
    file: Path | None = None
    offset: int = 0
    data: np.ndarray | None = field(default=None, compare=False, repr=False)
    order: tuple[int, ...] = ()
    parts: tuple[Weight, ...] = ()
    axis: int = 0

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def splat(self) -> bool:
        """Whether the weight repeats one element."""
        return self.data is not None and is_splat(self.data)

    def array(self) -> np.ndarray:
        """The weight as a read-only array of its shape; mapped, not copied, from a file.

        A weight with an order, or with parts, is copied to the order of its shape. Raises
        ModelError when the file is shorter than the weight needs.
        """
        stored = self._stored()
        return stored if is_splat(stored) else row_major(stored)

    def _stored(self) -> np.ndarray:
        """The weight as an array of its shape, its elements as they are stored."""
        sizes = dict(zip(self.order, self.shape, strict=True)) if self.order else {}
        shape = [sizes[i] for i in range(len(sizes))] or self.shape
        if self.data is not None:
            stored = self.data
        elif self.parts:
            arrays = [part.array() for part in self.parts]
            stored = np.stack(arrays, axis=self.axis + 1).reshape(shape)
        elif self.nbytes == 0:
            stored = np.zeros(shape, self.dtype)
        else:
            stored = self._mapped().reshape(shape)
        return stored.transpose(self.order) if self.order else stored

    def _mapped(self) -> np.ndarray:
        assert self.file is not None
        if self.file.stat().st_size < self.offset + self.nbytes:
            raise ModelError(
                f"weight '{self.key}' needs bytes {self.offset} to {self.offset + self.nbytes} "
                f"of {self.file}, which is shorter; the file is truncated"
            )
        return np.memmap(self.file, np.uint8, "r", self.offset, (self.nbytes,)).view(self.dtype)

    @cached_property
    def sha256(self) -> str:
        """Hash of the bytes, in hexadecimal."""
        digest = hashlib.sha256()
        for chunk in self.chunks():
            digest.update(chunk)
        return digest.hexdigest()

    def chunks(self) -> Iterator[memoryview]:
        """The bytes in row-major order, piece by piece; a splat is never spread out whole."""
        return chunks_of(self.array())


def chunks_of(array: np.ndarray) -> Iterator[memoryview]:
    """The bytes of an array, as Weight.chunks gives them."""
    if is_splat(array):
        step = max(1, CHUNK_BYTES // array.dtype.itemsize)
        piece = np.full(min(step, array.size), splat_element(array)[0], array.dtype)
        for start in range(0, array.size, step):
            yield memoryview(piece[: array.size - start].view(np.uint8))
    else:
        flat = row_major(array).reshape(-1).view(np.uint8)
        for start in range(0, flat.size, CHUNK_BYTES):
            yield memoryview(flat[start : start + CHUNK_BYTES])


def row_major(array: np.ndarray) -> np.ndarray:
    """The array if its elements lie in row-major order, else a copy of it that does.

    Matrices stored by columns are copied block by block: numpy's own copy reads or writes an
    element a cache line, at a tenth to a half of this one's speed.
    """
    if array.ndim < 2 or array.flags.c_contiguous:
        return np.ascontiguousarray(array)
    if abs(array.strides[-2]) >= abs(array.strides[-1]) or min(array.shape[-2:]) < _BLOCK:
        return np.ascontiguousarray(array)
    copy = np.empty(array.shape, array.dtype)
    scratch = np.empty((_BLOCK, _PADDED), array.dtype)
    rows, columns = array.shape[-2:]
    for batch in np.ndindex(array.shape[:-2]):
        for i, j in product(range(0, rows, _BLOCK), range(0, columns, _BLOCK)):
            block = array[batch][i : i + _BLOCK, j : j + _BLOCK].T
            near = scratch[: block.shape[0], : block.shape[1]]
            near[...] = block
            copy[batch][i : i + _BLOCK, j : j + _BLOCK] = near.T
    return copy


def is_splat(array: np.ndarray) -> bool:
    """Whether an array is a broadcast of one element, which takes no memory."""
    return array.size > 1 and not any(array.strides)


def splat_element(array: np.ndarray) -> np.ndarray:
    """The one element of a splat, as an array of one dimension; the splat is not spread out."""
    return np.array([array[(0,) * array.ndim]], array.dtype)


def key_of(array: np.ndarray) -> str:
    """The key of a computed array: a hash of its elements, its type and its shape."""
    stored = splat_element(array) if is_splat(array) else np.ascontiguousarray(array).reshape(-1)
    digest = hashlib.sha256(stored.view(np.uint8))
    digest.update(f"{array.dtype.name}{array.shape}{is_splat(array)}".encode())
    return f"folded.{digest.hexdigest()[:16]}"


def _copy(data: np.ndarray, array: np.ndarray) -> None:
    data[...] = array
    data.flags.writeable = False


# Copies weights beside the passes, which use one core.
_thread: ThreadPoolExecutor


def _new_thread() -> None:
    global _thread
    _thread = ThreadPoolExecutor(1, "mgx-weights")


_new_thread()
os.register_at_fork(after_in_child=_new_thread)  # which has its parent's memory, not its threads


class WeightStore(Mapping[str, Weight]):
    """The weights of one program, by key, in the order they were added.

    `files` are those that the program was read from.
    """

    def __init__(self) -> None:
        self.files: tuple[Path, ...] = ()
        self._weights: dict[str, Weight] = {}
        self._copies: dict[str, Future[None]] = {}

    def __getitem__(self, key: str) -> Weight:
        """The weight, whose elements are there."""
        if (copy := self._copies.get(key)) is not None:
            copy.result()
            self._copies.pop(key, None)
        return self._weights[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def add(self, weight: Weight) -> str:
        """Adds a weight under its key. Raises ModelError when another has that key."""
        if self._weights.setdefault(weight.key, weight) is not weight:
            raise ModelError(f"two weights are called '{weight.key}'")
        return weight.key

    def add_array(self, array: np.ndarray, key: str = "") -> str:
        """Adds a computed array; equal arrays share one key. Returns the key.

        `key` spares the array's hash where the caller knows a name for its content: that of
        `key_of`, or the key of a weight and all that was done to it.
        """
        data = array if is_splat(array) else np.ascontiguousarray(array)
        if not key or (key in self._weights and not self._holds(key, data)):
            key = key_of(data)
        if key not in self._weights:
            data.flags.writeable = False
            self._weights[key] = Weight(key, data.dtype, data.shape, data=data)
        return key

    def add_copy(self, array: np.ndarray, key: str) -> str:
        """Adds a copy of an array in row-major order, made in a thread: see `add_array`."""
        if key in self._weights or is_splat(array) or array.flags.c_contiguous:
            return self.add_array(array, key)
        data = np.empty(array.shape, array.dtype)
        self._copies[key] = _thread.submit(_copy, data, array)
        self._weights[key] = Weight(key, data.dtype, data.shape, data=data)
        return key

    def _holds(self, key: str, data: np.ndarray) -> bool:
        """Whether the weight under a key is this array: a model may call its own by that name."""
        known = self[key].data
        return known is not None and known.dtype == data.dtype and np.array_equal(known, data)

    def add_turned(self, key: str, order: Sequence[int]) -> str:
        """Adds a weight with the dimensions of `key` in this order. Returns its key.

        Nothing is copied until it is read.
        """
        source = self[key]
        name = f"{key}.{''.join(map(str, order))}"
        turned = replace(
            source,
            key=name,
            shape=tuple(source.shape[i] for i in order),
            order=tuple(source.order[i] for i in order) if source.order else tuple(order),
        )
        return self._named(turned)

    def add_alternating(self, keys: Sequence[str], axis: int) -> str:
        """Adds a weight whose entries along an axis are those of the `keys` in turn: see `Weight`.

        They have one shape and type. Returns its key. Nothing is copied until it is read.
        """
        parts = tuple(self[key] for key in keys)
        shape = list(parts[0].shape)
        shape[axis] *= len(parts)
        name = f"{'+'.join(keys)}.{axis}"
        return self._named(Weight(name, parts[0].dtype, tuple(shape), parts=parts, axis=axis))

    def _named(self, weight: Weight) -> str:
        """Adds a weight under its key, or one like it where another has that; returns the key."""
        while (known := self._weights.setdefault(weight.key, weight)) is not weight:
            if known == weight and known.data is weight.data:
                break
            weight = replace(weight, key=f"{weight.key}'")
        return weight.key

    def keep(self, keys: set[str]) -> None:
        """Forgets every weight whose key is not in `keys`."""
        self._weights = {key: weight for key, weight in self._weights.items() if key in keys}
