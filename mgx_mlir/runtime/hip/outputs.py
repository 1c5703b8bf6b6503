"""Device memory of results, used again by later runs of the program.

hipFree waits for the whole device, and hipMalloc takes long; so the memory of a result goes
back to the program, with the events after which nobody reads it any more.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable

from mgx_mlir.errors import DeviceError
from mgx_mlir.runtime.hip.event import Event
from mgx_mlir.runtime.hip.library import OUT_OF_MEMORY
from mgx_mlir.runtime.hip.memory import DeviceMemory

# The most idle blocks that are kept of each size.
_IDLE = 4


class OutputPool:
    """Memory for the results of one program on device `ordinal`. Any thread may use it."""

    def __init__(self, ordinal: int) -> None:
        self._ordinal = ordinal
        self._idle: dict[int, list[tuple[DeviceMemory, list[Event]]]] = {}
        # Reentrant: a collection may end the life of a result anywhere.
        self._lock = threading.RLock()

    def take(self, size: int, purpose: str, hold: Callable[[Event], object]) -> OutputMemory:
        """Memory that work after the events that `hold` gets may write. Raises DeviceError."""
        with self._lock:
            idle = self._idle.get(size)
            memory, events = idle.pop() if idle else (None, [])
        for event in events:
            hold(event)
        if memory is None:
            memory = self._allocate(size, purpose)
        return OutputMemory(self, memory)

    def give(self, memory: DeviceMemory, events: list[Event]) -> None:
        """Takes memory back that nobody writes to, or reads from, after the events."""
        with self._lock:
            idle = self._idle.setdefault(memory.size, [])
            if len(idle) < _IDLE:
                idle.append((memory, events))

    def _allocate(self, size: int, purpose: str) -> DeviceMemory:
        try:
            return DeviceMemory(self._ordinal, size, purpose)
        except DeviceError as error:
            with self._lock:
                idle, self._idle = self._idle, {}
            if error.name != OUT_OF_MEMORY or not any(idle.values()):
                raise
            idle.clear()  # frees it
            return DeviceMemory(self._ordinal, size, purpose)


class OutputMemory:
    """The memory of a result; it goes back to its pool when nothing refers to it."""

    def __init__(self, pool: OutputPool, memory: DeviceMemory) -> None:
        self._pool = weakref.ref(pool)
        self._memory = memory
        self._events: list[Event] = []
        self._shared = False
        self.address = memory.address

    def used_until(self, event: Event) -> None:
        """Work that was given to a stream uses the memory until then."""
        self._events = [e for e in self._events if not e.done()] if self._events else []
        self._events.append(event)

    def share(self) -> None:
        """Another library knows the address: its work is unknown here, but hipFree waits for it."""
        self._shared = True

    def __del__(self) -> None:
        pool = self._pool()
        if pool is not None and not self._shared and not sys.is_finalizing():
            pool.give(self._memory, self._events)
