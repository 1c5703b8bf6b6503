"""The operands of products and convolutions of any sizes: parts of tensors, and packed ones.

Pointers advance to a work-group's matrix, or image (see `builders.pointers`). An image whose
channels are not last is moved to scratch memory first, channels last, and filters are packed there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.function import MAX_THREADS, Tensor, block_number, thread_number
from mgx_mlir.codegen.gpu.builders.launches import SCRATCH, Launches
from mgx_mlir.codegen.gpu.builders.pointers import Move, one_part, reach
from mgx_mlir.codegen.gpu.builders.program import aligned
from mgx_mlir.codegen.gpu.families.contraction import packing
from mgx_mlir.codegen.gpu.families.contraction.convolution import (
    PACKED_FILTER,
    PACKED_IMAGE,
    Product,
    channels_moved_last,
    in_place,
    place_of_results,
    stored_along,
    subsampled,
)
from mgx_mlir.codegen.gpu.families.contraction.crossing import by_row, crossed, mapped_matrix
from mgx_mlir.codegen.gpu.families.contraction.function import Along
from mgx_mlir.codegen.gpu.families.contraction.packing import Packing
from mgx_mlir.codegen.gpu.families.contraction.variants import Multiples
from mgx_mlir.codegen.meaning.element import element_of, sizes_of
from mgx_mlir.codegen.problem.match import mapped, match_contraction
from mgx_mlir.codegen.problem.problem import (
    Axis,
    Computed,
    Contraction,
    Image,
    Matrix,
    Windows,
    in_memory,
    pixels,
)
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number

# Pixels of a thread that packs an image, where they divide it; and chunks of neighbouring threads.
_PIXELS, _NEAR = 4, 4


@dataclass(frozen=True)
class SymbolicProduct:
    """A product, or a convolution as one, by the name of its op.

    image: the pixels whose channels are moved to be last first, [batch, channel, pixel]; None where
    nothing is moved. filters: as they are packed, likewise. along: the dimension of the grid along
    which tiles cross from image to image, or from row to row; None where each matrix has its own.
    batch: the images of a convolution, and stored: these as they lie in memory, where tiles cross.
    """

    name: str
    product: Product
    image: Matrix | None = None
    filters: Packing | None = None
    along: Along | None = None
    batch: Number = 1
    stored: Image | None = None


def match_product(kernel: mgx.KernelOp) -> SymbolicProduct | Refusal | None:
    """The product of a kernel; None where it holds none."""
    operations = kernel.regions[0].blocks[0].operations
    anchors = [op for op in operations if isinstance(op, (*mgx.DOTS, *mgx.CONVOLUTIONS))]
    if not anchors:
        return None
    name = anchors[0].OPERATION_NAME
    match = match_contraction(kernel)
    if match is None:
        return Refusal(f"{name}: types, views or an epilogue that the generator does not match")
    moved = None if match.added else channels_moved_last(match.problem)
    if moved is not None:
        own = replace(match, problem=moved[0])
        product: Product | Refusal = Product(own, place_of_results(match), {})
    else:
        product = in_place(match)
    if isinstance(product, Refusal):
        return product.of(name)
    product = stored_along(product)
    operands = [x for term in product.match.terms for x in (term.a, term.b)]
    if not {type(x) for x in operands} <= {Matrix, Windows, Computed}:
        return Refusal(f"{name}: operands that are scaled by blocks")
    if isinstance(anchors[0], mgx.DOTS):
        rows = _rows(product)
        return SymbolicProduct(name, rows or product, along="x" if rows else None)
    found = SymbolicProduct(name, product, batch=sizes_of(anchors[0].results[0].type)[0])
    image, problem = match.problem.b, product.match.problem
    # Vectors of pixels end with each image; channels that fill no chunks are packed for each.
    apart = not isinstance(image, Image) and not isinstance(problem.N, int)
    if isinstance(image, Image):
        apart = image.channel.size % (CHUNK_BYTES // emit.element_bytes(image.element)) != 0
    if not apart and (way := crossed(product)):
        found = replace(found, product=way[0], along=way[1])
    if moved is None:
        return replace(found, stored=image) if found.along and type(image) is Image else found
    assert isinstance(image, Image)
    return replace(found, image=pixels(subsampled(image)), filters=moved[1])


def _rows(product: Product) -> Product | None:
    """The product of each row, where their number alone is open; None for other products."""
    match, problem = product.match, product.match.problem
    if match.added or match.place is not None or match.causal is not None:
        return None
    if type(problem.a) is not Matrix or not problem.a.column.grows:
        return None
    one = by_row(product)
    if one is None or isinstance(one.match.problem.batch, int):
        return None
    match, problem = one.match, one.match.problem
    numbers: list[Number] = [problem.N, problem.K]
    for x in (problem.a, problem.b, *in_memory(problem.b), *match.reads):
        assert isinstance(x, Matrix)
        numbers += [x.offset, *(stride for _, stride in x.batch.factors)]
        numbers += [n for axis in (x.row, x.column) for factor in axis.factors for n in factor]
    return one if problem.a.batch.factors and all(isinstance(n, int) for n in numbers) else None


@dataclass
class Parts:
    """The matrices of one work-group: `moves` advance pointers to them, in order.

    Packed operands are in scratch memory, filters first.
    """

    types: tuple[Sequence[ir.Type], Sequence[ir.Type]]
    problem: SymbolicProduct
    moves: list[Move] = field(default_factory=list)

    def read(self, x: Matrix) -> Matrix:
        """A matrix that is read, as that of a work-group."""
        if isinstance(x, Computed):
            return mapped_matrix(x, self.read)
        filters, image = self.problem.filters, self.problem.image
        if x.argument == PACKED_FILTER and filters is not None:
            return self._moved(x, SCRATCH, self.types[0][filters.argument], filters.elements)
        if x.argument == PACKED_IMAGE and image is not None:
            type_ = self.types[0][image.argument]
            return self._moved(x, SCRATCH, type_, self.image, self.image_at)
        type_ = self.types[0][x.argument]
        return self._moved(x, Argument("input", x.argument), type_, math.prod(sizes_of(type_)))

    def written(self, x: Matrix, number: int) -> Matrix:
        """The matrix of a result, likewise."""
        type_ = self.types[1][number]
        return self._moved(x, Argument("output", number), type_, math.prod(sizes_of(type_)))

    def term(self, x: Contraction) -> Contraction:
        """The product of a work-group's matrices."""
        assert isinstance(x.b, Matrix)  # as `match_product` gives it
        return replace(x, batch=1, a=self.read(x.a), b=self.read(x.b))

    @property
    def image(self) -> Number:
        """Elements of the packed images."""
        image = self.problem.image
        return image.batch.size * image.row.size * image.column.size if image else 0

    @property
    def image_at(self) -> Number:
        """The first byte of the packed images."""
        return aligned(self.problem.filters.bytes) if self.problem.filters else 0

    @property
    def end(self) -> Number:
        """The bytes of all packed operands."""
        image = self.problem.image
        bytes_ = emit.element_bytes(image.element) if image else 0
        return self.image_at + aligned(self.image * bytes_)

    def _moved(
        self, x: Matrix, argument: Argument, type_: ir.Type, size: Number, at: Number = 0
    ) -> Matrix:
        tensor = Tensor(1, element_of(type_), written=argument.kind == "output")
        # The first windows begin before the image.
        start, inner = (0, x.offset) if isinstance(x, Windows) else (x.offset, 0)
        span = reach(x.row, x.column)
        move = Move(argument, tensor, start, x.batch, size, span, at)
        if move not in self.moves:
            self.moves.append(move)
        number = self.moves.index(move)
        return replace(x, argument=number, offset=inner, batch=one_part(start, x.batch))


@dataclass(frozen=True)
class Packed:
    """The functions that pack an image, read by `image`, and its filters.

    A run launches the one for pixels that vectors divide, or the one for others.
    """

    problem: SymbolicProduct
    image: Move
    parts: Parts

    def emit(self, launches: Launches, batch: Number, share: Number) -> None:
        """Adds the functions, for runs where `share` is 1."""
        assert self.problem.image is not None
        own = replace(self.problem.image, offset=0, batch=Axis(()))
        multiples = Multiples(_PIXELS)

        def whole(x: Axis) -> Axis:
            """The axis with all strides as multiples, and the size of neighbours."""
            return Axis(tuple((multiples(n) if s == 1 else n, multiples(s)) for n, s in x.factors))

        parts = self.image.parts
        vectors = replace(own, row=whole(own.row), column=whole(own.column))
        whole(parts)
        multiples(cast(int, self.image.offset))
        if not multiples.odd:
            self._emit(launches, batch, vectors, share)
            return
        self._emit(launches, batch, own, share - share * multiples.holds)
        if not multiples.never:
            self._emit(launches, batch, vectors, share * multiples.holds)

    def _emit(self, launches: Launches, batch: Number, image: Matrix, share: Number) -> None:
        filters = [self.problem.filters] if self.problem.filters is not None else []
        sizes, strides = (
            zip(*image.column.factors, strict=True) if image.column.factors else ((1,), (0,))
        )
        none = (0,) * len(sizes)
        own = Packing(
            image.argument, image.element, 0, image.batch, image.row, sizes, strides, none, none, 0
        )
        own = replace(own, near=math.gcd(own.channels // own.chunk, _NEAR))
        moves = [self.image, self._written]
        for packed in filters:
            count = math.prod(sizes_of(self.parts.types[0][packed.argument]))
            element = element_of(self.parts.types[0][packed.argument])
            moves += [
                Move(argument, Tensor(1, element, written), 0, Axis(()), size, size)
                for argument, written, size in (
                    (Argument("input", packed.argument), False, count),
                    (SCRATCH, True, packed.elements),
                )
            ]

        def number() -> Index:
            """The image of a work-group; those behind the images' pack filters."""
            return emit.div(block_number("x", MAX_THREADS), own.blocks)

        grid = (share * (batch * own.blocks + sum(packed.blocks for packed in filters)), 1, 1)
        with launches.moved(moves, packing.THREADS, grid, (), number) as (frame, part):
            source, target, *others = frame.buffers
            thread, block = thread_number(packing.THREADS), block_number("x", MAX_THREADS)
            here = emit.sub(block, emit.mul(part, own.blocks))
            inside: ir.Value | bool = True
            if filters:
                inside = emit.compare("slt", part, batch)
                after = emit.sub(block, emit.mul(batch, own.blocks))
                inputs = dict(zip((x.argument for x in filters), others[::2], strict=True))
                packing.emit_packings(filters, inputs, others[1::2], (thread, after), False)
            images = [own], {own.argument: source}, [target], (thread, here), True
            emit.when(inside, partial(packing.emit_packings, *images))

    @property
    def _written(self) -> Move:
        """The packed images in scratch memory."""
        found = next(
            move for move in self.parts.moves
            if move.argument == SCRATCH and move.at == self.parts.image_at and move.parts.factors
        )  # fmt: skip
        return replace(found, tensor=replace(found.tensor, written=True))


def of_rows(product: Product, rows: int) -> Product:
    """The first so many rows of a product."""

    def several(x: Matrix) -> Matrix:
        return replace(x, row=Axis.of(*((rows, stride) for _, stride in x.row.factors)))

    match, problem = product.match, product.match.problem
    own = replace(problem, M=rows, a=several(problem.a))
    sources = mapped(match.sources, several)
    return Product(replace(match, problem=own, sources=sources), several(product.result), {})
