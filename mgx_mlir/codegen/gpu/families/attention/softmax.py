"""The online softmax: scores come block by block, in registers.

A lane holds scores of one query for some keys; other lanes hold its other keys. Each query
keeps its row maximum so far and the sum of the exponentials relative to it. When the row
maximum grows, the sum is rescaled. Exponentials are powers of 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import lanes, memory, precision
from mgx_mlir.codegen.gpu.builders.multiply import dot_product
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.problem.attention import Attention

LOG2_E = math.log2(math.e)
# The lowest finite f32: the initial row maximum.
LOWEST = -3.4028234663852886e38
# The largest scaled row maximum whose product may round: by 2^-8.
LARGE = 2.0**16
# Clocks of a SIMD of CDNA for an exponential, about.
POWER_CLOCKS = 16
# How far a score may exceed the row maximum in use, as a power of 2, before the row maximum is
# raised. Shares are at most 2^8 then, which are exact in any type.
HEADROOM = 8.0
_CONTRACT = arith.FastMathFlags.contract
# Maxima ignore NaN whatever the order: a NaN score shows in the sum of the exponentials.
_NO_NANS = arith.FastMathFlags.nnan


@dataclass(frozen=True)
class Lanes:
    """Exchanges values with other lanes of a wave, such as those of the same query.

    `lane` is the thread's number in its wave.
    """

    target: Target
    unit: Unit
    lane: Index

    def over_keys(self, x: ir.Value, kind: str) -> ir.Value:
        """The maximum or sum of x over the lanes with the same query: 'max' or 'sum'."""
        for distance in self.distances():
            other = self.exchange(x, distance)
            x = maximum(x, other) if kind == "max" else add(x, other)
        return x

    def distances(self) -> tuple[int, ...]:
        """The distances, powers of 2, between the lanes with the same query."""
        c = self.unit.fragments.c
        own = c.moving("lane", "c")
        return tuple(1 << bit for bit in range(c.bits("lane")) if bit not in own)

    def everywhere(self, conditions: Sequence[ir.Value]) -> ir.Value:
        """Whether all `conditions` hold in all lanes of the wave: one ballot."""
        word = ir.IntegerType.get_signless(self.target.wave_size)
        yes = arith.constant(ir.IntegerType.get_signless(1), 1)
        failed = lanes.ballot(arith.xori(reduce(arith.andi, conditions), yes), self.target)
        none = arith.constant(word, ir.IntegerAttr.get(word, 0))
        return arith.cmpi(arith.CmpIPredicate.eq, failed, none)

    def exchanged(self, x: ir.Value, distance: int) -> ir.Value:
        """x of the lane `distance` away, for a vector of 32-bit words."""
        type_ = ir.VectorType(x.type)
        words = [self.exchange(memory.element(x, i), distance) for i in range(type_.shape[0])]
        return memory.joined(words)

    def exchange(self, x: ir.Value, distance: int) -> ir.Value:
        """x, of 32 bits, of the lane whose number differs by the bit `distance`."""
        return lanes.exchange(x, distance, self.lane, self.target)


def maximum(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.maxnumf(a, b, fastmath=_NO_NANS)


def add(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.addf(a, b, fastmath=_CONTRACT)


def multiply(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.mulf(a, b, fastmath=_CONTRACT)


def subtract(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.subf(a, b, fastmath=_CONTRACT)


def divided(x: ir.Value, total: ir.Value, attention: Attention) -> ir.Value:
    """x, sums of values as a vector or a scalar, divided by the sum of the shares, `total`.

    Without shares `total` is NaN, or 0 where no score is above -infinity. The result is NaN
    then, or 0 where the attention asks for it.
    """
    inverse = arith.divf(emit.constant(1, "f32"), total)
    spread = isinstance(x.type, ir.VectorType)
    y = multiply(x, emit.splat(inverse, lane_count(x)) if spread else inverse)
    if not attention.nan_as_zero and not attention.empty_as_zero:
        return y
    zero = emit.constant(0, "f32", lane_count(x) if spread else 0)
    kind = arith.CmpFPredicate.OGT if attention.nan_as_zero else arith.CmpFPredicate.UNE
    any_ = arith.cmpf(kind, total, emit.constant(0, "f32"))
    return arith.select(any_, y, zero)


def below(a: ir.Value, b: ir.Value) -> ir.Value:
    """a < b, or one of them is NaN."""
    return arith.cmpf(arith.CmpFPredicate.ULT, a, b)


def equal(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.cmpf(arith.CmpFPredicate.OEQ, a, b)


def largest(scores: Sequence[ir.Value]) -> ir.Value:
    """The largest element of some vectors."""
    elements = [memory.element(x, i) for x in scores for i in range(lane_count(x))]
    # Pairs of maxima become one instruction of three operands.
    result = elements[0]
    for i in range(1, len(elements) - 1, 2):
        result = maximum(maximum(result, elements[i]), elements[i + 1])
    return result if len(elements) % 2 else maximum(result, elements[-1])


def narrowed(x: ir.Value, element: str, target: Target) -> tuple[ir.Value, int]:
    """Two non-negative shares in the type of an operand, and about how many clocks a SIMD of
    CDNA takes.

    Shares of f16 are rounded down. `Total` sums the rounded shares, so the errors cancel in the
    division: an average is as good as with shares rounded to nearest.
    """
    if element == "f16":
        return precision.halves(x), 4
    if element != "bf16" or "bf16-round" in target.features:
        return emit.convert(x, "f32", element), 4
    # Chips without an instruction for it: the upper half of the bits, rounded half up.
    lanes = lane_count(x)
    bits = arith.bitcast(ir.VectorType.get([lanes], emit.element_type("i32")), x)
    bits = arith.addi(bits, emit.constant(0x8000, "i32", lanes))
    return emit.upper_half(arith.bitcast(x.type, bits)), 12


class Total:
    """Two partial sums of shares in f32: of the f32 shares, or of the rounded ones for f16."""

    def __init__(self, value: ir.Value, target: Target) -> None:
        self._sums, self._pairs = [memory.element(value, i) for i in range(2)], 0
        self._dots = target.gpu.dots_halves

    @property
    def value(self) -> ir.Value:
        return memory.joined(self._sums)

    def add(self, pair: ir.Value, narrow: ir.Value) -> None:
        halves = isinstance(ir.VectorType(narrow.type).element_type, ir.F16Type)
        if not halves or not self._dots:
            total = add(self.value, emit.convert(narrow, "f16", "f32") if halves else pair)
            self._sums = [memory.element(total, i) for i in range(2)]
            return
        which = self._pairs % 2
        self._pairs += 1
        one = emit.constant(1, "f16", 2)
        self._sums[which] = dot_product("f16", narrow, one, self._sums[which])


def lane_count(x: ir.Value) -> int:
    return int(ir.VectorType(x.type).shape[0])
