"""Launches that make the operands which a contraction's tiles read: transposed, or computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from mlir import ir
from mlir.dialects import vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.function import Builder, Memory
from mgx_mlir.codegen.problem.computed import vector_lanes, vector_of
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import Axis, Computed, ComputedImage, Image, Matrix, pixels
from mgx_mlir.rewriting.views import row_major
from mgx_mlir.sizes.arithmetic import ceil_div

# The argument number of an image that is transposed first.
_IMAGE = -3
# The argument number of an image whose pixels are computed first.
_PIXELS = -4
# Pixels whose channels are transposed together: each is a cache line.
_TRANSPOSED = 16


def transposing_launch(
    builder: Builder, image: Image, inputs: Mapping[int, Memory]
) -> tuple[Image, Memory]:
    """Adds the launch that transposes an image with channels last; gives it by rows, in scratch."""
    batch, channels, pixels = image.batch.size, image.channel.size, prod(image.sizes)
    plane = Axis.of(*zip(image.sizes, image.strides, strict=True))
    scratch = builder.scratch(batch * channels * pixels, image.element)
    lanes = min(_TRANSPOSED, pixels)
    parts = ceil_div(pixels, lanes)

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        source, result = pointers

        def item(number: Index) -> None:
            at = emit.div(number, parts)
            # The last part of an image overlaps the previous one.
            first = emit.minimum(emit.mul(emit.rem(number, parts), lanes), pixels - lanes)
            start = image.start(at)
            places = [emit.add(start, plane.offset(emit.add(first, i))) for i in range(lanes)]

            def channel(c: Index) -> None:
                far = image.channel.offset(c)
                elements = [emit.load(source, emit.add(place, far)) for place in places]
                type_ = ir.VectorType.get([lanes], elements[0].type)
                x = vector.from_elements(type_, elements)
                row = emit.linear(c, (at, channels))
                emit.store_vector(x, result, emit.linear(first, (row, pixels)))

            emit.loop(0, channels, 1, channel)

        emit.loop(begin, end, 1, item)

    builder.add([inputs[image.argument], scratch], batch * parts, body)
    transposed = replace(
        image,
        argument=_IMAGE,
        offset=0,
        batch=Axis.of((batch, channels * pixels)),
        channel=Axis.of((channels, pixels)),
        strides=tuple(row_major(image.sizes)),
    )
    return transposed, scratch


def with_image(
    builder: Builder, match: Match, inputs: Mapping[int, Memory]
) -> tuple[Match, Mapping[int, Memory]]:
    """The match with a plain image: adds a launch that computes the pixels of a computed one."""
    image = match.problem.b
    if not isinstance(image, ComputedImage):
        return match, inputs
    made, memory = _computing_launch(builder, image.computed(pixels), inputs, _PIXELS)
    distance = made.column.stride or 0
    plain = Image(
        _PIXELS, made.element, 0, made.batch, made.row, image.sizes,
        tuple(x * distance for x in row_major(image.sizes)),
        image.outputs, image.window, image.steps, image.dilations, image.pads, fill=image.fill,
    )  # fmt: skip
    match = replace(match, problem=replace(match.problem, b=plain))
    return match, {**inputs, _PIXELS: memory}


def with_operands(
    builder: Builder, match: Match, inputs: Mapping[int, Memory]
) -> tuple[Match, Mapping[int, Memory]]:
    """The match with plain operands: adds launches that compute the others into scratch."""
    memories, operands = dict(inputs), []
    for number, operand in enumerate((match.problem.a, match.problem.b), -2):
        if isinstance(operand, Computed):
            operand, memories[number] = _computing_launch(builder, operand, inputs, number)
        operands.append(operand)
    a, b = operands
    assert isinstance(a, Matrix)
    return replace(match, problem=replace(match.problem, a=a, b=b)), memories


def _computing_launch(
    builder: Builder, matrix: Computed, inputs: Mapping[int, Memory], number: int
) -> tuple[Matrix, Memory]:
    """Adds the launch that computes an operand; gives its matrix in scratch, argument `number`."""
    work = Computing.of(matrix, number)
    scratch = builder.scratch(work.size, matrix.element)
    read = [inputs[n] for n in work.arguments]
    builder.add([*read, scratch], work.items, work.emit)
    return work.result, scratch


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
