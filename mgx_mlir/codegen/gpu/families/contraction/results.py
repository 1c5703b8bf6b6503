"""The results of a wave's lanes: from the sums of tiles to the epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule
from mgx_mlir.codegen.gpu.families.rows.match import weight
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.sizes.arithmetic import Number

# Vectors of results whose operands are read before the partial sums of split-K, at most.
_EARLY = 8
# Instructions of an epilogue that are repeated for rows of tiles, at most: LLVM takes long for
# more. A loop moves the sums of the rows that are left, again for each of them.
MOST_REPEATED = 1024


@dataclass(frozen=True)
class Lane:
    """A thread's offsets: its wave's in the tile of C, its row in a tile, its group along k."""

    wave_m: Index
    wave_n: Index
    row: Index
    group: Index


class Results:
    """The results of a lane in matrix `batch`, whose work-group begins at row and column `first`.

    cut: how waves divide them, the instruction, and the columns of tiles that a lane stores
    together.
    """

    def __init__(
        self,
        epilogue: Epilogue,
        match: Match,
        cut: tuple[ProductSchedule, Unit, int],
        batch: Index,
        first: tuple[Index, Index],
        lane: Lane,
    ) -> None:
        self._epilogue, self._batch = epilogue, batch
        self._schedule, self._unit, self._joined = schedule, unit, joined = cut
        self._values = unit.values * joined
        m = emit.add(first[0], emit.add(lane.wave_m, lane.row))
        n = emit.add(first[1], emit.add(lane.wave_n, emit.mul(lane.group, self._values)))
        # Rows that the epilogue takes at a time, and the first columns of tiles by their numbers.
        each = schedule.tiles_m // _turns(match, schedule, unit)
        self._rows = [emit.add(m, i * unit.rows) for i in range(each)]
        self._columns = {
            j: emit.add(n, j * unit.columns) for j in range(0, schedule.tiles_n, joined)
        }

    def prepare(self) -> None:
        """Reads the operands of a lane's few results early."""
        few = len(self._rows) == self._schedule.tiles_m
        if few and len(self._rows) * len(self._columns) <= _EARLY:
            for m, n in product(self._rows, self._columns.values()):
                self._epilogue.prepare(self._batch, n, self._values, m)

    def store(
        self, sums: Sequence[ir.Value], extents: tuple[Number, Number], size: tuple[int, int]
    ) -> None:
        """Takes sums, row by row of tiles, through the epilogue. extents: rows and columns of the
        matrix. size: those of a work-group."""
        schedule, unit, each = self._schedule, self._unit, len(self._rows)
        by_row, bounded = extents[0] % size[0] != 0, extents[1] % size[1] != 0
        if each < schedule.tiles_m:
            for n in self._columns.values():
                self._epilogue.prepare(self._batch, n, self._values)

        def store(first: Index, *sums: ir.Value) -> list[ir.Value]:
            for i, row in enumerate(self._rows):
                m = emit.add(row, first)
                inside = [emit.compare("slt", m, extents[0])] if by_row else []
                for j, n in self._columns.items():
                    at = i * schedule.tiles_n + j
                    x = memory.concatenated(sums[at : at + self._joined])
                    self._epilogue(x, self._batch, m, n, inside, bounded)
            # The sums of the next rows take the place of these.
            stored = each * schedule.tiles_n
            return [*sums[stored:], *sums[len(sums) - stored :]]

        rows = unit.rows
        emit.loop(0, schedule.tiles_m * rows, each * rows, store, sums, rolled=True)


def epilogue_work(match: Match) -> int:
    """About how many instructions the epilogue takes for one element."""
    relaxed = {*match.result_elements} <= {"f16", "bf16", "i8", "ui8"}
    return weight(match.epilogue, relaxed) if match.epilogue else 0


def _turns(match: Match, schedule: ProductSchedule, unit: Unit) -> int:
    """Iterations of the loop that takes a wave's rows of tiles through the epilogue."""
    if match.epilogue is None:
        return 1
    row = schedule.tiles_n * unit.values * epilogue_work(match)
    return next(
        (
            n
            for n in range(1, schedule.tiles_m)
            if schedule.tiles_m % n == 0 and schedule.tiles_m // n * row <= MOST_REPEATED
        ),
        schedule.tiles_m,
    )
