"""Tuning on many machines: Dask's workers finalize candidates, and those with a device time them.

    dask scheduler
    dask worker tcp://HOST:8786 --nworkers 4 --nthreads 1                           # finalizes
    dask worker tcp://HOST:8786 --nworkers 1 --nthreads 1 --resources gfx942=1      # has a device
    mgx tune model.onnx --target gfx942 --scheduler tcp://HOST:8786

A problem is a task of one device's worker; its candidates are tasks of any worker, through the
interface of concurrent.futures. Kernels are finalized and run in processes of the workers, so that
one that crashes or hangs ends none. What a lost worker had is done again by another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import as_completed
from functools import cache
from typing import Any

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.schedule import Schedule
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import UserError
from mgx_mlir.finalizer.build import generator_id
from mgx_mlir.finalizer.worker import WorkerPool
from mgx_mlir.settings import Settings
from mgx_mlir.tuning.measure import Where
from mgx_mlir.tuning.record import Record
from mgx_mlir.tuning.search import COMPILE_LIMIT, Bench, Failure, Task, search
from mgx_mlir.tuning.work import candidate

# How often a task is given to another worker after it failed, or its worker was lost.
RETRIES = 20


class Farm:
    """The workers of a Dask scheduler. See search.Machine."""

    def __init__(self, scheduler: str, target: Target, settings: Settings) -> None:
        """Raises UserError without Dask, and where no scheduler answers."""
        try:
            from distributed import Client
        except ImportError as error:
            raise UserError("--scheduler needs Dask: pip install 'mgx-mlir[farm]'") from error
        try:
            self._client = Client(scheduler, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            raise UserError(f"no scheduler of Dask answers at {scheduler}: {error}") from error
        self._target, self._settings = target, settings
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        if not any(target.name in worker["resources"] for worker in workers):
            self.close()
            raise UserError(
                f"no worker at {scheduler} has a {target.name}; start one where the device is: "
                f"dask worker {scheduler} --nthreads 1 --resources {target.name}=1"
            )
        # A device's worker has one problem at a time.
        self._devices = self._client.get_executor(
            resources={target.name: 1}, retries=RETRIES, pure=False
        )

    def where(self) -> Where:
        found: Where = self._devices.submit(_where, self._target, self._settings).result()
        return found

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Record | Failure | None]]:
        """The results, as they come."""
        futures = {self._submitted(task): task for task in tasks}
        while futures:
            again = {}
            for future in as_completed(futures):
                task = futures[future]
                try:
                    yield task, future.result()
                except _killed() as error:
                    # Dask gives up a task that several workers were lost with.
                    if task.attempt >= RETRIES:
                        yield task, Failure(str(error))
                    else:
                        again[self._submitted(task.again())] = task.again()
            futures = again

    def close(self) -> None:
        """Leaves the scheduler and its workers as they are."""
        self._client.close()

    def _submitted(self, task: Task) -> Any:
        return self._devices.submit(_search, task, self._settings)


def _killed() -> type[Exception]:
    from distributed.scheduler import KilledWorker

    found: type[Exception] = KilledWorker
    return found


def _where(target: Target, settings: Settings) -> Where:
    return _bench(target, settings).where()


def _search(task: Task, settings: Settings) -> Record | Failure | None:
    """A problem, on the worker of a device. Its candidates go to all workers."""
    from distributed import worker_client

    if task.key.generator != generator_id():
        return Failure("a worker has another version of mgx-mlir; install the same one everywhere")
    bench = _bench(task.target, settings)
    with worker_client() as client:
        return search(task, bench, client.get_executor(retries=RETRIES, pure=False), finalized)


@cache
def _bench(target: Target, settings: Settings) -> Bench:
    """The process of this worker's device."""
    return Bench(target, settings)


@cache
def _pool() -> WorkerPool:
    """The process of this worker that finalizes."""
    return WorkerPool(1, COMPILE_LIMIT)


def finalized(bytecode: bytes, target: Target, schedule: Schedule | None) -> CodeObject:
    """As work.candidate, in a process of this worker."""
    found: CodeObject = _pool().submit(candidate, bytecode, target, schedule).result()
    return found
