"""Plans of convolutions whose pixels go to LDS once, and whose filters go to registers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.function import MAX_THREADS, block_number, thread_number
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.function import WorkGroups
from mgx_mlir.codegen.gpu.families.contraction.plan import OneFunction
from mgx_mlir.codegen.problem.problem import Axis, Image, vector_width
from mgx_mlir.sizes.arithmetic import Size, ceil_div, common_factor


@dataclass(frozen=True)
class ImageBlocks(OneFunction):
    """A work-group has `high` x `wide` results of some filters, for one image.

    The pixels under its windows are a patch of LDS.
    """

    product: Product
    image: Image
    unit: Unit
    target: Target
    high: int
    wide: int

    @property
    def group(self) -> int:
        """Pixels that a thread takes to LDS at a time, by one read for each channel."""
        return 1

    @cached_property
    def size(self) -> int:
        """Bytes of an element."""
        return emit.element_bytes(self.unit.element)

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of filters."""

    @property
    @abstractmethod
    def own(self) -> int:
        """Filters of a work-group."""

    @property
    @abstractmethod
    def waves(self) -> int:
        """Waves of a work-group."""

    @property
    @abstractmethod
    def pitch(self) -> int:
        """Elements from one row of pixels to the next in LDS."""

    @cached_property
    def shift(self) -> int:
        """Columns of pixels before a work-group's first window, in whole groups."""
        return ceil_div(self.image.dims[1].pad, self.group) * self.group

    @cached_property
    def patch(self) -> tuple[int, int]:
        """Rows of the pixels under a work-group's windows, and groups of columns."""
        rows, columns = self.image.dims
        width = self.shift - columns.pad + (self.wide - 1) * columns.step + columns.reach
        return (self.high - 1) * rows.step + rows.reach, ceil_div(width, self.group)

    @property
    def lds_elements(self) -> int:
        return self.patch[0] * self.pitch

    @cached_property
    def blocks(self) -> tuple[int, int, int]:
        """Work-groups by image, row and column of results."""
        high, wide = self.image.outputs
        return self.image.batch.size, ceil_div(high, self.high), ceil_div(wide, self.wide)

    @property
    def symbolic(self) -> bool:
        """Whether images have any size: their rows and columns are no part of one number then."""
        return any(isinstance(n, Size) for n in self.blocks)

    @property
    def groups(self) -> WorkGroups:
        (images, rows, columns), filters = self.blocks, ceil_div(self.count, self.own)
        grid = images * rows * columns, filters, 1
        if self.symbolic:
            grid = images, rows, columns * filters
        lds = self.lds_elements, self.unit.element
        return WorkGroups(self.waves * self.target.wave_size, grid, lds)


class ImageWork:
    """The place of a thread: its work-group's first result, its wave, and its lane's row and
    group along k."""

    def __init__(self, found: ImageBlocks) -> None:
        self.image, self.unit, self._found = found.image, found.unit, found
        (images, rows, columns), groups = found.blocks, found.groups
        self.thread, self.number = thread_number(groups.threads), cast(Index, 0)
        if found.symbolic:
            x, row, z = (block_number(along, MAX_THREADS) for along in ("x", "y", "z"))
            filters = ceil_div(found.count, found.own)
            column, self.filters = emit.div(z, filters), emit.rem(z, filters)
            self.number = x if images != 1 else 0
        else:
            block = block_number("x", groups.grid[0])
            self.filters = block_number("y", groups.grid[1])
            column, rest = emit.rem(block, columns), emit.div(block, columns)
            row = emit.rem(rest, rows)
            self.number = emit.div(rest, rows) if images != 1 else 0
        self.x0, self.y0 = emit.mul(column, found.wide), emit.mul(row, found.high)
        wave_size, rows = found.target.wave_size, found.unit.rows
        lane, self.wave = emit.rem(self.thread, wave_size), emit.div(self.thread, wave_size)
        self.row, self.group = emit.rem(lane, rows), emit.div(lane, rows)

    def shares(self, total: int) -> Iterator[tuple[ir.Value | bool, Index]]:
        """The thread's numbers below `total`: for each whether there is one."""
        threads = self._found.groups.threads
        for first in range(0, total, threads):
            number = emit.add(self.thread, first)
            whole = first + threads <= total
            yield whole or emit.compare("slt", number, total), number

    def pixel(self, start: Index, line: Index, group: Index) -> tuple[Index, list[ir.Value]]:
        """The offset from `start` of a group of the patch, and the conditions for it to lie in
        the image."""
        (rows, columns), found = self.image.dims, self._found
        y = emit.sub(emit.add(emit.mul(self.y0, rows.step), line), rows.pad)
        x = emit.linear(emit.mul(self.x0, columns.step), (group, found.group))
        x = emit.sub(x, found.shift)
        inside = [emit.compare("ult", y, rows.size), emit.compare("ult", x, columns.size)]
        return emit.linear(start, (y, rows.stride), (x, columns.stride)), inside

    def result(self, y: Index, x: int, lane: Index) -> tuple[Index, list[ir.Value]]:
        """The number of result `lane` of the tile at row y and column x of the work-group, and
        the conditions for it to be one."""
        found, (high, wide) = self._found, self.image.outputs
        here = emit.add(x, lane)
        column, row = emit.add(self.x0, here), emit.add(self.y0, y)
        inside = []
        if x + self.unit.rows > found.wide:
            inside.append(emit.compare("slt", here, found.wide))
        if wide % found.wide:
            inside.append(emit.compare("slt", column, wide))
        if high % found.high:
            inside.append(emit.compare("slt", row, high))
        return emit.linear(column, (row, wide), (self.number, high * wide)), inside


def pixel_group(image: Image) -> int:
    """Pixels whose channels are read at once, by reads of 16 bytes at most.

    Neighbours in memory are either pixels of a row, or all channels of a pixel. 1 for
    other layouts.
    """
    chunk = CHUNK_BYTES // emit.element_bytes(image.element)
    channels, (high, wide) = image.channel, image.dims
    rows = Axis.of((high.size, high.stride))
    if wide.stride == 1:
        row = Axis(((wide.size, 1),))
        return vector_width(row, rows, channels, image.batch, offset=image.offset, limit=chunk)
    if channels.stride == 1 and wide.stride == channels.size:
        row = Axis(((wide.size * wide.stride, 1),))
        found = vector_width(row, rows, image.batch, offset=image.offset, limit=chunk)
        return math.gcd(found, common_factor(wide.size))
    return 1
