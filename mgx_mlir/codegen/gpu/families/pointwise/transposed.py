"""Pointwise kernels that read a transposed input: transposes in registers.

Results are contiguous along dimension A, and an input along another one, B: a wave takes a tile
of both. A lane reads some vectors along B, transposes them in its registers, and writes vectors
along A. The lanes are arranged in the tile such that a wave's accesses are coalesced, in runs of
64 bytes or more on both sides: a transpose through LDS would gain nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.gpu.builders.function import element_bytes
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.pointwise.match import Elements
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.sizes.arithmetic import ceil_div

BLOCK = 256


@dataclass(frozen=True)
class TransposedSchedule:
    """A wave's tile: `lanes_a` x `lanes_b` lanes, each with `run_a` x `run_b` elements.

    sizes: the sizes of the dimensions along which all operands have strides, A last. b: the
    number of dimension B.
    """

    sizes: tuple[int, ...]
    b: int
    lanes_a: int
    lanes_b: int
    run_a: int
    run_b: int

    @property
    def tile(self) -> tuple[int, int]:
        return self.lanes_a * self.run_a, self.lanes_b * self.run_b

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles along A and along B."""
        a, b = self.tile
        return ceil_div(self.sizes[-1], a), ceil_div(self.sizes[self.b], b)

    @property
    def others(self) -> tuple[int, ...]:
        """Sizes of the dimensions other than A and B."""
        return tuple(n for d, n in enumerate(self.sizes[:-1]) if d != self.b)

    @property
    def waves(self) -> int:
        return math.prod((*self.tiles, *self.others))

    def describe(self) -> str:
        """The schedule in words."""
        return (
            f"tiles of {self.tile[0]}x{self.tile[1]} a wave, "
            f"{self.run_a}x{self.run_b} transposed in a lane's registers"
        )


def strides(operand: MemoryOperand, sizes: Sequence[int]) -> tuple[int, ...] | None:
    """The operand's stride along each dimension; None where a dimension has no single one."""
    found: list[int] = []
    rest = list(reversed(operand.inner.factors or ((1, 0),)))
    have, stride = rest.pop(0)
    for size in reversed(sizes):
        if have == 1 and rest:
            have, stride = rest.pop(0)
        if operand.inner.factors and have % size:
            return None
        found.append(stride)
        have, stride = have // size, stride * size
    return tuple(reversed(found))


def dimensions(operands: Sequence[MemoryOperand], size: int) -> tuple[int, ...] | None:
    """The fewest dimensions along which all operands have strides, the slowest first; or None."""
    cuts = {1, size}
    for operand in operands:
        cut = 1
        for factor, _ in reversed(operand.inner.factors):
            cut *= factor
            cuts.add(cut)
    ordered = sorted(cuts, reverse=True)
    if any(high % low for high, low in pairwise(ordered)):
        return None
    return tuple(high // low for high, low in pairwise(ordered))


def transposed_schedule(elements: Elements, target: Target) -> TransposedSchedule | None:
    """The schedule that transposes the transposed operands.

    None where there are none, where they are contiguous along different dimensions, or where the
    operands have no common dimensions.
    """
    operands = elements.operands
    across = [operand for operand in operands if _lies_across(operand)]
    sizes = dimensions(operands, elements.size)
    if not across or sizes is None:
        return None
    found = [strides(operand, sizes) for operand in across]
    fast = {s.index(1) if s and 1 in s else None for s in found}
    if len(fast) != 1 or None in fast:
        return None
    (b,) = fast
    assert b is not None
    size_a, size_b = sizes[-1], sizes[b]
    largest = max(element_bytes(operand.element) for operand in across)
    lanes = CHUNK_BYTES // largest
    run_b = min(_aligned(o, sizes, b, lanes) for o in across)
    straight = [o for o in operands if o not in across and not o.repeated]
    run_a = min((_aligned(o, sizes, len(sizes) - 1, lanes) for o in straight), default=lanes)
    run_a = math.gcd(run_a, size_a)
    # The longest run, up to 128 bytes; the dimension of the stores comes first.
    lanes_a = _power(min(size_a // run_a, max(1, 128 // (run_a * largest)), target.wave_size))
    lanes_a = max(lanes_a, _power(target.wave_size // max(1, ceil_div(size_b, run_b))))
    lanes_a = min(lanes_a, target.wave_size)
    return TransposedSchedule(sizes, b, lanes_a, target.wave_size // lanes_a, run_a, run_b)


def _lies_across(operand: MemoryOperand) -> bool:
    """Whether neighbours among the results are not neighbours in memory."""
    return bool(operand.inner.factors) and operand.inner.factors[-1][1] not in (0, 1)


def _aligned(operand: MemoryOperand, sizes: Sequence[int], along: int, limit: int) -> int:
    """Elements of a vector along a dimension that one access takes, at every start."""
    found = strides(operand, sizes)
    if found is None or found[along] not in (0, 1):
        return 1
    others = [s for d, s in enumerate(found) if d != along]
    return math.gcd(limit, sizes[along], operand.offset, *others)


def _power(number: int) -> int:
    """The largest power of two up to a number."""
    return 1 << max(0, number.bit_length() - 1)


def outer(
    operand: MemoryOperand, sizes: Sequence[int], along: int
) -> tuple[MemoryOperand, tuple[int, ...]]:
    """The operand with vectors along dimension `along`, and its strides along all dimensions."""
    found = strides(operand, sizes)
    assert found is not None
    steps = [(n, s) for d, (n, s) in enumerate(zip(sizes, found, strict=True)) if d != along]
    inner = Axis.of((sizes[along], found[along]))
    made = MemoryOperand(operand.argument, operand.element, operand.offset, Axis.of(*steps), inner)
    return made, found
