"""Kernels that are running sums or products of rows, or searches for non-zeros: their schedules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.operands import Divided, MemoryOperand, vector_lanes
from mgx_mlir.codegen.gpu.families.family import anchored
from mgx_mlir.codegen.gpu.families.rows.match import result_of, source_of
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import is_named, shape_of
from mgx_mlir.sizes.arithmetic import Number, ceil_div, is_more

UNROLL = 4  # vectors that a thread reads at a time
MAX_PARTS = 1024
_WAVES = 8  # waves that keep a compute unit busy
_CHUNKS = 4  # the fewest vectors of a lane in a part
_SHORT = 8  # vectors of a lane along a row of symbolic length that is one part
_PARTS, _PARTS_ALONE = 32, 256  # of a longer row among others, and of one


@dataclass(frozen=True)
class Scan:
    """Running sums, or `product`s, of `rows` rows of `columns` elements.

    Operands have the rows as outer index and the columns as inner one. `reverse`: from the end
    on. `exclusive`: without the element itself.
    """

    rows: int
    columns: int
    source: MemoryOperand
    target: MemoryOperand
    exclusive: bool
    reverse: bool
    product: bool

    @property
    def name(self) -> str:
        kind = mgx.PrefixScanProdOp if self.product else mgx.PrefixScanSumOp
        return str(kind.OPERATION_NAME)

    @property
    def operands(self) -> list[MemoryOperand]:
        """The operands that vectors read and write."""
        return [self.source, self.target]

    @property
    def across(self) -> bool:
        """Whether neighbours in a row are no neighbours in memory."""
        return all(x.inner.factors[-1:] != ((self.columns, 1),) for x in self.operands)


@dataclass(frozen=True)
class NonZero:
    """The indices, in `shape`, of the elements that are not zero, in order: element [d, i] of
    the result is index d of the i-th one, and 0 where there are fewer than `most`.

    They are counted by running sums of one row of all elements.
    """

    shape: Sequence[int]
    source: MemoryOperand
    target: MemoryOperand
    most: int
    name: ClassVar[str] = mgx.NonzeroOp.OPERATION_NAME
    rows: ClassVar[int] = 1
    reverse: ClassVar[bool] = False
    product: ClassVar[bool] = False
    across: ClassVar[bool] = False

    @property
    def columns(self) -> int:
        return math.prod(self.shape)

    @property
    def operands(self) -> list[MemoryOperand]:
        """The operands that vectors read."""
        return [self.source]


@anchored(mgx.PrefixScanSumOp, mgx.PrefixScanProdOp)
def match_scan(op: mgx.PrefixScanSumOp | mgx.PrefixScanProdOp) -> Scan | Refusal:
    """The op as running sums or products, or why it does not match."""
    shape = shape_of(op.y.type)
    axis = op.axis.value % len(shape)
    source = _source(op.x, [axis])
    if isinstance(source, Refusal):
        return source
    target = result_of(0, source.element, shape, [axis])
    rows, columns = math.prod(n for d, n in enumerate(shape) if d != axis), shape[axis]
    product = isinstance(op, mgx.PrefixScanProdOp)
    return Scan(rows, columns, source, target, op.exclusive.value, op.reverse.value, product)


@anchored(mgx.NonzeroOp)
def match_nonzero(op: mgx.NonzeroOp) -> NonZero | Refusal:
    """The op as a search for elements that are not zero, or why it does not match."""
    shape, type_ = shape_of(op.x.type), op.indices.type
    source = _source(op.x, range(len(shape)))
    if isinstance(source, Refusal):
        return source
    if not is_named(type_):
        return Refusal("a result of unknown size")
    made = shape_of(type_)
    return NonZero(shape, source, result_of(0, element_of(type_), made, [1]), made[1])


def _source(value: ir.Value[ir.RankedTensorType], axes: Sequence[int]) -> MemoryOperand | Refusal:
    """The operand of an op, with rows along `axes`."""
    source = source_of(value, axes)
    if not isinstance(source, MemoryOperand):
        return Refusal("an input that is no strided view")
    if 0 in value.type.shape or source.element.is_byte_float:
        return Refusal(f"{math.prod(value.type.shape)} elements of type {source.element.name}")
    return source


@dataclass(frozen=True)
class ScanSchedule:
    """`group` lanes iterate along a part of a row, with vectors of `lanes` neighbours, or,
    `across`, one thread iterates along a part of `lanes` neighbouring rows.

    Where rows have several `parts`, a first function computes the sum of each part.
    """

    group: int
    lanes: int
    chunks: int  # vectors of a thread
    parts: int
    across: bool

    def describe(self) -> str:
        where = "rows" if self.across else "elements"
        return (
            f"{self.group} threads a row, {self.lanes} {where} at a time, {self.chunks} times, "
            f"{self.parts} parts a row"
        )


def choose(scan: Scan | NonZero, target: Target) -> ScanSchedule:
    """Along the rows where their elements are neighbours; enough parts to occupy all units."""
    lanes = lanes_of(scan)
    if scan.across:
        busy = target.compute_units * _WAVES * target.wave_size
        most = math.isqrt(scan.columns)
        while (
            lanes > 1 and lanes * scan.target.element.bits > 32 and scan.rows // lanes * most < busy
        ):
            lanes //= 2
        parts = min(ceil_div(busy, scan.rows // lanes), most)
        chunks = ceil_div(scan.columns, max(1, parts))
        return ScanSchedule(1, lanes, chunks, ceil_div(scan.columns, chunks), True)
    return along(scan.rows, scan.columns, lanes, target)


def regimes(scan: Scan | NonZero, target: Target) -> list[tuple[Number, ScanSchedule]]:
    """The schedules of symbolic sizes: for few long rows, which are cut, and for others; of rows
    that vectors divide, and of others."""
    few, parts = 1 - is_more(scan.rows, target.compute_units), _PARTS
    if scan.rows == 1:
        parts = _PARTS_ALONE
    divided, own = divided_by(scan)
    odd = divided.odd if divided.rests else 0
    found: list[tuple[Number, ScanSchedule]] = []
    for one, share in ((scan, odd), (own, 1 - odd)):
        whole, cut = _cut(one, 1, target), _cut(one, parts, target)
        step = target.wave_size * lanes_of(one)
        is_cut = few * is_more(scan.columns, _SHORT * step)
        is_short: Number = 0
        if not whole.across and not isinstance(whole.chunks, int):
            is_short = 1 - is_more(scan.columns, UNROLL // 2 * step)
            found.append((share * is_short, replace(whole, chunks=UNROLL // 2)))
        found += [(share * (1 - is_cut - is_short), whole), (share * is_cut, cut)]
    return [(share, schedule) for share, schedule in found if share != 0]


def divided_by(scan: Scan | NonZero) -> tuple[Divided, Scan | NonZero]:
    """The rows whose vectors divide their lengths and strides, and the condition for it."""
    if isinstance(scan, NonZero):
        return Divided(1), scan
    divided = Divided.of([_turned(scan, x) for x in scan.operands])
    source, target = (_turned(scan, divided.operand(_turned(scan, x))) for x in scan.operands)
    if scan.across:
        return divided, replace(scan, rows=divided.number(scan.rows), source=source, target=target)
    columns = divided.number(scan.columns)
    return divided, replace(scan, columns=columns, source=source, target=target)


def _turned(scan: Scan | NonZero, x: MemoryOperand) -> MemoryOperand:
    """An operand, or its transpose, along whose inner axis vectors lie."""
    return x.transposed if scan.across else x


def lanes_of(scan: Scan | NonZero) -> int:
    """Neighbours of a vector: in a row, or of neighbouring rows."""
    size = scan.rows if scan.across else scan.columns
    return vector_lanes(size, [_turned(scan, x) for x in scan.operands])


def _cut(scan: Scan | NonZero, parts: int, target: Target) -> ScanSchedule:
    """The schedule of a number of parts of a row."""
    group, lanes, steps = 1, lanes_of(scan), scan.columns
    if not scan.across:
        vectors, group = scan.columns // lanes, target.wave_size
        if isinstance(vectors, int):
            group = min(group, 1 << (vectors - 1).bit_length())
        steps = ceil_div(vectors, group)
    chunks = ceil_div(steps, parts * UNROLL) * UNROLL
    return ScanSchedule(group, lanes, chunks, parts, scan.across)


def along(rows: int, columns: int, lanes: int, target: Target) -> ScanSchedule:
    """A wave, or a part of one, along each part of a row."""
    vectors = columns // lanes
    group = min(target.wave_size, 1 << (vectors - 1).bit_length())
    waves = ceil_div(rows * group, target.wave_size)
    parts = min(
        ceil_div(target.compute_units * _WAVES, waves), vectors // (group * _CHUNKS), MAX_PARTS
    )
    chunks = ceil_div(vectors, group * max(1, parts))
    if chunks > UNROLL:
        chunks = ceil_div(chunks, UNROLL) * UNROLL
    return ScanSchedule(group, lanes, chunks, ceil_div(vectors, group * chunks), False)
