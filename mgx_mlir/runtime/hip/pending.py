"""A run that was given to the device: its results when they are there."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from mgx_mlir.artifact.library import call, check, library
from mgx_mlir.errors import DeviceError, MgxError


class PendingRun:
    """The handle of `HipProgram.run_async`; keeps everything alive that the run uses."""

    def __init__(self, handle: int | None, *kept: Any, results: dict[str, Any]) -> None:
        """`handle` is an mgx_pending."""
        self._handle = handle
        self._kept = kept
        self._results = results
        # Makes the exception of a failure; one that was raised refers to this run by its traceback.
        self._error: Callable[[], BaseException] | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()

    def done(self) -> bool:
        """Whether `result` returns at once."""
        if not self._lock.acquire(blocking=False):
            return False  # another thread waits for it
        try:
            if self._handle is None:
                return True
            found = ctypes.c_int32()
            call("mgx_done", self._handle, ctypes.byref(found))
            return bool(found.value)
        finally:
            self._lock.release()

    def result(self) -> dict[str, Any]:
        """Waits for the run; its outputs by name. Raises DeviceError where it failed."""
        with self._lock:
            if self._handle is not None:
                handle, self._handle = self._handle, None
                try:
                    check(library().mgx_wait(handle))
                except MgxError as error:
                    self._error = _again(error)
                self._kept = ()
        if self._error is not None:
            raise self._error()
        return self._results

    def __del__(self) -> None:
        # A child of the process has no HIP.
        if self._handle is None or sys.is_finalizing() or self._process != os.getpid():
            return
        try:
            self.result()
        except MgxError:
            return  # nobody asked for the result


def _again(error: MgxError) -> Callable[[], BaseException]:
    """Makes exceptions like this one."""
    if isinstance(error, DeviceError):
        return partial(DeviceError, str(error), error.name, error.call, error.kernel)
    return partial(type(error), *error.args)
