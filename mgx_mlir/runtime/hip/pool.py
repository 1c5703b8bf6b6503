"""Execution contexts of one program: as many as there are runs at once."""

from __future__ import annotations

import logging
import threading

from mgx_mlir.errors import DeviceError
from mgx_mlir.runtime.hip.context import Context
from mgx_mlir.runtime.hip.library import OUT_OF_MEMORY
from mgx_mlir.runtime.hip.prepared import Prepared

logger = logging.getLogger("mgx_mlir.hip")


class ContextPool:
    """Contexts that wait for the next run, and how many there are in all."""

    def __init__(self, prepared: Prepared, graph: bool) -> None:
        self._prepared = prepared
        self._graph = graph
        self._idle: list[Context] = []
        self._count = 0
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return self._count

    def acquire(self) -> Context:
        """A context that no other run uses; its device is current.

        Where memory is short for another one, waits for those that there are. Raises
        DeviceError.
        """
        with self._changed:
            if self._idle:
                return self._idle.pop()
            self._count += 1
        try:
            return Context(self._prepared, self._graph)
        except BaseException as error:
            with self._changed:
                self._count -= 1
                self._changed.notify()
            if not isinstance(error, DeviceError) or error.name != OUT_OF_MEMORY:
                raise
            found = self._wait_for_one(str(error))
            if found is None:
                raise
            return found

    def release(self, context: Context) -> None:
        """Gives a context back; its work may be under way still."""
        with self._changed:
            self._idle.append(context)
            self._changed.notify()

    def discard(self, context: Context) -> None:
        """Destroys a context that a failure left in an unknown state."""
        try:
            context.close()
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify()

    def _wait_for_one(self, why: str) -> Context | None:
        """A context that another run gives back; None where no run has one."""
        with self._changed:
            if self._count and not self._idle:
                logger.warning("waiting for another run of the program to end: %s", why)
            self._changed.wait_for(lambda: self._idle or not self._count)
            return self._idle.pop() if self._idle else None
