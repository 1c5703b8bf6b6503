"""The launches of a contraction: the choice of its generator, and its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from mlir import ir
from mlir.dialects import vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.channels_last import emit_pixels
from mgx_mlir.codegen.cpu.contraction import Store, emit_contraction, emit_packing
from mgx_mlir.codegen.cpu.depthwise import Depthwise, emit_depthwise, match_depthwise
from mgx_mlir.codegen.cpu.direct import choose_direct, emit_direct
from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.function import Builder, Memory
from mgx_mlir.codegen.cpu.pixels import (
    Pixels,
    as_rows,
    choose_pixels,
    match_pixels,
)
from mgx_mlir.codegen.cpu.schedule import CpuSchedule, Machine, choose
from mgx_mlir.codegen.cpu.skinny import Vectors, choose_skinny, emit_skinny, reads_computed
from mgx_mlir.codegen.cpu.winograd import emit_filters, emit_winograd
from mgx_mlir.codegen.cpu.winograd_schedule import WinogradSchedule, choose_winograd
from mgx_mlir.codegen.problem.computed import vector_lanes, vector_of
from mgx_mlir.codegen.problem.match import Match, used_arguments
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
from mgx_mlir.sizes.arithmetic import ceil_div

# The argument number of an image that is transposed first.
_IMAGE = -3
# The argument number of an image whose pixels are computed first.
_PIXELS = -4
# Pixels whose channels are transposed together: each is a cache line.
_TRANSPOSED = 16


def add_contraction(
    builder: Builder,
    match: Match,
    inputs: Mapping[int, Memory],
    outputs: Sequence[Memory],
    machine: Machine,
) -> None:
    """Adds the launches of a contraction. `inputs` has the memory of each argument it reads.

    Products whose sums are added to it come before it, each in launches of its own.
    """
    terms = _image_terms(match, machine)
    if terms is not None:
        _add_images(builder, match, terms, inputs, outputs, machine)
        return
    depthwise = match_depthwise(match, machine)
    if depthwise is not None:
        _add_depthwise(builder, depthwise, inputs, outputs)
        return
    match = match.row_major() or match
    before = [_add_sums(builder, term, inputs, machine) for term in match.added]
    match, inputs = _with_image(builder, replace(match, added=()), inputs)
    match = match.as_row()
    image = match.problem.b
    if isinstance(image, Image) and image.strides[-1] != 1 and image.matrix() is None:
        image, memory = _transposing_launch(builder, image, inputs)
        inputs = {**inputs, image.argument: memory}
        match = replace(match, problem=replace(match.problem, b=image))
    if not reads_computed(match.problem, machine):
        match, inputs = _with_operands(builder, match, inputs)
    used = used_arguments(match)
    memories = [*(inputs[number] for number, _ in used), *outputs, *before]
    problem = match.problem
    items, generate, schedule = _generator(problem, machine)
    if schedule is not None and schedule.shared:
        operand = inputs[problem.b.argument]
        memories.append(_packing_launch(builder, problem, schedule, operand))

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        places = {number: x for (number, _), x in zip(used, pointers, strict=False)}
        epilogue = Epilogue(match, places, pointers[len(used) :][: len(outputs)])
        sums = pointers[len(used) + len(outputs) :][: len(before)]
        store = _Total(problem, sums, epilogue) if before else epilogue
        shared = schedule is not None and schedule.shared
        b: ir.Value | Vectors = pointers[-1] if shared else places[problem.b.argument]
        if isinstance(problem.b, Computed):
            b = partial(vector_of, problem.b, places)
        generate(places[problem.a.argument], b, store, begin, end)

    builder.add(memories, items, body)


def _image_terms(match: Match, machine: Machine) -> list[Pixels] | None:
    """The convolutions of images with channels last whose sum a match is, the first one first."""
    found = [match_pixels(replace(match, problem=term), machine) for term in match.terms]
    terms = [pixels for pixels in found if pixels is not None]
    place, problem = match.place, match.problem
    # Sums in scratch have the layout of a result of one group.
    whole = place is not None and place.column.stride == problem.M
    return terms if len(terms) == len(found) and (whole or len(terms) == 1) else None


def _add_images(
    builder: Builder,
    match: Match,
    terms: Sequence[Pixels],
    inputs: Mapping[int, Memory],
    outputs: Sequence[Memory],
    machine: Machine,
) -> None:
    """Adds the launches of convolutions of images with channels last."""
    rows = as_rows(replace(match, added=()))
    problem = rows.problem
    before: list[Memory] = []
    for number, term in enumerate([*terms[1:], terms[0]], 1 - len(terms)):
        element, own, results = problem.accumulator, rows, outputs
        if number:
            own = Match(problem, element, None, (), (0,), (element,), relaxed=match.relaxed)
            results = [builder.scratch(problem.batch * problem.M * problem.N, element)]
        _add_image(builder, own, term, inputs, results, () if number else before, machine)
        before += results


def _add_image(
    builder: Builder,
    match: Match,
    image: Pixels,
    inputs: Mapping[int, Memory],
    outputs: Sequence[Memory],
    before: Sequence[Memory],
    machine: Machine,
) -> None:
    """Adds the launches of one convolution. `match`: its rows are pixels; `before`: sums to add."""
    used = used_arguments(replace(match, problem=image.problem))
    filters: list[Memory] = []
    fast = choose_winograd(image, machine) if match.relaxed else None
    if fast is not None:
        filters.append(_transforming_launch(builder, image, fast, inputs))
        items, generate = fast.items(image), partial(emit_winograd, image, fast)
    else:
        plan = choose_pixels(image, machine)
        items, generate = plan.items(image), partial(emit_pixels, image, plan)

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        places = {number: x for (number, _), x in zip(used, pointers, strict=False)}
        results = pointers[len(used) :][: len(outputs)]
        sums = pointers[len(used) + len(outputs) :][: len(before)]
        store: Store = Epilogue(match, places, results)
        if sums:
            store = _Total(match.problem, sums, store)
        a = pointers[-1] if filters else places[image.filters.argument]
        generate(a, places[image.scene.argument], store, begin, end)

    memories = [*(inputs[n] for n, _ in used), *outputs, *before, *filters]
    builder.add(memories, items, body)


def _transforming_launch(
    builder: Builder,
    image: Pixels,
    plan: WinogradSchedule,
    inputs: Mapping[int, Memory],
) -> Memory:
    """Adds the launch that transforms the filters of a convolution into scratch."""
    scratch = builder.scratch(plan.filter_size(image), image.filters.element)

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        source, target = pointers
        emit_filters(image, plan, source, target, begin, end)

    source = inputs[image.filters.argument]
    builder.add([source, scratch], plan.filter_items(image), body, _kept(source, scratch))
    return scratch


def _add_depthwise(
    builder: Builder,
    own: Depthwise,
    inputs: Mapping[int, Memory],
    outputs: Sequence[Memory],
) -> None:
    """Adds the launch of a depthwise convolution of an image with channels last."""
    used = used_arguments(own.match)

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        places = {number: x for (number, _), x in zip(used, pointers, strict=False)}
        epilogue = Epilogue(own.match, places, pointers[len(used) :])
        a, b = places[own.filters.argument], places[own.scene.argument]
        emit_depthwise(own, a, b, epilogue, begin, end)

    builder.add([*(inputs[n] for n, _ in used), *outputs], own.items(), body)


def _add_sums(
    builder: Builder,
    term: Contraction,
    inputs: Mapping[int, Memory],
    machine: Machine,
) -> Memory:
    """Adds the launches of a product whose sums go to scratch, and gives that scratch."""
    element = term.accumulator
    sums = builder.scratch(term.batch * term.M * term.N, element)
    alone = Match(term, element, None, (), (0,), (element,))
    add_contraction(builder, alone, inputs, [sums], machine)
    return sums


@dataclass(frozen=True)
class _Total:
    """Adds the sums of other products, which have the result's layout, and stores the total."""

    problem: Contraction
    before: Sequence[ir.Value]
    store: Store

    def __call__(
        self, sums: ir.Value, batch: Index, m: Index, n: Index, mask: ir.Value | None
    ) -> None:
        problem = self.problem
        place = emit.linear(n, (batch, problem.M * problem.N), (m, problem.N))
        lanes = ir.VectorType(sums.type).shape[0]
        for memory in self.before:
            more = emit.load_vector(memory, place, lanes, mask)
            sums = emit.plus(sums, more, problem.accumulator)
        self.store(sums, batch, m, n, mask)


def _transposing_launch(
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


def _with_image(
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


def _with_operands(
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


def _packing_launch(
    builder: Builder, problem: Contraction, schedule: CpuSchedule, operand: Memory
) -> Memory:
    """Adds the launch that packs B into scratch, and gives that scratch."""
    scratch = builder.scratch(schedule.packed_size(problem), schedule.packed_element(problem))

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        source, packed = pointers
        emit_packing(problem, schedule, source, packed, begin, end)

    items = schedule.pack_items(problem)
    builder.add([operand, scratch], items, body, _kept(operand, scratch))
    return scratch


def _kept(operand: Memory, made: Memory) -> int:
    """The bytes made of an operand that stay where it is a weight."""
    return made.bytes if operand.argument.kind == "input" else 0


def _generator(
    problem: Contraction, machine: Machine
) -> tuple[int, Callable[..., None], CpuSchedule | None]:
    """The work items of a contraction and their emitter: the first generator that takes it.

    The general generator comes with its schedule.
    """
    skinny = choose_skinny(problem, machine)
    if skinny is not None:
        return skinny.items(problem), partial(emit_skinny, problem, skinny), None
    direct = choose_direct(problem, machine)
    if direct is not None:
        return direct.items(problem), partial(emit_direct, problem, direct), None
    schedule = choose(problem, machine)
    return schedule.items(problem), partial(emit_contraction, problem, schedule), schedule
