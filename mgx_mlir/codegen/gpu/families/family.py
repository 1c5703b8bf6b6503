"""The common part of families: from a kernel to its program, or to the reason of a refusal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias, TypeVar

from mlir import ir

from mgx_mlir.codegen.gpu.builders.function import signature, size_refusal
from mgx_mlir.codegen.gpu.builders.passes import expand_math
from mgx_mlir.codegen.gpu.builders.precision import narrow, relax
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.problem.match import through_reshapes
from mgx_mlir.rewriting.views import is_view

# The types of a kernel's inputs and of its results.
Types: TypeAlias = "tuple[Sequence[ir.Type], Sequence[ir.Type]]"


class Problem(Protocol):
    """A family's description of a kernel; `name` is the name of its anchor op."""

    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=Problem)


def anchor_of(kernel: ir.OpView, names: Collection[str]) -> ir.OpView | str:
    """The anchor op, one of `names`, of a kernel that holds nothing else but views.

    The kernel returns the op's results. Else why the kernel does not match; '' where it holds
    other work.
    """
    *ops, terminator = kernel.regions[0].blocks[0].operations
    anchors = [op for op in ops if op.operation.name in names]
    if len(anchors) != 1:
        return ""
    (anchor,) = anchors
    name, results = anchor.operation.name, list(anchor.operation.results)
    if any(op != anchor and not is_free(op) for op in ops):
        return f"{name}: work beside it"
    if [through_reshapes(value) for value in terminator.operation.operands] != results:
        return f"{name}: results that are views, or not all of them"
    if any(0 in result.type.shape for result in results):
        return f"{name}: no elements"
    return anchor


def is_free(op: ir.OpView) -> bool:
    """Whether an op costs nothing: a view, or a constant."""
    return is_view(op) or op.operation.name == "mgx.constant"


def program_of(
    kernel: ir.OpView,
    match: Callable[[ir.OpView], P | str],
    generate: Callable[[P, Types, str], tuple[GpuProgram, str] | str],
    together: bool = True,
) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel`, and its schedule in words; None, and why, without one.

    match: gives the problem of a kernel, or why it has none; '' where it holds other work.
    generate: gives the program and the schedule, or why there is none, from a problem, the
    kernel's types and its name. together: whether one function takes all of the kernel's
    tensors.
    """
    with kernel.context, kernel.location:
        problem = match(kernel)
        if isinstance(problem, str):
            return None, problem
        name, types = signature(kernel)
        reason = size_refusal([*types[0], *types[1]], together)
        made = reason or generate(problem, types, name)
        if isinstance(made, str):
            return None, f"{problem.name}: {made}"
        program, schedule = made
        if narrow(types[1]):
            relax(program.module)
        expand_math(program.module)
        return program, f"{problem.name}: {schedule}"
