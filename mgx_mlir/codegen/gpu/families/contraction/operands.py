"""The operands of products and convolutions of any sizes: parts of tensors, and packed ones.

Pointers advance to a work-group's matrix, or image (see `builders.pointers`). An image whose
channels are not last is moved to scratch memory first, channels last, and filters are packed there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from mlir import ir

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.function import (
    MAX_THREADS,
    Tensor,
    block_number,
    thread_number,
)
from mgx_mlir.codegen.gpu.builders.parts import (
    Move,
    OpenProgram,
    one_part,
    reach,
)
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
from mgx_mlir.codegen.gpu.families.contraction.function import (
    Parameter,
    WorkGroups,
    add_function,
)
from mgx_mlir.codegen.gpu.families.contraction.packing import Packing, emit_channels_last
from mgx_mlir.codegen.meaning.element import element_of, sizes_of
from mgx_mlir.codegen.problem.match import mapped, match_contraction
from mgx_mlir.codegen.problem.problem import Axis, Contraction, Image, Matrix, Windows, pixels
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import (
    Number,
    ceil_div,
)

SCRATCH = Argument("scratch", 0)
# Threads of a work-group that packs.
_PACKING = 256


@dataclass(frozen=True)
class SymbolicProduct:
    """A product, or a convolution as one, by the name of its op.

    image: the pixels whose channels are moved to be last first, [batch, channel, pixel]; None where
    nothing is moved. filters: as they are packed, likewise.
    """

    name: str
    product: Product
    image: Matrix | None = None
    filters: Packing | None = None


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
    if not {type(x) for x in operands} <= {Matrix, Windows}:
        return Refusal(f"{name}: operands that are not plain matrices or images")
    if moved is None:
        return SymbolicProduct(name, product)
    assert isinstance(match.problem.b, Image)
    return SymbolicProduct(name, product, pixels(subsampled(match.problem.b)), moved[1])


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
        number = len(self.moves)
        tensor = Tensor(1, element_of(type_), written=argument.kind == "output")
        # The first windows begin before the image.
        start, inner = (0, x.offset) if isinstance(x, Windows) else (x.offset, 0)
        span = reach(x.row, x.column)
        self.moves.append(Move(argument, tensor, start, x.batch, size, span, at))
        return replace(x, argument=number, offset=inner, batch=one_part(start, x.batch))


@dataclass(frozen=True)
class Packed:
    """The functions that pack an image, read by `image`, and its filters."""

    problem: SymbolicProduct
    image: Move
    parts: Parts

    def emit(self, program: OpenProgram, batch: Number) -> None:
        """Adds the functions."""
        filters, image = self.problem.filters, self.problem.image
        if filters is not None:
            program.add(partial(self._filters, filters))
        assert image is not None
        output = next(
            move for move in self.parts.moves
            if move.argument == SCRATCH and move.at == self.parts.image_at and move.parts.factors
        )  # fmt: skip
        chunks = image.row.size // (CHUNK_BYTES // emit.element_bytes(image.element))
        grid = (ceil_div(image.column.size, _PACKING), chunks, batch)
        moves = [self.image, replace(output, tensor=replace(output.tensor, written=True))]
        with program.function(_PACKING, grid, (), "z", moves) as (frame, _):
            source, target = frame.buffers
            block = emit.mul(block_number("x", MAX_THREADS), _PACKING)
            thread = emit.add(block, thread_number(_PACKING))
            own = replace(image, offset=0)
            emit_channels_last(own, source, target, thread, block_number("y", chunks))

    def _filters(self, filters: Packing, block: ir.Block, name: str) -> Launch:
        count = math.prod(sizes_of(self.parts.types[0][filters.argument]))
        assert isinstance(count, int)
        read = Parameter(filters.element, count, Argument("input", filters.argument))
        packed = Parameter(filters.element, filters.elements, SCRATCH)
        groups = WorkGroups(packing.THREADS, (filters.blocks, 1, 1))
        body = partial(packing.emit_packing, [filters])
        return add_function(block, name, ({filters.argument: read}, [packed]), groups, body)


def of_one_row(product: Product) -> Product:
    """The first row of a product."""

    def first(x: Matrix) -> Matrix:
        return replace(x, row=Axis(()))

    match, problem = product.match, product.match.problem
    own = replace(problem, M=1, a=first(problem.a))
    sources = mapped(match.sources, first)
    return Product(replace(match, problem=own, sources=sources), first(product.result), {})


def most_lanes(product: Product) -> int:
    """Elements of a vector of 16 bytes, of the operand that has most."""
    operands = [x for term in product.match.terms for x in (term.a, term.b)]
    return CHUNK_BYTES // min(emit.element_bytes(x.element) for x in operands)


def matrices(product: Product) -> list[Matrix]:
    """The matrices that are read and written."""
    match = product.match
    operands = [x for term in match.terms for x in (term.a, term.b) if isinstance(x, Matrix)]
    return [*operands, *match.reads, product.result]
