"""The softmax of scores that come block by block, in registers.

A lane holds scores of one query for some keys; other lanes hold its other keys. For each
query the largest score so far is kept, and the sum of the exponentials relative to it; what
was summed before is scaled when the largest grows. Exponentials are powers of 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, rocdl, vector

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.emit import Index
from mgx_mlir.codegen.gpu.contraction import memory
from mgx_mlir.codegen.gpu.contraction.specs import Unit
from mgx_mlir.target import Target

LOG2_E = math.log2(math.e)
# The lowest finite f32: what the largest score starts from.
LOWEST = -3.4028234663852886e38
# The same where scores are scaled later: the product is finite, and exact with any scale.
LOW = -(2.0**100)
# About how long a SIMD of CDNA takes for an exponential, and to round two numbers.
POWER_CLOCKS = 16
NARROW_CLOCKS = 12
_CONTRACT = arith.FastMathFlags.contract
# Maxima ignore NaN whatever the order: a NaN score shows in the sum of the exponentials.
_NO_NANS = arith.FastMathFlags.nnan


@dataclass(frozen=True)
class Lanes:
    """What values of other lanes of a wave cost: how the lanes of one query are found.

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
        """How far the lanes with the same query are from each other, as powers of 2."""
        return (16, 32) if self.target.wave_size == 64 else (16,)

    def exchanged(self, x: ir.Value) -> ir.Value:
        """x of the lane 16 away, for a vector of 32-bit words."""
        type_ = ir.VectorType(x.type)
        words = [self.exchange(memory.element(x, i), 16) for i in range(type_.shape[0])]
        return memory.joined(words)

    def exchange(self, x: ir.Value, distance: int) -> ir.Value:
        """A word of 32 bits of the lane whose number differs in one bit."""
        i32 = ir.IntegerType.get_signless(32)
        word = x if x.type == i32 else arith.bitcast(i32, x)
        if self.target.wave_size == 32:
            low, high = emit.constant(0x76543210, "i32"), emit.constant(-0x01234568, "i32")
            moved = rocdl.permlanex16(i32, word, word, low, high, True, False)
        else:
            other = arith.xori(emit.value(self.lane), emit.value(distance))
            place = arith.index_cast(i32, emit.value(emit.mul(other, 4)))
            moved = rocdl.ds_bpermute(i32, place, word)
        return moved if x.type == i32 else arith.bitcast(x.type, moved)


def maximum(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.maxnumf(a, b, fastmath=_NO_NANS)


def add(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.addf(a, b, fastmath=_CONTRACT)


def multiply(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.mulf(a, b, fastmath=_CONTRACT)


def subtract(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.subf(a, b, fastmath=_CONTRACT)


def power(x: ir.Value) -> ir.Value:
    """2 to the power of a scalar or of each element of a vector."""
    f32 = ir.F32Type.get()
    if not isinstance(x.type, ir.VectorType):
        return rocdl.exp2(f32, x)
    lanes = ir.VectorType(x.type).shape[0]
    return memory.joined([rocdl.exp2(f32, memory.element(x, i)) for i in range(lanes)])


def largest(scores: Sequence[ir.Value]) -> ir.Value:
    """The largest element of some vectors."""
    elements = [memory.element(x, i) for x in scores for i in range(lane_count(x))]
    # Pairs of maxima become one instruction of three operands.
    result = elements[0]
    for i in range(1, len(elements) - 1, 2):
        result = maximum(maximum(result, elements[i]), elements[i + 1])
    return result if len(elements) % 2 else maximum(result, elements[-1])


def pair_sum(vectors: Sequence[ir.Value]) -> ir.Value:
    """The sum of some vectors' elements, as two partial sums."""
    pairs = [memory.part(x, i, 2) for x in vectors for i in range(0, lane_count(x), 2)]
    while len(pairs) > 1:
        pairs = [
            add(*pairs[i : i + 2]) if i + 1 < len(pairs) else pairs[i]
            for i in range(0, len(pairs), 2)
        ]
    return pairs[0]


def narrowed(x: ir.Value, element: str, target: Target) -> ir.Value:
    """Shares, none of them negative, in the type of an operand, rounded to nearest."""
    if element != "bf16" or target.name == "gfx950":
        return emit.convert(x, "f32", element)
    # Without an instruction for it: the upper half of the bits, rounded half up.
    lanes = lane_count(x)
    i32, i16 = (ir.IntegerType.get_signless(bits) for bits in (32, 16))
    bits = arith.bitcast(ir.VectorType.get([lanes], i32), x)
    bits = arith.addi(bits, emit.constant(0x8000, "i32", lanes))
    upper = arith.shrui(bits, emit.constant(16, "i32", lanes))
    halves = arith.trunci(ir.VectorType.get([lanes], i16), upper)
    return arith.bitcast(ir.VectorType.get([lanes], ir.BF16Type.get()), halves)


def joined(vectors: Sequence[ir.Value]) -> ir.Value:
    """The elements of some vectors as one."""
    if len(vectors) == 1:
        return vectors[0]
    return memory.joined([memory.element(x, i) for x in vectors for i in range(lane_count(x))])


def splat(x: ir.Value, lanes: int) -> ir.Value:
    return vector.broadcast(ir.VectorType.get([lanes], x.type), x)


def lane_count(x: ir.Value) -> int:
    """Elements of a vector."""
    return int(ir.VectorType(x.type).shape[0])
