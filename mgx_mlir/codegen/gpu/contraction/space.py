"""The schedules of a matrix product: how a block of threads cuts its tile of C."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from mgx_mlir.codegen.gpu.contraction.specs import Unit

_WAVES = ((1, 1), (1, 2), (2, 1), (1, 4), (2, 2), (4, 1), (2, 4), (4, 2))
_TILES = (1, 2, 4, 8)


@dataclass(frozen=True)
class Schedule:
    """`waves_m` x `waves_n` waves in a block, each with `tiles_m` x `tiles_n` tiles of C.

    A tile is what one instruction computes (`Unit.rows` x `Unit.columns`).
    """

    waves_m: int
    waves_n: int
    tiles_m: int
    tiles_n: int

    @property
    def waves(self) -> int:
        return self.waves_m * self.waves_n

    def rows(self, unit: Unit) -> int:
        """Rows of C of a block."""
        return self.waves_m * self.tiles_m * unit.rows

    def columns(self, unit: Unit) -> int:
        """Columns of C of a block."""
        return self.waves_n * self.tiles_n * unit.columns

    def describe(self, unit: Unit) -> str:
        """For people: block tile, waves and instruction."""
        return (
            f"tile {self.rows(unit)}x{self.columns(unit)}x{unit.tile_depth}, "
            f"{self.waves_m}x{self.waves_n} waves, {unit.kind} of {unit.element}"
        )


def schedules() -> Iterator[Schedule]:
    """All schedules, in a fixed order; which are legal is `constraints.refusal`'s matter."""
    for (waves_m, waves_n), tiles_m, tiles_n in product(_WAVES, _TILES, _TILES):
        yield Schedule(waves_m, waves_n, tiles_m, tiles_n)
