"""How a contraction is cut into register tiles, cache blocks and work items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.pack import InPlace, Line
from mgx_mlir.codegen.problem.problem import Computed, Contraction, Matrix
from mgx_mlir.sizes.arithmetic import Size, ceil_div

# Bytes of the second-level cache that one packed block of B may take, by the bytes of a vector:
# three quarters of the 1 MiB that each core of the smallest processors with vectors of 64 bytes
# has (Zen 4, Skylake-X). On processors with narrower vectors tiles of few rows read B often.
BLOCK_BYTES, BLOCK_BYTES_NARROW = 768 << 10, 192 << 10
MAX_BLOCK_COLUMNS, MAX_BLOCK_COLUMNS_NARROW = 256, 64
LEAST_BLOCK_BYTES = 128  # of a row of it
# The first-level cache: 4 KiB of each of its (8 to 12) ways, half of which rows of A may take.
CACHE_LINE, CACHE_SETS, ROWS_OF_SET = 64, 64, 4
HALF = CACHE_LINE * CACHE_SETS * ROWS_OF_SET
# Shares of a tile's time: of reading a part of a block of B from behind the second-level cache, of
# rows of A, times columns, and that which cutting the depth saves. Bytes of an item's sums.
READ_BLOCK, READ_A, CUT_SHARE, SUMS_BYTES = 0.4, 5.0, 0.15, 256 << 10
# Multiply-adds of a work item that are worth waking a thread for.
ITEM_MULTIPLY_ADDS = 1 << 20
# The share of the products' time that packing B again for each item of rows may cost: the second
# with fewer items than `FEW_ITEMS`.
PACK_SHARE, PACK_SHARE_FEW = 0.04, 0.12
FEW_ITEMS = 8
# From this share on, B is packed once for all items, unless it is too large for that.
SHARE_FROM = 0.06
MAX_SHARED_BYTES = 16 << 20
# Rows of B that one item of a packing launch packs.
PACK_DEPTH = 128
# Costs in multiply-adds of one vector. An element of A comes from the first-level cache, a
# vector of B from the second; from behind it where the second does not hold all of a block's depth,
# which the next item reads again. Packing a vector of B is loads, stores and, along k, a
# transposition. Sums that are stored and loaded between two blocks of depth cost that too.
LOAD_A, LOAD_B, LOAD_FAR = 0.4, 1.0, 3.0
# A vector of 32 bytes of a line of pixels, as measured for 8 and more filters of 64 elements.
LOAD_LINE = 1.5
PACK_VECTOR, PACK_TRANSPOSED = 2.5, 6.0
PACK_A_VECTOR = 2.5
SUMS_VECTOR = 4.0
# Products that one sum of floats adds up before it goes to a total: the error of a long sum is
# then that of a short one plus that of a sum of few totals.
SUM_DEPTH = 256
BYTES = frozenset(("i8", "ui8"))
# The element type of packed blocks, by the number of integers that lie together.
JOINED = {2: "i16", 4: "i8"}
# Rows, columns and depth, and matrices, that a schedule is chosen for where they are formulas.
USUAL, USUAL_BATCH = 512, 16
# Numbers of threads that work is shared out to.
THREADS = (2, 4, 8, 16)
# The most rows of a tile that are runs in place: each needs a register for where it begins.
IN_PLACE_ROWS = 12
# The rows of a tile that may compute some in vain, so that B is not read again for fewer.
FEW_ROWS = 4
# The most vectors of a tile's row: the processor foresees so many streams of B.
MOST_VECTORS = 8
# Sums in flight that hide the latency of a multiply-add.
CHAINS = 8


@dataclass(frozen=True)
class Machine:
    """The facts of a processor that schedules need: bytes and number of its vector registers.

    `joined`: the products of 8-bit integers that one instruction sums for each lane: 4 (vpdpbusd
    on 64 bytes), 2 (vpmaddwd, of integers of 16 bits), or 1.
    """

    vector_bytes: int
    registers: int
    joined: int = 1

    @staticmethod
    def of(target: Target) -> Machine:
        many = target.vector_bytes == 64 or target.name.startswith("aarch64")
        joined = 1 if target.name.startswith("aarch64") else 2
        if "int8-dot" in target.features and target.vector_bytes == 64:
            joined = 4
        return Machine(target.vector_bytes, 32 if many else 16, joined)

    def lanes(self, element: str) -> int:
        return self.vector_bytes // emit.element_bytes(element)


@dataclass(frozen=True)
class CpuSchedule:
    """A register tile has `rows` x `vectors` accumulators of `lanes` elements.

    A cache block of B has `depth` rows of k and up to `columns` columns. A work item multiplies
    `item_rows` rows of A by one block of columns. `shared`: B is packed once, by a launch of its
    own, and not by each item. `joined`: integers of a column that lie together in packed blocks, as
    one instruction takes them: 4 of 8 bits, 2 of 16 bits.
    """

    lanes: int
    rows: int
    vectors: int
    depth: int
    columns: int
    item_rows: int
    shared: bool
    joined: int = 1

    def __str__(self) -> str:
        size, block = (self.rows, self.vectors * self.lanes), (self.depth, self.columns)
        once = ", packed once" if self.shared else ""
        return f"register tiles {size[0]}x{size[1]}, blocks {block[0]}x{block[1]}{once}"

    def work(self, problem: Contraction) -> float:
        """The estimated work of a problem of given sizes, in multiply-adds of vectors.

        Packing counts even where B may be a weight, which is packed once, as others are not.
        """
        tile = self.rows, self.vectors, self.columns
        total = problem.batch * _cost(problem, self.lanes, *tile, self.joined)
        if packs_once(problem):
            total += problem.K * ceil_div(problem.N, self.lanes) * _pack_vector(problem, self.lanes)
        return total

    def tiles(self, repeats: bool) -> dict[int, tuple[int, int]]:
        """Rows of register tiles for any number of rows, falling to 1; the vectors of each, and the
        rows that it may have past those that are left, which `repeats` allows.

        Sums take no more registers than in the schedule's own tile; the vectors divide a block.
        """
        block = ceil_div(self.columns, self.lanes)
        lower = [n for n in ((4, 1) if self.rows > FEW_ROWS else (2, 1)) if n < self.rows]
        found = {}
        for rows, following in pairwise([self.rows, *lower, 0]):
            most = min((self.rows + 1) * self.vectors // (rows + 1), MOST_VECTORS)
            part = ceil_div(block, ceil_div(block, most))
            wide = next((n for n in range(most, part // 2, -1) if block % n == 0), part)
            idle = repeats and rows <= FEW_ROWS and (following < 2 or self.joined == 4)
            past = rows - following - 1 if idle else 0
            found[rows] = self.vectors if rows == self.rows else wide, past
        return found

    def held_element(self, problem: Contraction) -> str:
        """The element type of packed blocks of B: bytes, of which tiles make wider numbers."""
        return "i8" if self.joined > 1 else self.packed_element(problem)

    def packed_element(self, problem: Contraction) -> str:
        """The element type of packed blocks of A, and of products."""
        return JOINED.get(self.joined) or packed_element(problem)

    def depths(self, problem: Contraction) -> int:
        return ceil_div(problem.K, self.depth)

    def totals(self, problem: Contraction) -> bool:
        """Whether sums of floats go to totals within a block's depth."""
        return (
            problem.accumulator == self.packed_element(problem)
            and min(problem.K, self.depth) > SUM_DEPTH
            and emit.is_float(problem.accumulator)
        )

    def row_blocks(self, problem: Contraction) -> int:
        return ceil_div(problem.M, self.item_rows)

    def column_blocks(self, problem: Contraction) -> int:
        return ceil_div(problem.N, self.columns)

    def items(self, problem: Contraction) -> int:
        return problem.batch * self.column_blocks(problem) * self.row_blocks(problem)

    @property
    def packed_row(self) -> int:
        """Elements from one row of a packed block of B to the next.

        A vector of slack takes writes past the end of a row. The number of cache lines is odd, so
        that rows do not compete for the same sets of the cache.
        """
        vectors = ceil_div(self.columns, self.lanes) + 1
        return (vectors | 1) * self.lanes

    def packing(self, problem: Contraction) -> tuple[int, int]:
        """Elements from one row of a packed block of B to the next, and from vector to vector.

        Each vector of columns is contiguous, row after row: tiles read few streams, which the
        processor foresees. A row of slack, or a cache line of bytes, is between two of them.
        """
        if self._is_by_vectors:
            slack = CACHE_LINE if self.joined > 1 else self.lanes
            return self.lanes, self._block_rows(problem) * self.lanes + slack
        return self.packed_row, self.lanes

    @property
    def _is_by_vectors(self) -> bool:
        return self.joined > 1 or self.shared

    def reads_in_place(self, problem: Contraction) -> bool:
        """Whether tiles read rows of A where they lie. Else these are packed: converted, joined, or
        because several compete for one set of the first-level cache."""
        a, stride = problem.a, problem.a.row.stride
        if isinstance(a, InPlace):
            return True
        if self.joined > 1 or a.element != self.packed_element(problem):
            return False
        if not isinstance(stride, int) or a.column.stride != 1:
            return False
        step = stride * emit.element_bytes(a.element)
        sets = [row * step // CACHE_LINE % CACHE_SETS for row in range(self.rows)]
        return max(map(sets.count, sets)) <= ROWS_OF_SET

    def packed_block(self, problem: Contraction) -> int:
        """Elements of a packed block of B: of full depth where that is shared."""
        k_step, vector_step = self.packing(problem)
        if self._is_by_vectors:
            return ceil_div(self.columns, self.lanes) * vector_step
        return self._block_rows(problem) * k_step + self.lanes

    def _block_rows(self, problem: Contraction) -> int:
        """Rows of a packed block of B, in whole vectors."""
        rows = problem.K if self.shared else self.depth
        return ceil_div(rows, self.lanes) * self.lanes

    def packed_size(self, problem: Contraction) -> int:
        """Elements of B packed as a whole."""
        return _matrices(problem) * self.column_blocks(problem) * self.packed_block(problem)

    def pack_items(self, problem: Contraction) -> int:
        """Work items of the launch that packs B."""
        parts = ceil_div(problem.K, PACK_DEPTH)
        return _matrices(problem) * self.column_blocks(problem) * parts


def _matrices(problem: Contraction) -> int:
    """The number of matrices B: one of no batch serves all."""
    b = problem.b
    return problem.batch if b.batch.factors else 1


def packed_element(problem: Contraction) -> str:
    """The type of packed blocks of single numbers: the accumulator's, or f32 for 8-bit integers.

    Processors multiply and add two vectors of f32 at once. Products of 8-bit integers, summed
    over a block of depth, are exact in f32.
    """
    return problem.accumulator if _exact_depth(problem) is None else "f32"


def _exact_depth(problem: Contraction) -> int | None:
    """The number of products of integers that f32 sums exactly: while they fit its 24 bits."""
    largest = {"i8": 128, "ui8": 255}
    a, b = largest.get(problem.a.element), largest.get(problem.b.element)
    if a is None or b is None or problem.accumulator != "i32":
        return None
    return (1 << 24) // (a * b)


def joined_by(problem: Contraction, machine: Machine) -> int:
    """The products of a problem that one instruction sums for each lane.

    Packed rows of A end with zeros where these are several.
    """
    elements, lanes = {problem.a.element, problem.b.element}, machine.lanes(problem.accumulator)
    if problem.accumulator != "i32" or not elements <= BYTES:
        return 1
    if problem.K % lanes and not problem.a.column.contiguous(lanes):
        return 1
    return min(machine.joined, 2) if elements == {"ui8"} else machine.joined


def are_signed(problem: Contraction) -> bool:
    """Whether both operands of a problem are bytes with a sign."""
    return {problem.a.element, problem.b.element} == {"i8"}


def usual(problem: Contraction) -> Contraction:
    """The problem with the sizes that a schedule is chosen for in place of formulas."""

    def one(size: int, own: int = USUAL) -> int:
        return own if isinstance(size, Size) else size

    batch, rows = one(problem.batch, USUAL_BATCH), one(problem.M)
    return replace(problem, batch=batch, M=rows, N=one(problem.N), K=one(problem.K))


def choose(problem: Contraction, machine: Machine) -> CpuSchedule:
    """The schedule with the least estimated work.

    Of a product with formulas for sizes, that of its usual ones: B is packed once for all items.
    """
    if (given := usual(problem)) != problem:
        plan = replace(_uncut(given, machine), shared=True)
        exact = isinstance(problem.K, int) or not emit.is_float(problem.accumulator)
        return plan if exact else replace(plan, depth=min(plan.depth, SUM_DEPTH))
    return _cut(problem, _uncut(problem, machine))


def _uncut(problem: Contraction, machine: Machine) -> CpuSchedule:
    lanes = machine.lanes(problem.accumulator)
    joined = joined_by(problem, machine)
    highest = IN_PLACE_ROWS if isinstance(problem.a, InPlace) else machine.registers
    tiles = {
        (rows, vectors)
        for registers, vectors in register_tiles(machine.registers - (joined == 2))
        for most in (min(registers, highest),)
        for parts in (ceil_div(problem.M, most),)
        for rows in (most, ceil_div(problem.M, parts), ceil_div(problem.M, parts + 1))
        if rows <= max(problem.M, 1)
    }
    _, rows, vectors, columns = min(
        (_cost(problem, lanes, *tile, columns, joined), *tile, columns)
        for columns in _column_blocks(problem, machine)
        for tile in tiles
    )
    depth = _depth(problem, lanes, columns, joined)
    item_rows = _item_rows(problem, lanes, rows, columns, shared=False)
    plan = CpuSchedule(lanes, rows, vectors, depth, columns, item_rows, False, joined)
    # Each item packs its block again: with many items, packing first is worth the barrier.
    if isinstance(problem.b, Computed):
        return replace(plan, item_rows=ceil_div(problem.M, rows) * rows)
    again = plan.row_blocks(problem) * _pack_vector(problem, lanes) / problem.M
    size = plan.packed_size(problem) * emit.element_bytes(plan.held_element(problem))
    few = again < SHARE_FROM or plan.row_blocks(problem) < 3 or size > MAX_SHARED_BYTES
    if few and not packs_once(problem):
        return plan
    item_rows = _item_rows(problem, lanes, rows, columns, shared=True)
    return replace(plan, item_rows=item_rows, shared=True)


def _cut(problem: Contraction, plan: CpuSchedule) -> CpuSchedule:
    """The schedule with its depth cut, where a tile's rows of A leave the first-level cache.

    An item then has several tiles, which read a part of a block of B in turn. Its size is that
    which costs least: few tiles read B often, narrow blocks A, and few items leave threads idle.
    """
    size = emit.element_bytes(problem.accumulator)
    is_wide = plan.lanes * size == 64 and plan.joined == 1 and type(problem.a) is Matrix
    if not (is_wide and plan.shared) or plan.rows * problem.K * size <= 4 * HALF:
        return plan
    tiles, step = ceil_div(problem.M, plan.rows), plan.vectors * plan.lanes

    def cost(columns: int, height: int) -> tuple[float, int, int]:
        parts = ceil_div(tiles, height)
        idle = idle_share(problem.batch * ceil_div(problem.N, columns) * parts)
        height = ceil_div(tiles, parts)
        return idle + READ_BLOCK / height + READ_A / columns, columns, height

    share, columns, height = min(
        cost(columns, height)
        for columns in range(step, MAX_BLOCK_COLUMNS + 1, step)
        for height in range(1, SUMS_BYTES // (plan.rows * columns * size) + 1)
    )
    if share > CUT_SHARE:
        return plan
    depth = ceil_div(problem.K, ceil_div(problem.K, HALF // (plan.rows * size)))
    depth = ceil_div(depth, plan.lanes) * plan.lanes
    return replace(plan, depth=depth, columns=columns, item_rows=height * plan.rows)


def packs_once(problem: Contraction) -> bool:
    """Whether B is packed once for all items, whatever that costs: it is most likely a weight.

    The runtime then keeps the packed block from run to run. A computed one would take the room that
    few bits save.
    """
    if isinstance(problem.b, Computed):
        return False
    return problem.b.argument >= 0 and problem.batch == 1


def idle_share(items: int, enough: int = 16) -> float:
    """The time that threads are idle in the last round of some items, as a share of the work.

    17 items take 16 threads as long as 32 do. It is that of 2, 4, 8 and 16 threads together, as far
    as so many have enough work; one thread, for which it is nothing, counts as much as these.
    """
    shares = [ceil_div(items, n) * n / items - 1 for n in THREADS if n <= enough and items]
    return sum(shares) / (2 * len(THREADS))


def register_tiles(registers: int) -> Iterator[tuple[int, int]]:
    """Rows and vectors of register tiles: their sums, a row of B and one element of A.

    Or, of fewer rows than vectors, a column of A and one vector of B.
    """
    for vectors in range(1, MOST_VECTORS + 1):
        rows = min((registers - 1 - vectors) // vectors, 24)
        yield max(rows, min((registers - 1) // (vectors + 1), vectors - 1)), vectors


def tile_cost(rows: int, vectors: int, load: float = LOAD_B, chains: int = CHAINS) -> float:
    """The cost of one step of k of a register tile, in multiply-adds; load: of a vector of B."""
    sums = rows * vectors
    return sums * max(1.0, chains / sums) * (1 + LOAD_A / vectors + load / rows)


def most_columns(line: Line, lanes: int) -> int:
    """The pixels of a line whose windows the first-level cache holds, in whole vectors."""
    return max(HALF // line.held // lanes, 4) * lanes


def _column_blocks(problem: Contraction, machine: Machine) -> Iterator[int]:
    lanes = machine.lanes(problem.accumulator)
    if isinstance(problem.b, Line):
        parts = ceil_div(problem.N, most_columns(problem.b, lanes))
        yield ceil_div(ceil_div(problem.N, parts), lanes) * lanes
        return
    bound = MAX_BLOCK_COLUMNS if machine.vector_bytes == 64 else MAX_BLOCK_COLUMNS_NARROW
    most = min(bound, ceil_div(problem.N, lanes) * lanes)
    least = min(most, LEAST_BLOCK_BYTES // emit.element_bytes(problem.accumulator))
    yield from range(least, most + 1, lanes)


def _parts(size: int, part: int) -> list[tuple[int, int]]:
    """The sizes of the parts that a size is cut into, each with its number of parts."""
    whole, rest = divmod(size, part)
    return [(n, count) for n, count in ((part, whole), (rest, 1)) if n and count]


def _cost(
    problem: Contraction, lanes: int, rows: int, vectors: int, columns: int, joined: int
) -> float:
    """Estimated work of one batch, in multiply-adds of vectors."""
    tiles = ceil_div(problem.M, rows)
    depths = ceil_div(problem.K, _depth(problem, lanes, columns, joined))
    size = emit.element_bytes(problem.accumulator)
    wide = lanes * size == 64
    far = depths > 1 and wide and packs_once(problem)
    line, how = isinstance(problem.b, Line), (LOAD_FAR if far else LOAD_B, CHAINS)
    if isinstance(problem.b, Line):
        # Lines are in the first-level cache, and of few steps: sums of the next tile are in flight.
        is_large = lanes * size == 32 and problem.M >= 8 and problem.K >= 64
        near = LOAD_LINE if is_large else LOAD_A
        how = near if problem.b.held * columns <= 2 * HALF else 2 * LOAD_B, CHAINS // 2
    one, whole = tile_cost(rows, 1, *how), tile_cost(rows, vectors, *how)
    steps = ceil_div(problem.K, joined)
    total = 0.0
    for block, count in _parts(problem.N, columns):
        width = ceil_div(block, lanes)
        products = (width // vectors) * whole + (width % vectors) * one
        one_block = tiles * steps * products
        one_block += 5 * SUMS_VECTOR if line else tiles * rows * problem.K / lanes * PACK_A_VECTOR
        if not packs_once(problem):
            one_block += problem.K * width * _pack_vector(problem, lanes)
        one_block += tiles * rows * width * SUMS_VECTOR * depths
        total += count * one_block
    return total


def _pack_vector(problem: Contraction, lanes: int) -> float:
    """The cost of packing a vector of B."""
    assert isinstance(problem.b, Matrix)
    if isinstance(problem.b, Line):
        return 0.0
    return PACK_VECTOR if problem.b.column.contiguous(lanes) else PACK_TRANSPOSED


def _depth(problem: Contraction, lanes: int, columns: int, joined: int) -> int:
    """Rows of a packed block of B: all of them, or equal parts that fit the cache."""
    if isinstance(problem.b, Line):
        return problem.K
    size = 1 if joined > 1 else emit.element_bytes(problem.accumulator)
    wide = lanes * emit.element_bytes(problem.accumulator) == 64
    most = max((BLOCK_BYTES if wide else BLOCK_BYTES_NARROW) // (columns * size), 64)
    exact = _exact_depth(problem)
    if exact is not None and joined == 1:
        most = min(most, exact // lanes * lanes)
    part = ceil_div(problem.K, ceil_div(problem.K, most))
    return min(problem.K, ceil_div(part, lanes) * lanes)


def _item_rows(problem: Contraction, lanes: int, rows: int, columns: int, shared: bool) -> int:
    """Rows of A of a work item, in whole tiles: few enough to share out among threads, enough to
    be worth an item and, if B is not shared, the packing of the item's own block of B."""
    tiles = ceil_div(problem.M, rows)
    blocks = problem.batch * ceil_div(problem.N, columns)
    worth = ITEM_MULTIPLY_ADDS / (columns * problem.K)
    pack = _pack_vector(problem, lanes)
    least = max(worth, 0 if shared else pack / PACK_SHARE)
    if not shared and blocks * problem.M / least < FEW_ITEMS:
        least = max(worth, pack / PACK_SHARE_FEW, min(least, blocks * problem.M / FEW_ITEMS))
    parts = max(1, int(problem.M // least))
    return ceil_div(tiles, min(parts, tiles)) * rows
