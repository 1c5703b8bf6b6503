"""Which kernels are attention that the host's generator takes, and how they are cut."""

from __future__ import annotations

from dataclasses import dataclass

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.schedule import USUAL, USUAL_BATCH, Machine, register_tiles, tile_cost
from mgx_mlir.codegen.problem.attention import Attention, heads_as_queries, match_attention
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number, ceil_div

# So many queries of an item pack no keys: for each of them keys are read where they lie.
FEW = 4
# The most queries of an item, and keys of a block, with the bytes that their rows may take.
ROWS, ROWS_BYTES = 128, 256 << 10
KEYS, KEYS_BYTES = 256, 64 << 10
# The largest size of a head: blocks of wider ones would not fit a thread's stack.
MOST_WIDE = 8192
# ROWS and KEYS where queries see the keys before them alone: of blocks at the edge half is in vain.
ROWS_SEEN, KEYS_SEEN = 64, 128


def host_attention(kernel: mgx.KernelOp) -> Attention | None:
    """The kernel as an attention whose heads have a given size; None for other kernels."""
    found = match_attention(kernel, placed=True)
    if found is None or not all(size <= MOST_WIDE for size in (found.D, found.E)):
        return None
    if not isinstance(found.D, int) or not isinstance(found.E, int):
        return None
    return found if found.M > FEW else heads_as_queries(found)


@dataclass(frozen=True)
class Tile:
    """A register tile has sums of `rows` rows and `vectors` vectors of columns."""

    rows: int
    vectors: int

    @staticmethod
    def of(rows: int, vectors: int, registers: int, whole: bool = False) -> Tile:
        """The tile of least work for so many rows and vectors; `whole`: that divides the latter."""
        found = []
        for most, wide in register_tiles(registers):
            height = ceil_div(rows, ceil_div(rows, most))
            parts, rest = divmod(vectors, wide)
            if rest and whole:
                continue
            cost = parts * tile_cost(height, wide) + rest * tile_cost(height, 1)
            found.append((ceil_div(rows, height) * cost, height, wide))
        _, height, wide = min(found)
        return Tile(height, wide)


@dataclass(frozen=True)
class AttentionCut:
    """An item has up to `rows` queries, a block up to `keys` keys.

    scores, values: the tiles of the two products. few: whether items may have so few queries that
    they pack nothing; many: whether some have more.
    """

    lanes: int
    registers: int
    rows: int
    keys: int
    scores: Tile
    values: Tile
    few: bool
    many: bool

    @staticmethod
    def of(attention: Attention, machine: Machine) -> AttentionCut:
        lanes, registers = machine.lanes(attention.score), machine.registers
        M, N = attention.M, attention.N
        bytes_ = max(attention.D, attention.E) * emit.element_bytes(attention.score)
        most, keys = (ROWS, KEYS) if attention.causal is None else (ROWS_SEEN, KEYS_SEEN)
        most = max(min(most, ROWS_BYTES // bytes_), 1)
        keys = min(keys, KEYS_BYTES // bytes_ // (4 * lanes) * 4 * lanes)
        keys = max(keys, 4 * lanes if bytes_ <= KEYS_BYTES // lanes else lanes)
        if isinstance(N, int):
            keys = ceil_div(ceil_div(N, ceil_div(N, keys)), lanes) * lanes
        rows = ceil_div(M, ceil_div(M, most)) if isinstance(M, int) else most
        scores = Tile.of(rows, keys // lanes, registers)
        values = Tile.of(rows, ceil_div(attention.E, lanes), registers, whole=True)
        if not isinstance(M, int):
            rows = max(most // scores.rows, 1) * scores.rows
        in_place = all(x.column.contiguous(lanes) for x in (attention.k, attention.v))
        few = in_place and not M > FEW
        return AttentionCut(
            lanes, registers, rows, keys, scores, values, few, not (few and M <= FEW)
        )

    @property
    def padded_rows(self) -> int:
        """Rows of the item's memory: tiles at its end are whole."""
        return max(ceil_div(self.rows, x.rows) * x.rows for x in (self.scores, self.values))

    def __str__(self) -> str:
        return f"{self.rows} queries an item, blocks of {self.keys} keys"

    def clocks(self, attention: Attention) -> float:
        """The estimated clocks of both products."""
        usual = [n if isinstance(n, int) else USUAL for n in (attention.M, attention.N)]
        batch = attention.batch if isinstance(attention.batch, int) else USUAL_BATCH
        work = batch * usual[0] * usual[1] * (attention.D + attention.E) / self.lanes
        return work / 2

    def items(self, attention: Attention) -> Number:
        return attention.batch * ceil_div(attention.M, self.rows)
