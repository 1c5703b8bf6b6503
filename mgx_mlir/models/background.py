"""Work beside requests: one job at a time, in a thread that lives as long as there are jobs.

A job calls what takes long in one other process of the least priority, so that requests go first.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from mgx_mlir.finalizer.server import Server
from mgx_mlir.finalizer.worker import Worker

_log = logging.getLogger(__name__)

# Seconds for a call: a machine that is busy with requests leaves it little.
_TIME_LIMIT = 3600.0


class Background:
    """Runs jobs in order. An error of a job goes to the log, and nowhere else.

    A process that ends waits for the job that runs, but not for its call, and for no other.
    `modules` are what the other process imports first.
    """

    def __init__(self, modules: Sequence[str] = ()) -> None:
        self._modules = tuple(modules)
        self._server: Server | None = None
        self._worker: Worker | None = None
        self._jobs: deque[tuple[str, Callable[[], None]]] = deque()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, name: str, job: Callable[[], None]) -> None:
        """Adds a job; `name` says in the log which one failed."""
        with self._lock:
            self._jobs.append((name, job))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="mgx-background")
                self._thread.start()

    def wait(self) -> None:
        """Returns when no job is left."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The function's result, from the other process; for jobs. All is pickled.

        Raises what the function raises, and WorkerError where its process ends.
        """
        goes_on = threading.main_thread().is_alive
        try:
            if self._worker is None:
                self._server = Server(self._modules, idle=True, goes_on=goes_on)
                self._worker = Worker(self._server)
            succeeded, value = self._worker.call((function, arguments, {}), _TIME_LIMIT, goes_on)
        except BaseException:
            self._close()
            raise
        if not succeeded:
            raise value
        return value

    def _close(self) -> None:
        """Ends the other process."""
        if self._server is not None:
            self._server.close()
        if self._worker is not None:
            self._worker.close()
        self._server = self._worker = None

    def _work(self) -> None:
        while True:
            with self._lock:
                more = bool(self._jobs) and threading.main_thread().is_alive()
            if not more:
                self._close()
            with self._lock:
                if not self._jobs or not threading.main_thread().is_alive():
                    self._thread = None
                    return
                name, job = self._jobs.popleft()
            try:
                job()
            except Exception as error:  # a request has an answer without it
                if threading.main_thread().is_alive():  # else the process ends, and its workers
                    _log.warning("%s: %s", name, error)
