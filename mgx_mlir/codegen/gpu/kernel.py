"""An `mgx.kernel` as GPU code: the part common to all chips, and the part of one chip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.choice import steering
from mgx_mlir.codegen.gpu.builders.binary import code_object
from mgx_mlir.codegen.gpu.builders.precision import relax
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.gpu.loops import loops_program
from mgx_mlir.codegen.gpu.repeat import repeat_program
from mgx_mlir.codegen.loops.kernel import is_symbolic
from mgx_mlir.codegen.meaning.native import native_floats
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ScheduleError
from mgx_mlir.rewriting.kernel_loops import has_loop
from mgx_mlir.scan import definitions

# The families, those that are asked first in front.
_ALL = sorted(
    definitions("mgx_mlir.codegen.gpu.families", "FAMILY"), key=lambda family: family.priority
)
FAMILIES: tuple[Family, ...] = tuple(family for family in _ALL if family.given)
SYMBOLIC_FAMILIES: tuple[Family, ...] = tuple(family for family in _ALL if family.symbolic)


# Fractions of the registers that a family's schedules may use. The next one is tried where the
# code spills registers: each try makes one more code object.
REGISTER_SHARES = (1.0, 0.75, 0.5)


# A kernel's functions, and their code; what makes it of them.
Chosen = tuple[GpuProgram, CodeObject]
Compile = Callable[[GpuProgram, Target], CodeObject]


def compiler(kernel: mgx.KernelOp) -> Callable[[Target], CodeObject]:
    """The function that compiles a kernel for each chip that it is given. See `chooser`."""
    choose = chooser(kernel)
    return lambda target: choose(target)[1]


def chooser(kernel: mgx.KernelOp, compiled: Compile = code_object) -> Callable[[Target], Chosen]:
    """The function that chooses a kernel's program for each chip that it is given.

    The first family that takes the kernel compiles it, with its best schedule that spills no
    registers. Otherwise the generic path does, for which the kernel is lowered once. Raises
    UnsupportedError or CompilerError, and inside of `choice.steered` ScheduleError where no family
    has the wanted schedule, or it spills registers.
    """
    symbolic = is_symbolic(kernel)
    loop = has_loop(kernel)
    families = () if loop else SYMBOLIC_FAMILIES if symbolic else FAMILIES
    lowered = cache(partial(_any_program, kernel))

    def choose(target: Target) -> Chosen:
        refusals: list[str] = []
        for family in families:
            chosen = _of_family(family, kernel, target, refusals, compiled)
            if chosen is not None:
                return chosen
        if way := steering():
            raise ScheduleError("; ".join([f"no schedule '{way.schedule}' here", *refusals]))
        path = "all trips in one kernel" if loop else "generic path"
        refusals.append(f"sizes are arguments: {path}" if symbolic else path)
        program = lowered()
        return program, replace(compiled(program, target), why="; ".join(refusals))

    return choose


def _any_program(kernel: mgx.KernelOp) -> GpuProgram:
    """The program that every kernel has."""
    if has_loop(kernel):
        return repeat_program(kernel)
    made = loops_program(kernel)
    relax(kernel, made.module)
    return made


def _of_family(
    family: Family, kernel: mgx.KernelOp, target: Target, refusals: list[str], compiled: Compile
) -> Chosen | None:
    """A family's program of a kernel; None where it has none, with new `refusals` of its own."""
    tried, way = "", steering()
    for share in REGISTER_SHARES:
        if way is not None:
            way.found.clear()
        with native_floats(target.features):
            made = family.program(kernel, replace(target, register_share=share))
        if made is None:
            return None
        if isinstance(made, Refusal):
            refusals.append(made.reason)
            return None
        if not made.program.is_readable:
            refusals.append(f"{made.schedule} has formulas that are too long")
            return None
        if made.schedule == tried or (way is not None and not way.met):
            continue
        relax(kernel, made.program.module)
        code = compiled(made.program, target)
        if not any(x["vgpr_spills"] or x["scratch_bytes"] for x in code.stats.values()):
            return made.program, replace(code, why="; ".join([*refusals, made.schedule]))
        refusals.append(f"{made.schedule} would spill registers")
        tried = made.schedule
    return None
