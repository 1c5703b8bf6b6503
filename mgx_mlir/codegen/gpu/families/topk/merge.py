"""A merge sort: sorted runs of unsigned numbers are merged in pairs until rows are sorted."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.meaning.element import Element
from mgx_mlir.sizes.arithmetic import is_more

# Merges of rows of a symbolic number of runs, at most: each is launched where there are so many.
MERGES = 12


def merge(
    launches: Launches, source: Argument, number: Element, rows: int, runs: int, size: int
) -> list[Argument]:
    """The functions that merge `runs` runs of `size` numbers in each row; returns where sorted rows
    are: in the first place, or, of a symbolic number of runs, in the other if `is_swapped`.

    Runs and rows have the largest number first. A number's rank is its rank in its own run plus
    the rank in the other run, which a binary search finds. No two numbers are equal except for
    0, which pads the end of the last run.
    """
    length = runs * size
    if runs == 1:
        return [source]
    places = [source, launches.scratch(rows * length, number)]
    merges = (runs - 1).bit_length() if isinstance(runs, int) else MERGES
    for done in range(merges):
        with launches.when(is_more(runs, 1 << done)):
            _merge_pairs(launches, places, number, rows * length, (length, size << done))
        places.reverse()
    return places[:1] if isinstance(runs, int) else places


def is_swapped(runs: int) -> ir.Value:
    """Whether a symbolic number of runs takes an odd number of merges."""
    is_odd: ir.Value = emit.constant(0, "i1")
    for done in range(MERGES):
        is_odd = arith.xori(is_odd, emit.compare("sgt", runs, 1 << done))
    return is_odd


def _merge_pairs(
    launches: Launches,
    places: Sequence[Argument],
    number: Element,
    count: int,
    sizes: tuple[int, int],
) -> None:
    """The function that merges each two neighbouring runs of `count` numbers.

    places: of the runs, and of merged ones. sizes: of a row, and of a run.
    """
    (length, size), (source, to), wide = sizes, places, number.bits // 8
    with launches.each([source], [to], count) as work:
        offset, bufs = work.offset, work.buffers
        row, at = emit.div(offset, length), emit.rem(offset, length)
        x = memory.element(memory.load(bufs[source], offset, 1), 0)
        pair, own = emit.div(at, 2 * size), emit.rem(at, size)
        second = emit.compare("sge", emit.rem(at, 2 * size), size)
        base = emit.add(emit.mul(row, length), emit.mul(pair, 2 * size))
        other = arith.select(second, emit.value(0), emit.value(size))
        end = emit.sub(length, emit.mul(pair, 2 * size))
        rank: Index = 0
        for bit in reversed(range(size.bit_length())):
            probe = emit.add(rank, 1 << bit)
            there = [
                emit.compare("sle", probe, size),
                emit.compare("sle", emit.add(other, probe), end),
            ]
            place = emit.add(emit.add(base, other), emit.sub(probe, 1))
            place = memory.guarded(place, there, wide)
            y = memory.element(memory.load(bufs[source], place, 1), 0)
            # Numbers outside read as 0, which is larger than no number.
            larger = arith.cmpi(arith.CmpIPredicate.ugt, y, x)
            rank = arith.select(larger, emit.value(probe), emit.value(rank))
        place = memory.guarded(emit.add(emit.add(base, own), rank), work.inside, wide)
        memory.store(emit.splat(x, 1), bufs[to], place)
