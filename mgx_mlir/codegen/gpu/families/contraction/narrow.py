"""Convolutions of images with three or four channels, a model's first layer, by one function.

A work-group loads the pixels under its windows to LDS, where a pixel has four elements. It loads
its filters to registers in the layout of the matrix cores: in a step, each lane has one tap, a
pixel, of its row of results and of its filter. Pixels that one row of results needs at once lie
together in LDS: every second pixel, where windows move by two.

Filters have four channels too (see mgx-layout-weights). Where three are in use, the fourth may
have any value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES, PIXEL_CHANNELS
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.access import vector_width
from mgx_mlir.codegen.gpu.families.choice import least, terms
from mgx_mlir.codegen.gpu.families.contraction.convolution import (
    PACKED_FILTER,
    PACKED_IMAGE,
    Product,
    split,
)
from mgx_mlir.codegen.gpu.families.contraction.cost import BLOCK_LATENCY, LDS_BYTES_A_CLOCK
from mgx_mlir.codegen.gpu.families.contraction.specs import Unit
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import Axis, ComputedImage, Image, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import ceil_div

MOST_WAVES = 4
# Registers for a lane's filters, and for these and the pixels that a thread takes to LDS.
MOST_FILTERS, MOST_WAITING = 112, {"mfma": 160, "wmma": 128}
# Bytes that a compute unit loads or stores in a clock: a line of the cache.
MEMORY_BYTES_A_CLOCK = 64
# Clocks of a work-group's instructions before it multiplies; other work-groups can hide half.
START_CLOCKS = 2000


@dataclass(frozen=True)
class Narrow:
    """A work-group has `high` x `wide` results; each of `waves_m` waves computes a row at a time.

    `filters`: a matrix with a row for each filter and columns (channel, tap). `transposed`: whether
    filters are the product's columns, and not its rows. `tiles`: tiles of filters of a wave.
    """

    product: Product
    image: Image
    filters: Matrix
    transposed: bool
    unit: Unit
    wave_size: int
    high: int
    wide: int
    tiles: int
    waves_m: int
    waves_n: int

    @cached_property
    def count(self) -> int:
        """The number of filters."""
        return self.filters.row.size

    @cached_property
    def size(self) -> int:
        return emit.element_bytes(self.image.element)

    @cached_property
    def taps(self) -> int:
        return math.prod(self.image.window)

    @cached_property
    def together(self) -> int:
        """Pixels that a lane multiplies at a time."""
        return max(1, self.unit.per_lane // PIXEL_CHANNELS)

    @cached_property
    def steps(self) -> int:
        return ceil_div(self.taps, self.unit.groups * self.together)

    @cached_property
    def group(self) -> int:
        """Pixels that a thread takes to LDS at a time, by one read for each channel."""
        return pixel_group(self.image)

    @cached_property
    def shift(self) -> int:
        """Columns of pixels before a work-group's first window, in whole groups."""
        return ceil_div(self.image.pads[1], self.group) * self.group

    @cached_property
    def parts(self) -> int:
        """Kinds of columns that lie together in LDS: as many as windows move by."""
        step = self.image.steps[1]
        return step if self.group % step == 0 else 1

    @cached_property
    def patch(self) -> tuple[int, int]:
        """Rows of the pixels under a work-group's windows, and groups of columns."""
        image, lines = self.image, (self.high - 1) * self.image.steps[0] + 1
        reach = [(w - 1) * d for w, d in zip(image.window, image.dilations, strict=True)]
        columns = self.shift - image.pads[1] + (self.wide - 1) * image.steps[1] + reach[1] + 1
        return lines + reach[0], ceil_div(columns, self.group)

    @cached_property
    def pitch(self) -> int:
        """Elements from one row of pixels to the next in LDS."""
        return self.patch[1] * self.group * PIXEL_CHANNELS

    @property
    def lds_elements(self) -> int:
        return self.patch[0] * self.pitch

    @property
    def waves(self) -> int:
        return self.waves_m * self.waves_n

    @property
    def turns(self) -> int:
        return ceil_div(math.prod(self.patch), self.waves * self.wave_size)

    @property
    def registers(self) -> int:
        """Registers of a lane's filters."""
        return self.tiles * self.steps * self.together * PIXEL_CHANNELS * self.size // 4

    @property
    def joined(self) -> int:
        """Tiles whose results a lane stores together, to store 16 bytes."""
        size = max(emit.element_bytes(e) for e in self.product.match.result_elements)
        wide = self.unit.kind == "mfma" and self.unit.values * size == 8
        return 2 if self.transposed and wide and self.tiles % 2 == 0 else 1

    @cached_property
    def blocks(self) -> tuple[int, int, int]:
        """Work-groups by image, row and column of results."""
        high, wide = self.image.outputs
        return self.image.batch.size, ceil_div(high, self.high), ceil_div(wide, self.wide)

    @property
    def grid(self) -> tuple[int, int, int]:
        own = self.waves_n * self.tiles * self.unit.rows
        return math.prod(self.blocks), ceil_div(self.count, own), 1

    @property
    def instructions(self) -> int:
        """Instructions of one wave that multiply."""
        pieces = min(PIXEL_CHANNELS // self.unit.per_lane, self.image.channel.size)
        tiles = self.high // self.waves_m * ceil_div(self.wide, self.unit.rows) * self.tiles
        return tiles * self.steps * max(1, pieces)

    def clocks(self, target: Target) -> float:
        """Estimated clocks; see `cost`."""
        unit, gpu = self.unit, target.gpu
        each = 2 * unit.rows * unit.columns * unit.depth / (unit.flops / gpu.simds)
        matrix = self.instructions * each * max(1.0, self.waves / gpu.simds)
        read = self.instructions // self.tiles * self.wave_size * unit.per_lane * self.size
        filled = self.lds_elements * self.size
        lds = (self.waves * read + 2 * filled) / LDS_BYTES_A_CLOCK
        own = self.registers * 4 * self.wave_size * self.waves
        result = self.high * self.wide * self.waves_n * self.tiles * unit.rows * self.size
        moved = (
            filled * self.image.channel.size // PIXEL_CHANNELS + own + result
        ) / MEMORY_BYTES_A_CLOCK
        a_unit = ceil_div(math.prod(self.grid), target.compute_units)
        waves = 8
        if unit.kind == "mfma":
            waves = gpu.lane_vgprs // (self.registers + 96) * gpu.simds
        held = max(1, min(target.lds_bytes // filled, waves // self.waves, a_unit))
        rounds = ceil_div(a_unit, held)
        busy = START_CLOCKS / 2 + sum(x**3 for x in (matrix, lds, moved)) ** (1 / 3)
        alone = START_CLOCKS + matrix + lds + moved
        terms(matrix=a_unit * matrix, lds=a_unit * lds, memory=a_unit * moved)
        return rounds * BLOCK_LATENCY + max(a_unit * busy, rounds * alone)

    def describe(self) -> str:
        return (
            f"{self.high}x{self.wide} results of {self.waves_n}x{self.tiles * self.unit.rows} "
            f"filters a block, {self.waves_m}x{self.waves_n} waves, "
            f"pixels of {PIXEL_CHANNELS} in LDS, {self.unit.kind} of {self.unit.element}"
        )


def pixel_group(image: Image) -> int:
    """Pixels whose channels are read at once, by reads of 16 bytes at most.

    Neighbours in memory are either pixels of a row, or all channels of a pixel. 1 for
    other layouts.
    """
    chunk = CHUNK_BYTES // emit.element_bytes(image.element)
    channels, last = image.channel, image.strides[1]
    rows = Axis.of((image.sizes[0], image.strides[0]))
    if last == 1:
        row = Axis(((image.sizes[1], 1),))
        return vector_width(row, rows, channels, image.batch, offset=image.offset, limit=chunk)
    if channels.stride == 1 and last == channels.size:
        row = Axis(((image.sizes[1] * last, 1),))
        found = vector_width(row, rows, image.batch, offset=image.offset, limit=chunk)
        return math.gcd(found, image.sizes[1])
    return 1


def narrow_refusal(match: Match, sizes: Sequence[int], unit: Unit) -> Refusal | None:
    """Why such work-groups do not serve a convolution; None where they do.

    sizes: elements of each input.
    """
    image, problem = match.problem.b, match.problem
    if not isinstance(image, Image) or isinstance(image, ComputedImage) or match.added:
        return Refusal("no convolution of an image as it is")
    if image.channel.size not in (3, PIXEL_CHANNELS) or len(image.sizes) != 2:
        return Refusal(f"{image.channel.size} channels, {len(image.sizes)} dimensions")
    if unit.kind not in ("mfma", "wmma") or unit.element not in ("bf16", "f16", "f32"):
        return Refusal("no matrix cores for the type")
    if unit.element != image.element or problem.batch != image.batch.size:
        return Refusal("groups, or converted elements")
    if math.prod(image.window) == 1:
        return Refusal("no windows")
    if problem.a.batch.stride != 0:
        return Refusal("groups")
    if pixel_group(image) * emit.element_bytes(image.element) < 8:
        return Refusal("pixels that are not read by 8 bytes")
    a = problem.a
    channel, tap = split(a.column, image.channel.size)
    strides = [stride for axis in (a.row, tap) for _, stride in axis.factors]
    whole = all(x % PIXEL_CHANNELS == 0 for x in (a.offset, sizes[a.argument], *strides))
    if channel.stride != 1 or not whole:
        return Refusal(f"taps of filters that are not {PIXEL_CHANNELS} elements")
    return None


def as_narrow(
    match: Match,
    product: Product,
    transposed: bool,
    sizes: Sequence[int],
    unit: Unit,
    target: Target,
) -> Narrow | Refusal:
    """The best such work-groups for a convolution and its product.

    transposed: whether the product is transposed. sizes: elements of each input.
    """
    if not product.packings:
        return Refusal("operands that are read as they are")
    if refusal := narrow_refusal(match, sizes, unit):
        return refusal
    image = match.problem.b
    assert isinstance(image, Image)
    place = {PACKED_IMAGE: image.argument, PACKED_FILTER: match.problem.a.argument}
    problem = product.match.problem
    assert isinstance(problem.b, Matrix)
    a, b = (replace(x, argument=place.get(x.argument, x.argument)) for x in (problem.a, problem.b))
    inner = replace(product.match, problem=replace(problem, a=a, b=b))
    product = replace(product, match=inner, packings={})
    make = partial(Narrow, product, image, match.problem.a, transposed, unit, target.wave_size)
    found = [x for x in _cuts(make, image, match.problem.a, unit) if _fits(x, target)]
    best = least(found, lambda x: x.clocks(target), Narrow.describe)
    return best or Refusal("no work-group that fits registers and LDS")


def _cuts(
    make: Callable[..., Narrow], image: Image, filters: Matrix, unit: Unit
) -> Iterator[Narrow]:
    """The ways to divide the results among work-groups."""
    total, columns = ceil_div(filters.row.size, unit.rows), image.outputs[1]
    parts = ceil_div(columns, unit.rows)
    wides = sorted({ceil_div(parts, n) * unit.rows for n in (1, 2, 3, 4, 8, 16)}, reverse=True)
    for tiles in (4, 3, 2, 1):
        for waves_n in (4, 2, 1) if total % tiles == 0 else ():
            if total // tiles % waves_n:
                continue
            waves_m = MOST_WAVES // waves_n
            for high in (waves_m * n for n in (1, 2, 4)):
                for wide in wides:
                    yield make(high, min(wide, columns), tiles, waves_m, waves_n)


def _fits(found: Narrow, target: Target) -> bool:
    image, values = found.image, found.unit.values
    share = target.register_share
    pixels = found.turns * image.channel.size * found.group * found.size // 4
    if found.registers > MOST_FILTERS * share:
        return False
    if found.registers + pixels > MOST_WAITING[found.unit.kind] * share:
        return False
    if found.lds_elements * found.size > min(target.lds_bytes, 64 << 10) // 2:
        return False
    if found.blocks[2] > 1 and found.wide * image.steps[1] % found.group:
        return False
    return found.transposed or image.outputs[1] % values == 0
