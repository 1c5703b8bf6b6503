"""A contraction as a problem, apart from its schedule: sizes, and the layouts of the operands.

    C[batch, m, n] = sum over k of A[batch, m, k] * B[batch, k, n]

A is a strided matrix. B is a strided matrix too, or the windows of an image (convolution).
C is row-major. The work on C before it is stored is the epilogue.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace

from mlir import ir
from typing_extensions import Self

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.sizes.arithmetic import common_factor


@dataclass(frozen=True)
class Axis:
    """One index that moves through memory: (size, stride) factors, slowest first.

    Factors that can merge are merged, and factors of size 1 are left out, by `Axis.of`.
    Strides count elements; a broadcast has stride 0.
    """

    factors: tuple[tuple[int, int], ...]

    @staticmethod
    def of(*factors: tuple[int, int]) -> Axis:
        merged: list[tuple[int, int]] = []
        for size, stride in factors:
            if size == 1:
                continue
            if merged and merged[-1][1] == size * stride:
                merged[-1] = (merged[-1][0] * size, stride)
            else:
                merged.append((size, stride))
        return Axis(tuple(merged))

    @property
    def size(self) -> int:
        return math.prod(size for size, _ in self.factors)

    def distance(self, number: int) -> int:
        """The elements from the first element of the axis to another."""
        total = 0
        for size, stride in reversed(self.factors):
            number, here = divmod(number, size)
            total += here * stride
        return total

    @property
    def stride(self) -> int | None:
        """The distance of neighbours where it is constant, else None."""
        if not self.factors:
            return 0
        return self.factors[0][1] if len(self.factors) == 1 else None

    @property
    def grows(self) -> bool:
        """Whether `offset` is a sum of terms of which none is negative, as LLVM writes it.

        x / 3 * 6 + x % 3 is x + x / 3 * 3, but LLVM may make 2 * x - x % 3 of it.
        """
        strides = [stride for _, stride in self.factors]
        pairs = zip(self.factors, self.factors[1:], strict=False)
        return min(strides, default=0) >= 0 and all(
            outer >= size * inner and isinstance(size, int) and size & (size - 1) == 0
            for (_, outer), (size, inner) in pairs
        )

    def contiguous(self, lanes: int) -> bool:
        """Whether each group of `lanes` elements, aligned to `lanes`, is contiguous."""
        if not self.factors or self.factors[-1][1] != 1:
            return False
        return len(self.factors) == 1 or self.factors[-1][0] % lanes == 0

    def split(self, inner: int) -> tuple[Axis, Axis] | None:
        """The axis as two: of quotients of its index by `inner`, and of remainders.

        None where no factors of it have the size `inner`.
        """
        fast: list[tuple[int, int]] = []
        slow = list(self.factors)
        while inner not in (0, 1) and slow:
            size, stride = slow.pop()
            if isinstance(size, int) and inner % size == 0:
                fast.insert(0, (size, stride))
                inner //= size
            elif size % inner == 0:
                slow.append((size // inner, stride * inner))
                fast.insert(0, (inner, stride))
                inner = 1
            else:
                return None
        return (Axis.of(*slow), Axis.of(*fast)) if inner in (0, 1) else None

    def offset(self, index: Index) -> Index:
        """The offset of `index` from the axis' start, in elements."""
        result: Index = 0
        for number, (size, stride) in reversed(list(enumerate(self.factors))):
            here = index if number == 0 else emit.rem(index, size)
            result = emit.add(result, emit.mul(here, stride))
            index = emit.div(index, size)
        return result


def vector_width(contiguous: Axis, *others: Axis, offset: int, limit: int) -> int:
    """Neighbours along `contiguous` that one aligned access can read, at every start.

    A power of two up to `limit` that divides every stride, the offset and the size; 1 where
    nothing is known.
    """
    if not contiguous.contiguous(1):
        return 1
    strides = [stride for axis in others for _, stride in axis.factors]
    strides += [stride for _, stride in contiguous.factors[:-1]]
    sizes = [contiguous.factors[-1][0]] if len(contiguous.factors) > 1 else []
    # A vector must not cross the end: the hardware drops all of a word that is partly outside.
    return math.gcd(limit, *map(common_factor, (offset, contiguous.size, *strides, *sizes)))


@dataclass(frozen=True)
class Matrix:
    """A view of the kernel's input number `argument` as matrices [batch, row, column]."""

    argument: int
    element: str
    offset: int
    batch: Axis
    row: Axis
    column: Axis

    @property
    def grows(self) -> bool:
        """Whether rows and columns grow; constants are not added to the number of a batch."""
        return self.row.grows and self.column.grows

    def start(self, batch: Index) -> Index:
        return emit.add(self.batch.offset(batch), self.offset)

    def at(self, batch: Index, row: Index, column: Index) -> Index:
        """The element's offset in the argument, in elements."""
        place = emit.add(self.start(batch), self.row.offset(row))
        return emit.add(place, self.column.offset(column))

    def transposed(self) -> Self:
        return replace(self, row=self.column, column=self.row)

    def mapped(self, change: Callable[[Matrix], Matrix]) -> Matrix:
        """The matrix with `change` applied to each of its layouts."""
        return change(self)


@dataclass(frozen=True)
class Read:
    """A tensor from which a computed matrix is computed: [batch, row, column] of `matrix`.

    `matrix.element` is the type in memory, `element` the dialect's. Where a byte holds several
    elements, offset and strides count elements.
    """

    matrix: Matrix
    element: str
    per_byte: int = 1


@dataclass(frozen=True)
class Computed(Matrix):
    """A matrix whose elements a `mgx.pointwise`, `op`, computes as they are read.

    `reads`: the operands of `op`; constants are splats. The matrix's own offset and axes are those
    of one of them. Its element type is the result's.
    """

    op: ir.OpView
    reads: tuple[Read | ir.Attribute, ...]

    @property
    def tensors(self) -> tuple[Read, ...]:
        """The operands that are read from memory."""
        return tuple(read for read in self.reads if isinstance(read, Read))

    def transposed(self) -> Computed:
        return self.mapped(Matrix.transposed)

    def mapped(self, change: Callable[[Matrix], Matrix]) -> Computed:
        """The matrix with `change` applied to its own layout and to those of its reads."""
        own = change(Matrix(*(getattr(self, f.name) for f in fields(Matrix))))
        reads = tuple(
            replace(x, matrix=change(x.matrix)) if isinstance(x, Read) else x for x in self.reads
        )
        return replace(
            self, offset=own.offset, batch=own.batch, row=own.row, column=own.column, reads=reads
        )


@dataclass(frozen=True)
class Dimension:
    """A spatial dimension of an image, and of the windows that move along it by `step`.

    `stride` is of memory, `outputs` the number of windows, `window` of the pixels that each has,
    and `pad` of those before the image.
    """

    size: int
    stride: int
    outputs: int
    window: int
    step: int
    dilation: int
    pad: int

    @property
    def reach(self) -> int:
        """The pixels from a window's first to its last, and both."""
        return (self.window - 1) * self.dilation + 1


@dataclass(frozen=True)
class Edge(Dimension):
    """A dimension whose windows may reach beyond the image.

    Window number w is at position `w // windows % outputs` along the dimension, and tap t is at
    `t // taps % window` in it.
    """

    windows: int
    taps: int


@dataclass(frozen=True)
class Windows(Matrix):
    """The windows of an image as a matrix: one axis is the windows, the other their taps.

    Elements beyond one of the `edges` are `fill`; their offsets point at other elements of memory.
    `run`: the number of taps that are neighbours in memory and together inside or outside. With
    `kept`, only that many of each run count and the others are zero; there are no edges then.
    """

    edges: tuple[Edge, ...]
    run: int
    kept: int = 0
    fill: float = 0


@dataclass(frozen=True)
class Image:
    """Windows of a view of input `argument`, as matrices [batch, (channel, window), output].

    `fill`: the number that elements beyond the edges have.
    """

    argument: int
    element: str
    offset: int
    batch: Axis
    channel: Axis
    dims: tuple[Dimension, ...]
    fill: float = field(default=0, kw_only=True)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(dim.size for dim in self.dims)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(dim.stride for dim in self.dims)

    @property
    def taps(self) -> int:
        """Pixels of a window."""
        return math.prod(dim.window for dim in self.dims)

    @property
    def outputs(self) -> tuple[int, ...]:
        return tuple(dim.outputs for dim in self.dims)

    @property
    def axes(self) -> tuple[Axis, Axis, Axis]:
        """The axes of images and of channels, and the pixels' dimensions as one."""
        return self.batch, self.channel, Axis(tuple((dim.size, dim.stride) for dim in self.dims))

    def with_dims(self, change: Callable[[Dimension], Dimension]) -> Self:
        return replace(self, dims=tuple(map(change, self.dims)))

    def matrix(self) -> Matrix | None:
        """The matrix of a window that has one position, without padding; None for other images."""
        if any(dim.outputs != 1 or dim.pad or not dim.reach <= dim.size for dim in self.dims):
            return None
        taps = [(dim.window, dim.dilation * dim.stride) for dim in self.dims]
        row = Axis.of(*self.channel.factors, *taps)
        return Matrix(self.argument, self.element, self.offset, self.batch, row, Axis(()))

    def start(self, batch: Index) -> Index:
        return emit.add(self.batch.offset(batch), self.offset)


@dataclass(frozen=True)
class ComputedImage(Image):
    """An image whose pixels a `mgx.pointwise`, `op`, computes as they are read.

    `reads`: the operands of `op`, images of the same sizes and windows; constants are splats.
    Pixels beyond the edges are not computed.
    """

    op: ir.OpView
    reads: tuple[Image | ir.Attribute, ...]

    @property
    def tensors(self) -> tuple[Image, ...]:
        """The operands that are read from memory."""
        return tuple(read for read in self.reads if isinstance(read, Image))

    def mapped(self, change: Callable[[Image], Image]) -> ComputedImage:
        """The image with `change` applied to its own layout and to those of its reads."""
        own = change(Image(**{f.name: getattr(self, f.name) for f in fields(Image)}))
        reads = tuple(change(x) if isinstance(x, Image) else x for x in self.reads)
        changed = {f.name: getattr(own, f.name) for f in fields(Image) if f.name != "element"}
        return replace(self, **changed, reads=reads)

    def computed(self, place: Callable[[Image], Matrix]) -> Computed:
        """The image as a computed matrix; `place` gives the matrix of an image."""
        own = place(self)
        reads = tuple(Read(place(x), x.element) if isinstance(x, Image) else x for x in self.reads)
        return Computed(
            own.argument, self.element, own.offset, own.batch, own.row, own.column, self.op, reads
        )

    def matrix(self) -> None:
        """None: no kernel reads computed pixels as one column."""


@dataclass(frozen=True)
class Contraction:
    """Sizes, operands, and the element type in which products are summed."""

    batch: int
    M: int
    N: int
    K: int
    a: Matrix
    b: Matrix | Image
    accumulator: str


def pixels(image: Image) -> Matrix:
    """An image as matrices [batch, channel, pixel]."""
    column = Axis.of(*image.axes[2].factors)
    return Matrix(image.argument, image.element, image.offset, image.batch, image.channel, column)


def in_memory(operand: Matrix | Image) -> tuple[Matrix | Image, ...]:
    """The matrices or images that are read from memory for an operand."""
    if isinstance(operand, Computed):
        return tuple(read.matrix for read in operand.tensors)
    return operand.tensors if isinstance(operand, ComputedImage) else (operand,)


def transposed(problem: Contraction) -> Contraction:
    """The product with both matrices transposed, which gives the transposed result."""
    a, b = problem.a, problem.b
    assert isinstance(b, Matrix)
    return replace(problem, M=problem.N, N=problem.M, a=b.transposed(), b=a.transposed())
