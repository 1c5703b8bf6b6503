"""Worker processes that run plain functions, each call with a time limit.

`WorkerPool` is a `concurrent.futures.Executor`. Unlike ProcessPoolExecutor it says which
call a crash or a time-out belongs to, goes on with the others, and never runs the caller's
`__main__` again, so that it works from any script. A worker is a fork of a fresh interpreter
(server.py) and talks over a socket.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import IO, Any

from mgx_mlir.finalizer.calls import SIZE
from mgx_mlir.finalizer.server import LOOK, Server, ServerError

_STDERR_LINES = 20


class WorkerError(Exception):
    """A call failed to return: its process died, or took too long."""


class WorkerPool(Executor):
    """At most `jobs` processes, started when they are needed.

    A call that takes more than `time_limit` seconds ends with its process, and its future
    with WorkerError; so does a call whose process dies. Functions, arguments and results are
    pickled. The workers are forks of `server`, which the pool ends; by default of one that imports
    nothing.
    """

    def __init__(self, jobs: int, time_limit: float, server: Server | None = None) -> None:
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="mgx-worker")
        self._time_limit = time_limit
        self._server = server
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._threads.submit(self._call, function, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the workers. With `cancel_futures`, without waiting for running calls."""
        if cancel_futures:
            self._end()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        self._end()
        with self._lock:
            for worker in self._all:
                worker.close()
            self._all.clear()
            self._idle.clear()

    def _end(self) -> None:
        """Lets no worker start, and ends all."""
        self._closed = True
        # A thread that waits for an answer of the server has the lock until the server ends.
        if self._server is not None:
            self._server.close()
        with self._lock:
            if self._server is not None:
                self._server.close()
            for worker in self._all:
                worker.hang_up()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.shutdown(cancel_futures=kind is not None)

    def _call(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        worker = self._take()
        try:
            succeeded, value = worker.call((function, args, kwargs), self._time_limit)
        except BaseException:
            worker.kill()
            with self._lock:
                self._all.discard(worker)
            worker.close()
            raise
        with self._lock:
            self._idle.append(worker)
        if succeeded:
            return value
        raise value

    def _take(self) -> Worker:
        with self._lock:
            if self._closed:
                raise WorkerError("the pool is closed")
            if self._idle:
                return self._idle.pop()
            self._server = self._server or Server()
            worker = Worker(self._server)
            self._all.add(worker)
            return worker


class Worker:
    """One process. Its owner alone closes it; other threads may hang up."""

    def __init__(self, server: Server) -> None:
        self._server = server
        # In memory: finalizing needs no disk.
        self._stderr: IO[bytes] = open(os.memfd_create("mgx-worker"), "w+b")  # noqa: SIM115
        self._socket, theirs = socket.socketpair()
        try:
            with theirs:
                self._number = server.fork(theirs.fileno(), self._stderr.fileno())
        except ServerError as error:
            self.close()
            raise WorkerError(str(error)) from error

    def call(
        self, request: Any, time_limit: float, goes_on: Callable[[], bool] = lambda: True
    ) -> tuple[bool, Any]:
        """Whether the call succeeded, and its result or its exception.

        It is given up, as at its time limit, where `goes_on` says so.
        """
        data = pickle.dumps(request)
        deadline = time.monotonic() + time_limit
        try:
            self._socket.settimeout(time_limit)
            self._socket.sendall(SIZE.pack(len(data)) + data)
            (size,) = SIZE.unpack(self._read(SIZE.size, deadline, goes_on))
            reply = pickle.loads(self._read(size, deadline, goes_on))
        except TimeoutError:
            raise WorkerError(f"it took more than {time_limit:g} seconds") from None
        except (OSError, EOFError) as error:
            raise WorkerError(f"the process that compiled it died: {self._last_words()}") from error
        return bool(reply[0]), reply[1]

    def hang_up(self) -> None:
        """Wakes a thread that waits for the worker's answer; none comes."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """Ends the process at once; nothing happens if it has ended."""
        if self._number:
            number, self._number = self._number, 0
            with contextlib.suppress(ServerError):
                self._server.end(number)

    def close(self) -> None:
        """Closes the files of a process that has ended or ends with its server."""
        self._socket.close()
        self._stderr.close()

    def _read(self, size: int, deadline: float, goes_on: Callable[[], bool]) -> bytes:
        parts: list[bytes] = []
        while size:
            left = deadline - time.monotonic()
            if left <= 0 or not goes_on():
                raise TimeoutError
            self._socket.settimeout(min(left, LOOK))
            try:
                part = self._socket.recv(min(size, 1 << 20))
            except TimeoutError:
                continue
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _last_words(self) -> str:
        number, self._number = self._number, 0
        try:
            status = self._server.end(number)
        except ServerError as error:
            return str(error)
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").splitlines()
        return "\n".join([how, *lines[:_STDERR_LINES]])
