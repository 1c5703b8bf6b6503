"""The functions of running sums or products: of the parts, if several, and of the elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.launches import BLOCK, OUTPUT, Launches
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand, vector_lanes
from mgx_mlir.codegen.gpu.families.family import Family, Scheduled
from mgx_mlir.codegen.gpu.families.scan.layouts import Across, Along, Layout, Offset
from mgx_mlir.codegen.gpu.families.scan.space import (
    NonZero,
    Scan,
    ScanSchedule,
    choose,
    divided_by,
    lanes_of,
    match_nonzero,
    match_scan,
    regimes,
)
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import load, store
from mgx_mlir.codegen.meaning.element import I32, Element
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import ceil_div

# Converts a vector in the type of memory to a vector of terms.
Term: TypeAlias = "Callable[[ir.Value], ir.Value]"


def build(work: Scan | NonZero, launches: Launches, schedule: ScanSchedule, target: Target) -> None:
    """Adds the functions to those of `launches`."""
    if launches.is_symbolic and schedule.lanes > lanes_of(work):
        _, work = divided_by(work)
    functions = _Functions(work, launches, schedule, target)
    if isinstance(work, Scan):
        functions.parts(lambda x: _widened(work.source.element, functions.element, x))
        _sums(work, functions)
    else:
        functions.parts(lambda x: _flags(work.source.element, x))
        _indices(work, functions)


class _Functions:
    """The common part of both kinds: the sums of the parts, then the carry into each part."""

    def __init__(
        self, work: Scan | NonZero, launches: Launches, schedule: ScanSchedule, target: Target
    ) -> None:
        self.work, self.launches, self.schedule, self.target = work, launches, schedule, target
        self.source, element = work.source, work.source.element
        narrow = element.is_integer and element.bits < 32
        is_i32 = narrow or isinstance(work, NonZero)
        self.element = I32 if is_i32 else element.computed()
        self.sums: list[Argument] = []
        if schedule.parts > 1:
            self.sums.append(self.launches.scratch(work.rows * schedule.parts, self.element))
        self.input = Argument("input", work.source.argument)

    @contextmanager
    def function(
        self, read: Sequence[Argument], written: Sequence[Argument]
    ) -> Iterator[tuple[Layout, dict[Argument, ir.Value]]]:
        """The next function, with threads for all parts of all rows."""
        kind = Across if self.schedule.across else Along
        threads = kind.threads(self.work.rows, self.schedule)
        # Small work-groups spread few threads over more compute units.
        block = BLOCK if threads > BLOCK * self.target.compute_units else self.target.wave_size
        count = ceil_div(threads, block)
        with self.launches.groups([self.input, *read], written, block, count) as group:
            number = emit.mul(group.number, block)
            number = emit.add(number, builder.thread_number(block))
            layout = kind(self.work, self.element, self.schedule, self.target, number)
            if group.inside or count * block != threads:
                layout.guards.append(emit.compare("slt", number, threads))
            yield layout, group.buffers

    def parts(self, term: Term) -> None:
        """Builds the function of the sums of the parts, where there are several parts."""
        for sums in self.sums:
            with self.function([], [sums]) as (layout, buffers):

                def step(offsets: Sequence[Offset], carried: ir.Value) -> ir.Value:
                    read = [layout.load(self.source, buffers[self.input], p) for p in offsets]
                    for x in read:
                        carried = layout.total(term(x), carried)
                    return carried

                layout.keep(layout.chunks(step, layout.nothing), buffers[sums])

    def each(
        self,
        layout: Layout,
        buffers: dict[Argument, ir.Value],
        work: Callable[[ir.Value, Offset, ir.Value], ir.Value],
    ) -> None:
        """Applies `work` to each vector of the source, with the carry from the one before."""

        def step(offsets: Sequence[Offset], carried: ir.Value) -> ir.Value:
            # All reads go first: they are in flight together.
            read = [layout.load(self.source, buffers[self.input], offset) for offset in offsets]
            for x, offset in zip(read, offsets, strict=True):
                carried = work(x, offset, carried)
            return carried

        layout.chunks(step, layout.carry(buffers[self.sums[0]]) if self.sums else layout.nothing)


def _sums(scan: Scan, functions: _Functions) -> None:
    element = scan.source.element
    with functions.function(functions.sums, [OUTPUT]) as (layout, buffers):

        def work(x: ir.Value, offset: Offset, carried: ir.Value) -> ir.Value:
            x = _widened(element, layout.element, x)
            found, carried = layout.sums(x, carried, scan.exclusive)
            a = Arithmetic.like([found])
            if element.is_integer and element.bits < 32:
                found = arith.trunci(a.type(element.storage()), found)
            layout.store(scan.target, store(a, element, found), buffers[OUTPUT], offset)
            return carried

        functions.each(layout, buffers, work)


def _widened(element: Element, wide: Element, x: ir.Value) -> ir.Value:
    """A vector of elements in the type of the sum."""
    a = Arithmetic.like([x])
    x = load(a, element, x)
    narrow = element.is_integer and element.bits < wide.bits
    return a.extend(element, x, wide.storage()) if narrow else x


def _indices(work: NonZero, functions: _Functions) -> None:
    target, size = work.target, len(work.shape) * work.most
    whole = MemoryOperand.flat(0, target.element, size)
    lanes = vector_lanes(size, [whole])
    with functions.launches.each([], [OUTPUT], size, lanes) as all_:
        zeros = Arithmetic([lanes]).constant(0, target.element.storage())
        whole.store(zeros, all_.buffers[OUTPUT], 0, all_.offset, all_.inside)
    with functions.function(functions.sums, [OUTPUT]) as (layout, buffers):

        def put(x: ir.Value, offset: Offset, carried: ir.Value) -> ir.Value:
            flags = _flags(work.source.element, x)
            found, carried = layout.sums(flags, carried, True)
            for number in range(functions.schedule.lanes):
                _put(work, memory.element(flags, number), memory.element(found, number),
                     emit.add(offset[0], number), buffers[OUTPUT])  # fmt: skip
            return carried

        functions.each(layout, buffers, put)


def _put(
    work: NonZero, flag: ir.Value, rank: ir.Value, offset: emit.Index, output: ir.Value
) -> None:
    """Writes the indices of an element as the `rank`-th ones, where the element is not zero."""
    to = arith.index_cast(ir.IndexType.get(), rank)
    guards = [
        arith.cmpi(arith.CmpIPredicate.ne, flag, emit.constant(0, "i32")),
        emit.compare("slt", to, work.most),
    ]
    target, type_ = work.target, work.target.element.storage()
    for d, index in enumerate(emit.split(offset, *work.shape[1:])):
        x = emit.splat(arith.index_cast(type_, emit.value(index)), 1)
        target.store(x, output, target.start(d), to, guards)


def _flags(element: Element, x: ir.Value) -> ir.Value:
    """1 for each element that is not zero, NaN among them, else 0."""
    a = Arithmetic.like([x])
    x = load(a, element, x)
    if element.bits > 1:
        zero = a.int(0, x) if not element.is_float else a.float(0.0, x)
        x = a.compare("une", x, zero) if element.is_float else a.icompare("ne", x, zero)
    return arith.extui(a.type(I32.storage()), x)


def match(kernel: mgx.KernelOp) -> Scan | NonZero | Refusal | None:
    """The kernel as running sums or a search, or why it does not match; None for other work."""
    return match_scan(kernel) or match_nonzero(kernel)


_program = Scheduled[Scan | NonZero, ScanSchedule](match, choose, build, regimes)
FAMILY = Family("scan", 110, _program, symbolic=True)
