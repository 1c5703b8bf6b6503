"""Functions for a block of rows of tensors with dynamic rows.

    tensor<?x64xf16, #mgx.dims<[rows, _]>>

Each work-group along x has the same number of rows. Its pointers advance to them in 64 bits. Its
raw buffers end with the last row: rows beyond read 0 and are not stored. The grid is a formula.
So a generator builds a static function for that number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.capabilities import MAX_BYTES, MAX_TENSORS
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import Frame, Tensor
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.loops.kernel import kernel_symbols
from mgx_mlir.codegen.meaning.element import element_of, sizes_of
from mgx_mlir.codegen.meaning.index import symbol_values
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.views import Layout
from mgx_mlir.sizes.arithmetic import Number, Size, Symbol, ceil_div

# The number of rows that a schedule is chosen for: it is odd, so no block of rows divides it.
USUAL_ROWS = 509


@dataclass(frozen=True)
class RowBlocks:
    """Dynamic rows, and their stride in each input that has them.

    used: the inputs' numbers, in order. steps: elements from row to row, by an input's number;
    inputs without a step have no rows, and are read from their start. columns: elements in a row
    of each result. whole: inputs whose sizes are open, and whose rows have no step: each work-group
    has all of them, and `first` gives its first row. It gives the bytes that offsets span.
    """

    kernel: mgx.KernelOp
    rows: Number
    used: tuple[int, ...]
    steps: dict[int, int]
    columns: tuple[int, ...]
    whole: Mapping[int, Number] = field(default_factory=dict)

    def refusal(self) -> Refusal | None:
        """Why the rows cannot be split over work-groups; None where they can."""
        _, (inputs, results) = builder.signature(self.kernel)
        for number in self.used:
            size = math.prod(sizes_of(inputs[number]))
            step = self.steps.get(number)
            if number not in self.whole and (
                isinstance(size, Size) if step is None else size != self.rows * step
            ):
                return Refusal(
                    f"input {number} is not of whole rows, or has no size without arguments"
                )
        for type_, columns in zip(results, self.columns, strict=True):
            if math.prod(sizes_of(type_)) != self.rows * columns:
                return Refusal("results of other sizes")
        if len(self.used) + len(results) > MAX_TENSORS:
            return Refusal(f"{len(self.used) + len(results)} tensors")
        return None

    @contextmanager
    def function(
        self, rows: int, threads: int, parts: int = 1, lds: Sequence[tuple[int, ir.Type]] = ()
    ) -> Iterator[tuple[_Made, Frame]]:
        """The function of `rows` rows; ops that are built inside of the context are its body.

        parts: work-groups along y, which have the same rows. The frame's buffers are those of
        the used inputs, then those of the results.
        """
        name, (inputs, results) = builder.signature(self.kernel)
        module, block = builder.gpu_module()
        given = [self._tensor(inputs[n], self.steps.get(n)) for n in self.used]
        written = [replace(self._tensor(type_, 1), written=True) for type_ in results]
        steps = [*(self.steps.get(n) for n in self.used), *self.columns]
        grid, names, numbers = (1, parts, 1), self.symbols, self.numbers
        tensors = [*given, *written]
        with builder.function(
            block, f"{name}_0", tensors, threads, grid, lds, len(numbers)
        ) as frame:
            count, *others = frame.sizes
            pointers = list(builder.rows_of_block(frame.pointers, steps, rows, count))
            for input_, size in zip(self.whole, others[len(names) :], strict=False):
                place = self.used.index(input_)
                zero = arith.constant(ir.IntegerType.get_signless(64), 0)
                pointers[place] = memory.moved(pointers[place], zero, size)
            index = ir.IndexType.get()
            short = [arith.index_cast(index, x) for x in others[: len(names)]]
            buffers = tuple(memory.buffer(pointer) for pointer in pointers)
            with symbol_values(dict(zip(names, short, strict=True))):
                made = _Made(self, module, rows, threads, parts)
                yield made, Frame(buffers, frame.lds, tuple(pointers))

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols whose sizes a launch passes, for the rows of whole inputs."""
        return kernel_symbols(self.kernel) if self.whole else ()

    @property
    def numbers(self) -> list[Number]:
        """The numbers that a launch passes. Those behind the sizes of whole inputs are read by no
        function: if one is below 0, the launch is refused (see formulas)."""
        sizes: list[Number] = [math.prod(sizes_of(self._inputs[n])) for n in self.whole]
        limits: list[Number] = [MAX_BYTES - reach for reach in self.whole.values()]
        limits += [MAX_BYTES - self.rows] if self.whole else []
        return [self.rows, *(Size.of(Symbol(x)) for x in self.symbols), *sizes, *limits]

    @property
    def _inputs(self) -> Sequence[ir.Type]:
        return builder.signature(self.kernel)[1][0]

    def _tensor(self, type_: ir.Type, step: int | None) -> Tensor:
        """A tensor as an argument. With rows its size is open: a buffer covers a part of it."""
        is_open = step is not None or any(isinstance(size, Size) for size in sizes_of(type_))
        return Tensor(1, element_of(type_)) if is_open else builder.tensor_of(type_)


@dataclass(frozen=True)
class _Made:
    """A function that has been built, and the parameters of its launch."""

    blocks: RowBlocks
    module: ir.Module
    rows: int
    threads: int
    parts: int

    def program(self) -> DynamicProgram:
        """The program of the function alone."""
        own, formulas = self.blocks, Formulas()
        name, (_, results) = builder.signature(own.kernel)
        arguments = [Argument("input", number) for number in own.used]
        arguments += [Argument("output", number) for number in range(len(results))]
        arguments += [Argument("size", formulas.number(number)) for number in own.numbers]
        grid = (formulas.number(ceil_div(own.rows, self.rows)), self.parts, 1)
        launch = Launch(f"{name}_0", grid, (self.threads, 1, 1), tuple(arguments))
        program = GpuProgram(self.module, (launch,), 0, 32)
        return DynamicProgram.of(program, formulas)


def split_rows(axis: Axis, rows: Number, columns: int) -> tuple[int, Axis] | None:
    """The stride of rows, and the axis of one row, of an axis along rows and columns.

    None where the rows have no single static stride, or a negative one.
    """
    layout = Layout(0, (axis.factors,)).reshaped([cast(int, rows), columns])
    if layout is None:
        return None
    outer, inner = (Axis.of(*dim) for dim in layout.dims)
    step = outer.stride
    if step is None or isinstance(step, Size) or step < 0:
        return None
    return step, inner


def rows_axis(rows: int, step: int) -> Axis:
    """The axis of a work-group's rows; it keeps the stride even for a single row."""
    return Axis(((max(rows, 2), step),)) if step else Axis(())
