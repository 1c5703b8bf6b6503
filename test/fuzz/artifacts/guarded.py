"""Memory between pages that nobody may touch: one byte beyond it ends the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

_PAGE = mmap.PAGESIZE
_NONE, _READ = 0, 1
_libc = ctypes.CDLL(None, use_errno=True)


def guarded(size: int, at_end: bool = True, alignment: int = 1) -> np.ndarray:
    """So many bytes; the page behind them, and that before, cannot be read or written.

    `at_end`: the last byte is the one before the page, up to `alignment`; else the first is.
    """
    if not size:
        return np.empty(0, np.uint8)
    pages = -(-size // _PAGE)
    try:
        memory = mmap.mmap(-1, (pages + 2) * _PAGE)
    except OSError as error:
        raise MemoryError(f"{size} bytes") from error
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _protect(base, _PAGE, _NONE)
    _protect(base + (pages + 1) * _PAGE, _PAGE, _NONE)
    room = (pages * _PAGE - size) // alignment * alignment
    return np.frombuffer(memory, np.uint8, size, _PAGE + (room if at_end else 0))


def array(shape: Any, dtype: np.dtype, at_end: bool) -> np.ndarray:
    """A tensor of bytes that are 0, guarded."""
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    return guarded(size, at_end).view(dtype).reshape(shape)


def read_only(value: np.ndarray) -> np.ndarray:
    """A copy in guarded pages that cannot be written."""
    copy = guarded(value.nbytes)
    copy[:] = np.frombuffer(value.tobytes(), np.uint8)
    if value.nbytes:
        start = copy.ctypes.data // _PAGE * _PAGE
        _protect(start, -(-(copy.ctypes.data + value.nbytes) // _PAGE) * _PAGE - start, _READ)
    return copy.view(value.dtype).reshape(value.shape)


def install() -> None:
    """Guards the arena and the weights of programs on the host."""
    from mgx_mlir.artifact.library import library
    from mgx_mlir.runtime import loaded

    ctypes.c_int.in_dll(library(), "mgx_cpu_guard").value = 1
    placed = loaded.row_major
    loaded.row_major = lambda array: read_only(placed(array))


def _protect(address: int, size: int, access: int) -> None:
    if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), access):
        raise OSError(ctypes.get_errno(), "mprotect")
