"""The common part of families: from a kernel to its program, or to the reason of a refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.function import signature, size_refusal
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.loops.kernel import is_symbolic
from mgx_mlir.codegen.problem.match import through_reshapes
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import multiples, shape_of
from mgx_mlir.rewriting.views import is_view
from mgx_mlir.sizes.arithmetic import Number, Size, is_more, symbols

# The types of a kernel's inputs and of its results.
Types: TypeAlias = "tuple[Sequence[ir.Type], Sequence[ir.Type]]"


@dataclass(frozen=True)
class Family:
    """A family of kernels: one that takes a kernel gives its program and the schedule in words.

    A module of `families` has one as `FAMILY`; no list names it again. The family of the least
    `priority` is asked first. `program` gives a Refusal for a kernel of its kind that it does not
    take, and None for other kernels. Only a `symbolic` one is asked for kernels with symbolic
    sizes, and only a `given` one for others.
    """

    name: str
    priority: int
    program: Callable[[mgx.KernelOp, Target], Generated[Any] | Refusal | None]
    symbolic: bool = False
    given: bool = True


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
Q = TypeVar("Q")


def anchored(
    *classes: type[ir.OpView],
) -> Callable[[Callable[[Any], Q | Refusal | None]], Callable[[mgx.KernelOp], Q | Refusal | None]]:
    """Makes a match of kernels of one of their anchor ops, which are of these classes."""

    def of_kernels(
        match: Callable[[Any], Q | Refusal | None],
    ) -> Callable[[mgx.KernelOp], Q | Refusal | None]:
        @wraps(match)
        def of_kernel(kernel: mgx.KernelOp) -> Q | Refusal | None:
            op = anchor_of(kernel, *classes)
            if op is None or isinstance(op, Refusal):
                return op
            found = match(op)
            return found.of(op.operation.name) if isinstance(found, Refusal) else found

        return of_kernel

    return of_kernels


def anchor_of(kernel: mgx.KernelOp, *classes: type[A]) -> A | Refusal | None:
    """The anchor op, one of `classes`, of a kernel that holds nothing else but views.

    The kernel returns the op's results. None where it holds other work.
    """
    *ops, terminator = kernel.regions[0].blocks[0].operations
    anchors = [op for op in ops if isinstance(op, classes)]
    if len(anchors) != 1:
        return None
    (anchor,) = anchors
    name, results = anchor.operation.name, list(anchor.results)
    if any(op != anchor and not is_free(op) for op in ops):
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


def one_tensor_a_result(kernel: mgx.KernelOp, _problem: Any) -> Launches:
    """The launches of a kernel whose results have memory of their own."""
    return Launches(kernel)


def inputs_in_front(kernel: mgx.KernelOp, _problem: Any) -> Launches:
    """The same, of functions that take inputs before results."""
    return Launches(kernel, inputs_first=True)


@dataclass(frozen=True)
class Scheduled(Generic[P, S]):
    """The programs of a family whose problems are computed by a schedule.

    choose: gives the best schedule of a problem for a chip, None or a Refusal where none fits.
    build: adds the functions of a problem to launches. regimes: gives the schedules of a problem
    with symbolic sizes, each with its launches in a run, 1 or 0; without, `choose` does for all
    sizes. launches: begins a kernel's. together: whether one function takes all of the kernel's
    tensors. vectors: runs whose last sizes are multiples of so many elements have regimes of their
    own, where these have other schedules.
    """

    match: Callable[[mgx.KernelOp], P | Refusal | None]
    choose: Callable[[P, Target], S | Refusal | None]
    build: Callable[[P, Launches, S, Target], None]
    regimes: Callable[[P, Target], Sequence[tuple[Number, S]] | Refusal] | None = None
    launches: Callable[[mgx.KernelOp, P], Launches] = one_tensor_a_result
    together: bool = True
    vectors: int = 1

    def __call__(
        self, kernel: mgx.KernelOp, target: Target, schedule: S | None = None
    ) -> Generated[GpuProgram] | Refusal | None:
        """The program by `schedule`, or else by the best one, and the schedule in words.

        None where the kernel holds other work.
        """
        with kernel.context, kernel.location:
            problem = self.match(kernel)
            if problem is None or isinstance(problem, Refusal):
                return problem
            launches = self.launches(kernel, problem)
            made = self._program(kernel, problem, launches, target, schedule)
            return made.of(problem.name)

    def _program(
        self,
        kernel: mgx.KernelOp,
        problem: P,
        launches: Launches,
        target: Target,
        schedule: S | None,
    ) -> Generated[GpuProgram] | Refusal:
        if refusal := size_refusal(_types(kernel), self.together):
            return refusal
        found = self._regimes(kernel, problem, target, schedule)
        if isinstance(found, Refusal):
            return found
        for share, own, chosen in found:
            with launches.when(share):
                self.build(own, launches, chosen, target)
        if refusal := launches.refusal():
            return refusal
        words = ", or ".join(dict.fromkeys(chosen.describe() for _, _, chosen in found))
        return Generated(launches.program(), f"{'any sizes, ' * launches.is_symbolic}{words}")

    def _regimes(
        self, kernel: mgx.KernelOp, problem: P, target: Target, schedule: S | None
    ) -> list[tuple[Number, P, S]] | Refusal:
        """The schedules, each with its launches in a run and its problem; of given sizes one."""
        if schedule is not None:
            return [(1, problem, schedule)]
        plain = self._schedules(kernel, problem, target)
        last = {x for t in _types(kernel) for size in shape_of(t)[-1:] for x in symbols(size)}
        if isinstance(plain, Refusal) or self.vectors == 1 or not last:
            return plain
        with multiples(last, self.vectors):
            whole = self.match(kernel)
        if whole is None or isinstance(whole, Refusal):
            return plain
        other = self._schedules(kernel, whole, target)
        if isinstance(other, Refusal) or [x for *_, x in other] == [x for *_, x in plain]:
            return plain
        sizes = sorted((Size.of(symbol) for symbol in last), key=str)
        odd = is_more(sum((x % self.vectors for x in sizes), 0), 0)
        found = [(odd * share, own, one) for share, own, one in plain]
        return found + [((1 - odd) * share, own, one) for share, own, one in other]

    def _schedules(
        self, kernel: mgx.KernelOp, problem: P, target: Target
    ) -> list[tuple[Number, P, S]] | Refusal:
        """The schedules of a problem, each with its launches in a run."""
        if self.regimes is not None and is_symbolic(kernel):
            found = self.regimes(problem, target)
            if isinstance(found, Refusal):
                return found
            return [(share, problem, one) for share, one in found if share != 0]
        chosen = self.choose(problem, target)
        if chosen is None:
            return Refusal(f"no schedule fits {target.name}")
        return chosen if isinstance(chosen, Refusal) else [(1, problem, chosen)]


def _types(kernel: mgx.KernelOp) -> list[ir.Type]:
    """The types of a kernel's inputs and results."""
    _, (inputs, results) = signature(kernel)
    return [*inputs, *results]
