"""Processes of servers, which tests start and stop."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

# Seconds that a server may take to start, on a machine that has other work.
STARTS = 300.0


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens to."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def started(
    command: Sequence[Any],
    log: Path,
    is_ready: Callable[[], bool],
    environment: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """A server while it is needed; its children end with it. Its output goes to `log`."""
    psutil = __import__("psutil")
    with log.open("w") as stream:
        process = subprocess.Popen(
            [str(word) for word in command], stdout=stream, stderr=stream, env=environment,
            start_new_session=True,
        )  # fmt: skip
    try:
        until = time.monotonic() + STARTS
        while not is_ready():
            assert process.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.5)
        yield
    finally:
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()
        process.kill()
        process.wait()


def rate(ask: Callable[[int], Any], count: int, pool: Any) -> float:
    """Requests a second, asked by the threads of a pool."""
    started_at = time.perf_counter()
    list(pool.map(ask, range(count)))
    return count / (time.perf_counter() - started_at)
