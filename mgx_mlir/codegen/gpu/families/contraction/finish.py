"""The end of split-K: of the waves that compute the same results, the last adds all their sums.

    parts[tile, wave, split, vector, lane] = sums         each wave, then it counts
    total = parts[.., 0, ..] + parts[.., 1, ..] + ...     the wave that counts last

A wave waits for no other. Partial sums are added in order, whichever wave comes last, so that the
same input gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.lanes import uniform
from mgx_mlir.codegen.gpu.builders.ordering import acquire, counted_last, fence, release
from mgx_mlir.codegen.gpu.families.contraction.space import Tiling

TOGETHER = 32  # vectors of partial sums that a lane reads before it waits for the first


@dataclass(frozen=True)
class Shared:
    """The scratch memory of a tile's partial sums, of type `element`, and its counters."""

    tiling: Tiling
    element: str

    @property
    def elements(self) -> int:
        """Partial sums of a tile, by all work-groups that share it."""
        schedule, unit = self.tiling.schedule, self.tiling.unit
        return schedule.splits * schedule.rows(unit) * schedule.columns(unit)

    @property
    def bytes(self) -> int:
        """Bytes of these."""
        return self.elements * emit.element_bytes(self.element)

    @property
    def counters(self) -> int:
        """Counters of a tile: one a wave."""
        return self.tiling.schedule.waves

    def emit(
        self,
        sums: Sequence[ir.Value],
        pointers: tuple[ir.Value, ir.Value],
        place: tuple[Index, Index, Index, Index],
        finish: Callable[[Callable[[], Sequence[ir.Value]]], None],
    ) -> None:
        """Emits the work of a thread. `finish` is that of the last wave; what it is called with
        gives the totals.

        pointers: scratch memory and counters of all tiles. place: the tile's number, the part of k,
        the wave and the lane.
        """
        tile, split, wave, lane = place
        wave = uniform(wave)
        splits, lanes = self.tiling.schedule.splits, self.tiling.target.wave_size
        length = ir.VectorType(sums[0].type).shape[0]
        width = min(length, CHUNK_BYTES // emit.element_bytes(self.element))
        a_sum = length // width
        vectors = [memory.part(x, i * width, width) for x in sums for i in range(a_sum)]
        i64 = ir.IntegerType.get_signless(64)
        number = arith.index_castui(i64, emit.value(tile))
        size = arith.constant(i64, self.elements)
        parts = memory.buffer(memory.moved(pointers[0], arith.muli(number, size), size))
        waves = arith.muli(number, arith.constant(i64, self.counters))
        own = arith.index_castui(i64, emit.value(wave))
        counter = memory.address(pointers[1], arith.addi(waves, own))
        each = len(vectors) * lanes * width
        first = emit.linear(emit.mul(lane, width), (wave, splits * each))
        for i, x in enumerate(vectors):
            memory.store(x, parts, emit.linear(emit.add(first, i * lanes * width), (split, each)))
        release()
        is_last = counted_last(counter, splits, lane)

        def totals() -> list[ir.Value]:
            found = self._totals(parts, first, len(vectors), width)
            starts = range(0, len(found), a_sum)
            return [memory.concatenated(found[i : i + a_sum]) for i in starts]

        def last() -> None:
            acquire()
            finish(totals)

        emit.when(is_last, last)

    def _totals(self, parts: ir.Value, first: Index, count: int, width: int) -> list[ir.Value]:
        """The sums of a lane's `count` vectors over all parts of k, from its first vector on."""
        splits, lanes = self.tiling.schedule.splits, self.tiling.target.wave_size
        add = arith.addf if emit.is_float(self.element) else arith.addi
        turn = most_together(splits, count)

        def some(split: Index, *totals: ir.Value) -> list[ir.Value]:
            at = emit.linear(first, (split, count * lanes * width))
            read = [
                memory.load(parts, emit.add(at, i * lanes * width), width)
                for i in range(turn * count)
            ]
            # Else LLVM waits for each before it reads the next.
            fence()
            result = list(totals or read[:count])
            for i in range(0 if totals else count, len(read)):
                result[i % count] = add(result[i % count], read[i])
            return result

        return emit.loop(turn, splits, turn, some, some(0), rolled=True)


def most_together(splits: int, count: int) -> int:
    """How many of `splits` parts, of `count` vectors each, a lane reads before it waits."""
    most = max(1, TOGETHER // count)
    return max(n for n in range(1, splits + 1) if splits % n == 0 and n <= most)
