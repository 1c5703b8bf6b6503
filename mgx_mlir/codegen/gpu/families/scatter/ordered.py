"""Scatters whose updates of an element are combined one after another, in their order.

Products of floats, and sums of 64 bits, depend on the order of their terms, and no atomic
keeps an order. So the points are sorted by the slots that they name, points of one slot by
their number, and a thread iterates over the points of its elements.

    k_0: pieces of numbers ~(slot << 32 | point), sorted        k_1 ..: merged
    copies: x, where the result is not written over it          last: a thread for each run
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.launches import OUTPUT, Work
from mgx_mlir.codegen.gpu.builders.operands import vector_lanes
from mgx_mlir.codegen.gpu.families.scatter.generator import Generator
from mgx_mlir.codegen.gpu.families.topk.schedule import run_of
from mgx_mlir.codegen.gpu.families.topk.select import Sort, merge
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import load, store
from mgx_mlir.codegen.meaning.element import I64
from mgx_mlir.sizes.arithmetic import ceil_div

_AT_ONCE = 4  # updates that a thread reads at a time


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
