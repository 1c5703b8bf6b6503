"""The functions of a scatter.

Atomics of integers find the last update of a slot, or a slot's elements after all updates. Their
order changes nothing: every run gives the same bits.

    none       one word a slot: first 0, then the largest number of its points + 1; then that
               point's update is copied. Where the result is written over x, slots without a
               point are not written. One update along the axis needs no words: each element
               looks whether the index is its own
    min, max   one word an element: an integer with the order of the floats
    integers   the result itself; words where elements are narrower
    float sums see sums
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from mlir import ir
from mlir.dialects import arith, memref

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.launches import OUTPUT, Launches, Work
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand, vector_lanes
from mgx_mlir.codegen.gpu.families.scatter.match import Scatter
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import load, store
from mgx_mlir.codegen.meaning.element import I32, I64, UNSIGNED, Element


class Generator:
    """The common part of the functions of all kinds."""

    def __init__(self, scatter: Scatter, launches: Launches) -> None:
        self.scatter, self.launches = scatter, launches
        self.target = self.words(scatter.element)

    def words(self, element: Element) -> MemoryOperand:
        """A contiguous operand with one element for each of the result."""
        return MemoryOperand.flat(0, element, self.scatter.size)

    @property
    def x(self) -> list[Argument]:
        x = self.scatter.x
        return [Argument("input", x.argument)] if isinstance(x, MemoryOperand) else []

    @property
    def updates(self) -> Argument:
        return Argument("input", self.scatter.updates.argument)

    @property
    def indices(self) -> Argument:
        return Argument("input", self.scatter.places.argument)

    def slot(self, work: Work, point: Index) -> Index:
        return self.scatter.places.slot(work.buffers[self.indices], point)

    def update(self, work: Work) -> tuple[Index, ir.Value]:
        """The offset in the result of the thread's element of the updates, and its value."""
        scatter = self.scatter
        point, along = emit.div(work.offset, scatter.run), emit.rem(work.offset, scatter.run)
        offset = emit.add(emit.mul(self.slot(work, point), scatter.run), along)
        start = scatter.updates.start(point)
        x = scatter.updates.load(work.buffers[self.updates], start, along, 1, work.inside)
        return offset, x

    def original(self, work: Work, lanes: int, inside: Sequence[ir.Value] = ()) -> ir.Value:
        """Elements of x."""
        x = self.scatter.x
        if not isinstance(x, MemoryOperand):
            return emit.attribute_constant(x, lanes)
        buffer = work.buffers[self.x[0]]
        return x.load(buffer, x.start(0), work.offset, lanes, [*work.inside, *inside])

    def moved(self, work: Work) -> list[ir.Value]:
        """The condition that the result is not written over x; empty where it never is."""
        if not self.scatter.overwritable:
            return []
        here, there = (
            memref.extract_aligned_pointer_as_index(work.pointers[argument])
            for argument in (*self.x, OUTPUT)
        )
        return [arith.cmpi(arith.CmpIPredicate.ne, here, there)]

    def lanes(self, *others: MemoryOperand) -> int:
        """Elements of a vector of x and of the result."""
        x = [self.scatter.x] if isinstance(self.scatter.x, MemoryOperand) else []
        return vector_lanes(self.scatter.size, [*x, self.target, *others])


def build(generator: Generator) -> None:
    """Adds the functions of a scatter that replaces, or combines by integer atomics."""
    scatter = generator.scatter
    if scatter.kind == "none" and scatter.single:
        _replace_single(generator)
    elif scatter.kind == "none":
        _replace(generator)
    else:
        _combine(generator)


def _replace(g: Generator) -> None:
    scatter, launches = g.scatter, g.launches
    words = launches.scratch(scatter.slots, I32)
    with launches.each(
        [], [words], scatter.slots, lanes := vector_lanes(scatter.slots, [])
    ) as work:
        zeros = emit.constant(0, "i32", lanes)
        memory.store(zeros, work.buffers[words], memory.guarded(work.offset, work.inside, 4))
    with launches.each([g.indices], [words], scatter.points) as work:
        number = arith.index_cast(I32.storage(), emit.value(emit.add(work.offset, 1)))
        slot = memory.guarded(g.slot(work, work.offset), work.inside, 4)
        atomic("maxu", number, work.buffers[words], slot)
    many = scatter.run != 1  # a size that only a run knows may be more
    size = scatter.run if many else scatter.size
    x = [scatter.x] if isinstance(scatter.x, MemoryOperand) else []
    lanes = vector_lanes(size, [*x, g.target, *([scatter.updates] if many else [])])
    read = [*g.x, g.updates, words]
    with launches.each(read, [OUTPUT], scatter.size, lanes) as work:
        first = emit.div(work.offset, scatter.run)
        along = emit.rem(work.offset, scatter.run)
        count = 1 if many else lanes
        offset = memory.guarded(first, work.inside, 4)
        found = memory.load(work.buffers[words], offset, count)
        hit = arith.cmpi(arith.CmpIPredicate.ne, found, emit.constant(0, "i32", count))
        parts = []
        for at in range(count):
            there = memory.element(hit, at)
            point = arith.index_cast(ir.IndexType.get(), memory.element(found, at))
            start = scatter.updates.start(emit.sub(point, 1))
            buffer = work.buffers[g.updates]
            parts.append(scatter.updates.load(buffer, start, along, lanes // count, [there]))
        new = parts[0] if many else memory.joined([memory.element(part, 0) for part in parts])
        moved = g.moved(work)
        anywhere = reduce(arith.ori, [*moved, *(memory.element(hit, n) for n in range(count))])
        if many:
            there = memory.element(hit, 0)
            kept = g.original(work, lanes, [arith.xori(there, emit.constant(1, "i1")), *moved])
            x_or_new = arith.select(there, new, kept)
        else:
            x_or_new = arith.select(hit, new, g.original(work, lanes, moved and [anywhere]))
        inside = [*work.inside, anywhere] if moved else work.inside
        g.target.store(x_or_new, work.buffers[OUTPUT], 0, work.offset, inside)


def _replace_single(g: Generator) -> None:
    scatter, (coordinate,) = g.scatter, g.scatter.places.coordinates
    x = [scatter.x] if isinstance(scatter.x, MemoryOperand) else []
    lanes = vector_lanes(scatter.run, [*x, g.target, scatter.updates])
    read = [*g.x, g.indices, g.updates]
    with g.launches.each(read, [OUTPUT], scatter.size, lanes) as work:
        slot, along = emit.div(work.offset, scatter.run), emit.rem(work.offset, scatter.run)
        outer, after = emit.div(slot, coordinate.step), emit.rem(slot, coordinate.step)
        before, here = emit.div(outer, coordinate.size), emit.rem(outer, coordinate.size)
        point = emit.add(emit.mul(before, coordinate.step), after)
        places = coordinate.indices
        named = places.load_one(work.buffers[g.indices], places.offset_of(places.start(0), point))
        hit = emit.compare("eq", emit.named_index(named, coordinate.size), here)
        start, moved = scatter.updates.start(point), g.moved(work)
        inside = [*work.inside, hit]
        new = scatter.updates.load(work.buffers[g.updates], start, along, lanes, inside)
        missed = arith.xori(hit, emit.constant(1, "i1"))
        kept = g.original(work, lanes, [missed, *moved])
        written = [reduce(arith.ori, [hit, *moved])] if moved else []
        made = arith.select(hit, new, kept)
        g.target.store(made, work.buffers[OUTPUT], 0, work.offset, [*work.inside, *written])


def _combine(g: Generator) -> None:
    scatter, launches = g.scatter, g.launches
    element = scatter.element
    wide = I64 if element.bits > 32 else I32
    own = element.is_integer and element.bits >= 32
    at = OUTPUT if own else launches.scratch(scatter.size, wide)
    words = g.words(element if own else wide)
    lanes = g.lanes(words)
    with launches.each(g.x, [at], scatter.size, lanes) as work:
        held = encoded(scatter, g.original(work, lanes))
        words.store(held, work.buffers[at], 0, work.offset, work.inside)
    unsigned = own and element.kind == UNSIGNED
    kind = "addi" if scatter.kind == "add" else scatter.kind + ("u" if unsigned else "s")
    read = [g.indices, g.updates]
    with launches.each(read, [at], scatter.points * scatter.run) as work:
        offset, x = g.update(work)
        number = memory.element(encoded(scatter, x), 0)
        atomic(kind, number, work.buffers[at], memory.guarded(offset, work.inside, wide.bits // 8))
    if own:
        return
    with launches.each([at], [OUTPUT], scatter.size, lanes) as work:
        held = words.load(work.buffers[at], 0, work.offset, lanes, work.inside)
        g.target.store(decoded(scatter, held), work.buffers[OUTPUT], 0, work.offset, work.inside)


def encoded(scatter: Scatter, x: ir.Value) -> ir.Value:
    """A vector of elements as words. Integers are extended. Floats become integers of the same
    order, with NaN at the end that wins."""
    element = scatter.element
    a = Arithmetic.like([x])
    if not element.is_float:
        return x if element.bits >= 32 else a.extend(element, x, I32.storage())
    x = load(a, element, x)
    key = _ordered_bits(a, arith.bitcast(a.type(I32.storage()), x))
    end = (1 << 31) - 1 if scatter.kind == "max" else -(1 << 31)
    return a.select(a.compare("uno", x, x), a.int(end, key), key)


def decoded(scatter: Scatter, word: ir.Value) -> ir.Value:
    """The elements of words, in the type that memory holds."""
    element = scatter.element
    a = Arithmetic.like([word])
    if not element.is_float:
        return arith.trunci(a.type(element.storage()), word)
    x = arith.bitcast(a.type(ir.F32Type.get()), _ordered_bits(a, word))
    return store(a, element, x)


def _ordered_bits(a: Arithmetic, bits: ir.Value) -> ir.Value:
    """Maps the bits of an f32 to a signed integer of the same order, and back."""
    sign = arith.shrsi(bits, a.int(31, bits))
    return arith.xori(bits, arith.andi(sign, a.int((1 << 31) - 1, bits)))


def atomic(kind: str, x: ir.Value, buffer: ir.Value, offset: Index) -> None:
    """Combines a number atomically with the one at `offset`."""
    memref.atomic_rmw(getattr(arith.AtomicRMWKind, kind), x, buffer, [emit.value(offset)])
