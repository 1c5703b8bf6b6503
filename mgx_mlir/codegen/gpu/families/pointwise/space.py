"""The schedules of a pointwise kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

_BLOCKS = (256, 64)
_TIMES = (1, 2, 4, 8)


@dataclass(frozen=True)
class PointwiseSchedule:
    """Work-groups of `block` threads; a thread takes `times` vectors of `lanes` elements."""

    block: int
    lanes: int
    times: int

    @property
    def elements(self) -> int:
        """Elements of a work-group."""
        return self.block * self.lanes * self.times

    def describe(self) -> str:
        """The schedule in words."""
        return f"{self.lanes} elements at a time, {self.times} times, {self.block} threads a block"


def schedules(lanes: int) -> Iterator[PointwiseSchedule]:
    """All schedules with vectors of up to `lanes` elements, in a fixed order."""
    widths = [width for width in (16, 8, 4, 2, 1) if width <= lanes]
    for width, block, times in product(widths, _BLOCKS, _TIMES):
        yield PointwiseSchedule(block, width, times)
