"""Worker processes that run plain functions, each call with a time limit.

`WorkerPool` is a `concurrent.futures.Executor`. Unlike ProcessPoolExecutor it says which
call a crash or a time-out belongs to, goes on with the others, and never runs the caller's
`__main__` again, so that it works from any script. A worker is a fresh interpreter that
talks over two pipes.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import IO, Any

_SIZE = struct.Struct("<Q")
_STDERR_LINES = 20
# Bytes of a worker's address space: far more than a kernel takes to compile.
MEMORY_LIMIT = 16 << 30


class WorkerError(Exception):
    """A call failed to return: its process died, or took too long."""


class WorkerPool(Executor):
    """At most `jobs` processes, started when they are needed.

    A call that takes more than `time_limit` seconds ends with its process, and its future
    with WorkerError; so does a call whose process dies. Functions, arguments and results are
    pickled.
    """

    def __init__(self, jobs: int, time_limit: float) -> None:
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="mgx-worker")
        self._time_limit = time_limit
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._threads.submit(self._call, function, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the workers. With `cancel_futures`, without waiting for running calls."""
        if cancel_futures:
            with self._lock:
                self._closed = True
                for worker in self._all:
                    worker.kill()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        with self._lock:
            self._closed = True
            for worker in self._all:
                worker.kill()
            self._all.clear()
            self._idle.clear()

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
            raise
        with self._lock:
            self._idle.append(worker)
        if succeeded:
            return value
        raise value

    def _take(self) -> _Worker:
        with self._lock:
            if self._closed:
                raise WorkerError("the pool is closed")
            if self._idle:
                return self._idle.pop()
            worker = _Worker()
            self._all.add(worker)
            return worker


class _Worker:
    """One process."""

    def __init__(self) -> None:
        # In memory: finalizing needs no disk. Closed by kill.
        self._stderr: IO[bytes] = open(os.memfd_create("mgx-worker"), "w+b")  # noqa: SIM115
        # The parent's path, so that a source tree works as an installed package does.
        code = (
            f"import sys; sys.path[:] = {sys.path!r}\n"
            "from mgx_mlir.finalizer.worker import serve; serve()"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )

    def call(self, request: Any, time_limit: float) -> tuple[bool, Any]:
        """Whether the call succeeded, and its result or its exception."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        data = pickle.dumps(request)
        try:
            stdin.write(_SIZE.pack(len(data)) + data)
            stdin.flush()
        except OSError as error:
            raise WorkerError(f"the worker process ended: {self._last_words()}") from error
        deadline = time.monotonic() + time_limit
        (size,) = _SIZE.unpack(self._read(stdout, _SIZE.size, deadline, time_limit))
        reply = pickle.loads(self._read(stdout, size, deadline, time_limit))
        return bool(reply[0]), reply[1]

    def kill(self) -> None:
        """Ends the process at once; nothing happens if it has ended."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _read(self, stream: IO[bytes], size: int, deadline: float, time_limit: float) -> bytes:
        parts: list[bytes] = []
        while size:
            # Another thread may end the worker, which closes its streams, at any moment.
            try:
                left = max(0.0, deadline - time.monotonic())
                ready, _, _ = select.select([stream], [], [], left)
                part = os.read(stream.fileno(), min(size, 1 << 20)) if ready else b""
                words = "" if part or not ready else self._last_words()
            except (OSError, ValueError) as error:
                raise WorkerError("its process was ended") from error
            if not ready:
                raise WorkerError(f"it took more than {time_limit:g} seconds")
            if not part:
                raise WorkerError(f"the process that compiled it died: {words}")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _last_words(self) -> str:
        status = self._process.wait()
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").splitlines()
        return "\n".join([how, *lines[:_STDERR_LINES]])


def serve() -> None:
    """The worker's side: answers calls until its input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_LIMIT if most == resource.RLIM_INFINITY else min(MEMORY_LIMIT, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests = sys.stdin.buffer
    # Output of a called function must not get between the replies.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        header = requests.read(_SIZE.size)
        if len(header) < _SIZE.size:
            return
        function, args, kwargs = pickle.loads(requests.read(_SIZE.unpack(header)[0]))
        reply: tuple[bool, Any]
        try:
            reply = (True, function(*args, **kwargs))
            data = pickle.dumps(reply)
        except Exception as error:
            data = pickle.dumps((False, error))
        replies.write(_SIZE.pack(len(data)) + data)
        replies.flush()
