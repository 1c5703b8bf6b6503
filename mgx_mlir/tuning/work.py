"""The problems of a program that have several schedules, and code of a kernel by one of them.

The functions are called in worker processes: kernels of a file are anybody's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.plan import Step
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.schedule import Schedule
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.choice import steered
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.codegen.gpu.space import Space, space_of
from mgx_mlir.rewriting.portable import read_kernel, with_interface
from mgx_mlir.tuning.problem import Problem, problem_of


@dataclass(frozen=True)
class Work:
    """A problem of a program: the bytes of its first kernel, and all its kernels by their hashes.

    count: launches of them in one run. clocks: the estimate for all of these.
    """

    problem: Problem
    space: Space
    bytecode: bytes
    kernels: tuple[str, ...]
    names: tuple[str, ...]
    count: int

    @property
    def clocks(self) -> float:
        return self.count * self.space.options[0].clocks


def launches(artifact: Artifact) -> dict[str, int]:
    """The launches of each kernel, by the kernel's hash, where each step of the plan runs once."""
    found: dict[str, int] = {}
    for plan in artifact.plan.plans:
        for step in plan.work():
            if isinstance(step, Step) and step.kernel >= 0:
                digest = artifact.kernels[step.kernel].sha256
                found[digest] = found.get(digest, 0) + 1
    return found


def grouped(
    artifact: Artifact, examined: Sequence[tuple[str, Problem, Space | None]]
) -> list[Work]:
    """The problems of the kernels by their estimates, the costly ones first."""
    counts = launches(artifact)
    kernels = {kernel.sha256: kernel for kernel in artifact.kernels}
    found: dict[str, Work] = {}
    for digest, problem, space in examined:
        if space is None:
            continue
        kernel, count = kernels[digest], counts.get(digest, 0)
        one = found.get(problem.key)
        if one is None:
            names = (kernel.name,)
            found[problem.key] = Work(problem, space, kernel.bytecode, (digest,), names, count)
        else:
            found[problem.key] = replace(
                one,
                kernels=(*one.kernels, digest),
                names=(*one.names, kernel.name),
                count=one.count + count,
            )
    return sorted(found.values(), key=lambda work: (-work.clocks, work.problem.key))


def examine(bytecode: bytes, target: Target) -> tuple[Problem, Space | None]:
    """The problem of a stored kernel, and its schedules. Raises as read_kernel does."""
    module, kernel = read_kernel(bytecode)
    problem = problem_of(kernel)
    found = problem, space_of(kernel, target) if problem.inputs or problem.outputs else None
    del module  # kept until here: the kernel lives in it
    return found


def candidate(bytecode: bytes, target: Target, schedule: Schedule | None) -> CodeObject:
    """The code of a stored kernel by a schedule; None for the untuned one.

    Raises ScheduleError where it is not legal or spills registers, and what finalize_kernel raises.
    """
    _, kernel, compile_for = _read(bytecode)
    with steered(schedule):
        code: CodeObject = compile_for(target)
    return with_interface(replace(code, arch=target.identity), kernel)


@lru_cache(maxsize=4)
def _read(bytecode: bytes) -> tuple[Any, Any, Any]:
    """The module, which the kernel lives in, the kernel and its compiler."""
    module, kernel = read_kernel(bytecode)
    return module, kernel, compiler(kernel)
