"""The schedules of a matrix product: how a work-group divides its tile of C."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.sizes.arithmetic import Number, ceil_div, maximum, minimum

_WAVES = ((1, 1), (1, 2), (2, 1), (1, 4), (2, 2), (4, 1), (2, 4), (4, 2))
# 5 and 7 fill rounds of work-groups; estimates of few waves are too rough for them but on CDNA.
_TILES, _TILES_OF_MFMA = (1, 2, 3, 4, 6, 8), tuple(range(1, 9))
_DISTANCES = (4, 2, 1)
MOST_SPLITS = 32
# Tiles of the double buffer in LDS: one is read while the other is written.
BUFFERS = 2
# Products along k that one float may add up: the error of a sum grows with their number.
MOST_TERMS = 1 << 15
# Registers for sums and the fragments of two steps.
_ROOM = 160


@dataclass(frozen=True)
class ProductSchedule:
    """`waves_m` x `waves_n` waves in a work-group, each with `tiles_m` x `tiles_n` tiles of C.

    One instruction computes one tile (`Unit.rows` x `Unit.columns`). `prefetch` is the prefetch
    distance: so many tiles along k are on their way from memory at a time. `splits` is the factor
    of split-K: so many work-groups compute the same tile of C, each over its part of k, and
    the last one adds their sums. Where `waves_k` is more than 0, so many waves share k of one tile,
    and read fragments to registers without LDS (see straight); `prefetch` is then in their steps.
    With `fill`, a run decides about split-K: to about so many work-groups in all.
    """

    waves_m: int
    waves_n: int
    tiles_m: int
    tiles_n: int
    prefetch: int = 1
    splits: int = 1
    waves_k: int = 0
    fill: int = 0

    @property
    def turn(self) -> int:
        """Steps along k of an iteration of the loop."""
        return self.prefetch if self.waves_k else math.lcm(BUFFERS, self.prefetch)

    @property
    def least(self) -> int:
        """Iterations of each part, at least, where a run decides about split-K."""
        return 1 if self.waves_k else (BUFFERS + self.prefetch) // self.turn + 1

    def most(self, steps: Number) -> int:
        """The greatest factor of split-K that a run may have, of so many steps along k."""
        turns = ceil_div(steps, self.turn)
        assert isinstance(turns, int)
        return max(1, min(MOST_SPLITS, turns // self.least))

    def cut(self, steps: Number, tiles: Number) -> Number:
        """The factor of split-K of so many steps along k, for so many tiles of C. Where a run
        decides, parts are whole iterations, some of them one more."""
        if not self.fill:
            return self.splits
        # fill // tiles, and a number where a run has no tiles.
        wanted = (64 * self.fill + 63) // (64 * tiles + 1)
        turns, parts = ceil_div(steps, self.turn), minimum(wanted, self.most(steps))
        each = 1 + (turns - 1) // maximum(parts, 1)
        return 1 + (turns - 1) // each

    def step(self, unit: Unit) -> int:
        """k that the waves which share it take at a time."""
        return max(1, self.waves_k) * unit.step_chunks * unit.chunk

    def depth(self, unit: Unit) -> int:
        """k that a work-group takes at a time."""
        return self.step(unit) if self.waves_k else unit.tile_depth

    def results(self) -> ProductSchedule:
        """How waves that shared k share the results."""
        waves_m = math.gcd(self.waves_k, self.tiles_m)
        waves_n = math.gcd(self.waves_k // waves_m, self.tiles_n)
        tiles = {"tiles_m": self.tiles_m // waves_m, "tiles_n": self.tiles_n // waves_n}
        return replace(self, waves_m=waves_m, waves_n=waves_n, waves_k=0, **tiles)

    def roomy(self, unit: Unit) -> bool:
        """Whether a wave holds the fragments of two steps."""
        sums = self.tiles_m * self.tiles_n * unit.sums
        both = 2 * (self.tiles_m + self.tiles_n) * unit.fragment
        return sums + both <= _ROOM

    def together(self, unit: Unit) -> int:
        """Rows of tiles whose fragments are used together, where a wave is not roomy."""
        return 1 if unit.fragment > 4 else ceil_div(self.tiles_m, 2)

    def fragments(self, unit: Unit) -> int:
        """Registers of the fragments that a wave holds at a time."""
        if self.roomy(unit):
            return 2 * (self.tiles_m + self.tiles_n) * unit.fragment
        rows = min(self.tiles_m, 2 * self.together(unit))
        return (rows + self.tiles_n) * unit.fragment

    @property
    def waves(self) -> int:
        return self.waves_m * self.waves_n * max(1, self.waves_k)

    def rows(self, unit: Unit) -> int:
        """Rows of C of a work-group."""
        return self.waves_m * self.tiles_m * unit.rows

    def columns(self, unit: Unit) -> int:
        """Columns of C of a work-group."""
        return self.waves_n * self.tiles_n * unit.columns

    def held(self, unit: Unit, wave_size: int) -> tuple[int, int]:
        """Rows and columns of a tile in LDS: each thread brings as many chunks as the others."""
        threads = self.waves * wave_size
        each = max(1, threads // unit.row_chunks)
        return ceil_div(self.rows(unit), each) * each, ceil_div(self.columns(unit), each) * each

    def describe(self, unit: Unit) -> str:
        """For people: the work-group's tile, its waves and its instruction."""
        waves = f"{self.waves_m}x{self.waves_n} waves"
        if self.waves_k:
            waves = f"{self.waves_k} waves that share k without LDS"
        return (
            f"tile {self.rows(unit)}x{self.columns(unit)}x{self.depth(unit)}, "
            f"{waves}, prefetch distance {self.prefetch}, "
            f"{f'k in {self.splits} parts, ' if self.splits > 1 else ''}"
            f"{f'k in parts for {self.fill} work-groups, ' if self.fill else ''}"
            f"{unit.kind} of {unit.element}{' in scaled blocks' if unit.scaled else ''}"
        )


@dataclass(frozen=True)
class Tiling:
    """A schedule, the instruction that multiplies its tiles, and the chip that runs it."""

    schedule: ProductSchedule
    unit: Unit
    target: Target

    @property
    def threads(self) -> int:
        """Threads of a work-group."""
        return self.schedule.waves * self.target.wave_size


@cache
def split(schedule: ProductSchedule, splits: int) -> ProductSchedule:
    """The schedule with so many work-groups for a tile of C."""
    return replace(schedule, splits=splits)


def schedules(kind: str) -> Iterator[ProductSchedule]:
    """Schedules without split-K, in a fixed order; `constraints` tells which are legal.

    kind: that of the instruction that multiplies.
    """
    tiles = _TILES_OF_MFMA if kind == "mfma" else _TILES
    for (waves_m, waves_n), tiles_m, tiles_n, prefetch in product(_WAVES, tiles, tiles, _DISTANCES):
        yield ProductSchedule(waves_m, waves_n, tiles_m, tiles_n, prefetch)


def splits(tiles: int) -> Iterator[int]:
    """The possible factors of split-K, for so many tiles along k: the parts are equal."""
    return (n for n in range(2, min(tiles, MOST_SPLITS) + 1) if tiles % n == 0)
