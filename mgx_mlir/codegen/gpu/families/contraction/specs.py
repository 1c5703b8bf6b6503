"""The instructions that multiply: the elements of operands and result that each lane holds.

Every instruction computes a tile of C transposed: its rows are columns of C, so that the
results of a lane are neighbours in memory. Layouts: AMD's CDNA 3 and RDNA 3 / 4 ISA documents
and https://github.com/ROCm/amd_matrix_instruction_calculator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.errors import TargetError

# Chunks of a row of a tile in LDS: half, or all, of the bytes that 32 banks deliver in a clock.
ROW_CHUNKS, WIDE_ROW_CHUNKS = 4, 8
# Halves of the double buffer in LDS: one tile is read while the next is written.
SIDES = 2

# Two rows share 128 bytes, eight slots of 16 bytes: chunk c of row r lies in slot
# (r % 2 * 4 + c) ^ swizzle(r) of row pair r / 2. `swizzle` is linear in r's bits; these are
# its values for bits 0 .. 3. They are chosen so that no phase of an LDS access (8 lanes for 128
# bits) has a bank conflict: neither in reads of rows as operands of MFMA and WMMA, nor in writes
# of successive rows, or of every second, fourth or eighth (a test counts the conflicts).
SWIZZLE = (0, 5, 6, 6)
# The same for rows of 128 bytes: chunk c of row r lies in slot c ^ swizzle(r).
WIDE_SWIZZLE = (1, 2, 4, 0)
# Both for 64 banks, which serve 16 lanes at a time.
SWIZZLE_64, WIDE_SWIZZLE_64 = (0, 0, 4, 6), (0, 2, 4, 5)


@dataclass(frozen=True)
class Unit:
    """A kind of instruction, and the layout of its operands and result in a wave's lanes.

    kind: 'mfma', 'wmma', or 'fma' for plain vector instructions.
    element: the operands' type in LDS. accumulator: the type of the sums.
    depth: k of one instruction. per_lane: neighbours along k that a lane holds of an operand.
    groups: groups of lanes along k. rows: rows of C of one tile; as many lanes differ in row.
    columns, values: columns of C of one tile, and of one lane in it.
    flops: multiplications and additions a clock of one compute unit. scaled: whether each
    lane gives a scale of its elements too. banks: the number of LDS banks, of 4 bytes each.
    lds_done: the operand of s_waitcnt that waits for reads from LDS alone (lgkmcnt(0)); None for
    chips with other instructions.
    """

    kind: str
    element: str
    accumulator: str
    depth: int
    per_lane: int
    groups: int
    rows: int
    columns: int
    values: int
    flops: int
    scaled: bool = False
    banks: int = 32
    lds_done: int | None = None

    @cached_property
    def chunk(self) -> int:
        """Elements in 16 bytes of LDS."""
        return CHUNK_BYTES // emit.element_bytes(self.element)

    @cached_property
    def sums(self) -> int:
        """Registers of a lane's sums of one tile."""
        return self.values * emit.element_bytes(self.accumulator) // 4

    @cached_property
    def fragment(self) -> int:
        """Registers of a lane's fragment of a row or column of tiles in one step."""
        return max(4, self.per_lane * emit.element_bytes(self.element) // 4)

    @cached_property
    def lanes(self) -> int:
        """Lanes of a wave."""
        return self.rows * self.columns // self.values

    @cached_property
    def interleaved(self) -> bool:
        """Whether result i of a lane is row 2 * i + lane / 16 of its tile (RDNA 3)."""
        return self.kind == "wmma" and self.groups == 1

    @cached_property
    def spread(self) -> bool:
        """Whether result i of a lane is row 4 * i + group of its tile, and not 4 * group + i."""
        return self.accumulator == "f64"

    @cached_property
    def tile_depth(self) -> int:
        """k of a work-group's tile in LDS."""
        return self.row_chunks * self.chunk

    @cached_property
    def lane_chunks(self) -> int:
        """Chunks of a row that a lane takes in one step."""
        return max(1, self.per_lane // self.chunk)

    @cached_property
    def step_chunks(self) -> int:
        """Chunks of a row that one step, the work between LDS reads, takes."""
        return self.groups * self.lane_chunks

    @cached_property
    def row_chunks(self) -> int:
        """Chunks of a row of a tile in LDS."""
        return max(ROW_CHUNKS, self.step_chunks)

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of a row of a tile in LDS."""
        return self.row_chunks * CHUNK_BYTES

    @cached_property
    def swizzles(self) -> tuple[int, ...]:
        """For each bit of a row's number, the value that is XORed with the row's chunks."""
        wide = self.row_chunks == WIDE_ROW_CHUNKS
        if self.banks == 64:
            return WIDE_SWIZZLE_64 if wide else SWIZZLE_64
        return WIDE_SWIZZLE if wide else SWIZZLE

    def swizzle(self, row: int) -> int:
        """The value that is XORed with the chunks of a row."""
        result = 0
        for bit, value in enumerate(self.swizzles):
            if row >> bit & 1:
                result ^= value
        return result


def _mfma(element: str, accumulator: str, depth: int, flops: int) -> Unit:
    return Unit(
        "mfma", element, accumulator, depth, depth // 4, 4, 16, 16, 4, flops, lds_done=0xC07F
    )


def _wmma(element: str, accumulator: str, groups: int, flops: int) -> Unit:
    lds_done = 0xFC07 if groups == 1 else None
    return Unit(
        "wmma", element, accumulator, 16, 16 // groups, groups, 16, 16, 8, flops, lds_done=lds_done
    )


def _of_64_banks(*units: Unit) -> tuple[Unit, ...]:
    return tuple(replace(unit, banks=64) for unit in units)


def _byte_floats(names: str, unit: Unit) -> tuple[Unit, ...]:
    return tuple(replace(unit, element=name) for name in names.split())


# Eight rows by four groups of four columns for the 32 lanes of a wave.
_FMA = Unit("fma", "f32", "f32", 1, 4, 1, 8, 16, 4, 128)
# The same with dot products of two f16, or of four bytes.
_DOT_PRODUCTS = (
    Unit("fma", "f16", "f32", 2, 8, 1, 8, 16, 4, 256),
    Unit("fma", "i8", "i32", 4, 16, 1, 8, 16, 4, 512),
)


# The instructions of each architecture, by its name. Flops a clock of a compute
# unit, dense: AMD's CDNA 2, 3, 4 and RDNA 3 white papers.
_UNITS: dict[str, tuple[Unit, ...]] = {
    "cdna1": (
        _mfma("bf16", "f32", 8, 512),
        _mfma("f16", "f32", 16, 1024),
        _mfma("f32", "f32", 4, 256),
        _mfma("i8", "i32", 16, 1024),
    ),
    "cdna2": (
        _mfma("bf16", "f32", 16, 1024),
        _mfma("f16", "f32", 16, 1024),
        _mfma("f32", "f32", 4, 256),
        _mfma("f64", "f64", 4, 256),
        _mfma("i8", "i32", 16, 1024),
    ),
    "cdna3": (
        _mfma("bf16", "f32", 16, 2048),
        _mfma("f16", "f32", 16, 2048),
        _mfma("f32", "f32", 4, 256),
        _mfma("f64", "f64", 4, 256),
        _mfma("i8", "i32", 32, 4096),
        *_byte_floats("f8E4M3FNUZ f8E5M2FNUZ", _mfma("", "f32", 32, 4096)),
    ),
    # LDS: the kernel optimization guide of AMD's Shark project (MI355X).
    "cdna4": _of_64_banks(
        _mfma("bf16", "f32", 32, 4096),
        _mfma("f16", "f32", 32, 4096),
        _mfma("f32", "f32", 4, 256),
        _mfma("f64", "f64", 4, 128),
        _mfma("i8", "i32", 64, 8192),
        *_byte_floats("f8E4M3FN f8E5M2", _mfma("", "f32", 128, 8192)),
        # Counts bytes, of two elements each.
        _mfma("f4E2M1FN", "f32", 64, 8192),
    ),
    "rdna2": _DOT_PRODUCTS,
    "rdna3": tuple(
        _wmma(e, a, 1, 512) for e, a in (("bf16", "f32"), ("f16", "f32"), ("i8", "i32"))
    ),
    "rdna4": (
        _wmma("bf16", "f32", 2, 1024),
        _wmma("f16", "f32", 2, 1024),
        _wmma("i8", "i32", 2, 2048),
        *_byte_floats("f8E4M3FN f8E5M2", _wmma("", "f32", 2, 2048)),
    ),
}


def units_of(target: Target) -> tuple[Unit, ...]:
    """The instructions of a chip; none for a target without an architecture.

    Raises TargetError for an architecture that has no row in this file.
    """
    if target.architecture is None:
        return ()
    name = target.architecture.name
    if name not in _UNITS:
        raise TargetError(
            f"no instructions are listed for {target.name}, of architecture {name}: add a row to "
            f"contraction/specs.py; there are {', '.join(_UNITS)}"
        )
    return _UNITS[name]


def unit_for(target: Target, element: str, accumulator: str, other: str = "") -> Unit | None:
    """The instruction for operands of a type on a chip; None where there is none.

    `other`: the second operand's type where both are 8-bit floats, of any kinds: instructions
    take any pair of the kinds that they take alone.

    Types that plain FMAs take are converted to f32 on their way to LDS, 8-bit floats that the
    chip's instructions do not take to bf16, which holds them exactly (gfx90a's instructions
    on f16 take subnormal numbers for zero).
    """
    if other != element and {element, other} <= emit.BYTE_FLOATS:
        found = [unit_for(target, kind, accumulator) for kind in (element, other)]
        alone = all(x is not None and x.element in (element, other) for x in found)
        return found[0] if alone else unit_for(target, "bf16", accumulator)
    units = units_of(target)
    if not target.features & {"fp8-ocp", "fp8-fnuz"}:
        # A generic target, some of whose chips have no such instructions.
        units = tuple(unit for unit in units if unit.element not in emit.BYTE_FLOATS)
    for unit in units:
        if (unit.element, unit.accumulator) == (element.removeprefix("u"), accumulator):
            return None if unit.kind == "mfma" and element == "ui8" else unit
    if element in emit.BYTE_FLOATS:
        return unit_for(target, "bf16", accumulator)
    plain = accumulator == "f32" and element in ("bf16", "f16", "f32")
    return _FMA if plain and target.wave_size == _FMA.lanes else None
