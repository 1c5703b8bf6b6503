"""Matches kernels that are a topk, and its schedules: rounds of selection, then a sort."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.family import anchored
from mgx_mlir.codegen.gpu.families.rows.match import result_of, source_of
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import shape_of
from mgx_mlir.sizes.arithmetic import ceil_div

# The most elements of one sort: their keys and indices take 8 bytes each of LDS.
MOST = 2048
_RUNS = (512, 1024, MOST)
_BLOCK = 256
MOST_THREADS = 1024
_PIECES = (2048, 4096, 8192, 16384)  # elements that a work-group selects from
_LAST = 8192  # elements that one work-group selects from faster than several do


@dataclass(frozen=True)
class Topk:
    """The first `k` of `columns` elements of each of `rows` rows; `values` and `indices` are
    results. Operands have the rows as outer index and the columns as inner one."""

    rows: int
    columns: int
    k: int
    largest: bool
    source: MemoryOperand
    values: MemoryOperand
    indices: MemoryOperand
    name: ClassVar[str] = mgx.TopkOp.OPERATION_NAME


def run_of(numbers: int, units: int) -> int:
    """The size of a sorted piece, out of `numbers` in all, before pieces are merged: the least
    one with at most one work-group for each compute unit, up to `MOST`."""
    fewest = next((n for n in _RUNS if numbers <= n * units), MOST)
    return min(fewest, max(2, 1 << (numbers - 1).bit_length()))


@anchored(mgx.TopkOp)
def match_topk(op: mgx.TopkOp) -> Topk | Refusal:
    """The op as a topk, or why it does not match."""
    value, results = op.x, (op.values, op.indices)
    shape, made = shape_of(value.type), shape_of(op.values.type)
    axis = op.axis.value % len(shape)
    source = source_of(value, [axis])
    if not isinstance(source, MemoryOperand):
        return Refusal("an input that is no strided view")
    k, columns = made[axis], shape[axis]
    if math.prod(shape) * 16 > MAX_BYTES:
        return Refusal(f"{math.prod(shape)} elements are more than 31-bit offsets reach")
    if source.element.is_byte_float:
        return Refusal(f"elements of type {source.element.name}")
    values, indices = (
        result_of(n, element_of(r.type), made, [axis]) for n, r in enumerate(results)
    )
    rows = math.prod(n for d, n in enumerate(shape) if d != axis)
    return Topk(rows, columns, k, bool(op.largest.value), source, values, indices)


@dataclass(frozen=True)
class Round:
    """A row's numbers in `parts` pieces: `threads` threads, each with `held` numbers, select the
    first ones of a piece.

    is_loop: a row is one part, whatever its length, which threads go through.
    """

    parts: int
    threads: int
    held: int
    is_loop: bool = False

    @staticmethod
    def of(columns: int, piece: int) -> Round:
        threads = min(MOST_THREADS, max(64, 1 << (ceil_div(piece, 4) - 1).bit_length()))
        return Round(ceil_div(columns, piece), threads, ceil_div(piece, threads))


@dataclass(frozen=True)
class TopKSchedule:
    """`threads` threads sort a piece of twice as many elements; a work-group has `together`
    pieces.

    runs: the number of pieces of a row, which are merged. rounds: rounds of selection; with
    these, only the elements that the last one selects are sorted.
    """

    threads: int
    together: int
    runs: int
    rounds: tuple[Round, ...]

    @staticmethod
    def of(topk: Topk, target: Target) -> TopKSchedule:
        """One thread for each pair of elements; enough pieces to occupy most compute units."""
        columns, k, units = topk.columns, topk.k, target.compute_units
        size = max(2, 1 << (columns - 1).bit_length())
        if columns > MOST:
            size = run_of(topk.rows * columns, units)
        runs, rounds = ceil_div(columns, size), []
        if columns > MOST and k <= MOST // 2:
            while columns > _LAST:
                fitting = (n for n in _PIECES if topk.rows * ceil_div(columns, n) <= 2 * units)
                piece = max(next(fitting, _PIECES[-1]), 4 * k)
                rounds.append(Round.of(columns, piece))
                columns = rounds[-1].parts * k
            rounds.append(Round.of(columns, columns))
        return replace(TopKSchedule.sorting(size, runs), rounds=tuple(rounds))

    @staticmethod
    def sorting(size: int, runs: int) -> TopKSchedule:
        """Sorts of so many elements, of pieces of each row."""
        threads = size // 2
        return TopKSchedule(threads, max(1, _BLOCK // threads), runs, ())

    def describe(self) -> str:
        if self.rounds:
            pieces = ", then ".join(str(r.parts) for r in self.rounds)
            held = ", ".join(f"{r.threads} x {r.held}" for r in self.rounds)
            return f"the first of {pieces} pieces a row, by {held} elements"
        rest = ", merged" if self.runs > 1 else ""
        size = f"{2 * self.threads} elements sorted at a time, {self.together} together"
        return f"{size}, {self.runs} pieces a row{rest}"
