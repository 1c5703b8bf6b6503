"""A kernel as GPU functions that are not compiled yet, and how they are launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar, overload

from mlir import ir

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.codegen.gpu.builders.passes import expand_math
from mgx_mlir.sizes.arithmetic import Number, ceil_div, maximum
from mgx_mlir.sizes.parser import MAX_TEXT, parse

P = TypeVar("P", covariant=True)
# Bytes that divide the offset of a piece of scratch memory.
SCRATCH_ALIGNMENT = 256


@overload
def aligned(size: int) -> int: ...
@overload
def aligned(size: Number) -> Number: ...
def aligned(size: Number) -> Number:
    """Bytes of a piece of scratch memory, such that another one may follow it."""
    return ceil_div(size, SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


@dataclass(frozen=True)
class GpuProgram:
    """The functions of the one gpu.module in `module`, and their launches, in order.

    `formulas`: those that numbers of launches, and `scratch_bytes`, stand for, if sizes are known
    only at run time.
    """

    module: ir.Module
    launches: tuple[Launch, ...]
    scratch_bytes: int
    index_bits: int
    formulas: tuple[str, ...] = ()

    @staticmethod
    def of(program: GpuProgram, formulas: Formulas) -> GpuProgram:
        """The program whose launches' numbers stand for these formulas."""
        return replace(program, formulas=tuple(formulas.texts))

    @property
    def is_readable(self) -> bool:
        """Whether formulas are short enough to be read when sizes are met."""
        return all(len(text) <= MAX_TEXT for text in self.formulas)

    @cached_property
    def expanded(self) -> ir.Module:
        """A copy of the module with its math expanded, made once for all chips."""
        copy = copied(self.module)
        expand_math(copy)
        return copy


def append_functions(module: ir.Module, other: ir.Module) -> None:
    """Appends copies of the functions of another module to those of a module."""
    target = _functions(module)
    for function in _functions(other).operations:
        target.append(function.operation.clone())


def in_turn(programs: Sequence[GpuProgram], formulas: Formulas) -> GpuProgram:
    """Programs, of which a run launches one, as one: they have the same scratch memory.

    The numbers of their launches stand for `formulas`.
    """
    first, *others = programs
    for other in others:
        append_functions(first.module, other.module)
    launches = tuple(launch for program in programs for launch in program.launches)
    scratch = sum((formulas.value(program.scratch_bytes) for program in programs), 0)
    bits = max(program.index_bits for program in programs)
    return GpuProgram(first.module, launches, formulas.number(scratch), bits)


@dataclass(frozen=True)
class Part:
    """A program, the arguments that replace some of its own, and its launches in a run: 1 or 0."""

    program: GpuProgram
    places: Mapping[Argument, Argument]
    share: Number = 1

    def value(self, number: int) -> Number:
        """The size that a number of the program stands for."""
        return number if number >= 0 else parse(self.program.formulas[-1 - number])

    def launch(self, own: Launch, formulas: Formulas, end: Number) -> Launch:
        """One of the program's, whose numbers stand for `formulas`, with scratch behind `end`."""

        def argument(x: Argument) -> Argument:
            value = self.value(x.index) + (end if x.kind == "scratch" else 0)
            return self.places.get(x) or Argument(x.kind, formulas.number(value))

        x, y, z = map(self.value, own.grid)
        grid = formulas.number(self.share * x), formulas.number(y), formulas.number(z)
        return replace(own, grid=grid, arguments=tuple(map(argument, own.arguments)))


def joined(parts: Sequence[Part], end: Number) -> GpuProgram:
    """One program of all parts, in order, with scratch from byte `end` on. Names are distinct."""
    first, *others = (part.program for part in parts)
    for program in others:
        append_functions(first.module, program.module)
    formulas = Formulas({x: n for n, x in enumerate(dict.fromkeys(
        x for part in parts for x in part.program.formulas))})  # fmt: skip
    launches = tuple(
        part.launch(launch, formulas, end) for part in parts for launch in part.program.launches
    )
    most: Number = 0
    # Numbers first: the maximum of a formula and a number has the formula once.
    for part in sorted(parts, key=lambda part: part.program.scratch_bytes < 0):
        size = part.value(part.program.scratch_bytes)
        most = maximum(size, most) if most else size
    bits, bytes_ = max(x.program.index_bits for x in parts), formulas.number(aligned(end + most))
    return GpuProgram(first.module, launches, bytes_, bits, tuple(formulas.texts))


def _functions(module: ir.Module) -> ir.Block:
    """The block of a module's gpu.module."""
    (kernels,) = module.body.operations
    return kernels.regions[0].blocks[0]


def copied(module: ir.Module) -> ir.Module:
    """A module of its own with the same ops."""
    with module.context, ir.Location.unknown():
        copy = ir.Module.create()
        for op in module.body.operations:
            op.operation.clone(ip=ir.InsertionPoint(copy.body))
        return copy


@dataclass(frozen=True)
class Generated(Generic[P]):
    """A generated program, and the schedule that it was generated by, in words."""

    program: P
    schedule: str

    def of(self, subject: str) -> Generated[P]:
        """The same, with the subject named first: 'mgx.dot: 64x64 a block'."""
        return Generated(self.program, f"{subject}: {self.schedule}")
