"""Matches kernels that are pointwise, elements by one index, and estimates their clocks on a chip.

As for rows (see rows.cost), a SIMD is bound by instruction issue, by the path to memory, or, at
low occupancy, by latency. Only the order of the estimates matters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.choice import least, terms
from mgx_mlir.codegen.gpu.builders.function import element_bytes
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand, vector_lanes
from mgx_mlir.codegen.gpu.families.family import is_free
from mgx_mlir.codegen.gpu.families.rows.cost import (
    GLOBAL_BYTES_A_CLOCK,
    GLOBAL_LATENCY,
    SEGMENT,
    START,
    WAVES_A_SIMD,
)
from mgx_mlir.codegen.gpu.families.rows.match import RowBody, Source
from mgx_mlir.codegen.meaning.element import Element, element_of
from mgx_mlir.codegen.problem.match import through_reshapes
from mgx_mlir.codegen.problem.views import resolve, splat_constant
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.in_place import overwritable
from mgx_mlir.rewriting.symbolic import shape_of
from mgx_mlir.sizes.arithmetic import ceil_div

_BLOCKS = (256, 64)
_TIMES = (1, 2, 4, 8)
# The most elements that a thread has in flight, of all operands together.
_IN_FLIGHT = 128
# Instructions that compute an element's offset where an index has to be divided.
_DIVISION = 6


@dataclass(frozen=True)
class Result:
    """A value that is stored, element by element, as output `number`, or as a `part` of it."""

    value: ir.Value
    number: int
    element: Element
    part: MemoryOperand | None = None


@dataclass(frozen=True)
class Elements(RowBody):
    """A kernel over `size` elements, in the row-major order of its results.

    Operands have the elements' number as their inner index. The result may be written over
    the inputs `overwritable`.
    """

    size: int
    results: tuple[Result, ...]
    overwritable: frozenset[int]

    @property
    def operands(self) -> tuple[MemoryOperand, ...]:
        """The operands that are read with an element for each of the results, and the results."""
        return (*self.read, *(self.operand_of(r) for r in self.results))

    def operand_of(self, result: Result) -> MemoryOperand:
        return result.part or MemoryOperand.flat(result.number, result.element, self.size)


def match_elements(kernel: mgx.KernelOp) -> Elements | Refusal | None:
    """The kernel as elements, or why it does not match; None where it holds other work."""
    *ops, terminator = kernel.regions[0].blocks[0].operations
    work = [op for op in ops if mgx.is_pointwise(op) or isinstance(op, mgx.PointwiseOp)]
    if any(op not in work and not is_free(op) for op in ops):
        return None
    name = work[-1].operation.name if work else "a copy"
    returned = [through_reshapes(value) for value in terminator.operands]
    sizes = {math.prod(shape_of(value.type)) for value in terminator.operands}
    sizes |= {math.prod(shape_of(r.type)) for op in work for r in op.results}
    if len(sizes) != 1 or 0 in sizes:
        return Refusal(f"{name}: results of different sizes, or of none")
    results = tuple(
        Result(value, number, element_of(value.type)) for number, value in enumerate(returned)
    )
    (size,) = sizes
    return elements_of(name, work, results, size, overwritable(kernel))


def elements_of(
    name: str,
    work: Sequence[ir.OpView],
    results: Sequence[Result],
    size: int,
    overwritable: frozenset[int] = frozenset(),
) -> Elements | Refusal:
    """The elements that some ops of a kernel compute, from its inputs alone."""
    sources: dict[ir.Value, Source] = {}
    wholes: set[ir.Value] = set()
    made = {result for op in work for result in op.results}

    def read(value: ir.Value) -> bool:
        if value in sources or value in made:
            return True
        found = _source(value, size)
        if found is None:
            return False
        sources[value] = found
        if isinstance(found, MemoryOperand) and not found.repeated:
            wholes.add(value)
        return True

    for op in work:
        if not all(read(value) for value in op.operands):
            return Refusal(f"{name}: an input that is no strided view")
        if any(value in wholes for value in op.operands):
            wholes.update(op.results)
    if not all(read(result.value) for result in results):
        return Refusal(f"{name}: a result that is no strided view")
    return Elements(
        name, tuple(work), sources, frozenset(wholes), size, tuple(results), overwritable
    )


def _source(value: ir.Value, size: int) -> Source | None:
    constant = splat_constant(value)
    if constant is not None:
        return constant
    view = resolve(value)
    if view is None or math.prod(view.shape) != size:
        return None
    return MemoryOperand.row(view, element_of(value.type))


@dataclass(frozen=True)
class PointwiseSchedule:
    """Work-groups of `block` threads; a thread takes `times` vectors of `lanes` elements."""

    block: int
    lanes: int
    times: int

    @property
    def elements(self) -> int:
        """Elements of a work-group."""
        return self.block * self.lanes * self.times

    def describe(self) -> str:
        return f"{self.lanes} elements at a time, {self.times} times, {self.block} threads a block"


def schedules(lanes: int) -> Iterator[PointwiseSchedule]:
    """All schedules with vectors of up to `lanes` elements, in a fixed order."""
    widths = [width for width in (16, 8, 4, 2, 1) if width <= lanes]
    for width, block, times in product(widths, _BLOCKS, _TIMES):
        yield PointwiseSchedule(block, width, times)


def choose(elements: Elements, target: Target, most_lanes: int = 0) -> PointwiseSchedule:
    """The schedule with the least estimate; the first one among equals.

    most_lanes: the longest vectors, where they are not those that divide the size.
    """
    operands = elements.operands
    lanes = most_lanes or vector_lanes(elements.size, operands)
    most = max(1, int(_IN_FLIGHT * target.register_share) // len(operands))
    legal = [s for s in schedules(lanes) if s.lanes * s.times <= most]
    chosen = least(legal, lambda s: clocks(elements, s, target), PointwiseSchedule.describe)
    assert chosen is not None  # one element at a time is always legal
    return chosen


def clocks(elements: Elements, schedule: PointwiseSchedule, target: Target) -> float:
    """The estimate for a schedule."""
    issue, simds = target.gpu.issue_clocks, target.gpu.simds
    blocks = ceil_div(elements.size, schedule.elements)
    units = min(target.compute_units, blocks)
    waves = blocks * schedule.block / target.wave_size
    a_simd = waves / (simds * units)

    vectors = sum(_instructions(operand, schedule.lanes) for operand in elements.operands)
    instructions = 30 + schedule.times * (schedule.lanes * elements.work + vectors)
    busy = max(1.0, a_simd) * instructions * issue

    moved = sum(_moved(operand, schedule.lanes) for operand in elements.operands)
    moved *= schedule.times * target.wave_size
    memory = max(1.0, a_simd * simds) * moved / GLOBAL_BYTES_A_CLOCK

    latency = START + GLOBAL_LATENCY + instructions * issue
    rounds = max(1.0, a_simd / WAVES_A_SIMD)
    terms(issue=busy, memory=memory, latency=rounds * latency)
    # Issue and memory overlap only in part.
    return max(busy, memory, rounds * latency) + (busy + memory) / 8


def _instructions(operand: MemoryOperand, lanes: int) -> int:
    """Instructions that access a vector of an operand."""
    if operand.repeated:
        return 0
    parts = lanes // operand.width(lanes)
    return parts * (2 + _DIVISION * (len(operand.inner.factors) - 1))


def _moved(operand: MemoryOperand, lanes: int) -> float:
    """Bytes that memory moves for a lane's vector of an operand."""
    if operand.repeated:
        return 0.0
    size = element_bytes(operand.element)
    last = operand.inner.factors[-1]
    if last[1] == 0:
        return size
    width = operand.width(lanes)
    # The distance in bytes of neighbouring lanes' accesses; each moves one segment at most.
    apart = lanes * size * (abs(last[1]) if isinstance(last[1], int) else SEGMENT)
    each = min(SEGMENT, max(width * size, apart))
    return ceil_div(lanes, width) * each
