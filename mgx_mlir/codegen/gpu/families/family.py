"""The common part of families: from a kernel to its program, or to the reason of a refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, overload

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.function import signature, size_refusal
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.problem.match import through_reshapes
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.views import is_view

# The types of a kernel's inputs and of its results.
Types: TypeAlias = "tuple[Sequence[ir.Type], Sequence[ir.Type]]"


@dataclass(frozen=True)
class Family:
    """A family of kernels: one that takes a kernel gives its program and the schedule in words.

    A module of `families`, or of `dynamic` for kernels whose sizes are arguments, has one as
    `FAMILY`; no list names it again. The family of the least `priority` is asked first. `program`
    gives a Refusal for a kernel of its kind that it does not take, and None for other kernels.
    """

    name: str
    priority: int
    program: Callable[[mgx.KernelOp, Target], Generated[Any] | Refusal | None]


class Problem(Protocol):
    """A family's description of a kernel; `name` is the name of its anchor op."""

    @property
    def name(self) -> str: ...


class Schedule(Protocol):
    """How a program computes a problem."""

    def describe(self) -> str:
        """The schedule in words."""
        ...


P = TypeVar("P", bound=Problem)
S = TypeVar("S", bound=Schedule)
A = TypeVar("A", bound=ir.OpView)
B = TypeVar("B", bound=ir.OpView)


@overload
def anchor_of(
    kernel: mgx.KernelOp, first: type[A], second: type[B], /
) -> A | B | Refusal | None: ...


@overload
def anchor_of(
    kernel: mgx.KernelOp, *classes: type[A], beside: Callable[[ir.OpView], bool] = ...
) -> A | Refusal | None: ...


def anchor_of(
    kernel: mgx.KernelOp,
    *classes: type[ir.OpView],
    beside: Callable[[ir.OpView], bool] = lambda op: is_free(op),
) -> ir.OpView | Refusal | None:
    """The anchor op, one of `classes`, of a kernel that holds nothing else but views.

    The kernel returns the op's results. None where it holds other work. beside: tells other ops
    that the anchor's code takes in.
    """
    *ops, terminator = kernel.regions[0].blocks[0].operations
    anchors = [op for op in ops if isinstance(op, classes)]
    if len(anchors) != 1:
        return None
    (anchor,) = anchors
    name, results = anchor.operation.name, list(anchor.results)
    if any(op != anchor and not beside(op) for op in ops):
        return Refusal(f"{name}: work beside it")
    if [through_reshapes(value) for value in terminator.operands] != results:
        return Refusal(f"{name}: results that are views, or not all of them")
    if any(0 in ir.RankedTensorType(result.type).shape for result in results):
        return Refusal(f"{name}: no elements")
    return anchor


def is_free(op: ir.OpView) -> bool:
    """Whether an op costs nothing: a view, or a constant."""
    return is_view(op) or isinstance(op, mgx.ConstantOp)


@dataclass(frozen=True)
class Matched(Generic[P]):
    """The programs of a family: `match` gives a kernel's problem, and `generate` its program."""

    match: Callable[[mgx.KernelOp], P | Refusal | None]
    generate: Callable[[mgx.KernelOp, P, Target], Generated[Any] | Refusal]

    def __call__(self, kernel: mgx.KernelOp, target: Target) -> Generated[Any] | Refusal | None:
        """The program, and its schedule in words; None where the kernel holds other work."""
        with kernel.context, kernel.location:
            problem = self.match(kernel)
            if problem is None or isinstance(problem, Refusal):
                return problem
            return self.generate(kernel, problem, target).of(problem.name)


@dataclass(frozen=True)
class Scheduled(Generic[P, S]):
    """The programs of a family whose problems are computed by a schedule.

    choose: gives the best schedule of a problem for a chip, None where none fits. generate: gives
    the program from a problem, the kernel's types, a schedule, the chip, and the kernel's name.
    match and together: as for `program_of`.
    """

    match: Callable[[mgx.KernelOp], P | Refusal | None]
    choose: Callable[[P, Target], S | None]
    generate: Callable[[P, Types, S, Target, str], GpuProgram]
    together: bool = True

    def __call__(
        self, kernel: mgx.KernelOp, target: Target, schedule: S | None = None
    ) -> Generated[GpuProgram] | Refusal | None:
        """The program by `schedule`, or else by the best one, and the schedule in words."""

        def made(problem: P, types: Types, name: str) -> Generated[GpuProgram] | Refusal:
            chosen = schedule or self.choose(problem, target)
            if chosen is None:
                return Refusal(f"no schedule fits {target.name}")
            program = self.generate(problem, types, chosen, target, name)
            return Generated(program, chosen.describe())

        return program_of(kernel, self.match, made, self.together)


def program_of(
    kernel: mgx.KernelOp,
    match: Callable[[mgx.KernelOp], P | Refusal | None],
    generate: Callable[[P, Types, str], Generated[GpuProgram] | Refusal],
    together: bool = True,
) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel`, and its schedule in words; None where it holds other work.

    match: gives the problem of a kernel. generate: gives the program and the schedule from a
    problem, the kernel's types and its name. together: whether one function takes all of the
    kernel's tensors.
    """
    with kernel.context, kernel.location:
        problem = match(kernel)
        if problem is None or isinstance(problem, Refusal):
            return problem
        name, types = signature(kernel)
        refusal = size_refusal([*types[0], *types[1]], together)
        made = refusal or generate(problem, types, name)
        return made.of(problem.name)
