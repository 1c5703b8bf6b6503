"""A convolution as a product of matrices: its operands with channels last.

Operands stored with channels last are read as they are; others are packed first (see packing).

The images of a batch are neighbours along the product's columns, so that tiles cross from
one image to the next. Each group of channels is a product of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.program import aligned
from mgx_mlir.codegen.gpu.builders.units import ROW_CHUNKS
from mgx_mlir.codegen.gpu.families.contraction.packing import Packing
from mgx_mlir.codegen.problem.match import Match, mapped
from mgx_mlir.codegen.problem.problem import (
    Axis,
    ComputedImage,
    Contraction,
    Dimension,
    Edge,
    Image,
    Matrix,
    Windows,
)
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.rewriting.views import row_major as strides_of
from mgx_mlir.sizes.arithmetic import Size, maximum

# Numbers of the packed operands, as arguments of the product.
PACKED_IMAGE, PACKED_FILTER = -1, -2
# Bits for the taps of a window along one dimension.
MAX_WINDOW = 28


@dataclass(frozen=True)
class Product:
    """The product that the matrix cores compute: a match whose `problem` has two matrices.

    `result`: the offset of the product's [batch, row, column] in each result of the kernel.
    `packings`: operands to be packed first, by their argument's number in `match`.
    """

    match: Match
    result: Matrix
    packings: dict[int, Packing]

    @property
    def scratch_bytes(self) -> int:
        return max((p.start + aligned(p.bytes) for p in self.packings.values()), default=0)


def product_of(match: Match) -> Product:
    """The product that a match is, or that its convolution becomes."""
    problem, place = match.problem, place_of_results(match)
    if not isinstance(problem.b, Image):
        product = Product(match, place, {})
        alone = match.place is None or problem.batch == 1 or problem.a.batch.stride != 0
        return product if alone else side_by_side(product)
    image = subsampled(problem.b)
    channels = image.channel.size
    chunk = CHUNK_BYTES // emit.element_bytes(image.element)
    packings: dict[int, Packing] = {}
    whole, dims = channels % chunk == 0, image.dims
    taps, last = image.taps, dims[-1].window

    after = _after(image)
    pixel, run = _narrow(image)
    if run and split(problem.a.column, problem.K // last)[1].stride is None:
        pixel, run = 0, 0  # a row of taps has no single stride
    if whole and _lie_last(image) and _are_small(image):
        windows = partial(_windows, edges=_edges(image, after))
        b = image.computed(windows) if isinstance(image, ComputedImage) else windows(image)
    else:
        packing = Packing(
            image.argument, image.element, image.offset, image.batch, image.channel,
            image.sizes, image.strides, tuple(dim.pad for dim in dims), after, 0, pixel,
            image if isinstance(image, ComputedImage) else None, image.fill,
        )  # fmt: skip
        packings[PACKED_IMAGE] = packing
        channels = packing.channels
        batch = Axis.of((image.batch.size, packing.packed_batch))
        places = zip(dims, packing.padded, packing.packed_strides, strict=True)
        dims = tuple(replace(dim, size=n, stride=stride, pad=0) for dim, n, stride in places)
        packed = Image(PACKED_IMAGE, image.element, 0, batch, Axis.of((channels, 1)), dims)
        b = _windows(packed, ())
    depth = taps * channels
    a = _filter(problem, image, channels, packings, run)
    if run:
        # `_windows` may give rows of taps merged with the factors before them.
        outer = Axis.of(*((dim.window, dim.dilation * dim.stride) for dim in dims[:-1]))
        b = replace(b, row=Axis((*outer.factors, (run, 1))))
        depth = taps // last * run
        kept = last * channels
        b = Windows(b.argument, b.element, b.offset, b.batch, b.row, b.column, (), run, kept)
    problem = replace(problem, K=depth, a=a, b=b)
    product = Product(replace(match, problem=problem), place, packings)
    if a.batch.stride != 0 or problem.batch == 1:
        return product
    return side_by_side(product)


def in_place(match: Match) -> Product | Refusal:
    """The product that a match is or becomes, of operands as they are stored, of any sizes."""
    terms = [_in_place(term) for term in match.terms]
    if any(isinstance(term, Refusal) for term in terms):
        return next(term for term in terms if isinstance(term, Refusal))
    first, *added = (term for term in terms if isinstance(term, Contraction))
    place = place_of_results(match)
    return Product(replace(match, problem=first, added=tuple(added)), place, {})


def _in_place(problem: Contraction) -> Contraction | Refusal:
    if not isinstance(problem.b, Image):
        return problem
    counts = [problem.b.channel.size, *(n for f in problem.a.column.factors for n in f)]
    if any(isinstance(n, Size) for n in counts):
        return Refusal("channels whose number is an argument")
    image = subsampled(problem.b)
    if not _are_small(image):
        return Refusal(f"windows of more than {MAX_WINDOW} pixels")
    channel, tap = split(problem.a.column, image.channel.size)
    a = replace(problem.a, column=Axis.of(*tap.factors, *channel.factors))
    windows = partial(_windows, edges=_edges(image, _after(image)))
    b = image.computed(windows) if isinstance(image, ComputedImage) else windows(image)
    return replace(problem, a=a, b=b)


def channels_moved_last(problem: Contraction) -> tuple[Contraction, Packing | None] | None:
    """A convolution of any sizes with its image, channels last, in `PACKED_IMAGE`, and its filters
    as they are or packed; None where no channels are to be moved, or they fill no chunks.

    Pixels around the image are not stored there.
    """
    image = problem.b
    if type(image) is not Image or _lie_last(image) or image.taps == 1:
        return None
    image = subsampled(image)
    channels, chunk = image.channel.size, CHUNK_BYTES // emit.element_bytes(image.element)
    counts = [channels, problem.M, *(n for f in problem.a.column.factors for n in f)]
    if any(isinstance(n, Size) for n in counts) or channels % chunk:
        return None
    if not _are_small(image):
        return None
    batch = Axis(((image.batch.size, math.prod(image.sizes) * channels),))
    places = zip(image.dims, strides_of(image.sizes), strict=True)
    packed = replace(
        image, argument=PACKED_IMAGE, offset=0, batch=batch, channel=Axis(((channels, 1),)),
        dims=tuple(replace(dim, stride=stride * channels) for dim, stride in places),
    )  # fmt: skip
    packings: dict[int, Packing] = {}
    a = _filter(replace(problem, b=image), image, channels, packings, 0)
    b = _windows(packed, _edges(image, _after(image)))
    return replace(problem, a=a, b=b), packings.get(PACKED_FILTER)


def _are_small(image: Image) -> bool:
    return all(dim.window <= MAX_WINDOW for dim in image.dims)


def _after(image: Image) -> tuple[int, ...]:
    """How far windows reach beyond the last pixels, along each dimension."""
    return tuple(
        maximum(0, (dim.outputs - 1) * dim.step + dim.reach - dim.pad - dim.size)
        for dim in image.dims
    )


def _windows(image: Image, edges: tuple[Edge, ...]) -> Matrix:
    """The windows as columns of a matrix; `edges`: where they reach beyond the image."""
    offset = image.offset - sum(dim.pad * dim.stride for dim in image.dims)
    taps = [(dim.window, dim.dilation * dim.stride) for dim in image.dims]
    k = Axis.of(*taps, *image.channel.factors)
    columns = [(dim.outputs, dim.step * dim.stride) for dim in image.dims]
    b = Matrix(image.argument, image.element, offset, image.batch, k, Axis.of(*columns))
    if not edges:
        return b
    run = image.channel.size
    where = (b.argument, b.element, b.offset, b.batch, b.row, b.column)
    return Windows(*where, edges, run, fill=image.fill)


def _lie_last(image: Image) -> bool:
    """Whether channels are neighbours in memory, or share one element in some of the tensors."""
    if not isinstance(image, ComputedImage):
        return _last(image.channel)
    return all(x.channel.stride in (0, 1) for x in image.tensors) and any(
        _last(x.channel) and any(x.strides) for x in image.tensors
    )


def _narrow(image: Image) -> tuple[int, int]:
    """Channels to which a pixel of few is padded, and elements of a run of a window's pixels.

    A row of a window is one run, of a row of LDS, in place of one chunk for each of its pixels.
    Zeros where that takes no fewer elements.
    """
    size, last = emit.element_bytes(image.element), image.dims[-1].window
    pixel = 1 << (image.channel.size - 1).bit_length()
    run = ROW_CHUNKS * CHUNK_BYTES // size
    fits = last * pixel <= run < last * CHUNK_BYTES // size
    return (pixel, run) if fits and image.dims[-1].dilation == 1 and pixel * size >= 4 else (0, 0)


def _edges(image: Image, after: tuple[int, ...]) -> tuple[Edge, ...]:
    """The dimensions with padding; `after`: how far windows reach beyond the last pixels."""
    edges = []
    windows, taps = 1, image.channel.size
    for dim, beyond in zip(reversed(image.dims), reversed(after), strict=True):
        if dim.pad or beyond:
            edges.append(Edge(**vars(dim), windows=windows, taps=taps))
        windows *= dim.outputs
        taps *= dim.window
    return tuple(edges)


def stored_along(product: Product) -> Product:
    """The product, transposed where only the columns of its result are contiguous in memory."""
    result = product.result
    if result.column.stride == 1 or result.row.stride != 1:
        return product
    match = product.match.transposed()
    return replace(
        product, match=match, result=replace(result, row=result.column, column=result.row)
    )


def side_by_side(product: Product) -> Product:
    """The matrices of a batch as columns of one product; A is the same for all."""
    match, problem = product.match, product.match.problem
    assert isinstance(problem.b, Matrix)

    def joined(x: Matrix) -> Matrix:
        return replace(x, batch=Axis(()), column=Axis.of(*x.batch.factors, *x.column.factors))

    def alone(x: Matrix) -> Matrix:
        return replace(x, batch=Axis(()))

    a, b = problem.a.mapped(alone), problem.b.mapped(joined)
    own = replace(problem, batch=1, N=problem.batch * problem.N, a=a, b=b)
    match = replace(match, problem=own, sources=mapped(match.sources, joined))
    return replace(product, match=match, result=joined(product.result))


def _filter(
    problem: Contraction,
    image: Image,
    channels: int,
    packings: dict[int, Packing],
    run: int,
) -> Matrix:
    """The filters with channels last: rows of the product."""
    a, own, taps, last = problem.a, image.channel.size, image.taps, image.dims[-1].window
    channel, tap = split(a.column, own)
    if not run and channels == own and (taps == 1 or (_last(channel) and tap.stride == channels)):
        column = channel if taps == 1 else Axis.of((taps, channels), (channels, 1))
        return replace(a, column=column)
    shared = a.batch.factors[0] if a.batch.factors and a.batch.factors[0][1] == 0 else None
    groups = Axis(a.batch.factors[1:] if shared else a.batch.factors)
    start = sum(aligned(p.bytes) for p in packings.values())
    # The taps of a view may need several strides.
    outer, row = split(tap, taps // last)
    factors = [*(outer.factors or ((1, 0),)), *(row.factors or ((1, 0),))]
    sizes, strides = (tuple(numbers) for numbers in zip(*factors, strict=True))
    after, chunk = (0,) * len(sizes), 0
    if run:
        after, chunk = (*after[:-1], run // channels - last), channels
    packing = Packing(
        a.argument, a.element, a.offset, Axis.of(*groups.factors, *a.row.factors), channel,
        sizes, strides, (0,) * len(sizes), after, start, chunk,
    )  # fmt: skip
    packings[PACKED_FILTER] = packing
    K = math.prod(packing.padded) * channels
    batch = Axis.of(*((shared,) if shared else ()), (groups.size, problem.M * K))
    return Matrix(PACKED_FILTER, a.element, 0, batch, Axis.of((problem.M, K)), Axis.of((K, 1)))


def split(axis: Axis, outer: int) -> tuple[Axis, Axis]:
    """An axis as two, the first of size `outer`."""
    before: list[tuple[int, int]] = []
    rest = list(axis.factors)
    while outer > 1:
        size, stride = rest.pop(0)
        if outer % size == 0:
            before.append((size, stride))
            outer //= size
        else:
            inner = size // outer
            before.append((outer, stride * inner))
            rest.insert(0, (inner, stride))
            outer = 1
    return Axis.of(*before), Axis.of(*rest)


def subsampled(image: Image) -> Image:
    """The image with only the pixels that windows meet, along dimensions of windows of size 1."""
    if isinstance(image, ComputedImage):
        return image.mapped(subsampled)

    def met(dim: Dimension) -> Dimension:
        if dim.window != 1 or dim.pad or not (dim.outputs - 1) * dim.step < dim.size:
            return dim
        return replace(dim, size=dim.outputs, stride=dim.stride * dim.step, step=1)

    return image.with_dims(met)


def _last(axis: Axis) -> bool:
    return axis.stride == 1 or axis.size == 1


def place_of_results(match: Match) -> Matrix:
    """The offset of [batch, m, n] in each result of the kernel."""
    return match.place or row_major(replace(match.problem, N=match.columns))


def row_major(problem: Contraction) -> Matrix:
    """The offset of [batch, m, n] in a row-major result of the kernel."""
    M, N = problem.M, problem.N
    return Matrix(0, "", 0, Axis.of((problem.batch, M * N)), Axis.of((M, N)), Axis.of((N, 1)))
