"""The streams beside a run's own, and the events between them: one set for each context."""

from __future__ import annotations

import ctypes
from typing import Any

from mgx_mlir.runtime.hip.library import call, release

_NON_BLOCKING = 1
_DISABLE_TIMING = 2


class Streams:
    """Streams and events of an execution context, made as they are wanted."""

    def __init__(self) -> None:
        self._streams: list[Any] = []
        self._events: list[Any] = []
        self._stream_handles = (ctypes.c_void_p * 1)()
        self._event_handles = (ctypes.c_void_p * 0)()

    def make(self, streams: int, events: int) -> None:
        """Has at least `streams` streams, with the run's own, and `events` events.

        Raises DeviceError. The context's device is current.
        """
        while len(self._streams) < streams - 1:
            self._streams.append(call("hipStreamCreateWithFlags", _NON_BLOCKING))
        while len(self._events) < events:
            self._events.append(call("hipEventCreateWithFlags", _DISABLE_TIMING))
        handles = [0, *map(int, self._streams)]
        self._stream_handles = (ctypes.c_void_p * len(handles))(*handles)
        self._event_handles = (ctypes.c_void_p * len(self._events))(*map(int, self._events))

    def handles(self, stream: int) -> tuple[Any, Any]:
        """C arrays of the streams, the first of which is `stream`, and of the events."""
        self._stream_handles[0] = stream
        return self._stream_handles, self._event_handles

    def wait(self) -> None:
        """Blocks until all work is done. Raises DeviceError if it failed."""
        for stream in self._streams:
            call("hipStreamSynchronize", stream)

    def close(self) -> None:
        """Destroys them; nothing may be under way."""
        for event in self._events:
            release("hipEventDestroy", event)
        for stream in self._streams:
            release("hipStreamDestroy", stream)
        self._events, self._streams = [], []
