"""How a contraction is cut into register tiles, cache blocks and work items."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mgx_mlir.codegen.cpu import emit
from mgx_mlir.codegen.cpu.problem import Contraction, Image

# Bytes of the second-level cache that one packed block of B may take: half of what the
# smallest supported processors have for each core (512 KiB Zen 3, 1 MiB Zen 4, Skylake-X).
BLOCK_BYTES = 400 << 10
# A work item should be worth waking a thread for, and small enough to balance.
ITEM_MULTIPLY_ADDS = 2 << 20
MIN_BLOCK_COLUMNS = 96
MAX_BLOCK_COLUMNS = 256


@dataclass(frozen=True)
class Machine:
    """What schedules need of the processor: bytes and number of its vector registers."""

    vector_bytes: int

    @property
    def registers(self) -> int:
        return 32 if self.vector_bytes == 64 else 16

    def lanes(self, element: str) -> int:
        return self.vector_bytes // emit.element_bytes(element)


@dataclass(frozen=True)
class Schedule:
    """A register tile has `rows` x `vectors` accumulators of `lanes` elements.

    A cache block of B has `depth` rows of k and up to `columns` columns; for images a block
    is `image_rows` rows of output, or part of one. A work item multiplies `item_rows` rows
    of A by one block of columns.
    """

    lanes: int
    rows: int
    vectors: int
    depth: int
    columns: int
    image_rows: int
    item_rows: int

    def depths(self, problem: Contraction) -> int:
        return math.ceil(problem.K / self.depth)

    def row_blocks(self, problem: Contraction) -> int:
        return math.ceil(problem.M / self.item_rows)

    def column_blocks(self, problem: Contraction) -> int:
        if isinstance(problem.b, Image):
            image_rows = problem.N // problem.b.width
            if self.image_rows > 1:
                return math.ceil(image_rows / self.image_rows)
            return image_rows * math.ceil(problem.b.width / self.columns)
        return math.ceil(problem.N / self.columns)

    def items(self, problem: Contraction) -> int:
        return problem.batch * self.column_blocks(problem) * self.row_blocks(problem)


def choose(problem: Contraction, machine: Machine) -> Schedule:
    """The schedule with the least estimated work."""
    lanes = machine.lanes(problem.accumulator)
    rows, vectors = _tile(problem, machine.registers, lanes)
    size = emit.element_bytes(problem.accumulator)
    # Columns of a block that holds the whole depth, where that leaves enough of them.
    fitting = BLOCK_BYTES // (problem.K * size)
    most = min(max(fitting, MIN_BLOCK_COLUMNS), MAX_BLOCK_COLUMNS)
    columns, image_rows = _columns(problem, vectors * lanes, most)
    deepest = max(BLOCK_BYTES * 5 // 4 // (columns * size), 64)
    depth = math.ceil(problem.K / math.ceil(problem.K / deepest))
    depth = min(problem.K, math.ceil(depth / lanes) * lanes)
    # Rows of A per item: as many as make an item worth its while, in whole tiles.
    tiles = math.ceil(problem.M / rows)
    least = ITEM_MULTIPLY_ADDS if depth == problem.K else 2 * ITEM_MULTIPLY_ADDS
    wanted = math.ceil(least / (rows * columns * problem.K))
    item_rows = math.ceil(tiles / max(1, tiles // wanted)) * rows
    return Schedule(lanes, rows, vectors, depth, columns, image_rows, item_rows)


def _tiles(registers: int) -> Iterator[tuple[int, int]]:
    for vectors in range(1, 9):
        rows = min((registers - 1 - vectors) // vectors, 24)
        if rows >= 1:
            yield rows, vectors


def _tile(problem: Contraction, registers: int, lanes: int) -> tuple[int, int]:
    width = math.ceil(problem.N / lanes)
    best: tuple[float, int, int] | None = None
    for most, vectors in _tiles(registers):
        if vectors > width:
            continue
        tiles = math.ceil(problem.M / most)
        for rows in {min(most, problem.M), math.ceil(problem.M / tiles)}:
            padded = math.ceil(problem.M / rows) * rows * width
            # Loads of one step of k for each multiply-add, and too few independent sums.
            loads = 1 / rows + 1 / vectors
            chains = max(1.0, 8 / (rows * vectors))
            cost = padded * chains * (1 + 0.25 * loads)
            if best is None or cost < best[0]:
                best = (cost, rows, vectors)
    assert best is not None
    return best[1], best[2]


def _columns(problem: Contraction, tile: int, most: int) -> tuple[int, int]:
    """Columns of a block, and rows of output in it where B is an image."""
    if isinstance(problem.b, Image):
        width, image_rows = problem.b.width, problem.N // problem.b.width
        if width > most:
            parts = math.ceil(width / most)
            return math.ceil(math.ceil(width / parts) / tile) * tile, 1
        blocks = math.ceil(image_rows / (most // width))
        rows = math.ceil(image_rows / blocks)
        return rows * width, rows
    most = most // tile * tile or tile
    blocks = math.ceil(problem.N / most)
    return math.ceil(math.ceil(problem.N / blocks) / tile) * tile, 1
