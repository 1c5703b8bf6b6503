"""A cluster of Dask on this machine, for tests and benchmarks of the farm."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path


class Cluster:
    """A scheduler and workers, each a process, that a file tells one another of."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []
        self._start("dask_scheduler", "--port", "0", "--no-dashboard")
        deadline = time.monotonic() + 60
        while not self.file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def worker(self, *words: str) -> subprocess.Popen[bytes]:
        return self._start("dask_worker", "--no-nanny", "--no-dashboard", "--nthreads", "1", *words)

    def _start(self, module: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{module}", *words]
        command += ["--scheduler-file", str(self.file)]
        environment = {**os.environ, "MGX_HIP": "emulated"}
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def address(self, workers: int) -> str:
        """The scheduler's address, when so many workers are there."""
        from distributed import Client

        with Client(scheduler_file=str(self.file), set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=120)
            return str(client.scheduler.address)

    def close(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()
