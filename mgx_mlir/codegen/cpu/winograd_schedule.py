"""Which convolutions gain by Winograd's F(4x4, 3x3), and how they are cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mgx_mlir.codegen.cpu.channel_windows import USUAL_SIDE
from mgx_mlir.codegen.cpu.schedule import Machine, idle_share
from mgx_mlir.codegen.cpu.windows import WindowProduct, filter_steps, groups_of
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import Dimension, Image, Matrix
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
GAIN = 0.7


@dataclass(frozen=True)
class Squares:
    """A convolution of two-dimensional images with 3x3 windows.

    filters: `count` of them, as [element of a window, filter]. c_step and taps: the distances in
    memory of neighbouring channels of a filter, and of rows and columns of its window.
    """

    image: Image
    images: int
    filters: Matrix
    count: int
    c_step: int
    taps: tuple[int, int]

    @property
    def channels(self) -> int:
        return self.image.channel.size

    @property
    def usual(self) -> Squares:
        """With the sizes that a schedule is chosen for in place of formulas."""

        def usual(dim: Dimension) -> Dimension:
            return dim if isinstance(dim.outputs, int) else replace(dim, outputs=USUAL_SIDE)

        images = self.images if isinstance(self.images, int) else 1
        return replace(self, images=images, image=self.image.with_dims(usual))

    @staticmethod
    def of(match: Match, product: WindowProduct, machine: Machine) -> Squares | Refusal:
        """A convolution to which the formula applies, or why it does not."""
        image, problem, lanes = match.problem.b, match.problem, machine.lanes(ELEMENT)
        if not match.relaxed:
            return Refusal("another formula than the model's")
        if match.added or type(image) is not Image or len(image.dims) != 2:
            return Refusal("no image with rows and columns")
        if any((dim.window, dim.step, dim.dilation) != (WINDOW, 1, 1) for dim in image.dims):
            return Refusal(f"windows that are not {WINDOW}x{WINDOW}, or with steps or gaps")
        if {problem.accumulator, image.element, problem.a.element} != {ELEMENT}:
            return Refusal(f"elements that are not {ELEMENT}")
        (filters,), steps = product.filters, filter_steps(problem.a.column, image)
        if groups_of(problem) > 1 or steps is None:
            return Refusal("filters of groups")
        if product.pixels is not None or not filters.column.contiguous(lanes):
            return Refusal("channels first")
        if not image.channel.contiguous(lanes):
            return Refusal("channels that are not contiguous")
        channel, down, right = steps
        return Squares(image, image.batch.size, filters, problem.M, channel, (down, right))


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

    def blocks(self, squares: Squares) -> int:
        """Work items of one image."""
        high, wide = tiles_of(squares)
        return ceil_div(high * wide, self.tiles)

    def items(self, squares: Squares) -> int:
        return squares.images * self.blocks(squares)

    def filter_items(self, squares: Squares) -> int:
        """Work items of the launch that transforms the filters."""
        parts = ceil_div(squares.channels, FILTER_CHANNELS)
        return ceil_div(squares.count, self.width) * parts

    def filter_size(self, squares: Squares) -> int:
        """Elements of the transformed filters: [block, position, channel, filter]."""
        blocks = ceil_div(squares.count, self.width)
        return blocks * POSITIONS * squares.channels * self.width


def tiles_of(squares: Squares) -> tuple[int, int]:
    """Rows and columns of tiles of an image."""
    high, wide = squares.image.outputs
    return ceil_div(high, OUTPUTS), ceil_div(wide, OUTPUTS)


def pitch_of(size: int, lanes: int) -> int:
    """Elements from one position to the next: an odd number of vectors, for a cache's sets."""
    return (ceil_div(size, lanes) | 1) * lanes


def choose_winograd(squares: Squares, machine: Machine) -> tuple[float, WinogradSchedule] | Refusal:
    """The schedule of least work, in multiply-adds of vectors, and that work; or why there is none.

    The work counts more than that of tiles over windows: it gains that much or nothing.
    """
    squares, lanes = squares.usual, machine.lanes(ELEMENT)
    found = [(_cost(squares, plan), plan) for plan in _schedules(squares, lanes, machine.registers)]
    if not found:
        return Refusal("tiles that the cache does not hold")
    work, plan = min(found, key=lambda pair: pair[0])
    return work / GAIN, plan


def _schedules(squares: Squares, lanes: int, registers: int) -> Iterator[WinogradSchedule]:
    high, wide = tiles_of(squares)
    pitch = POSITIONS * pitch_of(squares.channels, lanes) * 4
    vectors_of_filters = ceil_div(squares.count, lanes)
    for vectors in range(1, min(4, vectors_of_filters) + 1):
        for rows in range(1, min((registers - 1 - vectors) // vectors, high * wide) + 1):
            for groups in (1, 2, 3, 4):
                plan = WinogradSchedule(lanes, rows * groups, rows, vectors)
                sums = POSITIONS * plan.tiles * pitch_of(plan.width, lanes) * 4
                if plan.tiles * pitch <= _PIXEL_BYTES and sums <= _SUM_BYTES:
                    yield plan


def _cost(squares: Squares, plan: WinogradSchedule) -> float:
    """Estimated work of all images, in multiply-adds of vectors."""
    channels = squares.channels
    high, wide = tiles_of(squares)
    filters = ceil_div(squares.count, plan.lanes)
    size = plan.filter_size(squares)
    load = _LOAD_NEAR if size * 4 <= _NEAR_BYTES else _LOAD_FAR
    tile = max(plan.rows * plan.vectors, 8) + plan.rows * 0.15
    groups = plan.tiles // plan.rows
    block = groups * ceil_div(filters, plan.vectors) * tile
    block += ceil_div(filters, plan.vectors) * plan.vectors * (load + (groups - 1) * _LOAD_NEAR)
    products = plan.blocks(squares) * POSITIONS * channels * block
    transforms = ceil_div(channels, plan.lanes) * _TRANSFORM_PIXELS + filters * _TRANSFORM_SUMS
    idle = products * idle_share(plan.items(squares))
    return (
        squares.images * (products + high * wide * transforms)
        + idle
        + size / plan.lanes / POSITIONS * _TRANSFORM_FILTERS
    )
