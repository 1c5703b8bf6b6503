"""The instructions that multiply: the elements of operands and result that each lane holds.

Every instruction computes a tile of C transposed: its rows are columns of C, so that the
results of a lane are neighbours in memory. Its layouts are those of `layout.fragments`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.layout.fragments import (
    MFMA,
    MFMA_F64,
    VECTORS,
    WMMA_GFX11,
    WMMA_GFX12,
    WMMA_GFX1250,
    Fragments,
)
from mgx_mlir.codegen.layout.lds import SWIZZLES, swizzle
from mgx_mlir.codegen.layout.map import Map
from mgx_mlir.errors import TargetError

# Chunks of a row of a tile in LDS, at least: half of the bytes that 32 banks deliver in a clock.
ROW_CHUNKS = 4


@dataclass(frozen=True)
class Unit:
    """A kind of instruction, and the layout of its operands and result in a wave's lanes.

    kind: 'mfma', 'wmma', or 'fma' for plain vector instructions.
    element: the operands' type in LDS. accumulator: the type of the sums.
    fragments: the layouts, whose rows are columns of C, and whose columns are rows of C.
    flops: multiplications and additions a clock of one compute unit. scaled: whether each
    lane gives a scale of its elements too. banks: the number of LDS banks, of 4 bytes each.
    lds_done: the operand of s_waitcnt that waits for reads from LDS alone (lgkmcnt(0)); None for
    chips with other instructions.
    """

    kind: str
    element: str
    accumulator: str
    fragments: Fragments
    flops: int
    scaled: bool = False
    banks: int = 32
    lds_done: int | None = None

    @cached_property
    def depth(self) -> int:
        """k of one instruction."""
        if self.kind in ("mfma", "wmma"):
            return self.fragments.depth
        return 4 // emit.element_bytes(self.element)

    @cached_property
    def per_lane(self) -> int:
        """Neighbours along k that a lane holds of an operand."""
        return self.fragments.per_lane

    @cached_property
    def groups(self) -> int:
        """Groups of lanes along k."""
        return self.fragments.groups

    @cached_property
    def rows(self) -> int:
        """Rows of C of one tile; as many lanes differ in row."""
        return self.fragments.columns

    @cached_property
    def columns(self) -> int:
        """Columns of C of one tile."""
        return self.fragments.rows

    @cached_property
    def values(self) -> int:
        """Columns of C of one lane in a tile."""
        return self.fragments.values

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
        return 1 << self.fragments.c.bits("lane")

    @cached_property
    def tile_depth(self) -> int:
        """k of a work-group's tile in LDS."""
        return self.row_chunks * self.chunk

    @cached_property
    def chunk_parts(self) -> int:
        """Instructions that take parts of a lane's chunk, one after another."""
        return max(1, self.chunk // self.per_lane)

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
    def swizzle(self) -> Map:
        """The swizzle of the rows of a tile in LDS."""
        return swizzle(*SWIZZLES[self.banks, self.row_chunks])

    def order(self, joined: int = 1) -> Map:
        """(r, tile) -> n: the column of C of an instruction's row, in one of `joined` tiles,
        such that a lane's results are neighbours."""
        return self.fragments.order(self.values * joined)

    def first_column(self, tile: int, joined: int) -> int:
        """The first column of a tile, where the columns of `joined` tiles alternate."""
        together, inner = divmod(tile, joined)
        return together * joined * self.columns + inner * self.values


def _mfma(element: str, accumulator: str, depth: int, flops: int) -> Unit:
    fragments = MFMA_F64 if accumulator == "f64" else MFMA[f"16x16x{depth}"]
    return Unit("mfma", element, accumulator, fragments, flops, lds_done=0xC07F)


def _rdna3(element: str, accumulator: str) -> Unit:
    return Unit("wmma", element, accumulator, WMMA_GFX11, 512, lds_done=0xFC07)


def _rdna4(element: str, accumulator: str, flops: int) -> Unit:
    return Unit("wmma", element, accumulator, WMMA_GFX12, flops)


def _gfx1250(element: str, accumulator: str, depth: int, flops: int) -> Unit:
    return Unit("wmma", element, accumulator, WMMA_GFX1250[f"16x16x{depth}"], flops)


def _of_64_banks(*units: Unit) -> tuple[Unit, ...]:
    return tuple(replace(unit, banks=64) for unit in units)


def _byte_floats(names: str, unit: Unit) -> tuple[Unit, ...]:
    return tuple(replace(unit, element=name) for name in names.split())


_FMA = Unit("fma", "f32", "f32", VECTORS["f32"], 128)
# The same with dot products of two f16, or of four bytes.
_DOT_PRODUCTS = (
    Unit("fma", "f16", "f32", VECTORS["f16"], 256),
    Unit("fma", "i8", "i32", VECTORS["i8"], 512),
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
    "rdna3": (_rdna3("bf16", "f32"), _rdna3("f16", "f32"), _rdna3("i8", "i32")),
    "rdna4": (
        _rdna4("bf16", "f32", 1024),
        _rdna4("f16", "f32", 1024),
        _rdna4("i8", "i32", 2048),
        *_byte_floats("f8E4M3FN f8E5M2", _rdna4("", "f32", 2048)),
    ),
    # Rates are estimates: those of CDNA 4.
    "gfx1250": (
        _gfx1250("bf16", "f32", 32, 4096),
        _gfx1250("f16", "f32", 32, 4096),
        _gfx1250("f32", "f32", 4, 512),
        _gfx1250("i8", "i32", 64, 8192),
        *_byte_floats("f8E4M3FN f8E5M2", _gfx1250("", "f32", 64, 8192)),
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
            f"gpu/builders/units.py; there are {', '.join(_UNITS)}"
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
