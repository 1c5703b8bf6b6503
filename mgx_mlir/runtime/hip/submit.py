"""Lists of launches and copies, given to HIP with one call from Python.

The functions are hip-python's own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mgx_mlir.errors import CompilerError
from mgx_mlir.runtime.hip.library import failure, function_address, hip_python
from mgx_mlir.runtime.hip.prepared import PreparedCopy, PreparedLaunch

_INTERFACE = 1
_LAUNCH, _COPY = 0, 1
_CALLS = {_LAUNCH: "hipModuleLaunchKernel", _COPY: "hipMemcpyAsync"}


class _Functions(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in ("launch", "copy", "record", "wait"))


class _Step(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int32),
        ("stream", ctypes.c_int32),
        ("handle", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("first", ctypes.c_int64),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
    )


_STEP_BYTES = ctypes.sizeof(_Step)


@cache
def _native() -> Any:
    path = Path(__file__).parents[2] / "_native" / "libmgx_launch.so"
    if not path.exists():
        raise CompilerError(f"{path} is missing: the native parts are not built; run `make setup`")
    library = ctypes.CDLL(str(path))
    if library.mgx_hip_interface() != _INTERFACE:
        raise CompilerError(f"{path} is of another version; run `make setup`")
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    submit = library.mgx_hip_submit
    submit.restype = ctypes.c_int
    submit.argtypes = (pointer, pointer, number, *[pointer] * 5)
    return submit


@cache
def _functions() -> _Functions:
    names = ("hipModuleLaunchKernel", "hipMemcpyAsync", "hipEventRecord", "hipStreamWaitEvent")
    return _Functions(*map(function_address, names))


class Submission:
    """Steps in the form that HIP takes; `submit` gives any part of them to a stream."""

    def __init__(
        self, steps: Sequence[PreparedLaunch | PreparedCopy], arguments: np.ndarray
    ) -> None:
        """`arguments` is the table of addresses; it is read at each `submit`."""
        self._steps = steps
        self._table = (_Step * max(len(steps), 1))(*map(_native_step, steps))
        # HIP takes the address of each argument's value.
        start, count = int(arguments.ctypes.data), max(len(arguments), 1)
        pointers = np.arange(start, start + 8 * count, 8, dtype=np.uint64)
        self._kept = (arguments, pointers)
        self._arguments, self._pointers = start, int(pointers.ctypes.data)
        self._functions = ctypes.addressof(_functions())
        self._first = ctypes.addressof(self._table)
        self._streams = (ctypes.c_void_p * 1)()
        self._failed = ctypes.c_int64()
        self._failed_address = ctypes.addressof(self._failed)
        self._call = _native()

    def parameters(self, step: PreparedLaunch) -> int:
        """The address of the launch's array of pointers to arguments."""
        return self._pointers + 8 * step.first

    def submit(self, first: int, end: int, stream: int) -> None:
        """Gives a stream the steps from number `first` to `end`.

        Raises DeviceError naming the call and the kernel.
        """
        self._streams[0] = stream
        status = self._call(
            self._functions,
            self._first + first * _STEP_BYTES,
            end - first,
            self._arguments,
            self._pointers,
            self._streams,
            None,
            self._failed_address,
        )
        if status:
            step = self._steps[first + self._failed.value]
            call = _CALLS[_COPY if isinstance(step, PreparedCopy) else _LAUNCH]
            raise failure(hip_python().hipError_t(status), call, step.name)


def _native_step(step: PreparedLaunch | PreparedCopy) -> _Step:
    if isinstance(step, PreparedCopy):
        return _Step(_COPY, 0, 0, step.bytes, step.first)
    return _Step(_LAUNCH, 0, int(step.function), 0, step.first, step.grid, step.block)
