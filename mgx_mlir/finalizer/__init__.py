"""Finalizing: portable kernels to code objects, for any number of targets at once.

    found = finalize_all(artifact.kernels, [Target.get("gfx942"), Target.get("gfx1100")])
    found["gfx942"][3]     # the code object of kernel 3

A backend is chosen by the target's kind. Equal kernels are finalized once, in parallel, and
taken from the cache where it has them.
"""

from __future__ import annotations

import functools
import logging
import shlex
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.schedule import Tuned
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import CompilerError, MgxError
from mgx_mlir.finalizer.backends import MODULES, Compiler, backend_of
from mgx_mlir.finalizer.build import build_id
from mgx_mlir.finalizer.cache import Cache, cache_key
from mgx_mlir.finalizer.server import Server
from mgx_mlir.finalizer.worker import WorkerError, WorkerPool
from mgx_mlir.text import name_text

if TYPE_CHECKING:
    from mgx_mlir.artifact.contents import PortableKernel

_log = logging.getLogger(__name__)

# Seconds for one kernel, all its targets together.
TIME_LIMIT = 300.0
# Seconds that an interrupt leaves to a kernel.
_GRACE = 5.0
# Less work than this is not worth starting processes.
FEW = 2

# Kernels that are read into one context.
_CONTEXT_USES = 32

# The words of a code object's `why` where its tuned schedule was not legal.
NOT_USED = "the tuned schedule is not used"

# Schedules by the target's identity, and then by the kernel's hash.
Tuning = Mapping[str, Mapping[str, Tuned]]

# (the work under way, how many are done, of how many)
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Workers:
    """The processes that finalize kernels: `jobs` of this machine, or those of `executor`.

    A kernel that takes longer than `time_limit` seconds fails. An executor (Dask's, for a farm of
    machines) keeps its own time limits, and sees to it that bytes that crash MLIR's reader are an
    error. Processes of this machine are forks of `server` where it was started before.
    """

    jobs: int = 1
    executor: Executor | None = None
    time_limit: float = TIME_LIMIT
    server: Server | None = None


def server_for(targets: Sequence[Target]) -> Server:
    """A server of workers that imports what finalizing for the targets needs."""
    kinds = dict.fromkeys(target.kind for target in targets)
    return Server(dict.fromkeys(module for kind in kinds for module in MODULES.get(kind, ())))


# Contexts of MLIR that no kernel is in, and how many were: all load the same dialects, which takes
# a tenth of the time of a small kernel.
_free_contexts: list[tuple[Any, int]] = []


@contextmanager
def _context() -> Iterator[Any]:
    """A context for one kernel; a later one may have it where this one did not fail."""
    from mgx_mlir.dialects import context

    try:
        own, uses = _free_contexts.pop()
    except IndexError:
        own, uses = context(), 0
    yield own
    # A context keeps every type and constant that it has seen.
    if uses + 1 < _CONTEXT_USES:
        _free_contexts.append((own, uses + 1))


def finalize_kernel(bytecode: bytes, target: Target) -> CodeObject:
    """The code object of one stored kernel for one target.

    A pure function of picklable values: the same arguments give the same bytes. Raises
    ArtifactError for bytes that are no portable kernel, UnsupportedError or CompilerError
    for one that cannot be compiled.
    """
    return finalize_kernel_for(bytecode, (target,))[0]


def finalize_kernel_for(
    bytecode: bytes,
    targets: Sequence[Target],
    tuned: Mapping[str, Tuned] = MappingProxyType({}),
) -> list[CodeObject]:
    """The code objects of one stored kernel for several targets.

    `tuned` has schedules by the target's identity; one that is not legal is not used, and the
    code object's `why` says so. The kernel is read once and, for targets of one kind, lowered
    once. See finalize_kernel.
    """
    from mgx_mlir.rewriting.portable import read_kernel, required_features, with_interface

    with _context() as context:
        module, kernel = read_kernel(bytecode, context)
        features = required_features(kernel)
        compilers: dict[str, Compiler] = {}
        found = []
        for target in targets:
            try:
                if target.kind not in compilers:
                    compilers[target.kind] = backend_of(target)(kernel)
                code = _scheduled(compilers[target.kind], target, tuned.get(target.identity))
            except MgxError as error:
                raise type(error)(f"for {target.word}: {error}") from error
            lacking = ", ".join(sorted(features - target.features))
            why = f"{target.word} lacks {lacking}: computed in other types" if lacking else ""
            why = "; ".join(filter(None, (code.why, why)))
            found.append(with_interface(replace(code, arch=target.identity, why=why), kernel))
        del module  # kept until here: the kernel lives in it
    return found


def _scheduled(compile_for: Compiler, target: Target, tuned: Tuned | None) -> CodeObject:
    """The code by a tuned schedule, if there is one and it is legal."""
    if tuned is None or target.kind != "gpu":
        return compile_for(target)
    from mgx_mlir.codegen.choice import steered

    try:
        with steered(tuned.schedule):
            code = compile_for(target)
    except MgxError as error:
        code, source = compile_for(target), f"{NOT_USED}: {error}"
    else:
        source = tuned.describe()
    return replace(code, why="; ".join(filter(None, (code.why, source))))


def timed_finalize(
    bytecode: bytes, targets: Sequence[Target], tuned: Mapping[str, Tuned]
) -> tuple[float, list[CodeObject]]:
    """finalize_kernel_for, with the seconds that it took in its process."""
    started = time.perf_counter()
    found = finalize_kernel_for(bytecode, targets, tuned)
    return time.perf_counter() - started, found


def finalize_all(
    kernels: Sequence[PortableKernel],
    targets: Sequence[Target],
    workers: Workers = Workers(),
    *,
    cache: Cache | None = None,
    progress: Progress | None = None,
    times: dict[str, float] | None = None,
    tuned: Tuning = MappingProxyType({}),
) -> dict[str, list[CodeObject]]:
    """The code objects of all kernels, in order, by the identity of the target.

    `tuned` has the schedules of kernels that were tuned; others are chosen by estimate. `times`
    gets the seconds of each kernel that was finalized, by its name.

    A few kernels that this process made are finalized in this process. Kernels read from a file
    always get a process of their own, so that bytes that crash MLIR's reader are an error. Raises
    CompilerError naming the kernel, its ONNX nodes, the target and the failing pass; its
    reproducer lies in the system's folder for temporary files.
    """
    jobs, limit = workers.jobs, workers.time_limit
    run = _Run(kernels, targets, cache, progress, times, tuned)
    run.look_up()
    tasks = run.tasks()
    names = ", ".join(target.word for target in targets)
    _log.info("%d of %d kernels are to be finalized for %s", len(tasks), len(kernels), names)
    if not tasks:
        return run.result()
    trusted = not any(task.kernel.from_file for task in tasks)
    if workers.executor is None and trusted and (jobs <= 1 or len(tasks) <= FEW):
        for task in tasks:
            run.finish(task, functools.partial(_in_thread, task, limit))
        return run.result()
    with _pool(workers, targets, len(tasks)) as pool:
        futures: dict[Future[Any], _Task] = {
            pool.submit(timed_finalize, task.kernel.bytecode, task.targets, task.tuned): task
            for task in tasks
        }
        # Not as_completed: an interrupt in it may leave a future's lock taken for ever.
        done: SimpleQueue[Future[Any]] = SimpleQueue()
        try:
            for future in futures:
                future.add_done_callback(done.put)
            for _ in futures:
                future = done.get()
                run.finish(futures[future], future.result)
        except BaseException:
            for future in futures:
                future.cancel()
            raise
    return run.result()


@dataclass(frozen=True)
class _Task:
    """One distinct kernel, the targets that lack it, and its schedules by target."""

    kernel: PortableKernel
    targets: tuple[Target, ...]
    tuned: Mapping[str, Tuned]


class _Run:
    """The results of one call of finalize_all so far, by kernel hash and target."""

    def __init__(
        self,
        kernels: Sequence[PortableKernel],
        targets: Sequence[Target],
        cache: Cache | None,
        progress: Progress | None,
        times: dict[str, float] | None,
        tuned: Tuning,
    ) -> None:
        self._kernels, self._targets = kernels, targets
        self._cache, self._progress, self._times = cache, progress, times
        self._tuned = {
            (digest, identity): one
            for identity, found in tuned.items()
            for digest, one in found.items()
        }
        self._distinct = {kernel.sha256: kernel for kernel in kernels}
        self._found: dict[tuple[str, str], CodeObject] = {}

    def look_up(self) -> None:
        """Takes from the cache the code objects that it has."""
        if self._cache is not None:
            for kernel in self._distinct.values():
                for target in self._targets:
                    code = self._cache.get(self._key(kernel, target))
                    if code is not None:
                        self._found[kernel.sha256, target.identity] = code
        self._report()

    def tasks(self) -> list[_Task]:
        """The tasks left to do; the largest kernels first, so that none is left for the end."""
        tasks = []
        for digest, kernel in self._distinct.items():
            missing = [t for t in self._targets if (digest, t.identity) not in self._found]
            names = [t.identity for t in missing if (digest, t.identity) in self._tuned]
            tuned = {name: self._tuned[digest, name] for name in names}
            if missing:
                tasks.append(_Task(kernel, tuple(missing), tuned))
        return sorted(tasks, key=lambda task: -len(task.kernel.bytecode))

    def finish(self, task: _Task, result: Callable[[], tuple[float, list[CodeObject]]]) -> None:
        """Keeps the result of a task; raises for a kernel that failed, naming it."""
        try:
            seconds, found = result()
        except (MgxError, WorkerError) as error:
            raise self._failure(task, error) from error
        _log.debug("%s finalized: %.1f ms", task.kernel.name, seconds * 1e3)
        if self._times is not None:
            self._times[task.kernel.name] = seconds
        for target, code in zip(task.targets, found, strict=True):
            self._found[task.kernel.sha256, target.identity] = code
            if NOT_USED in code.why:
                _log.warning("kernel %s for %s: %s", task.kernel.name, target.word, code.why)
            if self._cache is not None:
                self._cache.put(self._key(task.kernel, target), code)
        self._report()

    def result(self) -> dict[str, list[CodeObject]]:
        return {
            target.identity: [self._found[k.sha256, target.identity] for k in self._kernels]
            for target in self._targets
        }

    def _key(self, kernel: PortableKernel, target: Target) -> str:
        tuned = self._tuned.get((kernel.sha256, target.identity))
        schedule = () if tuned is None else (repr(tuned),)
        return cache_key(kernel.sha256, target.identity, build_id(), *schedule)

    def _report(self) -> None:
        if self._progress is not None and self._distinct:
            names = ", ".join(target.word for target in self._targets)
            total = len(self._distinct) * len(self._targets)
            self._progress(f"finalizing for {names}", len(self._found), total)

    def _failure(self, task: _Task, error: Exception) -> MgxError:
        kernel = task.kernel
        nodes = f" (ONNX nodes {', '.join(map(name_text, kernel.nodes))})" if kernel.nodes else ""
        path = _write_reproducer(kernel)
        names = ",".join(target.word for target in task.targets)
        command = shlex.join(
            [sys.executable, "-m", "mgx_mlir.finalizer", str(path), "--arch", names]
        )
        kind = type(error) if isinstance(error, MgxError) else CompilerError
        return kind(f"kernel {kernel.name}{nodes} {error}\nreproduce with: {command}")


@contextmanager
def _pool(workers: Workers, targets: Sequence[Target], tasks: int) -> Iterator[Executor]:
    """The caller's executor, which stays open, or one of our own."""
    if workers.executor is not None:
        yield workers.executor
        return
    server = workers.server
    if server is None or server.has_ended:  # one pool ends it: an artifact before had it
        server = server_for(targets)
    with WorkerPool(min(max(workers.jobs, 1), tasks), workers.time_limit, server) as pool:
        yield pool


def _in_thread(task: _Task, time_limit: float) -> tuple[float, list[CodeObject]]:
    """Runs a task in this process, in a thread that is left behind when it takes too long."""
    outcome: list[Any] = []
    ended = threading.Event()  # not Thread.join, which counts the thread as ended after Ctrl-C

    def run() -> None:
        try:
            bytecode = task.kernel.bytecode
            outcome.extend((True, timed_finalize(bytecode, task.targets, task.tuned)))
        except BaseException as error:
            outcome.extend((False, error))
        ended.set()

    try:
        threading.Thread(target=run, name="mgx-finalize", daemon=True).start()
        ended.wait(time_limit)
    except BaseException:  # Ctrl-C: a process that ended while MLIR works would abort
        ended.wait(_GRACE)
        raise
    if not outcome:
        raise WorkerError(f"it took more than {time_limit:g} seconds")
    if outcome[0]:
        found: tuple[float, list[CodeObject]] = outcome[1]
        return found
    raise outcome[1]


def _write_reproducer(kernel: PortableKernel) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="mgx-"))
    path = folder / f"{''.join(c if c.isalnum() else '_' for c in kernel.name)}.mlirbc"
    path.write_bytes(kernel.bytecode)
    return path
