"""Tiles that cross from image to image, of any number of images of any size.

    pixels    0 ......... P ......... 2P ........ 3P      P: pixels of an image of results
    tiles     |-----0-----|-----1-----|-----2-----|-----3

Tile t begins in image t * tile // P, to which its work-group's pointers move in 64 bits; its rows,
or columns, are those of all images from there on. Raw buffers end with the last image: pixels
beyond read 0, and are not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.function import MAX_THREADS, block_number
from mgx_mlir.codegen.gpu.builders.pointers import Move
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.function import Along
from mgx_mlir.codegen.problem.match import mapped
from mgx_mlir.codegen.problem.problem import Axis, Computed, Contraction, Matrix, Windows, in_memory
from mgx_mlir.sizes.arithmetic import Number, is_more, minimum

# Images of up to so many pixels, of which a tile of 1024 meets so many besides two.
_MET = ((1022, 15), (63, 1008))


@dataclass(frozen=True)
class CrossedImages:
    """Images whose pixels are an axis of one product. one: the product of an image.

    Tile t begins in image t * tile // pixels, to which its work-group's pointers move.
    """

    along: Along
    one: Product
    count: Number

    @property
    def pixels(self) -> Number:
        problem = self.one.match.problem
        return problem.M if self.along == "x" else problem.N

    def across(self, move: Move) -> Move:
        """A tensor of which a tile meets several images."""
        most: Number = 2
        for pixels, met in _MET:
            most = most + (1 - is_more(self.pixels, pixels)) * met
        more, strides = minimum(self.count, most) - 1, [s for _, s in move.parts.factors[-1:]]
        return replace(move, reach=move.reach + more * sum(strides))

    def _pixel(self, size: tuple[int, int]) -> Index:
        """The first pixel of a work-group's tile."""
        return emit.mul(block_number(self.along, MAX_THREADS), size["xy".index(self.along)])

    def image(self, size: tuple[int, int]) -> Index:
        """The image in which a work-group's tile begins."""
        return emit.div(self._pixel(size), self.pixels)

    def first(self, size: tuple[int, int], image: Index) -> Index:
        """The pixel of its image at which the tile begins."""
        if isinstance(self.pixels, int) and self.pixels == 1:
            return 0
        return emit.sub(self._pixel(size), emit.mul(image, self.pixels))


def crossed(product: Product) -> tuple[Product, Along] | None:
    """A convolution's product of an image, and the dimension of the grid that counts the pixels of
    all images, which share their filters.

    Images that are one matrix already count as one of a pixel each. Pixels behind the last image's
    are behind the end of results.
    """
    problem = product.match.problem
    if problem.batch == 1 and not isinstance(problem.M, int):
        rows = by_row(product)
        if rows is None:
            return None
        product, problem = rows, rows.match.problem
    place = product.result
    if problem.batch == 1 or len(place.batch.factors) != 1:
        return None
    factors = (*place.row.factors, *place.column.factors)
    if not place.batch.factors[0][1] > sum(((n - 1) * stride for n, stride in factors), start=0):
        return None
    found: set[Along | None] = set()
    for term in product.match.terms:
        assert isinstance(term.b, Matrix)
        filters = [x.batch.stride == 0 for x in (term.a, term.b)]
        found.add(None if filters.count(True) != 1 else "y" if filters[0] else "x")
    along = found.pop()
    return None if along is None or found else (product, along)


def by_row(product: Product) -> Product | None:
    """The product of each row of all matrices, which share the right operand; None where rows have
    no one stride."""
    match = product.match
    count = match.problem.batch * match.problem.M

    def all_rows(x: Matrix) -> Axis:
        return Axis.of(*x.batch.factors, *x.row.factors)

    def row(x: Matrix) -> Matrix:
        stride = all_rows(x).stride
        return replace(x, batch=Axis(((count, stride),) if stride else ()), row=Axis(()))

    def shared(x: Matrix) -> Matrix:
        return replace(x, batch=Axis(()))

    rows, terms = [*match.reads, product.result], []
    for term in match.terms:
        a, b = in_memory(term.a), in_memory(term.b)
        rows += [x for x in (term.a, *a) if isinstance(x, Matrix)]
        read = [x for x in (term.b, *b) if isinstance(x, Matrix)]
        if any(isinstance(x, Windows) for x in (*a, *b)) or any(x.batch.stride for x in read):
            return None
        if any(len(x.batch.factors) > 1 for x in read):
            return None
        right = mapped_matrix(read[0], shared)
        terms.append(replace(term, batch=count, M=1, a=mapped_matrix(term.a, row), b=right))
    if any(all_rows(x).stride is None for x in rows):
        return None
    own = replace(match, problem=terms[0], added=tuple(terms[1:]))
    own = replace(own, sources=mapped(match.sources, row))
    return Product(own, row(product.result), {})


def mapped_matrix(x: Matrix, change: Callable[[Matrix], Matrix]) -> Matrix:
    """A matrix, plain or computed, with its layout changed."""
    if not isinstance(x, Computed):
        return change(x)
    found = x.mapped(change)
    return replace(found, argument=found.tensors[0].matrix.argument)


def side_by_side(product: Product, moves: Sequence[Move], along: Along) -> Product:
    """The product of all images, from that of one: their pixels are one axis.

    moves: how each matrix's pointer moves from image to image.
    """
    count = moves[product.result.argument].parts.size

    def joined(x: Matrix) -> Matrix:
        own = x.row if along == "x" else x.column
        axis = Axis.of(*moves[x.argument].parts.factors, *own.factors)
        return replace(x, row=axis) if along == "x" else replace(x, column=axis)

    def term(x: Contraction) -> Contraction:
        assert isinstance(x.b, Matrix)
        if along == "x":
            return replace(x, M=count * x.M, a=mapped_matrix(x.a, joined))
        return replace(x, N=count * x.N, b=mapped_matrix(x.b, joined))

    return Product(product.match.mapped(term, joined), joined(product.result), {})
