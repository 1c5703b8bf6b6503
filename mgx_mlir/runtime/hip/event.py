"""Events: points in a stream's work that hosts and other streams can wait for."""

from __future__ import annotations

import sys
from typing import Any

from mgx_mlir.runtime.hip.library import call, hip_python, release

_DISABLE_TIMING = 2
_NOT_READY = 600


class Event:
    """A point of a stream; destroyed when nothing refers to it."""

    __slots__ = ("_handle",)

    def __init__(self, stream: Any) -> None:
        """Marks the end of the stream's work so far; the stream's device is the current one."""
        self._handle: Any = None
        self._handle = call("hipEventCreateWithFlags", _DISABLE_TIMING)
        call("hipEventRecord", self._handle, stream)

    def wait(self) -> None:
        """Blocks until the work before the event is done. Raises DeviceError if it failed."""
        call("hipEventSynchronize", self._handle)

    def hold(self, stream: Any) -> None:
        """The stream's later work waits for the event; no thread of the host blocks."""
        call("hipStreamWaitEvent", stream, self._handle, 0)

    def done(self) -> bool:
        """Whether the work is over, well or not."""
        return is_done("hipEventQuery", self._handle)

    def __del__(self) -> None:
        if self._handle is not None and not sys.is_finalizing():
            release("hipEventDestroy", self._handle)


def is_done(query: str, handle: Any) -> bool:
    """The answer of hipEventQuery or hipStreamQuery; work that failed is over too."""
    hip = hip_python()
    done = int(getattr(hip, query)(handle)[0]) != _NOT_READY
    hip.hipGetLastError()
    return done
