"""The schedules of attention: how a work-group cuts queries and keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.attention.layout import row_elements
from mgx_mlir.sizes.arithmetic import ceil_div

# Numbers of work-groups with the same queries.
PARTS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class AttentionSchedule:
    """`waves` waves in a work-group, each with `tiles` tiles of `rows` queries.

    `keys`: keys in LDS at a time. `overlap`: the softmax of a block of keys is computed
    while the matrix cores work for its neighbours. `splits`: the number of waves with the same
    queries, each with its part of the keys. `parts`: the number of work-groups with the same
    queries, split-K over the grid; it may be a number that a run knows. `rows`: queries of a tile.
    `lean`: LDS holds the queries too, values overwrite keys, and nothing is prefetched: for long
    heads.
    """

    waves: int
    tiles: int
    keys: int
    overlap: bool = False
    splits: int = 1
    parts: int = 1
    rows: int = 16
    lean: bool = False

    @property
    def wave_queries(self) -> int:
        return self.tiles * self.rows

    @property
    def queries(self) -> int:
        """Queries of a work-group."""
        return self.waves // self.splits * self.wave_queries

    @property
    def is_cut(self) -> bool:
        """Whether several work-groups may have the same queries."""
        return self.parts != 1

    @property
    def most_parts(self) -> int:
        """The most work-groups with the same queries."""
        return self.parts if isinstance(self.parts, int) else PARTS[-1]

    def block_keys(self, count: int) -> int:
        """Keys, out of `count`, that a work-group iterates over."""
        return ceil_div(count, self.parts * self.keys) * self.keys

    @property
    def wave_keys(self) -> int:
        """Keys in LDS of one wave."""
        return self.keys // self.splits

    def describe(self, unit: Unit) -> str:
        """The schedule in words: queries, keys, waves and instruction."""
        splits = f" in {self.splits} parts" if self.splits > 1 else ""
        if self.is_cut:
            most = "" if isinstance(self.parts, int) else "up to "
            splits += f" on {most}{self.most_parts} blocks"
        overlap = "overlapped " if self.overlap else "values over keys, " if self.lean else ""
        return (
            f"{self.queries} queries by {self.keys} keys{splits}, {self.waves} waves, "
            f"{overlap}{unit.kind} of {self.rows} rows of {unit.element}"
        )


def schedules(unit: Unit) -> Iterator[AttentionSchedule]:
    """All schedules, in a fixed order; `constraints.Plan` says which are illegal."""
    depth = row_elements(unit)
    for rows in (32, 16) if unit.kind == "mfma" else (unit.rows,):
        for waves, tiles, splits in product((4, 8, 2), (1, 2, 4), (1, 2, 4)):
            for part, overlap in product((depth, depth // 2), (False, True)):
                if splits <= waves and tiles * rows <= 64:
                    yield AttentionSchedule(waves, tiles, part * splits, overlap, splits, rows=rows)
        if unit.kind != "mfma":
            for waves in (4, 8):
                yield AttentionSchedule(waves, 1, depth // 2, rows=rows, lean=True)
