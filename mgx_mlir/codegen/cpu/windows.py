"""Convolutions of images of any size, as products of their windows.

    %y = mgx.convolution %x, %w : tensor<?x?x?x16xf32>, tensor<8x3x3x16xf32> -> tensor<?x?x?x8xf32>

There is any number of rows: a row is the window of a pixel, with channels last where the image has
them so, and a column is a filter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu import pack
from mgx_mlir.codegen.cpu.contraction import emit_contraction, emit_packing
from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.nests import Functions
from mgx_mlir.codegen.cpu.padded import Padded, Padding
from mgx_mlir.codegen.cpu.schedule import BYTES, PACK_DEPTH, CpuSchedule, Machine, choose
from mgx_mlir.codegen.cpu.window_rows import Windows, always_inside, depth_of, is_last
from mgx_mlir.codegen.loops.body import Place
from mgx_mlir.codegen.meaning.index import index_constant
from mgx_mlir.codegen.problem.match import Match, mapped
from mgx_mlir.codegen.problem.problem import Axis, Contraction, Image, Matrix
from mgx_mlir.sizes.arithmetic import Number, ceil_div, exact

# The number of pixels that a schedule is chosen for, where it is open.
USUAL_PIXELS = 512
# Numbers of inputs that are read with channels last count down from it.
_FIRST_TURNED = -10
# The argument number of a copy with zeros around it.
_PADDED = -5
_ELEMENTS = frozenset(("f32", "f64", "f16", "bf16", "i8", "ui8"))


@dataclass(frozen=True)
class WindowProduct:
    """A convolution as a product of `rows` rows, for each group of channels.

    match: that of some rows, whose left operand are `Windows`, `Padded` ones, or the pixels
    themselves; its results have channels last. filters: a matrix [element of a window, filter] of
    each group, for each image. pixels: those of an image, where the kernel's results have channels
    first. turned: the inputs that have so too, and are read with channels last, by other numbers.
    padding: the copy that `Padded` windows are of.
    """

    match: Match
    rows: Number
    filters: tuple[Matrix, ...]
    pixels: Number | None
    turned: Mapping[int, Turned]
    padding: Padding | None = None


@dataclass(frozen=True)
class Turned:
    """Input number `argument`, [image, channel, pixel]."""

    argument: int
    channels: int
    pixels: Number


def has_windows_of_bytes(match: Match) -> bool:
    """Whether a match is a convolution of 8-bit integers with channels last, of several pixels.

    Products of their windows are the fastest, for given sizes too.
    """
    problem = match.problem
    if match.place is None or type(problem.b) is not Image or problem.a.element not in BYTES:
        return False
    return problem.M > 1 and math.prod(problem.b.window) > 1


def window_product(match: Match, machine: Machine) -> WindowProduct | None:
    """A convolution with symbolic sizes as a product; None for others."""
    problem, groups = match.problem, groups_of(match.problem)
    rows, lanes = exact(problem.batch * problem.N, groups), machine.lanes(problem.accumulator)
    if match.causal is not None or match.pairs or problem.a.element not in _ELEMENTS:
        return None
    if not all(isinstance(size, int) for size in (problem.M, problem.K, groups)):
        return None
    if rows is None:
        return None
    images: list[Image] = []
    filters: list[Matrix] = []
    steps: set[Axis] = set()
    turned: dict[int, Turned] = {}
    padding, padded = None, None
    for number, term in enumerate(match.terms):
        image = _image_of(term)
        parts = None if image is None else image.batch.split(groups)
        if image is None or parts is None or groups_of(term) != groups:
            return None
        image, step = replace(image, batch=parts[0]), parts[1]
        if padded := _padded(match, image, step, groups):
            image, step, padding = padded
        apart = Axis.of((groups, image.channel.size * math.prod(image.sizes)))
        is_first = step == apart and has_channels_first(image, groups)
        if image.channel.size >= lanes // 2 and is_first:
            channels, name = groups * image.channel.size, _FIRST_TURNED - number
            turned[name] = Turned(image.argument, channels, math.prod(image.sizes))
            image = with_channels_last(image, channels, name)
            step = Axis.of((groups, image.channel.size))
        found = _filters(term, image)
        if found is None:
            return None
        images.append(image)
        filters.append(found)
        steps.add(step)
    place = _place(match, rows, groups)
    sources = {read: by_pixels(read, groups) for read in match.reads}
    if len(steps) != 1 or place is None or None in sources.values():
        return None
    depth = sum(map(depth_of, images))
    if len(images) > 1 and not emit.is_float(problem.accumulator):
        return None  # integers lie together in blocks of filters, across which no window may begin
    usual = rows if isinstance(rows, int) else USUAL_PIXELS
    left: Matrix = Windows.of(images, first_step := steps.pop(), usual)
    if padded:
        left = Padded.of(images[0], first_step, usual)
    elif len(images) == groups == 1 and type(problem.b) is Matrix:
        (image,) = images
        pixels = Axis.of(*image.batch.factors, (image.sizes[0], image.strides[0]))
        if isinstance(pixels.stride, int) and is_last(image):
            row, column = Axis(((usual, pixels.stride),)), image.channel
            left = Matrix(image.argument, image.element, image.offset, Axis(()), row, column)
    # Schedules ask filters for their sizes: they have as many rows as windows have elements.
    right = replace(filters[0], row=Axis(((depth, filters[0].column.size),)))
    own = replace(problem, batch=groups, M=usual, N=problem.M, K=depth, a=left, b=right)
    plain = place.row.stride == problem.M and place.offset == 0 and groups == 1
    made = replace(
        match,
        problem=own,
        added=(),
        place=None if plain else place,
        sources=mapped(match.sources, lambda x: sources[x] or x),
    )
    first = None if match.place else problem.N
    return WindowProduct(made, rows, tuple(filters), first, turned, padding)


def _padded(
    match: Match, image: Image, group: Axis, groups: int
) -> tuple[Image, Axis, Padding | None] | None:
    """The image whose windows tiles read in place, the steps of its groups, and the copy that it
    is of; None where tiles pack their rows."""
    problem, axes = match.problem, range(len(image.window))
    if match.added or type(problem.b) is not Image or problem.a.element != problem.accumulator:
        return None
    if is_last(image) and all(always_inside(image, axis) for axis in axes):
        return image, group, None
    whole = Axis.of(*group.factors, *image.channel.factors)
    padding = Padding.of(replace(image, channel=whole), _PADDED)
    return None if padding is None else (*padding.windows(groups), padding)


def has_channels_first(image: Image, groups: int) -> bool:
    """Whether images are whole tensors [image, channel, pixel]."""
    pixels = math.prod(image.sizes)
    sizes = zip(image.sizes, image.strides, strict=True)
    batch = Axis.of((image.batch.size, groups * image.channel.size * pixels))
    return (
        image.offset == 0
        and Axis.of(*sizes) == Axis.of((pixels, 1))
        and image.channel == Axis.of((image.channel.size, pixels))
        and image.batch == batch
    )


def with_channels_last(image: Image, channels: int, argument: int) -> Image:
    """The image [image, pixel, channel], of input number `argument`."""
    strides = tuple(stride * channels for stride in image.strides)
    channel = Axis.of((image.channel.size, 1))
    return replace(image, argument=argument, strides=strides, channel=channel)


def groups_of(problem: Contraction) -> int:
    """The groups of a convolution: the filters of each lie apart."""
    return math.prod(size for size, stride in problem.a.batch.factors if stride)


def _image_of(term: Contraction) -> Image | None:
    """The image of a convolution; pixels without windows are a line of them."""
    b = term.b
    if type(b) is Matrix:
        stride = b.column.stride
        if stride is None:
            return None
        pixels = (b.column.size,)
        b = Image(b.argument, b.element, b.offset, b.batch, b.row, pixels, (stride,), pixels,
                  (1,), (1,), (1,), (0,))  # fmt: skip
    is_filter = term.M > 1 or groups_of(term) == 1
    return b if type(b) is Image and isinstance(b.channel.size, int) and is_filter else None


def _filters(term: Contraction, image: Image) -> Matrix | None:
    """Filters as a matrix [element of a window, filter] of each group."""
    a = term.a
    if type(a) is not Matrix:
        return None
    sizes = (image.channel.size, *image.window)
    places = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    steps = [
        a.column.distance(place) if size > 1 else 0
        for size, place in zip(sizes, places, strict=True)
    ]
    if Axis.of(*zip(sizes, steps, strict=True)) != a.column:
        return None
    channel, *window = zip(sizes, steps, strict=True)
    row = Axis.of(*window, channel) if is_last(image) else Axis.of(channel, *window)
    batch = Axis(tuple(factor for factor in a.batch.factors if factor[1]))
    return replace(a, batch=batch, row=row, column=a.row)


def by_pixels(source: Matrix, groups: int) -> Matrix | None:
    """A matrix [image and group, filter, pixel] as [group, pixel of all images, filter]."""
    found = source.batch.split(groups)
    if found is None:
        if any(stride for _, stride in source.batch.factors):
            return None
        found = Axis(()), Axis(())
    row = Axis.of(*found[0].factors, *source.column.factors)
    return replace(source, batch=found[1], row=row, column=source.row)


def _place(match: Match, rows: int, groups: int) -> Matrix | None:
    """The layout of the results [group, pixel of all images, filter], channels last."""
    if match.place is not None:
        place = by_pixels(match.place, groups)
        return place if place is not None and place.column.stride == 1 else None
    filters = match.problem.M
    batch, row = Axis.of((groups, filters)), Axis.of((rows, groups * filters))
    return Matrix(0, "", 0, batch, row, Axis.of((filters, 1)))


def add_windows(
    functions: Functions,
    found: WindowProduct,
    inputs: Mapping[int, Place],
    outputs: Sequence[Place],
    machine: Machine,
    share: Number = 1,
) -> None:
    """Adds the functions of a convolution whose results go to `outputs`.

    share: 1 where a run takes them, 0 where it takes others; for images with channels last.
    """
    if found.pixels is not None:
        made = [Place(output.type, output.size) for output in outputs]
        add_windows(functions, replace(found, pixels=None), inputs, made, machine)
        channels = found.match.problem.batch * found.match.problem.N
        back = exact(found.rows, found.pixels), found.pixels, channels
        for place, output in zip(made, outputs, strict=True):
            add_transpose(functions, place, output, back, machine)
        return
    for number, own in found.turned.items():
        source = inputs[own.argument]
        sizes = exact(source.size, own.channels * own.pixels), own.channels, own.pixels
        inputs = {**inputs, number: Place(source.type, source.size)}
        add_transpose(functions, source, inputs[number], sizes, machine)
    if padding := found.padding:
        source = inputs[padding.image.argument]
        inputs = {**inputs, _PADDED: Place(source.type, share * padding.size)}
        padding.add(functions, source, inputs[_PADDED], machine, share)
    match, problem = found.match, found.match.problem
    schedule = replace(choose(problem, machine), shared=True)
    packed = _add_packing(functions, found, schedule, inputs)
    a = problem.a
    images = a.images if isinstance(a, Windows) else (a,)
    used = sorted({x.argument for x in (*images, *match.reads)})
    places = [*(inputs[number] for number in used), *outputs, packed]
    blocks = problem.batch * schedule.column_blocks(problem)
    items = blocks * ceil_div(found.rows, schedule.item_rows)

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        read = dict(zip(used, pointers, strict=False))
        own = replace(problem, a=replace(a, memory=read)) if isinstance(a, Windows) else problem
        epilogue = Epilogue(match, read, pointers[len(used) : -1])
        rows = index_constant(found.rows)
        left, right = read[a.argument], pointers[-1]
        emit_contraction(own, schedule, left, right, epilogue, begin, end, rows)

    functions.add_on(places, share * items, body)


def _add_packing(
    functions: Functions, found: WindowProduct, schedule: CpuSchedule, inputs: Mapping[int, Place]
) -> Place:
    """Adds the function that packs all filters, which runs once for weights."""
    problem, element = found.match.problem, schedule.packed_element(found.match.problem)
    size = schedule.packed_size(problem)
    packed = Place(emit.memory_type(element), size)
    blocks = problem.batch * schedule.column_blocks(problem)
    parts = [ceil_div(filters.row.size, PACK_DEPTH) for filters in found.filters]

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        *sources, target = pointers
        first, before = 0, 0
        for filters, count, source in zip(found.filters, parts, sources, strict=True):
            low, high = emit.maximum(begin, first), emit.minimum(end, first + count * blocks)
            own, rows = replace(problem, b=filters), (before, filters.row.size)
            pieces = emit.sub(low, first), emit.sub(high, first)
            emit_packing(own, schedule, source, target, *pieces, rows)
            first, before = first + count * blocks, before + filters.row.size

    places = [*(inputs[filters.argument] for filters in found.filters), packed]
    kept = size * emit.element_bytes(element)
    functions.add_on(places, sum(parts) * blocks, body, kept)
    return packed


def add_transpose(
    functions: Functions,
    source: Place,
    target: Place,
    sizes: tuple[Number | None, Number, Number],
    machine: Machine,
) -> None:
    """Adds the function that swaps rows and columns of matrices. sizes: matrices, rows, columns."""
    matrices, rows, columns = sizes
    assert matrices is not None
    lanes = machine.vector_bytes // 4
    blocks = ceil_div(columns, lanes)

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        read, write = pointers
        high, wide, parts = (index_constant(size) for size in (rows, columns, blocks))

        def item(number: Index) -> None:
            start = emit.mul(emit.div(number, parts), emit.mul(high, wide))
            first = emit.mul(emit.rem(number, parts), lanes)
            count = emit.minimum(lanes, emit.sub(wide, first))
            left, right = emit.add(start, first), emit.add(start, emit.mul(first, high))

            def square(row: Index) -> None:
                here = emit.add(left, emit.mul(row, wide))
                pack.turn_square(lanes, (read, here, wide), (write, emit.add(right, row), high))

            def one(row: Index) -> None:
                def element(column: Index) -> None:
                    x = emit.load(read, emit.add(emit.add(left, emit.mul(row, wide)), column))
                    emit.store(x, write, emit.add(emit.add(right, row), emit.mul(column, high)))

                emit.loop(0, count, 1, element)

            whole = emit.mul(emit.div(high, lanes), lanes)
            whole = arith.select(emit.compare("eq", count, lanes), emit.value(whole), emit.value(0))
            emit.loop(0, whole, lanes, square)
            emit.loop(whole, high, 1, one)

        emit.loop(begin, end, 1, item)

    functions.add_on([source, target], matrices * blocks, body)
