"""The loop along k by plain multiply-adds, for chips without matrix cores: two barriers a tile."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.ordering import barrier
from mgx_mlir.codegen.gpu.families.contraction.pipeline import Pipeline
from mgx_mlir.codegen.gpu.families.contraction.space import BUFFERS
from mgx_mlir.sizes.arithmetic import Number


class PlainPipeline(Pipeline):
    """A pipeline whose steps are a loop that LLVM does not unroll: each has hundreds of
    instructions, and repeating them only takes registers."""

    def _alone(self, sums: list[ir.Value], half: Index, k: Index) -> list[ir.Value]:
        return self._rolled(sums, half)

    def _loop(
        self, tiles: Number, sums: list[ir.Value], prefetched: list[list[ir.Value]]
    ) -> list[ir.Value]:
        count = len(sums)

        def tile(
            k: Index, half: int, carried: Sequence[ir.Value], following: bool
        ) -> list[ir.Value]:
            sums, oldest = list(carried[:count]), list(carried[count:])
            beyond = emit.add(k, (BUFFERS + 1) * self.unit.tile_depth)
            loaded = self._load(beyond) if following else oldest
            sums = self._rolled(sums, half)
            barrier()  # no thread reads this half any more
            self._store(oldest, half)
            barrier()
            return [*sums, *loaded]

        return self._repeat(tiles, tile, [*sums, *prefetched[0]])[:count]

    def _rolled(self, sums: list[ir.Value], half: Index) -> list[ir.Value]:
        """The sums with a tile's products added."""
        schedule = self.schedule

        def step(number: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            sums = list(carried)
            rows = {i: self._read_row(i, number, half) for i in range(schedule.tiles_m)}
            for j in range(schedule.tiles_n):
                column = self._read_column(j, number, half)
                for _ in self._multiply(sums, rows, range(schedule.tiles_m), j, column):
                    pass
            return sums

        return emit.loop(0, self.steps, 1, step, sums, rolled=True)
