"""Tiles that cross from image to image, of any number of images of any size.

    pixels    0 ......... P ......... 2P ........ 3P      P: pixels of an image of results
    tiles     |-----0-----|-----1-----|-----2-----|-----3

Tile t begins in image t * tile // P, to which its work-group's pointers move in 64 bits; its rows,
or columns, are those of all images from there on. Raw buffers end with the last image: pixels
beyond read 0, and are not stored. Partial sums of split-K are a matrix of all images' pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.function import MAX_THREADS, block_number
from mgx_mlir.codegen.gpu.builders.parts import Move, reach
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.function import Along, DynamicRows
from mgx_mlir.codegen.problem.match import mapped
from mgx_mlir.codegen.problem.problem import Axis, Matrix
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
        """The pixels of an image."""
        problem = self.one.match.problem
        return problem.M if self.along == "x" else problem.N

    def across(self, move: Move) -> Move:
        """A tensor of which a tile meets several images."""
        most: Number = 2
        for pixels, met in _MET:
            most = most + (1 - is_more(self.pixels, pixels)) * met
        more = minimum(self.count, most) - 1
        return replace(move, reach=move.reach + more * reach(Axis(move.parts.factors[-1:])))

    def all_of(self, move: Move, share: Number) -> Move:
        """A tensor of all images, for runs where `share` is 1."""
        span = move.reach if move.argument.kind == "scratch" else share * move.size
        return replace(move, parts=Axis(()), reach=span)

    def rows(self, size: tuple[int, int]) -> DynamicRows:
        """The pixels of a tile, of so many rows and columns."""
        block = size[0] if self.along == "x" else size[1]
        return DynamicRows(
            Argument("size", 0), block, {}, lambda x: x, image=cast(int, self.pixels),
            along=self.along, whole=True,
        )  # fmt: skip

    def _pixel(self, size: tuple[int, int], splits: int) -> Index:
        """The first pixel of a work-group's tile."""
        block = block_number(self.along, MAX_THREADS)
        if self.along == "x":
            return emit.mul(emit.div(block, splits), size[0])
        return emit.mul(block, size[1])

    def image(self, size: tuple[int, int], splits: int) -> Index:
        """The image in which a work-group's tile begins."""
        return emit.div(self._pixel(size, splits), self.pixels)

    def first(self, size: tuple[int, int], splits: int, image: Index) -> Index:
        """The pixel of its image at which the tile begins."""
        return emit.sub(self._pixel(size, splits), emit.mul(image, self.pixels))


def crossed(product: Product) -> Along | None:
    """The dimension of the grid that counts the pixels of all images, which share their filters.

    Pixels behind the last image's are behind the end of results.
    """
    problem, place = product.match.problem, product.result
    if problem.batch == 1 or product.match.added or len(place.batch.factors) != 1:
        return None
    factors = (*place.row.factors, *place.column.factors)
    if not place.batch.factors[0][1] > sum(((n - 1) * stride for n, stride in factors), start=0):
        return None
    assert isinstance(problem.b, Matrix)
    filters = [x.batch.stride == 0 for x in (problem.a, problem.b)]
    return None if filters.count(True) != 1 else "y" if filters[0] else "x"


def side_by_side(product: Product, moves: Sequence[Move], along: Along) -> Product:
    """The product of all images, from that of one: their pixels are one axis.

    moves: how each matrix's pointer moves from image to image.
    """

    def joined(x: Matrix) -> Matrix:
        axis = Axis.of(
            *moves[x.argument].parts.factors, *(x.row if along == "x" else x.column).factors
        )
        return replace(x, row=axis) if along == "x" else replace(x, column=axis)

    match, problem = product.match, product.match.problem
    a, b = problem.a, problem.b
    assert isinstance(b, Matrix)
    count = moves[product.result.argument].parts.size
    if along == "x":
        problem = replace(problem, M=count * problem.M, a=joined(a))
    else:
        problem = replace(problem, N=count * problem.N, b=joined(b))
    match = replace(match, problem=problem, sources=mapped(match.sources, joined))
    return Product(match, joined(product.result), {})
