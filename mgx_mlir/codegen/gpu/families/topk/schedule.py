"""The schedules of a topk: rounds of selection, and the sort of what is left."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.families.topk.match import MOST, Topk, run_of
from mgx_mlir.sizes.arithmetic import ceil_div

_BLOCK = 256
MOST_THREADS = 1024
_PIECES = (2048, 4096, 8192, 16384)  # elements that a work-group selects from
_LAST = 8192  # elements that one work-group selects from faster than several do


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
        """The schedule in words."""
        if self.rounds:
            pieces = ", then ".join(str(r.parts) for r in self.rounds)
            held = ", ".join(f"{r.threads} x {r.held}" for r in self.rounds)
            return f"the first of {pieces} pieces a row, by {held} elements"
        rest = ", merged" if self.runs > 1 else ""
        size = f"{2 * self.threads} elements sorted at a time, {self.together} together"
        return f"{size}, {self.runs} pieces a row{rest}"
