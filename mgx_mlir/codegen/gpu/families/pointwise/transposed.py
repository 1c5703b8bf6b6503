"""Pointwise kernels that read a transposed input: transposes in registers.

Results are contiguous along dimension A, and an input along another one, B: a wave takes a tile
of both. A lane reads some vectors along B, transposes them in its registers, and writes vectors
along A. The lanes are arranged in the tile such that a wave's accesses are coalesced, in runs of
64 bytes or more on both sides: a transpose through LDS would gain nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import lanes, memory
from mgx_mlir.codegen.gpu.builders.function import element_bytes
from mgx_mlir.codegen.gpu.builders.operands import Divided, MemoryOperand
from mgx_mlir.codegen.gpu.families.pointwise.match import Elements
from mgx_mlir.codegen.gpu.families.rows.evaluate import Chunk, Evaluator, Layout
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.sizes.arithmetic import Number, bounds, ceil_div, common_factor, exact

BLOCK = 256


@dataclass(frozen=True)
class TransposedSchedule:
    """A wave's tile: `lanes_a` x `lanes_b` lanes, each with `run_a` x `run_b` elements.

    sizes: the sizes of the dimensions along which all operands have strides, A last. b: the
    number of dimension B. whole: vectors of so many elements divide a run's sizes, along A
    and along B.
    """

    sizes: tuple[int, ...]
    b: int
    lanes_a: int
    lanes_b: int
    run_a: int
    run_b: int
    whole: tuple[int, int] = (1, 1)

    @property
    def tile(self) -> tuple[int, int]:
        return self.lanes_a * self.run_a, self.lanes_b * self.run_b

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles along A and along B."""
        a, b = self.tile
        return ceil_div(self.sizes[-1], a), ceil_div(self.sizes[self.b], b)

    @property
    def others(self) -> tuple[int, ...]:
        """Sizes of the dimensions other than A and B."""
        return tuple(n for d, n in enumerate(self.sizes[:-1]) if d != self.b)

    @property
    def waves(self) -> int:
        return math.prod((*self.tiles, *self.others))

    def describe(self) -> str:
        return (
            f"tiles of {self.tile[0]}x{self.tile[1]} a wave, "
            f"{self.run_a}x{self.run_b} transposed in a lane's registers"
        )


def strides(operand: MemoryOperand, sizes: Sequence[int]) -> tuple[int, ...] | None:
    """The operand's stride along each dimension; None where a dimension has no single one."""
    found: list[int] = []
    rest: list[tuple[int, int]] = list(reversed(operand.inner.factors or ((1, 0),)))
    have, stride = rest.pop(0)
    for size in reversed(sizes):
        if have == 1 and rest:
            have, stride = rest.pop(0)
        left = exact(have, size)
        if operand.inner.factors and left is None:
            return None
        found.append(stride)
        have, stride = left or 0, stride * size
    return tuple(reversed(found))


def dimensions(operands: Sequence[MemoryOperand], size: int) -> tuple[int, ...] | None:
    """The fewest dimensions along which all operands have strides, the slowest first; or None."""
    cuts: set[int] = {1, size}
    for operand in operands:
        cut = 1
        for factor, _ in reversed(operand.inner.factors):
            cut = factor * cut
            cuts.add(cut)
    # Each one divides the one before it.
    ordered = sorted(cuts, key=lambda cut: sum(exact(cut, x) is not None for x in cuts))[::-1]
    found = [exact(high, low) for high, low in pairwise(ordered)]
    return None if None in found else tuple(n for n in found if n is not None)


def transposed_schedule(
    elements: Elements, target: Target, whole: tuple[int, int] = (1, 1)
) -> TransposedSchedule | None:
    """The schedule that transposes the transposed operands.

    None where there are none, where they are contiguous along different dimensions, or where the
    operands have no common dimensions. whole: see TransposedSchedule.
    """
    operands = elements.operands
    across = [operand for operand in operands if _lies_across(operand)]
    sizes = dimensions(operands, elements.size)
    if not across or sizes is None:
        return None
    found = [strides(operand, sizes) for operand in across]
    fast = {s.index(1) if s and 1 in s else None for s in found}
    if len(fast) != 1 or None in fast:
        return None
    (b,) = fast
    assert b is not None
    largest = max(element_bytes(operand.element) for operand in across)
    lanes = longest_run(across)
    along_a, along_b = map(Divided, whole)
    run_b = min(_aligned(o, sizes, b, lanes, along_b) for o in across)
    straight = [o for o in operands if o not in across and not o.repeated]
    last = len(sizes) - 1
    run_a = min((_aligned(o, sizes, last, lanes, along_a) for o in straight), default=lanes)
    run_a = math.gcd(run_a, common_factor(along_a.number(sizes[-1])))
    # The longest run, up to 128 bytes; the dimension of the stores comes first.
    most = target.wave_size * lanes  # longer ones change nothing
    size_a, size_b = (int(min(bounds(size)[1], most)) for size in (sizes[-1], sizes[b]))
    lanes_a = _power(min(size_a // run_a, max(1, 128 // (run_a * largest)), target.wave_size))
    lanes_a = max(lanes_a, _power(target.wave_size // max(1, ceil_div(size_b, run_b))))
    lanes_a = min(lanes_a, target.wave_size)
    lanes_b = target.wave_size // lanes_a
    return TransposedSchedule(sizes, b, lanes_a, lanes_b, run_a, run_b, whole)


def transposed_regimes(
    elements: Elements, target: Target
) -> list[tuple[Number, TransposedSchedule]] | None:
    """The schedules of symbolic sizes: whether vectors divide them along A, and along B."""
    plain = transposed_schedule(elements, target)
    if plain is None:
        return None
    longest = longest_run([x for x in elements.operands if _lies_across(x)])
    odd: list[Number] = []
    for along in (len(plain.sizes) - 1, plain.b):
        divided = Divided(longest)
        for x in elements.operands:
            own, found = outer(x, plain.sizes, along)
            if found[along] == 1:
                divided.operand(own)
        odd.append(divided.odd)
    ways: dict[tuple[int, int], tuple[Number, TransposedSchedule]] = {}
    for whole in product((1, longest), (1, longest)):
        share = math.prod(n if x == 1 else 1 - n for x, n in zip(whole, odd, strict=True))
        made = transposed_schedule(elements, target, whole)
        assert made is not None
        before, first = ways.get((made.run_a, made.run_b), (0, made))
        ways[made.run_a, made.run_b] = before + share, first
    return list(ways.values())


def longest_run(across: Sequence[MemoryOperand]) -> int:
    """The elements of the longest access to each of some operands."""
    return CHUNK_BYTES // max(element_bytes(operand.element) for operand in across)


def _lies_across(operand: MemoryOperand) -> bool:
    """Whether neighbours among the results are not neighbours in memory."""
    return bool(operand.inner.factors) and operand.inner.factors[-1][1] not in (0, 1)


def _aligned(
    operand: MemoryOperand, sizes: Sequence[int], along: int, limit: int, divided: Divided
) -> int:
    """Elements of a vector along a dimension that one access takes, at every start."""
    found = strides(operand, sizes)
    if found is None or found[along] not in (0, 1):
        return 1
    others = [s for d, s in enumerate(found) if d != along]
    numbers = map(divided.number, (sizes[along], operand.offset, *others))
    return math.gcd(limit, *map(common_factor, numbers))


def _power(number: int) -> int:
    """The largest power of two up to a number."""
    return 1 << max(0, number.bit_length() - 1)


def outer(
    operand: MemoryOperand, sizes: Sequence[int], along: int, whole: int = 1
) -> tuple[MemoryOperand, tuple[int, ...]]:
    """The operand with vectors along dimension `along`, and its strides along all dimensions.

    whole: vectors of so many elements divide a run's sizes.
    """
    found = strides(operand, sizes)
    assert found is not None
    steps = [(n, s) for d, (n, s) in enumerate(zip(sizes, found, strict=True)) if d != along]
    inner = Axis.of((sizes[along], found[along]))
    made = MemoryOperand(operand.argument, operand.element, operand.offset, Axis.of(*steps), inner)
    return Divided(whole).operand(made), found


def emit_tiles(
    elements: Elements,
    schedule: TransposedSchedule,
    buffers: Mapping[Argument, ir.Value],
    thread: Index,
    block: Index,
    target: Target,
) -> None:
    """Builds the body: each wave computes a tile."""
    tile = _Tile(schedule, buffers, target)
    tile.begin(thread, block)

    def store(operand: MemoryOperand, number: int, chunk: Chunk, x: ir.Value) -> None:
        made, start = tile.along_a(operand, chunk.first)
        made.store(x, buffers[Argument("output", number)], start, tile.a, tile.inside)

    evaluate(elements, tile, [Chunk(number) for number in range(schedule.run_b)], store)


def evaluate(
    elements: Elements,
    layout: Layout,
    chunks: Sequence[Chunk],
    store: Callable[[MemoryOperand, int, Chunk, ir.Value], None],
) -> None:
    """Builds the work of a thread on chunks; `store` is given a result's operand and number."""
    values = Evaluator(elements, layout)
    # All reads go first: they are in flight together, and results may overwrite the inputs.
    for chunk in chunks:
        for value, source in elements.sources.items():
            if isinstance(source, MemoryOperand) and elements.is_whole(value):
                values.whole(value, chunk)
    for chunk in chunks:
        for result in elements.results:
            x = values.whole(result.value, chunk)
            store(elements.operand_of(result), result.number, chunk, x)


class _Tile(Layout):
    """A lane's part of a tile. A chunk's column is its number along B."""

    def __init__(
        self,
        schedule: TransposedSchedule,
        buffers: Mapping[Argument, ir.Value],
        target: Target,
    ) -> None:
        self.schedule, self.target, self.lanes = schedule, target, schedule.run_a
        self.buffers = buffers
        self._read: dict[MemoryOperand, list[ir.Value]] = {}

    def begin(self, thread: Index, block: Index) -> None:
        schedule, wave = self.schedule, self.target.wave_size
        number = emit.add(emit.mul(block, BLOCK // wave), lanes.uniform(emit.div(thread, wave)))
        lane = emit.rem(thread, wave)
        inside = []
        if schedule.waves % (BLOCK // wave):
            inside.append(emit.compare("slt", number, schedule.waves))
        tile_a, tile_b = emit.rem(number, schedule.tiles[0]), emit.div(number, schedule.tiles[0])
        tile_b, rest = emit.rem(tile_b, schedule.tiles[1]), emit.div(tile_b, schedule.tiles[1])
        self.offsets: dict[int, Index] = {}
        for d in reversed(range(len(schedule.sizes) - 1)):
            if d != schedule.b:
                self.offsets[d] = emit.rem(rest, schedule.sizes[d])
                rest = emit.div(rest, schedule.sizes[d])
        along_a = emit.mul(emit.rem(lane, schedule.lanes_a), schedule.run_a)
        along_b = emit.mul(emit.div(lane, schedule.lanes_a), schedule.run_b)
        self.a = emit.add(emit.mul(tile_a, schedule.tile[0]), along_a)
        self.b = emit.add(emit.mul(tile_b, schedule.tile[1]), along_b)
        if schedule.sizes[-1] % schedule.tile[0]:
            inside.append(emit.compare("slt", self.a, schedule.sizes[-1]))
        if schedule.sizes[schedule.b] % schedule.tile[1]:
            inside.append(emit.compare("slt", self.b, schedule.sizes[schedule.b]))
        self.inside = inside

    def along_a(self, operand: MemoryOperand, number: Index) -> tuple[MemoryOperand, Index]:
        """The operand with vectors along A, and the offset of the lane's vector `number` along
        B."""
        schedule = self.schedule
        last = len(schedule.sizes) - 1
        made, steps = outer(operand, schedule.sizes, last, schedule.whole[0])
        return made, self._start(operand, steps, (schedule.b, emit.add(self.b, number)))

    def _start(
        self, operand: MemoryOperand, steps: Sequence[int], *more: tuple[int, Index]
    ) -> Index:
        start: Index = operand.offset
        for d, index in [*self.offsets.items(), *more]:
            start = emit.add(start, emit.mul(index, steps[d]))
        return start

    def load(self, source: MemoryOperand, chunk: Chunk) -> ir.Value:
        assert isinstance(chunk.column, int)
        schedule = self.schedule
        steps = strides(source, schedule.sizes)
        assert steps is not None
        buffer = self.source(source)
        if steps[-1] in (0, 1) or steps[schedule.b] != 1:
            made, start = self.along_a(source, chunk.column)
            return made.load(buffer, start, self.a, schedule.run_a, self.inside)
        if source not in self._read:
            made, _ = outer(source, schedule.sizes, schedule.b, schedule.whole[1])
            last = len(schedule.sizes) - 1
            self._read[source] = [
                made.load(
                    buffer,
                    self._start(source, steps, (last, emit.add(self.a, i))),
                    self.b,
                    schedule.run_b,
                    self.inside,
                )
                for i in range(schedule.run_a)
            ]
        return memory.joined([memory.element(x, chunk.column) for x in self._read[source]])
