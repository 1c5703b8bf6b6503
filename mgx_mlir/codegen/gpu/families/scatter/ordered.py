"""Scatters whose updates of an element are combined in their order, and sums that have none.

Products of floats, and sums of 64 bits, depend on the order of their terms, and no atomic
keeps an order. So the points are sorted by the slots that they name, points of one slot by
their number, and a thread iterates over the points of its elements.

    k_0: pieces of numbers ~(slot << 32 | point), sorted        k_1 ..: merged
    copies: x, where the result is not written over it          last: a thread for each run

Other floats that meet at an element are added as integers, in units that follow from the largest
exponent E among them, that of x included. A word of each element holds E; another word, of 64
bits, holds the sum in units of 2^(E - FRACTION). For N numbers, FRACTION = 62 - log2(N): for up
to a million, 42 bits of the largest one, where f32 has 24. All steps are exact except for the
last bit of numbers that are smaller than the largest by a factor of more than 2^18 or so, and the
rounding of the result.

    k_0: E of x, and 0        k_1: the largest E        k_2: the sums        k_3: floats again

Where E is that of infinity or NaN, the sum counts these instead: +inf in the lower half, -inf in
the upper one, and NaN in both.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, math

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.launches import OUTPUT, Work
from mgx_mlir.codegen.gpu.builders.operands import vector_lanes
from mgx_mlir.codegen.gpu.families.scatter.generator import Generator, atomic
from mgx_mlir.codegen.gpu.families.topk.schedule import run_of
from mgx_mlir.codegen.gpu.families.topk.select import Sort, merge
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import load, store
from mgx_mlir.codegen.meaning.element import F32, I32, I64, Element
from mgx_mlir.sizes.arithmetic import ceil_div

_BIAS, _MANTISSA = 127, 23
_SPECIAL = 255  # the exponent of infinities and NaN
_HALF = 31  # the bit where the count of -inf starts
_AT_ONCE = 4  # updates that a thread reads at a time


def build_sums(g: Generator) -> None:
    """Adds the functions of a scatter that adds floats of up to 32 bits."""
    scatter, launches, element = g.scatter, g.launches, g.scatter.element
    largest, sums = launches.scratch(scatter.size, I32), launches.scratch(scatter.size, I64)
    exponents, totals = g.words(I32), g.words(I64)
    fixed = _Fixed(scatter.points)
    lanes = min(g.lanes(exponents), 4)
    with launches.each(g.x, [largest, sums], scatter.size, lanes) as work:
        found = fixed.exponent(_bits(element, g.original(work, lanes)))
        exponents.store(found, work.buffers[largest], 0, work.offset, work.inside)
        zero = emit.constant(0, "i64", lanes)
        totals.store(zero, work.buffers[sums], 0, work.offset, work.inside)
    read, size = [g.indices, g.updates], scatter.points * scatter.run
    with launches.each(read, [largest], size) as work:
        offset, x = g.update(work)
        exponent = memory.element(fixed.exponent(_bits(element, x)), 0)
        atomic("maxu", exponent, work.buffers[largest], memory.guarded(offset, work.inside, 4))
    with launches.each([*read, largest], [sums], size) as work:
        offset, x = g.update(work)
        offset = memory.guarded(offset, work.inside, 8)
        top = memory.load(work.buffers[largest], offset, 1)
        term = memory.element(fixed.term(_bits(element, x), top), 0)
        atomic("addi", term, work.buffers[sums], offset)
    with launches.each([*g.x, largest, sums], [OUTPUT], scatter.size, lanes) as work:
        top = exponents.load(work.buffers[largest], 0, work.offset, lanes, work.inside)
        total = totals.load(work.buffers[sums], 0, work.offset, lanes, work.inside)
        own = fixed.term(_bits(element, g.original(work, lanes)), top)
        x = fixed.number(arith.addi(total, own), top)
        x = store(Arithmetic.like([x]), element, x)
        g.target.store(x, work.buffers[OUTPUT], 0, work.offset, work.inside)


def _bits(element: Element, x: ir.Value) -> ir.Value:
    """The bits of elements as f32."""
    a = Arithmetic.like([x])
    return arith.bitcast(a.type(I32.storage()), load(a, element, x))


class _Fixed:
    """f32 as multiples of a unit, some bits below the largest one, for sums of `points` terms."""

    def __init__(self, points: int) -> None:
        self.points = points

    def fraction(self, bits: ir.Value, more: int) -> ir.Value:
        """The bits of a number below the largest one, and `more`, in the form of `bits`."""
        a = Arithmetic.like([bits])
        if isinstance(self.points, int):
            return a.int(62 - self.points.bit_length() + more, bits)
        points = arith.index_cast(I32.storage(), emit.value(self.points))
        free = arith.addi(math.ctlz(points), emit.constant(62 - 32 + more, "i32"))
        return emit.splat(free, ir.VectorType(bits.type).shape[0])

    def exponent(self, bits: ir.Value) -> ir.Value:
        """The exponent field of f32: 0 for zero and subnormals, 255 for infinity and NaN."""
        a = Arithmetic.like([bits])
        return arith.andi(arith.shrui(bits, a.int(_MANTISSA, bits)), a.int(_SPECIAL, bits))

    def term(self, bits: ir.Value, top: ir.Value) -> ir.Value:
        """A number in units of the largest exponent, `top`; a count where that is special."""
        a = Arithmetic.like([bits])
        i64 = a.type(I64.storage())
        exponent = self.exponent(bits)
        mantissa = arith.andi(bits, a.int((1 << _MANTISSA) - 1, bits))
        normal = a.icompare("ne", exponent, a.int(0, bits))
        whole = arith.ori(mantissa, a.select(normal, a.int(1 << _MANTISSA, bits), a.int(0, bits)))
        one = a.int(1, bits)
        # Subnormals have the exponent of the smallest normal numbers.
        below = arith.subi(arith.maxui(top, one), arith.maxui(exponent, one))
        # mantissa * 2^(exponent - top) in units: 2^(fraction - 24) of the largest exponent.
        left = arith.subi(self.fraction(bits, -_MANTISSA - 1), below)
        zero, most = a.int(0, bits), a.int(63, bits)
        up = arith.extui(i64, arith.maxsi(left, zero))
        down = arith.extui(i64, arith.minsi(arith.maxsi(arith.subi(zero, left), zero), most))
        number = arith.shrui(arith.shli(arith.extui(i64, whole), up), down)
        negative = a.icompare("slt", bits, zero)
        signed = a.select(negative, arith.subi(a.int(0, number), number), number)
        special = a.icompare("eq", exponent, a.int(_SPECIAL, bits))
        is_nan = arith.andi(special, a.icompare("ne", mantissa, zero))
        lower, upper = a.int(1, number), a.int(1 << _HALF, number)
        count = a.select(is_nan, arith.ori(lower, upper), a.select(negative, upper, lower))
        count = a.select(special, count, a.int(0, number))
        return a.select(a.icompare("eq", top, a.int(_SPECIAL, top)), count, signed)

    def number(self, total: ir.Value, top: ir.Value) -> ir.Value:
        """A sum as f32."""
        a = Arithmetic.like([total])
        f32 = a.type(F32.storage())
        # total * 2^(top - bias - (fraction - 1)), in two steps: one power alone may not be an f32.
        power = arith.subi(arith.maxui(top, a.int(1, top)), self.fraction(top, _BIAS - 1))
        half = arith.shrsi(power, a.int(1, power))
        x = arith.sitofp(f32, total)
        for step in (half, arith.subi(power, half)):
            bits = arith.shli(arith.addi(step, a.int(_BIAS, step)), a.int(_MANTISSA, step))
            x = arith.mulf(x, arith.bitcast(f32, bits))
        lower = arith.andi(total, a.int((1 << _HALF) - 1, total))
        some = [
            a.icompare("ne", part, a.int(0, total))
            for part in (lower, arith.shrui(total, a.int(_HALF, total)))
        ]
        inf = a.select(some[1], a.float(float("-inf"), x), a.float(float("inf"), x))
        special = a.select(arith.andi(*some), a.float(float("nan"), x), inf)
        return a.select(a.icompare("eq", top, a.int(_SPECIAL, top)), special, x)


def build_ordered(g: Generator, target: Target) -> None:
    """Adds the functions of a scatter that combines in order."""
    scatter = g.scatter
    size = run_of(scatter.points, target.compute_units)
    runs = ceil_div(scatter.points, size)
    pieces = g.launches.scratch(runs * size, I64)
    _sort(g, pieces, size, runs, target)
    (order,) = merge(g.launches, pieces, I64, 1, runs, size)
    lanes = g.lanes()
    with g.launches.each(g.x, [OUTPUT], scatter.size, lanes) as work:
        moved = g.moved(work)
        x = g.original(work, lanes, moved)
        g.target.store(x, work.buffers[OUTPUT], 0, work.offset, [*work.inside, *moved])
    _combine(g, order)


def _sort(g: Generator, pieces: Argument, size: int, runs: int, target: Target) -> None:
    """The function that sorts pieces of the points."""
    threads = size // 2
    lds = [(size, I64.storage())]
    with g.launches.groups([g.indices], [pieces], threads, runs, lds) as group:
        thread, buffers = builder.thread_number(threads), group.buffers
        first = emit.mul(group.number, size)

        def number(column: Index) -> ir.Value:
            """The sort number of a point: larger the earlier it comes; 0 beyond the last one."""
            point = emit.add(first, column)
            i64 = I64.storage()
            slot = g.scatter.places.slot(buffers[g.indices], point)
            high = arith.shli(arith.index_cast(i64, emit.value(slot)), emit.constant(32, "i64"))
            low = arith.index_cast(i64, emit.value(point))
            x = arith.xori(arith.ori(high, low), emit.constant(-1, "i64"))
            there = emit.compare("slt", point, g.scatter.points)
            return arith.select(there, x, emit.constant(0, "i64"))

        sort = Sort(group.lds[0], threads, 0, thread, target.wave_size)
        sort.run(number)
        for offset in range(0, size, threads):
            rank = emit.add(thread, offset)
            piece = memory.guarded(emit.add(first, rank), group.inside, 8)
            memory.store(emit.splat(sort.get(rank), 1), buffers[pieces], piece)


def _combine(g: Generator, order: Argument) -> None:
    """The function that combines: one thread for each vector of a point's run. The threads of a
    slot's first point combine the updates of all its points."""
    scatter, launches = g.scatter, g.launches
    x = [scatter.x] if not isinstance(scatter.x, ir.Attribute) else []
    lanes = vector_lanes(scatter.run, [*x, g.target, scatter.updates])
    read, vectors = [*g.x, g.updates, order], scatter.run // lanes
    with launches.each(read, [OUTPUT], scatter.points * vectors) as work:
        at, along = emit.div(work.offset, vectors), emit.rem(work.offset, vectors)
        along = emit.mul(along, lanes)
        slot, _ = _named(work, order, at, work.inside)
        before, _ = _named(work, order, emit.sub(at, 1), [emit.compare("sgt", at, 0)])
        is_first = arith.ori(emit.compare("eq", at, 0), emit.compare("ne", slot, before))
        for condition in work.inside:
            is_first = arith.andi(is_first, condition)

        def run() -> None:
            offset = emit.add(emit.mul(slot, scatter.run), along)
            end = _end(work, order, at, slot, scatter.points)
            here = Work(offset, [], work.buffers, work.pointers)
            old = g.original(here, lanes)
            a, wide = Arithmetic([lanes]), scatter.element.computed()
            combine = {"add": a.sum, "mul": a.product, "min": a.minimum, "max": a.maximum}

            def step(first: Index, total: ir.Value) -> list[ir.Value]:
                found = []
                for number in range(_AT_ONCE):
                    rank = emit.add(first, number)
                    there = emit.compare("slt", rank, end)
                    _, point = _named(work, order, rank, [there])
                    start = scatter.updates.start(point)
                    new = scatter.updates.load(
                        work.buffers[g.updates], start, along, lanes, [there]
                    )
                    found.append((there, load(a, scatter.element, new)))
                for there, new in found:
                    after = combine[scatter.kind](wide, total, new)
                    total = arith.select(there, after, total)
                return [total]

            (total,) = emit.loop(at, end, _AT_ONCE, step, [load(a, scatter.element, old)])
            made = store(a, scatter.element, total)
            g.target.store(made, work.buffers[OUTPUT], 0, offset, [])

        emit.when(is_first, run)


def _named(
    work: Work, order: Argument, rank: Index, inside: Sequence[ir.Value]
) -> tuple[ir.Value, ir.Value]:
    """The slot of the number at a rank, and its point."""
    offset = memory.guarded(rank, inside, 8)
    x = memory.element(memory.load(work.buffers[order], offset, 1), 0)
    x = arith.xori(x, emit.constant(-1, "i64"))
    i32, index = ir.IntegerType.get_signless(32), ir.IndexType.get()
    slot = arith.trunci(i32, arith.shrui(x, emit.constant(32, "i64")))
    return arith.index_cast(index, slot), arith.index_cast(index, arith.trunci(i32, x))


def _end(work: Work, order: Argument, first: Index, slot: Index, points: int) -> ir.Value:
    """The rank after the last point of a slot, whose first point has the rank `first`."""
    reached = emit.value(first)
    for bit in reversed(range(points.bit_length())):
        probe = emit.add(reached, 1 << bit)
        there = emit.compare("slt", probe, points)
        same = emit.compare("eq", _named(work, order, probe, [there])[0], slot)
        reached = arith.select(arith.andi(there, same), emit.value(probe), reached)
    return emit.value(emit.add(reached, 1))
