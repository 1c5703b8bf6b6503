"""The schedules that databases have for the kernels of a program: the user's first, then the
system's; times measured on a GPU before modelled ones."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path

from mgx_mlir.artifact.contents import PortableKernel
from mgx_mlir.artifact.schedule import Origin, Tuned
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import MgxError, UserError
from mgx_mlir.finalizer.build import generator_id, llvm_version
from mgx_mlir.finalizer.worker import WorkerError, WorkerPool
from mgx_mlir.settings import Settings
from mgx_mlir.trust import check_own_folder, owner_fault
from mgx_mlir.tuning.database import NAME, Database
from mgx_mlir.tuning.record import Key

_log = logging.getLogger(__name__)

READ_LIMIT = 60.0
# Seconds that a database may take for an answer: without it there is the estimate.
_PATIENCE = 5.0


def key_of(problem: str, target: Target, modelled: bool, units: int | None = None) -> Key:
    """The key of a problem's record for this compiler."""
    units = target.compute_units if units is None else units
    return Key(problem, target.identity, units, generator_id(), llvm_version(), modelled)


def tuned_schedules(
    kernels: Sequence[PortableKernel], targets: Sequence[Target], settings: Settings
) -> dict[str, dict[str, Tuned]]:
    """By the identity of each target, the schedules of kernels by their hashes.

    A kernel whose untuned choice won, or that no database knows, has none. Never fails: databases
    that cannot be read are said and left out.
    """
    found: dict[str, dict[str, Tuned]] = {}
    with ExitStack() as stack:
        databases = [
            (origin, stack.enter_context(database)) for origin, database in _databases(settings)
        ]
        known = set().union(*(database.chips() for _, database in databases))
        wanted = {t: units for t in targets if (units := _units(t, known))}
        if not wanted:
            return {}
        for digest, problem in _problems(kernels, databases, settings).items():
            for target, units in wanted.items():
                tuned = _best(problem, target, units, databases)
                if tuned is not None:
                    found.setdefault(target.identity, {})[digest] = tuned
    return found


def _units(target: Target, known: set[tuple[str, int]]) -> list[int]:
    """The numbers of compute units that databases have records of: the target's own first, then
    the larger ones. A chip has smaller products, and HIP counts RDNA's compute units in pairs."""
    numbers = (units for chip, units in known if chip == target.identity)
    return sorted(numbers, key=lambda units: (units != target.compute_units, -units))


def _best(
    problem: str,
    target: Target,
    numbers: Sequence[int],
    databases: Sequence[tuple[Origin, Database]],
) -> Tuned | None:
    for modelled, units, (origin, database) in product((False, True), numbers, databases):
        record = database.get(key_of(problem, target, modelled, units))
        if record is not None:
            schedule = record.schedule
            return None if schedule is None else Tuned(schedule, origin, modelled)
    return None


def _databases(settings: Settings) -> Iterator[tuple[Origin, Database]]:
    """The databases that are there and that this user trusts."""
    folders: list[tuple[Origin, Path | None]] = [
        ("user", settings.cache_dir),
        ("system", settings.cache_shared),
    ]
    for origin, folder in folders:
        if folder is None:
            continue
        try:
            if not (folder / NAME).exists():
                continue
            if origin == "user":
                check_own_folder(folder)
            else:
                _check_shared(folder)
            yield origin, Database(folder, patience=_PATIENCE)
        except (OSError, UserError) as error:
            _log.warning("the %s's tuning database is not used: %s", origin, error)


def _check_shared(folder: Path) -> None:
    for path in (folder, folder / NAME):
        fault = owner_fault(path, path.stat(), (0, os.geteuid()))
        if fault:
            raise UserError(fault)


def _problems(
    kernels: Sequence[PortableKernel],
    databases: Sequence[tuple[Origin, Database]],
    settings: Settings,
) -> dict[str, str]:
    """The keys of the kernels' problems, by the kernels' hashes."""
    found: dict[str, str] = {}
    unknown: dict[str, PortableKernel] = {}
    for kernel in kernels:
        keys = (database.problem(kernel.sha256) for _, database in databases)
        key = next(filter(None, keys), None)
        if key is None:
            unknown[kernel.sha256] = kernel
        else:
            found[kernel.sha256] = key
    found |= (new := dict(_examined(unknown)))
    if new and settings.cache_dir is not None:
        with (
            contextlib.suppress(UserError),
            Database(settings.cache_dir, write=True, patience=_PATIENCE) as database,
        ):
            for digest, key in new.items():
                database.put_problem(digest, key)
    return found


def _examined(kernels: dict[str, PortableKernel]) -> Iterator[tuple[str, str]]:
    """Kernels of a file are read in a process of their own: they may be anybody's."""
    if not kernels:
        return
    from mgx_mlir.tuning.problem import problem_of_bytecode  # loads MLIR

    with ExitStack() as stack:
        pool: WorkerPool | None = None
        for digest, kernel in kernels.items():
            try:
                if not kernel.from_file:
                    yield digest, problem_of_bytecode(kernel.bytecode).key
                    continue
                pool = pool or stack.enter_context(WorkerPool(1, READ_LIMIT))
                yield digest, pool.submit(problem_of_bytecode, kernel.bytecode).result().key
            except (MgxError, WorkerError):
                continue  # finalizing says so
