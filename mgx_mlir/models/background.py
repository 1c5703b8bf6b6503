"""Work beside requests: one job at a time, in a thread that lives as long as there are jobs."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

_log = logging.getLogger(__name__)


class Background:
    """Runs jobs in order. An error of a job goes to the log, and nowhere else.

    A process that ends waits for the job that runs, and leaves out the others.
    """

    def __init__(self) -> None:
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

    def _work(self) -> None:
        while True:
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
