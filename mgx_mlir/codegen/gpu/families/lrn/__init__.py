"""One gpu.func for a local response normalization.

A thread computes vectors of pixels in some neighbouring channels, whose sums overlap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.launches import BLOCK, OUTPUT, Launches
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand, vector_lanes
from mgx_mlir.codegen.gpu.families.family import Family, Scheduled, anchored
from mgx_mlir.codegen.loops.ops.windows import beta_power
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import load, store
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.problem.views import resolve
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import common_factor

# The most channels of a sum; the generic path sums more in a loop.
MAX_SIZE = 16


@dataclass(frozen=True)
class Lrn:
    """x / (bias + alpha / size * sum of squares of `size` channels)^beta.

    `source` has images and channels as its outer index, `pixels` as its inner one.
    """

    images: int
    channels: int
    pixels: int
    source: MemoryOperand
    size: int
    alpha: float
    beta: float
    bias: float
    name: ClassVar[str] = mgx.LrnOp.OPERATION_NAME


@anchored(mgx.LrnOp)
def match_lrn(op: mgx.LrnOp) -> Lrn | Refusal:
    """The op as a normalization, or why it does not match."""
    view = resolve(op.operands[0])
    if view is None:
        return Refusal("an input that is no strided view")
    element = element_of(op.results[0].type)
    if not element.is_float or element.is_byte_float:
        return Refusal(f"elements of type {element.name}")
    if op.size.value > MAX_SIZE:
        return Refusal(f"{op.size.value} channels are more than {MAX_SIZE}")
    images, channels, *rest = view.shape
    source = MemoryOperand.row(view, element, 2)
    numbers = op.alpha.value, op.beta.value, op.bias.value
    return Lrn(images, channels, math.prod(rest), source, op.size.value, *numbers)


@dataclass(frozen=True)
class LrnSchedule:
    """Vectors of `lanes` pixels in `channels` channels for each thread."""

    lanes: int
    channels: int

    def describe(self) -> str:
        return f"{self.lanes} pixels at a time in {self.channels} channels"


def choose(lrn: Lrn, target: Target) -> LrnSchedule | Refusal:
    """The most channels, up to 8, with which all compute units stay busy."""
    if not isinstance(lrn.pixels, int) and not lrn.source.forwards:
        return Refusal("images that are read backwards")
    result = MemoryOperand.flat(0, lrn.source.element, lrn.pixels)
    lanes = min(4, vector_lanes(lrn.pixels, [lrn.source, result]))
    channels = math.gcd(common_factor(lrn.channels), 8)
    size = lrn.images * lrn.channels * lrn.pixels // lanes
    while channels > 1 and size // channels < target.compute_units * BLOCK:
        channels //= 2
    return LrnSchedule(lanes, channels)


def build(lrn: Lrn, launches: Launches, schedule: LrnSchedule, _target: Target) -> None:
    """Adds the function to those of `launches`."""
    lanes, own = schedule.lanes, schedule.channels
    source = Argument("input", lrn.source.argument)
    groups, columns = lrn.channels // own, lrn.pixels // lanes
    total = lrn.images * lrn.channels * lrn.pixels
    with launches.each([source], [OUTPUT], lrn.images * groups * columns) as work:
        pixel = emit.mul(emit.rem(work.offset, columns), lanes)
        rest = emit.div(work.offset, columns)
        first = emit.mul(emit.rem(rest, groups), own)
        image = emit.mul(emit.div(rest, groups), lrn.channels)
        a = Arithmetic([lanes])
        before, values, squares = (lrn.size - 1) // 2, [], []
        for number in range(-before, own + lrn.size - 1 - before):
            channel = emit.add(first, number)
            # As unsigned numbers, negative ones exceed any size.
            limit = emit.value(lrn.channels)
            there = arith.cmpi(arith.CmpIPredicate.ult, emit.value(channel), limit)
            # Not as an offset from that of a channel before the first one, which would be negative.
            start = memory.opaque(lrn.source.start(emit.add(image, channel)))
            x = lrn.source.load(work.buffers[source], start, pixel, lanes, [*work.inside, there])
            values.append(load(a, lrn.source.element, x))
            squares.append(a.mul(values[-1], values[-1]))
        for number in range(own):
            sum_ = squares[number]
            for square in squares[number + 1 : number + lrn.size]:
                sum_ = a.add(sum_, square)
            scaled = a.mul(a.float(lrn.alpha / lrn.size, sum_), sum_)
            base = a.add(a.float(lrn.bias, sum_), scaled)
            y = a.div(values[number + before], beta_power(a, base, lrn.beta))
            y = store(a, lrn.source.element, y)
            offset = emit.mul(emit.add(image, emit.add(first, number)), lrn.pixels)
            target = MemoryOperand.flat(0, lrn.source.element, total)
            target.store(y, work.buffers[OUTPUT], 0, emit.add(offset, pixel), work.inside)


_program = Scheduled(match_lrn, choose, build, vectors=4)
FAMILY = Family("lrn", 140, _program, symbolic=True)
