"""Handing a model to another process and its artifact back, without copies of large arrays.

Weights in memory lie in a file of memory that the other process maps; those in files go by name.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from mgx_mlir.artifact.weights import chunks_of, is_splat

_ALIGNMENT = 64
# A file of arrays, and the offset, type and shape of each.
Places: TypeAlias = "tuple[str, list[tuple[int, str, tuple[int, ...]]]]"


class Handed:
    """Arrays that two processes have, each by its number."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self._arrays = [array for array in arrays if not is_splat(array) and array.nbytes]
        self._numbers = {id(array): number for number, array in enumerate(self._arrays)}
        self._file: int | None = None
        self._places: list[tuple[int, str, tuple[int, ...]]] = []

    def __enter__(self) -> Handed:
        return self

    def __exit__(self, *_: object) -> None:
        """Frees the copy that the other process maps."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def places(self) -> Places:
        """The file of the copies, and the offset, type and shape of each."""
        if self._file is None:
            self._file = os.memfd_create("mgx-weights")
            offset = 0
            for array in self._arrays:
                offset = -(-offset // _ALIGNMENT) * _ALIGNMENT
                self._places.append((offset, array.dtype.str, array.shape))
                for chunk in chunks_of(array):
                    offset += os.pwrite(self._file, chunk, offset)
        return f"/proc/{os.getpid()}/fd/{self._file}", self._places

    @staticmethod
    def mapped(path: str, places: Sequence[tuple[int, str, tuple[int, ...]]]) -> Handed:
        """The arrays, in the process that maps them."""
        arrays = [np.memmap(path, dtype, "r", offset, shape) for offset, dtype, shape in places]
        return Handed([np.asarray(array) for array in arrays])

    def dumps(self, value: Any) -> bytes:
        """The value pickled, with the numbers of these arrays in their places."""
        buffer = io.BytesIO()
        _Pickler(buffer, self._numbers).dump(value)
        return buffer.getvalue()

    def loads(self, data: bytes) -> Any:
        """The value that the other process pickled, with the arrays of this one."""
        return _Unpickler(io.BytesIO(data), self._arrays).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, numbers: Mapping[int, int]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._numbers = numbers

    def persistent_id(self, obj: Any) -> int | None:
        return self._numbers.get(id(obj)) if isinstance(obj, np.ndarray) else None

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is np.ndarray and is_splat(obj):
            element = np.array(obj[(0,) * obj.ndim], obj.dtype)
            return np.broadcast_to, (element, obj.shape)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, arrays: Sequence[np.ndarray]) -> None:
        super().__init__(file)
        self._arrays = arrays

    def persistent_load(self, pid: Any) -> np.ndarray:
        return self._arrays[pid]
