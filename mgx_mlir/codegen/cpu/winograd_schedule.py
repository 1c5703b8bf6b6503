"""Which convolutions gain by Winograd's F(4x4, 3x3), and how they are cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mgx_mlir.codegen.cpu.pixels import Pixels
from mgx_mlir.codegen.cpu.schedule import Machine, idle_share
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import ceil_div

# Outputs of a tile in one dimension, its pixels, and the positions of a transformed tile.
OUTPUTS, PIXELS, WINDOW = 4, 6, 3
POSITIONS = PIXELS * PIXELS
ELEMENT = "f32"
# Bytes of the second-level cache that the transformed pixels, and the sums, of an item may take.
_PIXEL_BYTES, _SUM_BYTES = 256 << 10, 128 << 10
# Channels of a block of filters that one work item transforms.
FILTER_CHANNELS = 8
# Costs in multiply-adds of a vector: transforming a vector of pixels, of sums and of filters, whose
# results go to memory; loading a vector of transformed filters from the second level or behind it.
_TRANSFORM_PIXELS, _TRANSFORM_SUMS, _TRANSFORM_FILTERS = 350.0, 300.0, 1000.0
_LOAD_NEAR, _LOAD_FAR, _NEAR_BYTES = 0.3, 3.0, 512 << 10
# The share of the direct convolution's cost from which the transformed one does not pay.
GAIN = 0.8


@dataclass(frozen=True)
class WinogradSchedule:
    """A work item has `tiles` tiles of one image and all filters.

    A register tile has `rows` tiles by `vectors` vectors of filters.
    """

    lanes: int
    tiles: int
    rows: int
    vectors: int

    def __str__(self) -> str:
        return f"Winograd's transformation, {self.rows} tiles by {self.width} filters in registers"

    @property
    def width(self) -> int:
        """Filters of a block."""
        return self.vectors * self.lanes

    def blocks(self, pixels: Pixels) -> int:
        """Work items of one image."""
        high, wide = tiles_of(pixels)
        return ceil_div(high * wide, self.tiles)

    def items(self, pixels: Pixels) -> int:
        return pixels.problem.batch * self.blocks(pixels)

    def filter_items(self, pixels: Pixels) -> int:
        """Work items of the launch that transforms the filters."""
        parts = ceil_div(pixels.scene.channels, FILTER_CHANNELS)
        return ceil_div(pixels.problem.M, self.width) * parts

    def filter_size(self, pixels: Pixels) -> int:
        """Elements of the transformed filters: [block, position, channel, filter]."""
        blocks = ceil_div(pixels.problem.M, self.width)
        return blocks * POSITIONS * pixels.scene.channels * self.width


def tiles_of(pixels: Pixels) -> tuple[int, int]:
    """Rows and columns of tiles of an image."""
    high, wide = pixels.scene.outputs
    return ceil_div(high, OUTPUTS), ceil_div(wide, OUTPUTS)


def pitch_of(size: int, lanes: int) -> int:
    """Elements from one position to the next: an odd number of vectors, for a cache's sets."""
    return (ceil_div(size, lanes) | 1) * lanes


def choose_winograd(pixels: Pixels, machine: Machine) -> tuple[float, WinogradSchedule] | Refusal:
    """The schedule of least work, in multiply-adds of vectors, and that work; or why there is none.

    The work counts more than that of tiles over pixels: it gains that much or nothing.
    """
    problem, scene = pixels.problem, pixels.scene
    if scene.window != (WINDOW, WINDOW):
        return Refusal(f"a window that is not {WINDOW}x{WINDOW}")
    if scene.steps != (1, 1) or scene.dilations != (1, 1):
        return Refusal("windows with steps or gaps")
    if {problem.accumulator, scene.element, pixels.filters.element} != {ELEMENT}:
        return Refusal(f"elements that are not {ELEMENT}")
    if any(stride for _, stride in pixels.filters.batch.factors):
        return Refusal("filters of groups")
    lanes = machine.lanes(ELEMENT)
    if not scene.channel.contiguous(lanes):
        return Refusal("channels that are not contiguous")
    found = [(_cost(pixels, plan), plan) for plan in _schedules(pixels, lanes, machine.registers)]
    if not found:
        return Refusal("tiles that the cache does not hold")
    work, plan = min(found, key=lambda pair: pair[0])
    return work / GAIN, plan


def _schedules(pixels: Pixels, lanes: int, registers: int) -> Iterator[WinogradSchedule]:
    high, wide = tiles_of(pixels)
    pitch = POSITIONS * pitch_of(pixels.scene.channels, lanes) * 4
    vectors_of_filters = ceil_div(pixels.problem.M, lanes)
    for vectors in range(1, min(4, vectors_of_filters) + 1):
        for rows in range(1, min((registers - 1 - vectors) // vectors, high * wide) + 1):
            for groups in (1, 2, 3, 4):
                plan = WinogradSchedule(lanes, rows * groups, rows, vectors)
                sums = POSITIONS * plan.tiles * pitch_of(plan.width, lanes) * 4
                if plan.tiles * pitch <= _PIXEL_BYTES and sums <= _SUM_BYTES:
                    yield plan


def _cost(pixels: Pixels, plan: WinogradSchedule) -> float:
    """Estimated work of all images, in multiply-adds of vectors."""
    problem, channels = pixels.problem, pixels.scene.channels
    high, wide = tiles_of(pixels)
    filters = ceil_div(problem.M, plan.lanes)
    size = plan.filter_size(pixels)
    load = _LOAD_NEAR if size * 4 <= _NEAR_BYTES else _LOAD_FAR
    tile = max(plan.rows * plan.vectors, 8) + plan.rows * 0.15
    groups = plan.tiles // plan.rows
    block = groups * ceil_div(filters, plan.vectors) * tile
    block += ceil_div(filters, plan.vectors) * plan.vectors * (load + (groups - 1) * _LOAD_NEAR)
    products = plan.blocks(pixels) * POSITIONS * channels * block
    transforms = ceil_div(channels, plan.lanes) * _TRANSFORM_PIXELS + filters * _TRANSFORM_SUMS
    idle = products * idle_share(plan.items(pixels))
    return (
        problem.batch * (products + high * wide * transforms)
        + idle
        + size / plan.lanes / POSITIONS * _TRANSFORM_FILTERS
    )
