"""Numbers of 4 or 8 bits whose neighbours along k share a scale and a zero point.

    0x6400 | n, read as f16, is 1024 + n; with n four bits further up, 1024 + 16 n.

One operation masks numbers of 4 bits in both halves of a register and sets the exponents, and one
multiply-add gives both numbers exactly, less a zero point that is whole. Where neighbours have to
be neighbours, one permutation puts their byte into both halves before.

    sum of x[k] * (q[k] - zero) * scale = scale * (sum of x[k] * (q[k] - zero))

Sums of few rows take a block's scale once. Matrix instructions take elements, which are computed in
f16, two an instruction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from mlir import ir
from mlir.dialects import arith, math, vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.meaning import native
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import convert
from mgx_mlir.codegen.meaning.element import element_named
from mgx_mlir.codegen.problem.computed import repeats
from mgx_mlir.codegen.problem.problem import Computed, Read
from mgx_mlir.dialects import mgx

# A scale or a zero point of a block: a tensor that is read, or a constant.
Shared: TypeAlias = "Read | ir.Attribute"
# How many numbers a byte holds, and the bits that turn signed numbers into unsigned ones.
_NUMBERS = {"i4": (2, 0x88), "i8": (1, 0x80), "ui4": (2, 0), "ui8": (1, 0)}
# Floats that hold all of these numbers.
_FLOATS = ir.BF16Type, ir.F16Type, ir.F32Type
_SHARED = frozenset(("bf16", "f16", "f32", "i4", "i8", "ui4", "ui8"))
# f16 holds integers up to this exactly beside 1024.
_MOST_ADDED = 512
# The numbers of a word of 4 bits each, as `_halves_of` gives them where they are not `ordered`.
_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)


@dataclass(frozen=True)
class Blocks:
    """Elements (number - zero) * scale; what is None is left out."""

    numbers: Read
    zero: Shared | None = None
    scale: Shared | None = None

    def arranged(self, x: ir.Value) -> ir.Value:
        """The elements of a row in the order in which `factors` has numbers."""
        if self.numbers.per_byte == 1:
            return x
        count = ir.VectorType(x.type).shape[0]
        order = [first + i for first in range(0, count, len(_ORDER)) for i in _ORDER]
        return vector.ShuffleOp(x, x, order).result

    def factors(self, values: Mapping[Read, ir.Value]) -> tuple[ir.Value, ir.Value | None]:
        """The numbers less the zero point as f16, in an order of their own; the scale in f32.

        values: those of each read, as memory holds them.
        """
        return self._halves(values, False), _number(self.scale, "f32", values)

    def elements(self, values: Mapping[Read, ir.Value]) -> ir.Value:
        """The elements, in order, computed in f16."""
        x, scale = self._halves(values, True), _number(self.scale, "f16", values)
        lanes = ir.VectorType(x.type).shape[0]
        return x if scale is None else arith.mulf(x, emit.splat(scale, lanes))

    def _halves(self, values: Mapping[Read, ir.Value], ordered: bool) -> ir.Value:
        """The numbers less the zero point as f16."""
        numbers, zero = self.numbers, _number(self.zero, "f16", values)
        # Added, so that CDNA does two at a time.
        added = None if zero is None else arith.negf(zero)
        if added is None or _is_whole(self.zero):
            return _halves_of(values[numbers], numbers.element, added, ordered)
        x = _halves_of(values[numbers], numbers.element, None, ordered)
        return arith.addf(x, emit.splat(added, ir.VectorType(x.type).shape[0]))


def blocks_of(matrix: Computed, lanes: int) -> Blocks | None:
    """A matrix as blocks of at least `lanes` neighbours; None for any other."""
    along_rows = matrix.row.contiguous(lanes)
    values: dict[ir.Value, Blocks | Shared] = {}
    body = matrix.op.regions[0].blocks[0]
    for argument, read in zip(body.arguments, matrix.reads, strict=True):
        values[argument] = read
        if not isinstance(read, Read):
            continue
        axis = read.matrix.row if along_rows else read.matrix.column
        if read.per_byte > 1 or not repeats(axis, lanes):
            if _NUMBERS.get(read.element, (0,))[0] != read.per_byte:
                return None
            values[argument] = Blocks(read)
        elif read.element not in _SHARED:
            return None
    for op in body:
        operands = [values[x] for x in op.operands]
        blocks = [x for x in operands if isinstance(x, Blocks)]
        others = [x for x in operands if not isinstance(x, Blocks)]
        made: Blocks | Shared
        match op, blocks, others:
            case mgx.ConstantOp(), _, _:
                made = op.value
            case mgx.YieldOp(), [x], _:
                return x if _is_half(x.zero) else None
            case _ if not isinstance(op.results[0].type, _FLOATS):  # integers wrap
                return None
            case mgx.ConvertOp(), _, _:
                made = operands[0]
            case mgx.SubOp(), [Blocks(zero=None, scale=None) as x], [zero] if operands[0] == x:
                made = replace(x, zero=zero)
            case mgx.MulOp(), [Blocks(scale=None) as x], [scale]:
                made = replace(x, scale=scale)
            case mgx.DequantizelinearOp(), [Blocks(zero=None, scale=None) as x], [scale, *zeros]:
                made = replace(x, scale=scale, zero=zeros[0] if zeros else None)
            case _:
                return None
        values[op.results[0]] = made
    return None


def in_halves(matrix: Computed, lanes: int) -> Blocks | None:
    """A matrix of f16 as blocks of numbers of 4 bits, all of whose arithmetic is that of f16."""
    found = blocks_of(matrix, lanes) if matrix.element == "f16" and lanes % 8 == 0 else None
    if found is None or found.numbers.per_byte == 1:
        return None
    types = [x.type for op in matrix.op.regions[0].blocks[0] for x in op.results]
    f16 = all(x == ir.F16Type.get() for x in types) and _is_half(found.scale)
    return found if f16 else None


def _is_whole(x: Shared | None) -> bool:
    """Whether a zero point is an integer that f16 holds exactly beside 1024."""
    if isinstance(x, Read):
        return x.element in _NUMBERS
    return x is not None and _known(x).is_integer() and abs(_known(x)) <= _MOST_ADDED


def _is_half(x: Shared | None) -> bool:
    """Whether f16 holds what a block shares exactly."""
    if isinstance(x, Read):
        return x.element == "f16" or x.element in _NUMBERS
    return x is None or ir.FloatAttr.get(ir.F16Type.get(), _known(x)).value == _known(x)


def _known(attribute: ir.Attribute) -> float:
    if isinstance(attribute, ir.DenseElementsAttr):
        attribute = attribute.get_splat_value()
    assert isinstance(attribute, ir.FloatAttr | ir.IntegerAttr)
    return float(attribute.value)


def _number(x: Shared | None, element: str, values: Mapping[Read, ir.Value]) -> ir.Value | None:
    """A scale or a zero point as a float; None where there is none."""
    if isinstance(x, Read):
        kinds = element_named(x.element), element_named(element)
        return convert(Arithmetic(), *kinds, memory.element(values[x], 0))
    return None if x is None else emit.constant(_known(x), element)


def _halves_of(x: ir.Value, element: str, added: ir.Value | None, ordered: bool) -> ir.Value:
    """The numbers in a vector of bytes, plus `added`, as f16; in `_ORDER` if not `ordered`."""
    per_byte, bias = _NUMBERS[element]
    change = -(bias % (1 << 8 // per_byte))
    two = ir.VectorType.get([2], ir.F16Type.get())
    found = []
    for number in range(ir.VectorType(x.type).shape[0] // 4):
        word = memory.word(x, number)
        if bias:
            word = arith.xori(word, emit.constant(bias * 0x01010101, "i32"))
        for pair, times in _pairs(word, per_byte, ordered):
            half = vector.BitCastOp(two, emit.splat(pair, 1)).result
            shifts = _pair([change - 1024 / n for n in times])
            if added is not None:
                shifts = arith.addf(shifts, emit.splat(added, 2))
            found.append(math.fma(half, _pair([1 / n for n in times]), shifts))
    return memory.concatenated(found)


def _pairs(
    word: ir.Value, per_byte: int, ordered: bool
) -> Iterator[tuple[ir.Value, tuple[int, int]]]:
    """The numbers of a word as the mantissas of two f16 at a time, and how often each counts."""
    # In a vector register: an instruction of CDNA that masks and sets takes one constant only.
    exponents = memory.opaque_word(emit.constant(0x64006400, "i32"))

    def masked(both: ir.Value, mask: int) -> ir.Value:
        return arith.ori(arith.andi(both, emit.constant(mask, "i32")), exponents)

    if per_byte == 1:
        for selector in (0x05010500, 0x05030502):
            yield native.permuted(exponents, word, selector), (1, 1)
    elif ordered:
        for byte in range(4):
            both = native.permuted(word, word, 0x0C000C00 | byte << 16 | byte)
            yield masked(both, 0x00F0000F), (1, 16)
    else:
        for part in (word, arith.shrui(word, emit.constant(8, "i32"))):
            yield masked(part, 0x000F000F), (1, 1)
            yield masked(part, 0x00F000F0), (16, 16)


def _pair(numbers: Sequence[float]) -> ir.Value:
    f16 = ir.F16Type.get()
    type_ = ir.VectorType.get([2], f16)
    values = [ir.FloatAttr.get(f16, float(x)) for x in numbers]
    return arith.constant(type_, ir.DenseElementsAttr.get(values, type_))
