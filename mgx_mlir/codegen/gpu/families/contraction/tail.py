"""The work of a work-group on whole rows of its product: reductions, and results after them.

The sums go to LDS, in place of the tiles, in the product's element type. Waves then take rows as
the waves of a kernel of rows do (see families.rows), and store results to memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.function import Frame
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.contraction.constraints import BUFFERS
from mgx_mlir.codegen.gpu.families.contraction.function import Parameter, Tensors, outputs_of
from mgx_mlir.codegen.gpu.families.contraction.space import Tiling
from mgx_mlir.codegen.gpu.families.rows.body import RowsBody
from mgx_mlir.codegen.gpu.families.rows.evaluate import Reduction
from mgx_mlir.codegen.gpu.families.rows.layouts import Along
from mgx_mlir.codegen.gpu.families.rows.match import Rows
from mgx_mlir.codegen.gpu.families.rows.space import RowSchedule
from mgx_mlir.codegen.problem.problem import Axis, Contraction, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import ceil_div

# Clocks of a read from LDS, or of a reduction within a wave.
_LDS_CLOCKS = 100
# Elements of a row that a lane keeps.
_KEPT = 16


@dataclass(frozen=True)
class Tail:
    """Rows whose argument `product` is a product of `M` rows; results of `sizes` elements."""

    rows: Rows
    product: int
    sizes: tuple[int, ...]

    @property
    def used(self) -> dict[int, str]:
        """The element type of each input that is read, beside the product."""
        read = [
            source for source in self.rows.sources.values() if isinstance(source, MemoryOperand)
        ]
        found = {source.argument: source.element.name for source in read}
        return {number: name for number, name in found.items() if number != self.product}

    @property
    def outputs(self) -> list[Parameter]:
        by_number = sorted(self.rows.results, key=lambda result: result.operand.argument)
        return outputs_of([r.operand.element.name for r in by_number], self.sizes)

    def refusal(self, problem: Contraction) -> Refusal | None:
        """Why no work-group can do it for a product, by any schedule; None where one may."""
        M, N = problem.M, problem.N
        mine = [s for s in self.rows.sources.values() if self._is_product(s)]
        plain = Axis.of((M, N)), Axis.of((N, 1))
        if [(x.outer, x.inner) for x in mine if isinstance(x, MemoryOperand)] != [plain]:
            return Refusal("rows that are not the product's")
        results = [result.operand for result in self.rows.results]
        others = [s for s in self.rows.sources.values() if isinstance(s, MemoryOperand)]
        if any(x.element.kind == "bool" or x.element.is_byte_float for x in (*results, *others)):
            return Refusal("rows of elements that are no plain numbers")
        return Refusal(f"{problem.batch} matrices") if problem.batch > 1 else None

    def fits(self, problem: Contraction, tiling: Tiling) -> bool:
        """Whether a work-group with a schedule has whole rows, and LDS for all of them."""
        schedule, unit = tiling.schedule, tiling.unit
        rows, columns = schedule.rows(unit), schedule.columns(unit)
        room = BUFFERS * (rows + columns) * unit.tile_depth
        cut = self.cut(problem, tiling)
        whole = columns >= problem.N and rows * columns <= room
        return whole and cut is not None and rows % cut.together == 0

    def cut(self, problem: Contraction, tiling: Tiling) -> RowSchedule | None:
        """How a work-group's threads share rows: all of them busy, each row within a wave."""
        for lanes in (4, 8, 2, 1):
            for sharing in (64, 32, 16, 8, 4):
                chunks, rest = divmod(problem.N, sharing * lanes)
                if sharing > tiling.target.wave_size or rest or not 0 < chunks * lanes <= _KEPT:
                    continue
                return RowSchedule(sharing, tiling.threads // sharing, lanes, chunks, False, True)
        return None

    def clocks(self, problem: Contraction, tiling: Tiling) -> float:
        """Estimated clocks of a compute unit's work-groups: one group of rows after another.

        Each group is bound by latency, of LDS and of reductions that wait for one another. Two
        work-groups hide half of it from each other.
        """
        cut = self.cut(problem, tiling)
        assert cut is not None
        levels = max(self.rows.levels.values())
        rows = tiling.schedule.rows(tiling.unit)
        blocks = ceil_div(problem.M, rows) / tiling.target.compute_units
        passes = rows // cut.together
        return passes * _LDS_CLOCKS * (1 + levels) * max(1.0, math.ceil(blocks) / 2)

    def place(self, problem: Contraction, tiling: Tiling) -> Matrix:
        """The layout of the product's elements in LDS."""
        row, column = self._axes(problem, tiling)
        return Matrix(0, tiling.unit.element, 0, Axis(()), row, column)

    def emit(
        self, problem: Contraction, tiling: Tiling, tensors: Tensors, place: tuple[Index, Index]
    ) -> None:
        """Emits the work of a thread, after a barrier; place: its number and its work-group's."""
        rows_ = tiling.schedule.rows(tiling.unit)
        cut = self.cut(problem, tiling)
        assert cut is not None
        outer, inner = self._axes(problem, tiling)
        sources = {
            value: replace(source, outer=outer, inner=inner)
            if isinstance(source, MemoryOperand) and self._is_product(source)
            else source
            for value, source in self.rows.sources.items()
        }
        rows = replace(self.rows, sources=sources)
        numbers = {number: at for at, number in enumerate((*sorted(self.used), self.product))}
        read = [tensors.inputs[number] for number in sorted(self.used)]
        buffers = [*read, tensors.tiles, *tensors.outputs]
        frame = Frame(tuple(buffers), (), ())
        reductions = [Reduction(op) for op in rows.reductions]
        passes = rows_ // cut.together
        bounded = problem.M % rows_ != 0

        def one(number: Index) -> None:
            layout = Along(rows, cut, tiling.target, frame, numbers)
            layout.begin(place[0], emit.add(emit.mul(place[1], passes), number))
            RowsBody(rows, cut, layout, reductions, bounded).emit()

        emit.loop(0, passes, 1, one)

    def _is_product(self, source: object) -> bool:
        return isinstance(source, MemoryOperand) and source.argument == self.product

    def _axes(self, problem: Contraction, tiling: Tiling) -> tuple[Axis, Axis]:
        rows = tiling.schedule.rows(tiling.unit)
        columns = tiling.schedule.columns(tiling.unit)
        blocks = ceil_div(problem.M, rows)
        outer = Axis(((blocks, 0), (rows, columns))) if blocks > 1 else Axis(((rows, columns),))
        return outer, Axis(((problem.N, 1),))
