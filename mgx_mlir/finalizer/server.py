"""The process that workers are forked from: it imports what all of them need, once.

The parent asks over a socket, one request at a time:

    b"fork", with two files, the worker's socket and its standard error  ->  its process number
    b"end <number>"  ->  the status of that process, which is killed unless it has ended

The server ends its workers with itself, and itself where its parent hangs up or ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable

from mgx_mlir.finalizer.calls import answer_calls
from mgx_mlir.scan import import_modules

_PR_SET_PDEATHSIG = 1
# Longer than a request or an answer.
_MESSAGE = 64
# Seconds that the server has for ending its workers.
_END = 5.0
# Seconds between two looks whether an answer is waited for.
LOOK = 0.2


class ServerError(Exception):
    """The server has ended."""


class Server:
    """A server that imports `modules` at once, beside the work of this process.

    idle: it and its workers run where no other process wants to. goes_on: whether its answers
    are waited for.
    """

    def __init__(
        self,
        modules: Iterable[str] = (),
        idle: bool = False,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> None:
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket, theirs = map(_apart, pair)
        self._socket.settimeout(LOOK)
        self._goes_on = goes_on
        self._lock = threading.Lock()
        self._has_workers = False
        self.has_ended = False
        # A library's threads would not live on in a fork.
        # The parent's path, so that a source tree works as an installed package does.
        code = (
            "import os, sys; os.putenv('OPENBLAS_NUM_THREADS', '1')\n"
            f"sys.path[:] = {sys.path!r}\n"
            "from mgx_mlir.finalizer.server import serve\n"
            f"serve({theirs.fileno()}, {tuple(modules)!r}, {idle})"
        )
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fork(self, talk: int, errors: int) -> int:
        """Starts a worker that talks on the file `talk`: its number. Raises ServerError."""
        number = self._ask(lambda: socket.send_fds(self._socket, [b"fork"], [talk, errors]))
        self._has_workers = True
        return number

    def end(self, number: int) -> int:
        """The exit status of a worker, which is killed first, or minus a signal's number."""
        return self._ask(lambda: self._socket.send(b"end %d" % number))

    def close(self) -> None:
        """Ends the server and its workers at once. A second call does nothing."""
        self.has_ended = True
        # Without the lock: another thread may hold it, and wait for an answer.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._has_workers and self._process.returncode is None:
            self._wait()
        self._process.kill()
        self._process.wait()
        with self._lock:
            self._socket.close()

    def _wait(self) -> None:
        """Waits for the server's end, a while."""
        try:
            ended = os.pidfd_open(self._process.pid)
        except OSError:  # it has ended, or the system has no such descriptors
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END)
            return
        try:
            select.select([ended], [], [], _END)
        finally:
            os.close(ended)

    def _ask(self, send: Callable[[], object]) -> int:
        with self._lock:
            try:
                send()
                answer = self._answer()
            except OSError:
                answer = b""
        if not answer:
            raise ServerError("the process that starts workers has ended")
        return int(answer)

    def _answer(self) -> bytes:
        """The server's; none where nobody waits for it."""
        while self._goes_on():
            with contextlib.suppress(TimeoutError):
                return self._socket.recv(_MESSAGE)
        return b""


def _apart(one: socket.socket) -> socket.socket:
    """The socket under a number that is no standard stream's: those may be closed."""
    if one.fileno() > 2:
        return one
    with one:
        return socket.socket(fileno=fcntl.fcntl(one.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))


def serve(number: int, modules: Iterable[str], idle: bool) -> None:
    """The server's side: answers requests until its parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    if idle:
        _yield_to_others()
    for module in modules:
        with contextlib.suppress(Exception):  # a call that needs the module says so
            package = module.removesuffix(".*")
            (importlib.import_module if package == module else import_modules)(package)
    gc.freeze()  # no worker copies the pages of what is there
    workers: set[int] = set()
    with socket.socket(fileno=number) as parent:
        while True:
            request, files, _, _ = socket.recv_fds(parent, _MESSAGE, 2, socket.MSG_CMSG_CLOEXEC)
            if not request:
                break
            if files:
                answer = _forked(parent, *files)
                workers.add(answer)
            else:
                worker = int(request.split()[1])
                workers.remove(worker)
                answer = _ended(worker)
            with contextlib.suppress(OSError):  # the parent has ended
                parent.send(b"%d" % answer)
    for worker in workers:
        _ended(worker)
    os._exit(0)  # there is nothing to take apart


def _yield_to_others() -> None:
    """Gives this process, and those that it starts, the least priority."""
    with contextlib.suppress(OSError):
        os.nice(19)
    with contextlib.suppress(OSError, AttributeError):  # other systems than Linux have none
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _forked(parent: socket.socket, talk: int, errors: int) -> int:
    """Forks a worker: its process number."""
    server, process = os.getpid(), os.fork()
    if process:
        os.close(talk)
        os.close(errors)
        return process
    status = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != server:
            os._exit(status)
        parent.close()
        os.dup2(errors, 2)
        os.close(errors)
        # Output of a called function goes where errors go.
        os.dup2(2, 1)
        with socket.socket(fileno=talk) as calls:
            answer_calls(calls)
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def _ended(process: int) -> int:
    os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
