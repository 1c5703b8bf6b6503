"""The layouts of a thread's chunks: along the rows, or across them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import lanes as wave
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.builders.ordering import barrier
from mgx_mlir.codegen.gpu.families.rows.evaluate import Chunk, Layout, Partial, Reduction
from mgx_mlir.codegen.gpu.families.rows.match import Result, Rows
from mgx_mlir.codegen.gpu.families.rows.space import RowSchedule
from mgx_mlir.codegen.meaning.element import Element, bit_width
from mgx_mlir.codegen.problem.problem import Axis

# Partial results of other threads that a thread reads from LDS at a time.
_AT_ONCE = 8


@dataclass
class _Layout(Layout):
    """The common part of both layouts. `row`: the thread's first row; `part`: the thread's
    number along the row; `lds`: arrays in the order of their use."""

    rows: Rows
    schedule: RowSchedule
    target: Target
    buffers: Mapping[Argument, ir.Value]
    lds: Sequence[ir.Value]

    row: Index = 0
    part: Index = 0
    thread: Index = 0
    block_part: Index = 0  # this work-group's number among those that share a row

    def __post_init__(self) -> None:
        self.lanes = self.schedule.lanes
        self._starts: dict[MemoryOperand, Index] = {}
        self._lds = iter(self.lds)

    def target_of(self, result: Result) -> ir.Value:
        return self.buffers[Argument("output", result.operand.argument)]

    def guards(self, bounded: bool, chunk: Chunk | None = None) -> list[ir.Value]:
        """The conditions under which a result is stored."""
        found = [emit.compare("slt", self.row, self.rows.rows)] if bounded else []
        if chunk is not None and chunk.inside is not None:
            found.append(chunk.inside)
        return found

    def first_only(self) -> list[ir.Value]:
        """The condition that holds in one thread of a row, in each work-group of the row."""
        return [emit.compare("eq", self.part, 0)] if self.schedule.threads > 1 else []

    def one_only(self) -> list[ir.Value]:
        """The conditions that hold in one thread of a row over all its work-groups."""
        other_blocks = not isinstance(self.block_part, int)
        first = [emit.compare("eq", self.block_part, 0)] if other_blocks else []
        return [*self.first_only(), *first]

    def kept(self, element: Element) -> MemoryOperand:
        """The scratch operand [parts, rows] of the partial results of a row's work-groups."""
        rows, parts = self.rows.rows, self.schedule.parts
        return MemoryOperand(0, element, 0, Axis.of((parts, rows)), Axis.of((rows, 1)))


class Along(_Layout):
    """A chunk is neighbours in a row; threads of a row are neighbours in a work-group."""

    @property
    def lanes_kept(self) -> int:
        """Elements of a partial result that work-groups exchange; 0 for a scalar."""
        return 0

    def begin(self, thread: Index, block: Index) -> None:
        schedule = self.schedule
        group = emit.div(thread, schedule.threads)
        if schedule.threads % self.target.wave_size == 0:
            group = wave.uniform(group) if schedule.together > 1 else 0
        self.thread = thread
        self.part = emit.rem(thread, schedule.threads)
        self.row = emit.add(emit.mul(block, schedule.together), group)
        self.group = group
        # The starts are computed once, before any loop.
        self._starts = {operand: operand.start(self.row) for operand in self.rows.operands}

    def chunk(self, number: Index, last: bool) -> Chunk:
        """Chunk `number` of the thread; the last chunk may lie outside the row."""
        first = emit.mul(self.part, self.lanes)
        more = emit.mul(number, self.schedule.threads * self.lanes)
        if not isinstance(more, int):
            first, more = emit.add(first, more), 0
        inside = emit.compare("slt", first, emit.sub(self.rows.columns, more)) if last else None
        return Chunk(first, inside, more)

    def load(self, source: MemoryOperand, chunk: Chunk) -> ir.Value:
        inside = [chunk.inside] if chunk.inside is not None else []
        start = self._starts[source]
        return source.load(self.source(source), start, chunk.first, self.lanes, inside, chunk.more)

    def load_row(self, source: MemoryOperand) -> ir.Value:
        return source.load_one(self.source(source), source.start(self.row))

    def columns_of(self, chunk: Chunk) -> ir.Value:
        i32 = ir.IntegerType.get_signless(32)
        type_ = ir.VectorType.get([self.lanes], i32)
        counts = [ir.IntegerAttr.get(i32, i) for i in range(self.lanes)]
        steps = arith.constant(type_, ir.DenseElementsAttr.get(counts, type_))
        first = arith.index_cast(i32, emit.value(chunk.column))
        return arith.addi(emit.splat(first, self.lanes), steps)

    def reduce(self, reduction: Reduction, partial: Partial) -> Partial:
        """Reduces a thread's partial vectors to scalars that all threads of the row share."""
        parts: list[Partial] = [
            tuple(memory.element(x, i) for x in partial) for i in range(self.lanes)
        ]
        return self.reduce_one(reduction, reduction.fold(parts))

    def reduce_one(self, reduction: Reduction, single: Partial) -> Partial:
        """Reduces a thread's partial scalars to scalars that all threads of the row share."""
        threads, size = self.schedule.threads, self.target.wave_size
        lane = emit.rem(self.thread, size)
        found = wave.reduce(single, min(threads, size), lane, reduction.combine, self.target)
        if threads <= size:
            return tuple(found)
        waves = threads // size
        number = emit.div(self.thread, size)
        first = emit.mul(self.group, waves)
        arrays = [next(self._lds) for _ in found]
        for array, x in zip(arrays, found, strict=True):
            emit.store(held(x), array, number)
        barrier()
        other = emit.add(first, emit.rem(lane, waves))
        again = [freed(emit.load(array, other), x) for array, x in zip(arrays, found, strict=True)]
        return tuple(wave.reduce(again, waves, lane, reduction.combine, self.target))

    def store(self, result: Result, value: ir.Value, chunk: Chunk, bounded: bool) -> None:
        operand = result.operand
        start = self._starts[operand]
        guards = self.guards(bounded, chunk)
        operand.store(value, self.target_of(result), start, chunk.first, guards, chunk.more)

    def store_row(self, result: Result, value: ir.Value, bounded: bool) -> None:
        operand = result.operand
        vector = emit.splat(value, 1)
        guards = [*self.one_only(), *self.guards(bounded)]
        operand.store(vector, self.target_of(result), operand.start(self.row), 0, guards)


class Across(_Layout):
    """A chunk is the same element of neighbouring rows; so are the chunks of neighbouring
    threads."""

    @property
    def lanes_kept(self) -> int:
        """Elements of a partial result that work-groups exchange: a vector of rows."""
        return self.lanes

    def reduce_one(self, reduction: Reduction, single: Partial) -> Partial:
        """As `reduce`: the partial results that work-groups exchange are vectors."""
        return self.reduce(reduction, single)

    def begin(self, thread: Index, block: Index) -> None:
        schedule = self.schedule
        self.side = emit.rem(thread, schedule.together)
        self.part = emit.div(thread, schedule.together)
        self.thread = thread
        vectors = emit.add(emit.mul(block, schedule.together), self.side)
        self.row = emit.mul(vectors, self.lanes)

    def chunk(self, number: Index, last: bool) -> Chunk:
        column = emit.add(self.part, emit.mul(number, self.schedule.threads))
        inside = emit.compare("slt", column, self.rows.columns) if last else None
        return Chunk(column, inside)

    def load(self, source: MemoryOperand, chunk: Chunk) -> ir.Value:
        transposed = source.transposed
        start = transposed.start(chunk.column)
        inside = [chunk.inside] if chunk.inside is not None else []
        return transposed.load(self.source(source), start, self.row, self.lanes, inside)

    def load_row(self, source: MemoryOperand) -> ir.Value:
        transposed = source.transposed
        return transposed.load(self.source(source), transposed.start(0), self.row, self.lanes, [])

    def repeated(self, value: ir.Value) -> ir.Value:
        return value if isinstance(value.type, ir.VectorType) else emit.splat(value, self.lanes)

    def of_row(self, value: ir.Value) -> ir.Value:
        return self.repeated(value)

    def columns_of(self, chunk: Chunk) -> ir.Value:
        i32 = ir.IntegerType.get_signless(32)
        return emit.splat(arith.index_cast(i32, emit.value(chunk.column)), self.lanes)

    def reduce(self, reduction: Reduction, partial: Partial) -> Partial:
        """Reduces a thread's partial vectors to vectors that all threads of the rows share."""
        schedule, size = self.schedule, self.target.wave_size
        inside = schedule.inside(size)
        if inside > 1:
            lane = emit.rem(self.thread, size)

            def combine(a: Sequence[ir.Value], b: Sequence[ir.Value]) -> Partial:
                return reduction.fold([tuple(a), tuple(b)])

            apart = schedule.together
            partial = tuple(wave.reduce_apart(partial, apart, inside, lane, combine))
        parts, stride = schedule.threads // inside, schedule.together * inside
        if parts == 1:
            return partial
        arrays = [next(self._lds) for _ in partial]
        for array, x in zip(arrays, partial, strict=True):
            memory.store(held(x), array, emit.mul(self.thread, self.lanes))
        barrier()

        def read(first: Index, count: int) -> list[Partial]:
            """The partial results of some of the rows' threads."""
            offsets = []
            for part in range(count):
                thread = emit.add(first, part * stride)
                offsets.append(emit.mul(emit.add(self.side, thread), self.lanes))
            return [
                tuple(
                    freed(memory.load(array, offset, self.lanes), x)
                    for array, x in zip(arrays, partial, strict=True)
                )
                for offset in offsets
            ]

        def step(first: ir.Value, *carried: ir.Value) -> Partial:
            return reduction.fold([carried, *read(first, _AT_ONCE)])

        if parts <= _AT_ONCE:
            return reduction.fold(read(0, parts))
        first = reduction.fold(read(0, _AT_ONCE))
        found = emit.loop(_AT_ONCE * stride, parts * stride, _AT_ONCE * stride, step, list(first))
        if parts > 2 * _AT_ONCE:
            # An unrolled loop would read everything at once, and take all registers.
            found[0].owner.attributes["llvm.loop_annotation"] = ir.Attribute.parse(
                "#llvm.loop_annotation<unroll = <disable = true>>"
            )
        return tuple(found)

    def store(self, result: Result, value: ir.Value, chunk: Chunk, bounded: bool) -> None:
        transposed = result.operand.transposed
        start = transposed.start(chunk.column)
        guards = self.guards(bounded, chunk)
        transposed.store(value, self.target_of(result), start, self.row, guards)

    def store_row(self, result: Result, value: ir.Value, bounded: bool) -> None:
        transposed = result.operand.transposed
        guards = [*self.one_only(), *self.guards(bounded)]
        value = self.repeated(value)
        transposed.store(value, self.target_of(result), transposed.start(0), self.row, guards)


def held_type(type_: ir.Type) -> ir.Type:
    """The type of an element in LDS: at least a word, as two waves may not write to one word."""
    return ir.IntegerType.get_signless(32) if bit_width(type_) < 32 else type_


def held(x: ir.Value) -> ir.Value:
    type_ = _like(x, held_type(_element(x)))
    return x if type_ == x.type else arith.extui(type_, x)


def freed(x: ir.Value, like: ir.Value) -> ir.Value:
    """The result of `held`, converted back to the type of `like`."""
    return x if x.type == like.type else arith.trunci(like.type, x)


def _element(x: ir.Value) -> ir.Type:
    return x.type.element_type if isinstance(x.type, ir.VectorType) else x.type


def _like(x: ir.Value, element: ir.Type) -> ir.Type:
    if isinstance(x.type, ir.VectorType):
        return ir.VectorType.get(x.type.shape, element)
    return element


def lds_arrays(
    schedule: RowSchedule, reductions: Sequence[Reduction], target: Target
) -> list[tuple[int, ir.Type]]:
    """Size and type of the arrays in LDS that reductions need, in the order of their use."""
    if schedule.across:
        beyond = schedule.threads > schedule.inside(target.wave_size)
        size = schedule.block * schedule.lanes if beyond else 0
    else:
        waves = schedule.block // target.wave_size
        size = waves if schedule.threads > target.wave_size else 0
    if not size:
        return []
    return [
        (size, held_type(element.storage()))
        for reduction in reductions
        for element in reduction.elements
    ]
