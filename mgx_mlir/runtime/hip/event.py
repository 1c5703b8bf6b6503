"""Events: points in a stream's work that hosts and other streams can wait for."""

from __future__ import annotations

import sys
from typing import Any

from mgx_mlir.runtime.hip.library import call, hip_python, release

_DISABLE_TIMING = 2
_NON_BLOCKING = 1
_NOT_READY = 600


class Event:
    """A point of a stream; destroyed when nothing refers to it."""

    __slots__ = ("handle",)

    def __init__(self, stream: Any) -> None:
        """Marks the end of the stream's work so far; the stream's device is the current one."""
        self.handle: Any = None
        self.handle = call("hipEventCreateWithFlags", _DISABLE_TIMING)
        call("hipEventRecord", self.handle, stream)

    def wait(self) -> None:
        """Blocks until the work before the event is done. Raises DeviceError if it failed."""
        call("hipEventSynchronize", self.handle)

    def hold(self, stream: Any) -> None:
        """The stream's later work waits for the event; no thread of the host blocks."""
        call("hipStreamWaitEvent", stream, self.handle, 0)

    def done(self) -> bool:
        """Whether the work is over, well or not."""
        return is_done("hipEventQuery", self.handle)

    def __del__(self) -> None:
        if self.handle is not None and not sys.is_finalizing():
            release("hipEventDestroy", self.handle)


class Stream:
    """A stream of the current device; destroyed when nothing refers to it."""

    __slots__ = ("handle",)

    def __init__(self) -> None:
        """Raises DeviceError."""
        self.handle: Any = None
        self.handle = call("hipStreamCreateWithFlags", _NON_BLOCKING)

    def __del__(self) -> None:
        if self.handle is not None and not sys.is_finalizing():
            release("hipStreamDestroy", self.handle)


def is_done(query: str, handle: Any) -> bool:
    """The answer of hipEventQuery or hipStreamQuery; work that failed is over too."""
    hip = hip_python()
    done = int(getattr(hip, query)(handle)[0]) != _NOT_READY
    hip.hipGetLastError()
    return done
