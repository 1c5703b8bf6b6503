"""The functions of a choice among boxes: a work-group for each row.

    k_0: zeros        k_1: for each wave's width of boxes, up to the last candidate,
                           all waves compare them with a share of the boxes kept before;
                           the first wave compares the remaining ones, one after another

The lanes of every wave hold the same boxes. A list in LDS, or in memory where that is too small,
holds the boxes kept so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, gpu, llvm, memref

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders import lanes as wave
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.launches import OUTPUT, Group, Launches
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand, vector_lanes
from mgx_mlir.codegen.gpu.builders.ordering import barrier
from mgx_mlir.codegen.gpu.families.family import Family, Scheduled, anchored
from mgx_mlir.codegen.gpu.families.rows.match import result_of, source_of
from mgx_mlir.codegen.loops.ops.sequential import overlaps
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.element import I32, SIGNED, Element, element_of
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import shape_of
from mgx_mlir.sizes.arithmetic import ceil_div

# Bytes of LDS for the numbers of kept boxes.
_MOST_BYTES = 60000
_WAVES = 16  # the most waves of a work-group
_AT_ONCE = 4  # kept boxes that a wave reads at a time
_COUNT, _END = 0, 1  # words of LDS: the number of kept boxes; the index after the last candidate


@dataclass(frozen=True)
class Suppress:
    """Keeps, in order, up to `most` of `size` boxes in each of `rows` rows. Kept boxes overlap
    each other by at most `threshold`.

    Operands have the rows as outer index; the inner index counts candidates, or the corners of
    all boxes.
    """

    rows: int
    size: int
    boxes: MemoryOperand
    candidates: MemoryOperand
    kept: MemoryOperand
    threshold: float
    most: int

    name: ClassVar[str] = mgx.SuppressOp.OPERATION_NAME

    @property
    def number(self) -> Element:
        """The type of the number of a box."""
        fits = isinstance(self.size, int) and self.size <= 1 << 16
        return Element("i16", SIGNED, 16) if fits else I32

    @property
    def is_listed_in_lds(self) -> bool:
        """Whether LDS holds the numbers of the kept boxes."""
        return self.most * self.number.bits // 8 <= _MOST_BYTES


@anchored(mgx.SuppressOp)
def match_suppress(op: mgx.SuppressOp) -> Suppress | Refusal:
    """The op as a choice of boxes, or why it does not match."""
    boxes, candidates = op.boxes, op.candidates
    shape = shape_of(candidates.type)
    rows, size = math.prod(shape[:-1]), shape[-1]
    last = len(shape) - 1
    corners, flags = source_of(boxes, [last, last + 1]), source_of(candidates, [last])
    if not isinstance(corners, MemoryOperand) or not isinstance(flags, MemoryOperand):
        return Refusal("an input that is no strided view")
    most = min(op.most.value, size if isinstance(size, int) else MAX_BYTES)
    result = op.results[0]
    kept = result_of(0, element_of(result.type), shape, [last])
    return Suppress(rows, size, corners, flags, kept, op.threshold.value, most)


def flat(suppress: Suppress) -> MemoryOperand:
    """The result as one row."""
    size = suppress.rows * suppress.size
    return MemoryOperand.flat(0, suppress.kept.element, size)


@dataclass(frozen=True)
class SuppressSchedule:
    """`waves` waves, with boxes to compare with, of `wave` lanes."""

    waves: int
    wave: int

    def describe(self) -> str:
        return f"{self.wave} boxes at a time, {self.waves} waves compare them with those kept"


def choose(suppress: Suppress, target: Target) -> SuppressSchedule:
    """As many waves as have boxes to compare with."""
    waves, wave = _WAVES, target.wave_size
    if isinstance(suppress.size, int):
        waves = min(waves, 1 << (ceil_div(suppress.size, wave) - 1).bit_length())
    return SuppressSchedule(waves, wave)


def build(
    suppress: Suppress, launches: Launches, schedule: SuppressSchedule, target: Target
) -> None:
    """Adds the two functions to those of `launches`."""
    kept = flat(suppress)
    size = suppress.rows * suppress.size
    lanes = vector_lanes(size, [kept])
    with launches.each([], [OUTPUT], size, lanes) as work:
        none = Arithmetic([lanes]).constant(False, ir.IntegerType.get_signless(1))
        kept.store(none, work.buffers[OUTPUT], 0, work.offset, work.inside)
    waves, i32 = schedule.waves, ir.IntegerType.get_signless(32)
    mask = ir.IntegerType.get_signless(target.wave_size)
    listed: list[Argument] = []
    lds: list[tuple[int, ir.Type]] = [(2, i32), (waves, mask)]
    if suppress.is_listed_in_lds:
        lds.append((max(suppress.most, 1), suppress.number.storage()))
    else:
        listed.append(launches.scratch(size, suppress.number))
    read = [Argument("input", o.argument) for o in (suppress.boxes, suppress.candidates)]
    threads = waves * target.wave_size
    with launches.groups(read, [OUTPUT, *listed], threads, suppress.rows, lds) as group:
        block = _Block(suppress, target, group, [group.buffers[x] for x in listed], waves)
        emit.when(group.inside[0] if group.inside else True, block.run)


class _Block:
    """The work-group of a row. `listed`: memory for the numbers of kept boxes, beside LDS."""

    def __init__(
        self,
        suppress: Suppress,
        target: Target,
        group: Group,
        listed: Sequence[ir.Value],
        waves: int,
    ) -> None:
        self.suppress, self.target, self.row = suppress, target, group.number
        self.waves = waves
        self.thread = builder.thread_number(waves * target.wave_size)
        self.words, self.masks, self.places = (*group.lds, *listed)
        self.first = emit.mul(self.row, suppress.size) if listed else 0
        self.lane = emit.rem(self.thread, target.wave_size)
        self.wave = wave.uniform(emit.div(self.thread, target.wave_size))
        self.boxes = group.buffers[Argument("input", suppress.boxes.argument)]
        self.candidates = group.buffers[Argument("input", suppress.candidates.argument)]
        self.kept = group.buffers[OUTPUT]
        self.index, self.i32 = ir.IndexType.get(), ir.IntegerType.get_signless(32)
        self.mask = ir.IntegerType.get_signless(target.wave_size)

    def run(self) -> None:
        emit.when(emit.compare("eq", self.thread, 0), self._begin)
        barrier()
        self._find_end()
        barrier()
        end = self._word(_END)

        def more(first: ir.Value, count: ir.Value) -> ir.Value:
            room = emit.compare("slt", count, self.suppress.most)
            return arith.andi(emit.compare("slt", first, end), room)

        def step(first: ir.Value, count: ir.Value) -> list[ir.Value]:
            self._some(first, count)
            return [emit.value(emit.add(first, self.target.wave_size)), self._word(_COUNT)]

        emit.repeat([emit.value(0), emit.value(0)], more, step)

    def _begin(self) -> None:
        for word in (_COUNT, _END):
            emit.store(emit.constant(0, "i32"), self.words, word)

    def _find_end(self) -> None:
        """Stores the index after the last candidate: the boxes from there on are skipped."""
        threads = self.waves * self.target.wave_size

        def step(first: Index, last: ir.Value) -> list[ir.Value]:
            box_index = emit.add(first, self.thread)
            behind = emit.value(emit.add(box_index, 1))
            return [arith.select(self._candidate(box_index), behind, last)]

        (last,) = emit.loop(0, self.suppress.size, threads, step, [emit.value(0)])
        word = arith.index_cast(self.i32, last)
        memref.atomic_rmw(arith.AtomicRMWKind.maxs, word, self.words, [emit.value(_END)])

    def _some(self, first: Index, count: ir.Value) -> None:
        """Handles a wave's width of boxes from `first` on; `count` boxes are kept already."""
        box_index = emit.add(first, self.lane)
        box, wanted = self._box(box_index), self._candidate(box_index)

        def compare(start: Index, alive: ir.Value) -> list[ir.Value]:
            found = []
            for number in range(_AT_ONCE):
                at = emit.add(start, number * self.waves)
                there = emit.compare("slt", at, count)
                at = arith.select(there, emit.value(at), emit.value(0))
                listed = emit.load(self.places, emit.add(self.first, at))
                chosen = arith.index_castui(self.index, listed)
                found.append(self._box(wave.uniform(chosen), [there]))
            for other in found:
                alive = arith.andi(alive, self._apart(other, box))
            return [alive]

        step = _AT_ONCE * self.waves
        (alive,) = emit.loop(self.wave, count, step, compare, [wanted])
        left = wave.ballot(alive, self.target)
        is_first = emit.compare("eq", self.lane, 0)
        emit.when(is_first, lambda: emit.store(left, self.masks, self.wave))
        barrier()
        emit.when(emit.compare("eq", self.wave, 0), lambda: self._resolve(box_index, box, count))
        (barrier if self.suppress.is_listed_in_lds else gpu.barrier)()

    def _resolve(self, box_index: Index, box: Sequence[ir.Value], count: ir.Value) -> None:
        """Keeps boxes, one after another, among those that overlap none before: by one wave."""
        suppress = self.suppress
        a, none = Arithmetic(), arith.constant(self.mask, 0)
        one = arith.constant(self.mask, 1)
        left = emit.load(self.masks, 0)
        for number in range(1, self.waves):
            left = arith.andi(left, emit.load(self.masks, number))

        def more(left: ir.Value, _: ir.Value, now: ir.Value) -> ir.Value:
            room = emit.compare("slt", now, suppress.most)
            return arith.andi(a.icompare("ne", left, none), room)

        def step(left: ir.Value, kept: ir.Value, now: ir.Value) -> list[ir.Value]:
            lane = llvm.intr_cttz(left, True)
            at = lane if self.mask == self.i32 else arith.trunci(self.i32, lane)
            other = [wave.read(x, at) for x in box]
            apart = wave.ballot(self._apart(other, box), self.target)
            bit = arith.shli(one, lane)
            # A box clears its own bit, even if it has no area and does not overlap itself.
            left = arith.andi(left, arith.andi(apart, arith.xori(bit, self._ones())))
            return [left, arith.ori(kept, bit), emit.value(emit.add(now, 1))]

        _, kept, now = emit.repeat([wave.first(left), none, count], more, step)
        mine = arith.shli(one, arith.index_cast(self.mask, emit.value(self.lane)))
        before = arith.andi(kept, arith.subi(mine, one))
        rank = arith.index_cast(self.index, llvm.intr_ctpop(before))
        is_kept = a.icompare("ne", arith.andi(kept, mine), none)

        def keep() -> None:
            number = arith.index_cast(suppress.number.storage(), emit.value(box_index))
            emit.store(number, self.places, emit.add(self.first, emit.add(count, rank)))
            target = suppress.kept
            yes = emit.splat(arith.constant(ir.IntegerType.get_signless(1), 1), 1)
            target.store(yes, self.kept, target.start(self.row), box_index, [])

        emit.when(is_kept, keep)
        total = arith.index_cast(self.i32, now)
        is_first = emit.compare("eq", self.lane, 0)
        emit.when(is_first, lambda: emit.store(total, self.words, _COUNT))

    def _apart(self, kept: Sequence[ir.Value], box: Sequence[ir.Value]) -> ir.Value:
        a = Arithmetic()
        return a.negate(overlaps(a, kept, box, self.suppress.threshold))

    def _box(self, box_index: Index, inside: Sequence[ir.Value] = ()) -> list[ir.Value]:
        """The corners of a box; zeros where there is none: an empty box overlaps no other."""
        boxes = self.suppress.boxes
        there = [*inside, emit.compare("slt", box_index, self.suppress.size)]
        x = boxes.load(self.boxes, boxes.start(self.row), emit.mul(box_index, 4), 4, there)
        return [memory.element(x, n) for n in range(4)]

    def _candidate(self, box_index: Index) -> ir.Value:
        flags, inside = (
            self.suppress.candidates,
            [emit.compare("slt", box_index, self.suppress.size)],
        )
        return memory.element(
            flags.load(self.candidates, flags.start(self.row), box_index, 1, inside), 0
        )

    def _word(self, number: int) -> ir.Value:
        """A word of LDS, as a uniform number of the wave."""
        x = wave.first(emit.load(self.words, number))
        return arith.index_cast(self.index, x)

    def _ones(self) -> ir.Value:
        return arith.constant(self.mask, -1)


FAMILY = Family("suppress", 130, Scheduled(match_suppress, choose, build), symbolic=True)
