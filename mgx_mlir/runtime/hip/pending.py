"""A run that was given to the device: its results when they are there."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from mgx_mlir.errors import DeviceError, MgxError
from mgx_mlir.runtime.hip.context import Context
from mgx_mlir.runtime.hip.device import Current
from mgx_mlir.runtime.hip.event import Event, is_done
from mgx_mlir.runtime.hip.library import call
from mgx_mlir.runtime.hip.pool import ContextPool


class PendingRun:
    """The handle of `HipProgram.run_async`; keeps everything alive that the run uses."""

    def __init__(self, pool: ContextPool, context: Context, stream: Any) -> None:
        self._stream = stream
        self._pool = pool
        self._context: Context | None = context
        self._event: Event | None = None
        self._kept: list[Any] = []
        self._results: dict[str, Any] = {}
        # Makes the exception of a failure; one that was raised refers to this run by its traceback.
        self._error: Callable[[], BaseException] | None = None
        self._rest: Future[None] | None = None
        self._lock = threading.Lock()

    def keep(self, value: Any) -> None:
        """Keeps a value alive until the run is over."""
        self._kept.append(value)

    def submitted(self, results: dict[str, Any], event: Event | None) -> None:
        """All work is given; `event` marks its end, None: the end of the context's stream."""
        self._results = results
        self._event = event

    def continue_on(self, worker: Executor, ordinal: int, rest: Callable[[], None]) -> None:
        """Submits the rest of the run from another thread; its failures are the run's."""
        self._rest = worker.submit(self._continue, ordinal, rest)

    def _continue(self, ordinal: int, rest: Callable[[], None]) -> None:
        try:
            with Current(ordinal):
                rest()
        except BaseException as error:
            self._error = _again(error)
            self.fail(error)

    def done(self) -> bool:
        """Whether `result` returns at once."""
        if self._rest is not None and not self._rest.done():
            return False
        context = self._context
        if context is None:
            return True
        if self._event is not None:
            return self._event.done()
        return is_done("hipStreamQuery", context.stream)

    def result(self) -> dict[str, Any]:
        """Waits for the run; its outputs by name. Raises DeviceError where it failed."""
        with self._lock:
            if self._rest is not None:
                self._rest.result()
            if self._context is not None:
                self._finish(self._context)
        if self._error is not None:
            raise self._error()
        return self._results

    def detach(self) -> dict[str, Any]:
        """The outputs at once, for a caller who waits for the stream of the run."""
        with self._lock:
            context, self._context = self._context, None
            if context is not None:
                context.last = self._event
                self._pool.release(context)
            return self._results

    def fail(self, error: BaseException) -> None:
        """The run could not be submitted whole: waits for the submitted part, and forgets it."""
        context, self._context = self._context, None
        if context is None:
            return
        try:
            call("hipStreamSynchronize", self._stream)
            context.wait()
        except DeviceError:
            self._pool.discard(context)
            return
        if isinstance(error, DeviceError):
            self._pool.discard(context)
        else:
            self._pool.release(context)

    def _finish(self, context: Context) -> None:
        try:
            # HIP waits for streams and events of any device.
            if self._event is not None:
                self._event.wait()
            else:
                context.wait()
        except DeviceError as error:
            self._error = _again(error)
            self._pool.discard(context)
        else:
            context.last = None
            self._pool.release(context)
        self._context = None
        self._kept.clear()

    def __del__(self) -> None:
        if getattr(self, "_context", None) is not None and not sys.is_finalizing():
            try:
                self.result()
            except MgxError:
                # Nobody asked for the result; the context is destroyed already.
                return


def _again(error: BaseException) -> Callable[[], BaseException]:
    """Makes exceptions like this one."""
    if isinstance(error, DeviceError):
        return partial(DeviceError, str(error), error.name, error.call, error.kernel)
    return partial(type(error), *error.args)
