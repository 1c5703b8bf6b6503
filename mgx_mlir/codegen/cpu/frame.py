"""The frame of a kernel's functions: what they are added to, and the memory that they touch.

Operands of a contraction may be computed into memory before its tiles read them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.nests import Functions
from mgx_mlir.codegen.loops.place import Place
from mgx_mlir.codegen.problem.computed import vector_lanes, vector_of
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import (
    Axis,
    Computed,
    ComputedImage,
    Contraction,
    Image,
    Matrix,
    pixels,
)
from mgx_mlir.rewriting.views import row_major
from mgx_mlir.sizes.arithmetic import Number

Memory: TypeAlias = "Mapping[int, ir.Value]"
# Numbers of inputs that are computed count down from it.
_FIRST_MADE = -20


@dataclass(frozen=True)
class Frame:
    """The functions of a kernel, and the memory of its inputs, by number, and of its results.

    share: 1 where a run takes the functions that are added, 0 where it takes others.
    """

    functions: Functions
    inputs: Mapping[int, Place]
    outputs: Sequence[Place]
    share: Number = 1

    def add(
        self,
        match: Match,
        used: Sequence[int],
        items: Number,
        emit: Callable[[Memory, Sequence[ir.Value], Epilogue, ir.Value, ir.Value], None],
        others: Sequence[Place] = (),
    ) -> None:
        """Adds a function that reads the inputs `used`, and has the results of a match.

        emit: builds the items from one to another; it is given the inputs' memory by number, that
        of `others`, and what stores results.
        """
        count = len(self.outputs)

        def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
            read, rest = dict(zip(used, pointers, strict=False)), pointers[len(used) :]
            emit(read, rest[count:], Epilogue(match, read, rest[:count]), begin, end)

        places = [*(self.inputs[number] for number in used), *self.outputs, *others]
        self.functions.add_on(places, self.share * items, body)


# Adds the functions of a kernel to a frame.
Add = Callable[[Frame], None]


def computed_first(match: Match) -> tuple[dict[int, Computing], Match]:
    """The match with plain operands, and the computed ones, by the numbers that it reads them by.

    It reads matrices, or images of channels last, in memory of their own.
    """
    made: dict[int, Computing] = {}

    def plain(operand: Matrix | Image) -> Matrix | Image:
        number = _FIRST_MADE - len(made)
        if isinstance(operand, Computed):
            made[number] = Computing.of(operand, number)
            return made[number].result
        if not isinstance(operand, ComputedImage):
            return operand
        made[number] = work = Computing.of(operand.computed(pixels), number)
        own, distance = work.result, work.result.column.stride or 0
        places = zip(operand.dims, row_major(operand.sizes), strict=True)
        dims = tuple(replace(dim, stride=n * distance) for dim, n in places)
        return Image(number, own.element, 0, own.batch, own.row, dims, fill=operand.fill)

    def term(own: Contraction) -> Contraction:
        a = plain(own.a)
        assert isinstance(a, Matrix)
        return replace(own, a=a, b=plain(own.b))

    first, *others = map(term, match.terms)
    return made, replace(match, problem=first, added=tuple(others))


def with_computed(frame: Frame, made: Mapping[int, Computing]) -> Frame:
    """The frame with operands among its inputs; adds the functions that compute them."""
    found: dict[int, Place] = {}
    for number, work in made.items():
        found[number] = Place(emit.memory_type(work.result.element), frame.share * work.size)
        read = [frame.inputs[n] for n in work.arguments]
        frame.functions.add_on([*read, found[number]], frame.share * work.items, work.emit)
    return replace(frame, inputs={**frame.inputs, **found})


@dataclass(frozen=True)
class Computing:
    """The work that computes an operand into memory. `result`: its matrix there.

    `matrix`: the operand, or its transpose, whose rows are read in vectors of `lanes`.
    """

    matrix: Computed
    lanes: int
    result: Matrix

    @staticmethod
    def of(matrix: Computed, number: int) -> Computing:
        """The work on a matrix, whose result is argument `number`."""
        lanes, along_rows = vector_lanes(matrix)
        own = matrix if along_rows else matrix.transposed()
        batch, rows, columns = (x.size for x in (own.batch, own.row, own.column))
        result = Matrix(
            number, matrix.element, 0,
            Axis.of((batch, rows * columns)), Axis.of((rows, 1)), Axis.of((columns, rows)),
        )  # fmt: skip
        return Computing(own, lanes, result if along_rows else result.transposed())

    @property
    def arguments(self) -> list[int]:
        """The inputs that are read, in the order of the pointers."""
        return sorted({read.matrix.argument for read in self.matrix.tensors})

    @property
    def items(self) -> int:
        return self.matrix.batch.size * self.matrix.column.size

    @property
    def size(self) -> int:
        """Elements of the result."""
        return self.items * self.matrix.row.size

    def emit(self, pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        """Builds the work of items begin .. end; the last pointer is the result's."""
        *read, result = pointers
        places = dict(zip(self.arguments, read, strict=True))
        rows, columns = self.matrix.row.size, self.matrix.column.size

        def item(number: Index) -> None:
            at, column = emit.div(number, columns), emit.rem(number, columns)

            def vectors(row: Index) -> None:
                x = vector_of(self.matrix, places, at, row, column, self.lanes, True)
                emit.store_vector(x, result, emit.linear(row, (number, rows)))

            emit.loop(0, rows, self.lanes, vectors)

        emit.loop(begin, end, 1, item)
