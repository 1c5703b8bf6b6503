"""The functions of a topk: rows, or pieces of them, are sorted in LDS.

An element is sorted as one number of 64 bits, or of 128 where it has 64 itself. The upper half is
its key, which is larger the earlier the element comes. The lower half is the complement of its
index, so that the first one of equal elements wins. A row that is too long for one sort is cut
into pieces: the first k elements of each piece are selected (see select), and again among these,
until one work-group has all of them and sorts them. Where k is more than half the size of a
sort, sorted pieces are merged instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand, vector_lanes
from mgx_mlir.codegen.gpu.builders.ordering import barrier
from mgx_mlir.codegen.gpu.families.family import Family, Scheduled
from mgx_mlir.codegen.gpu.families.topk.schedule import (
    MOST,
    MOST_THREADS,
    Round,
    Topk,
    TopKSchedule,
    match_topk,
)
from mgx_mlir.codegen.gpu.families.topk.select import (
    MERGES,
    Halves,
    Select,
    Sort,
    counters,
    is_swapped,
    merge,
)
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import load
from mgx_mlir.codegen.meaning.element import I64, SIGNED, Element
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.codegen.regimes import in_ranges
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number, Size, ceil_div

_SORTED = (128, 1024)  # lengths of rows of symbolic length up to which a work-group sorts them
_HELD = (4, 8)  # numbers that a thread holds of such a row, or of a piece
_INDEX_BITS = 31  # of a column's number, where rows have any length
_OUTPUTS = (Argument("output", 0), Argument("output", 1))
Buffers = dict[Argument, ir.Value]


def build(topk: Topk, launches: Launches, schedule: TopKSchedule, target: Target) -> None:
    """Adds the functions to those of `launches`."""
    _Functions(topk, launches, schedule, target).build()


class _Functions:
    """The functions of a topk, which `build` adds to those of `launches`."""

    def __init__(
        self, topk: Topk, launches: Launches, schedule: TopKSchedule, target: Target
    ) -> None:
        self.topk, self.launches, self.schedule, self.target = topk, launches, schedule, target
        self.input = Argument("input", topk.source.argument)
        self.size = 2 * schedule.threads  # elements of a piece
        self.number = Element("i128", SIGNED, 128) if topk.source.element.bits > 32 else I64
        self.bytes = self.number.bits // 8

    def build(self) -> None:
        topk, runs = self.topk, self.schedule.runs
        if self.schedule.rounds:
            source, columns = None, topk.columns
            for round_ in self.schedule.rounds[:-1]:
                kept = self._parts(topk.k, round_.parts)
                self._select(round_, kept, columns, source)
                source, columns = kept, round_.parts * topk.k
            self._select(self.schedule.rounds[-1], None, columns, source)
        elif runs == 1:
            self._sort(None, 1, topk.k)
        else:
            pieces = self._parts(self.size, runs)
            self._sort(pieces, runs, self.size)
            places = merge(self.launches, pieces, self.number, topk.rows, runs, self.size)
            self._merged(places, runs * self.size)

    def _parts(self, size: int, parts: int) -> Argument:
        """Scratch memory for `size` numbers of each part of each row."""
        return self.launches.scratch(self.topk.rows * parts * size, self.number)

    def _select(
        self, round_: Round, to: Argument | None, columns: int, source: Argument | None
    ) -> None:
        """The function that selects the first numbers of each piece of rows of `columns` columns.

        It stores them to scratch memory, or, sorted, as the results. It reads the numbers of
        `source`, or the kernel's elements.
        """
        topk, threads = self.topk, round_.threads
        piece, count = threads * round_.held, topk.rows * round_.parts
        room = max(2, 1 << (topk.k - 1).bit_length())
        key_bits = self.number.bits // 2
        word = ir.IntegerType.get_signless(32)
        lds = [(counters(key_bits), word), (room, self.number.storage())]
        read = [self.input] if source is None or to is None else []
        read += [source] if source is not None else []
        written = [to] if to is not None else list(_OUTPUTS)
        with self.launches.groups(read, written, threads, count, lds) as group:
            buffers, thread, number = group.buffers, builder.thread_number(threads), group.number
            row, first = emit.div(number, round_.parts), emit.rem(number, round_.parts)
            first = emit.mul(first, piece)
            words, found = group.lds
            is_whole = source is None and round_.parts == 1 and not round_.is_loop
            most = piece if is_whole else (1 << _INDEX_BITS) - 1
            bits = (topk.columns if isinstance(topk.columns, int) else most).bit_length()
            select = Select(topk.k, bits, words, found, thread, self.target)

            def piece_of(start: Index, before: Sequence[Halves] = ()) -> None:
                """Selects among the numbers from a column on, and those selected before."""
                for array in group.lds:
                    self._clear(array, thread, threads)
                if source is None:
                    held = self._elements(buffers, row, start, thread, round_)
                else:
                    held = []
                    for offset in range(round_.held):
                        column = emit.add(start, emit.add(thread, offset * threads))
                        x = self._number(buffers[source], row, column, columns)
                        held.append(self._halves(x))
                barrier()
                select.run([*held, *before])
                barrier()

            def step(start: ir.Value) -> None:
                before = [self._found(found, emit.add(thread, n)) for n in range(0, room, threads)]
                barrier()
                piece_of(start, before)

            if round_.is_loop:
                self._clear(found, thread, threads)
                barrier()
                emit.loop(0, columns, piece, step)
            else:
                piece_of(first)
            sort = Sort(found, room // 2, 0, thread, self.target.wave_size, more=True)
            if to is None:
                sort.sort()
                barrier()
            for offset in range(0, topk.k, threads):
                rank = emit.add(thread, offset)
                guards = [*group.inside, emit.compare("slt", rank, topk.k)]
                at = emit.minimum(rank, room - 1)
                if to is None:
                    self._store(buffers, row, rank, sort.get(at), guards)
                else:
                    target = emit.add(emit.mul(number, topk.k), rank)
                    target = memory.guarded(target, guards, self.bytes)
                    memory.store(emit.splat(sort.get(at), 1), buffers[to], target)

    def _elements(
        self, buffers: Buffers, row: Index, first: Index, thread: Index, round_: Round
    ) -> list[Halves]:
        """The numbers of a thread's elements: groups of neighbours that one access reads."""
        topk = self.topk
        found: list[Halves] = []
        lanes = math.gcd(vector_lanes(topk.columns, [topk.source]), round_.held)
        for offset in range(0, round_.held, lanes):
            column = emit.add(emit.mul(thread, lanes), offset * round_.threads)
            column = emit.add(first, column)
            there = emit.compare("slt", column, topk.columns)
            start = topk.source.start(row)
            read = topk.source.load(buffers[self.input], start, column, lanes, [there])
            for lane in range(lanes):
                key = self._key(memory.element(read, lane))
                low = self._complement(emit.add(column, lane))
                zeros = [arith.constant(x.type, 0) for x in (key, low)]
                found.append(
                    (arith.select(there, key, zeros[0]), arith.select(there, low, zeros[1]))
                )
        return found

    def _clear(self, array: ir.Value, thread: Index, threads: int) -> None:
        type_ = ir.MemRefType(array.type)
        (size,), zero = type_.shape, arith.constant(type_.element_type, 0)
        for offset in range(0, size, threads):
            at = emit.add(thread, offset)
            emit.when(
                offset + threads <= size or emit.compare("slt", at, size),
                lambda at=at: emit.store(zero, array, at),  # type: ignore[misc]
            )

    def _found(self, found: ir.Value, at: Index) -> Halves:
        """A number that was selected before, 0 beyond their end."""
        (room,) = ir.MemRefType(found.type).shape
        x = emit.load(found, emit.minimum(at, room - 1))
        zero = arith.constant(x.type, 0)
        return self._halves(arith.select(emit.compare("slt", at, room), x, zero))

    def _number(self, buffer: ir.Value, row: Index, column: Index, columns: int) -> ir.Value:
        """A number of a row of scratch memory, 0 beyond its end."""
        there = emit.compare("slt", column, columns)
        offset = emit.add(emit.mul(row, columns), column)
        return memory.element(
            memory.load(buffer, memory.guarded(offset, [there], self.bytes), 1), 0
        )

    def _halves(self, x: ir.Value) -> Halves:
        key = ir.IntegerType.get_signless(self.number.bits // 2)
        high = arith.shrui(x, arith.constant(x.type, 32))
        return arith.trunci(key, high), arith.trunci(ir.IntegerType.get_signless(32), x)

    def _sort(self, to: Argument | None, parts: int, kept: int) -> None:
        """The function that sorts each row in parts, and stores the first numbers of each part
        to scratch memory, or as the results."""
        topk, schedule = self.topk, self.schedule
        threads, count = schedule.threads * schedule.together, topk.rows * parts
        groups = ceil_div(count, schedule.together)
        lds = [(2 * threads, self.number.storage())]
        written = [to] if to is not None else list(_OUTPUTS)
        with self.launches.groups([self.input], written, threads, groups, lds) as made:
            buffers, thread = made.buffers, builder.thread_number(threads)
            group, part = emit.div(thread, schedule.threads), emit.rem(thread, schedule.threads)
            number = emit.mul(made.number, schedule.together)
            number = emit.add(number, group)
            row, first = emit.div(number, parts), emit.mul(emit.rem(number, parts), self.size)
            start = emit.mul(group, self.size)
            wave = self.target.wave_size
            sort = Sort(made.lds[0], schedule.threads, start, part, wave)

            def get(column: Index) -> ir.Value:
                """The number of an element; beyond the row's end 0, less than all others."""
                column = emit.add(first, column)
                there = emit.compare("slt", column, topk.columns)
                x = self._packed(buffers, row, column, there)
                return arith.select(there, x, emit.constant(0, self.number.name))

            sort.run(get)
            guards = []
            if made.inside or groups * schedule.together != count:
                guards.append(emit.compare("slt", number, count))
            for offset in range(0, kept, schedule.threads):
                rank = emit.add(part, offset)
                inside = list(guards)
                if offset + schedule.threads > kept:
                    inside.append(emit.compare("slt", rank, kept))
                if to is None:
                    self._store(buffers, row, rank, sort.get(rank), inside)
                else:
                    target = emit.add(emit.mul(number, kept), rank)
                    target = memory.guarded(target, inside, self.bytes)
                    memory.store(emit.splat(sort.get(rank), 1), buffers[to], target)

    def _merged(self, sources: Sequence[Argument], length: int) -> None:
        """The function that stores the results from sorted rows, in one of `sources` (see
        `merge`)."""
        topk = self.topk
        with self.launches.each([self.input, *sources], _OUTPUTS, topk.rows * topk.k) as work:
            row, rank = emit.div(work.offset, topk.k), emit.rem(work.offset, topk.k)
            at = emit.add(emit.mul(row, length), rank)
            found = [memory.load(work.buffers[source], at, 1) for source in sources]
            x, *others = [memory.element(number, 0) for number in found]
            for other in others:
                x = arith.select(is_swapped(self.schedule.runs), other, x)
            self._store(work.buffers, row, rank, x, work.inside)

    def _packed(self, buffers: Buffers, row: Index, column: Index, there: ir.Value) -> ir.Value:
        """The number of an element."""
        wide, source = self.number.storage(), self.topk.source
        x = source.load(buffers[self.input], source.start(row), column, 1, [there])
        key = arith.extui(wide, self._key(memory.element(x, 0)))
        high = arith.shli(key, emit.constant(32, self.number.name))
        return arith.ori(high, arith.extui(wide, self._complement(column)))

    def _complement(self, column: Index) -> ir.Value:
        i32 = ir.IntegerType.get_signless(32)
        return arith.xori(arith.index_cast(i32, emit.value(column)), emit.constant(-1, "i32"))

    def _key(self, x: ir.Value) -> ir.Value:
        """An unsigned number, of 32 bits or more, that is larger the earlier the element comes."""
        a, element = Arithmetic(), self.topk.source.element
        type_ = ir.IntegerType.get_signless(self.number.bits // 2)
        x = load(a, element, x)
        sign = a.constant(1 << (type_.width - 1), type_)
        ones = a.constant(-1, type_)
        if element.is_float:
            # -0 is equal to 0, and NaN is above every number.
            nan = a.compare("uno", x, x)
            bits = arith.bitcast(type_, arith.addf(x, a.float(0.0, x)))
            negative = a.icompare("slt", bits, a.int(0, bits))
            key = a.select(negative, arith.xori(bits, ones), arith.ori(bits, sign))
            key = a.select(nan, ones, key)
        else:
            if x.type != type_:
                x = a.extend(element, x, type_)
            key = arith.xori(x, sign) if element.kind == SIGNED else x
        return key if self.topk.largest else arith.xori(key, ones)

    def _store(
        self,
        buffers: Buffers,
        row: Index,
        rank: Index,
        packed: ir.Value,
        guards: Sequence[ir.Value],
    ) -> None:
        """Stores the element of a sorted number, and its index, at `rank` of the results."""
        topk = self.topk
        i32 = ir.IntegerType.get_signless(32)
        index = arith.xori(arith.trunci(i32, packed), emit.constant(-1, "i32"))
        column = arith.index_cast(ir.IndexType.get(), index)
        x = topk.source.load(buffers[self.input], topk.source.start(row), column, 1, guards)
        wide = topk.indices.element
        if wide.bits > 32:
            index = arith.extsi(wide.storage(), index)
        results: list[tuple[MemoryOperand, ir.Value]] = [
            (topk.values, x),
            (topk.indices, emit.splat(index, 1)),
        ]
        for (operand, value), output in zip(results, _OUTPUTS, strict=True):
            operand.store(value, buffers[output], operand.start(row), rank, guards)


def _regimes(topk: Topk, target: Target) -> list[tuple[Number, TopKSchedule]] | Refusal:
    """The schedules of symbolic sizes.

    Rows of given length have that of one row. Of other rows, short ones are sorted, and work-groups
    select the k first of longer ones, or of their pieces, and one work-group a row the k first of
    these; where k is large, or a size, pieces are sorted and merged.
    """
    if isinstance(topk.columns, int):
        if isinstance(topk.k, int):
            return [(1, TopKSchedule.of(replace(topk, rows=1), target))]
        return Refusal("a number of elements that is a size, of rows of given length")
    if not isinstance(topk.k, int) or topk.k > MOST // 2:
        return [(1, TopKSchedule(MOST // 2, 1, ceil_div(topk.columns, MOST), ()))]
    ways = [(size, TopKSchedule.sorting(size, 1)) for size in _SORTED if topk.k <= size]
    for held in _HELD:
        one = Round(1, MOST_THREADS, held)
        ways.append((MOST_THREADS * held, TopKSchedule(MOST // 2, 1, 1, (one,))))
    held = _HELD[0]
    pieces = Round(ceil_div(topk.columns, MOST_THREADS * held), MOST_THREADS, held)
    last = Round(1, MOST_THREADS, held, is_loop=True)
    ways.append((math.inf, TopKSchedule(MOST // 2, 1, 1, (pieces, last))))
    shares = in_ranges(topk.columns, [end for end, _ in ways])
    return [(share, ways[number][1]) for share, number in shares]


def _launches(kernel: mgx.KernelOp, topk: Topk) -> Launches:
    runs = ceil_div(topk.columns, MOST)
    is_merged = isinstance(runs, Size) and (not isinstance(topk.k, int) or topk.k > MOST // 2)
    return Launches(kernel, limits=[(1 << MERGES) - runs] if is_merged else [])


_program = Scheduled(match_topk, TopKSchedule.of, build, _regimes, _launches)
FAMILY = Family("topk", 90, _program, symbolic=True)
