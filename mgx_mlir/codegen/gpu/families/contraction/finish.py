"""The end of split-K: of the waves that compute the same results, the last adds all their sums.

    parts[tile, wave, split, vector, lane] = sums         each wave, then it counts
    total = parts[.., 0, ..] + parts[.., 1, ..] + ...     the wave that counts last

Where a run decides about the number of parts, it may be one, whose sums are the total.
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
from mgx_mlir.sizes.arithmetic import Number, bounds

# Vectors of partial sums that a lane reads before it waits for the first; and parts, where a run
# decides about their number.
TOGETHER, AT_ONCE = 32, 16


@dataclass(frozen=True)
class Shared:
    """The scratch memory of a tile's partial sums, of type `element`, and its counters: of so many
    work-groups that share it."""

    tiling: Tiling
    element: str
    parts: Number

    @property
    def elements(self) -> Number:
        """Partial sums of a tile, by all work-groups that share it."""
        schedule, unit = self.tiling.schedule, self.tiling.unit
        return self.parts * schedule.rows(unit) * schedule.columns(unit)

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
        parts, lanes = self.parts, self.tiling.target.wave_size
        length = ir.VectorType(sums[0].type).shape[0]
        width = min(length, CHUNK_BYTES // emit.element_bytes(self.element))
        a_sum = length // width
        vectors = [memory.part(x, i * width, width) for x in sums for i in range(a_sum)]
        i64 = ir.IntegerType.get_signless(64)
        number = arith.index_castui(i64, emit.value(tile))
        size = arith.index_castui(i64, emit.value(self.elements))
        held = memory.buffer(memory.moved(pointers[0], arith.muli(number, size), size))
        waves = arith.muli(number, arith.constant(i64, self.counters))
        own = arith.index_castui(i64, emit.value(wave))
        counter = memory.address(pointers[1], arith.addi(waves, own))
        each = len(vectors) * lanes * width
        first = emit.linear(emit.mul(lane, width), (wave, parts * each))
        many = True if isinstance(parts, int) else emit.compare("sgt", parts, 1)

        def shared() -> list[ir.Value]:
            for i, x in enumerate(vectors):
                at = emit.linear(emit.add(first, i * lanes * width), (split, each))
                memory.store(x, held, at)
            release()
            return [counted_last(counter, parts, lane)]

        def added() -> list[ir.Value]:
            found = self._totals(held, first, len(vectors), width)
            starts = range(0, len(found), a_sum)
            return [memory.concatenated(found[i : i + a_sum]) for i in starts]

        def last() -> None:
            emit.when(many, acquire)
            finish(lambda: emit.choose(many, added, lambda: sums, [x.type for x in sums]))

        yes = ir.IntegerType.get_signless(1)
        (is_last,) = emit.choose(many, shared, lambda: [arith.constant(yes, 1)], [yes])
        emit.when(is_last, last)

    def _totals(self, held: ir.Value, first: Index, count: int, width: int) -> list[ir.Value]:
        """The sums of a lane's `count` vectors over all parts of k, from its first vector on."""
        parts, lanes = self.parts, self.tiling.target.wave_size
        add = arith.addf if emit.is_float(self.element) else arith.addi
        size = emit.element_bytes(self.element)
        turn, each = most_together(parts, count), count * lanes * width

        def some(split: Index, *totals: ir.Value) -> list[ir.Value]:
            at = emit.linear(first, (split, each))
            read = []
            for part in range(turn):
                # Parts that a run does not have are zeros.
                bounded = part and not isinstance(parts, int)
                inside = [emit.compare("slt", emit.add(split, part), parts)] if bounded else []
                place = memory.guarded(emit.add(at, part * each), inside, size, grows=True)
                places = [emit.add(place, i * lanes * width) for i in range(count)]
                read += [memory.load(held, place, width) for place in places]
            # Else LLVM waits for each before it reads the next.
            fence()
            result = list(totals or read[:count])
            for i in range(0 if totals else count, len(read)):
                result[i % count] = add(result[i % count], read[i])
            return result

        return emit.loop(turn, parts, turn, some, some(0), rolled=True)


def most_together(parts: Number, count: int) -> int:
    """How many of these parts, of `count` vectors each, a lane reads before it waits."""
    most = max(1, TOGETHER // count)
    if not isinstance(parts, int):
        return min(most, AT_ONCE, int(bounds(parts)[1]))
    return max(n for n in range(1, parts + 1) if parts % n == 0 and n <= most)
