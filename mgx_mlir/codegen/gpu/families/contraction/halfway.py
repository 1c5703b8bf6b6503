"""Converts numbers of 4 bits to f16, two an instruction, and computes with them in f16.

    0x6400 | n, read as f16, is 1024 + n; with n four bits further up, 1024 + 16 n.

One permutation puts a byte into both halves of a register, one operation masks a number in each
and sets the exponents, and one multiply-add gives both numbers exactly. It may also subtract a
zero point that all numbers share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, math, vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.meaning import native
from mgx_mlir.codegen.problem.problem import Computed, Read
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import definition

_PLAIN = {mgx.AddOp: arith.addf, mgx.MulOp: arith.mulf, mgx.SubOp: arith.subf}
_OPS = (*_PLAIN, mgx.ConstantOp, mgx.ConvertOp, mgx.NegOp, mgx.YieldOp)
# f16 holds integers up to this exactly beside 1024, and no zero point of 4 bits is as large.
_MOST_ADDED = 512
_NUMBERS = {"i4": 8, "ui4": 0}  # the bias that makes a number not negative


def is_halfway(matrix: Computed, lanes: int) -> bool:
    """Whether a matrix is computed by f16 arithmetic alone, from numbers of 4 bits and f16."""
    block = matrix.op.regions[0].blocks[0]
    if matrix.element != "f16" or lanes % 8 or not all(isinstance(o, _OPS) for o in block):
        return False
    f16 = ir.F16Type.get()
    numbers = []
    for argument, read in zip(block.arguments, matrix.reads, strict=True):
        if isinstance(read, Read) and read.per_byte == 2 and read.element in _NUMBERS:
            numbers.append(argument)
            if not all(isinstance(use.owner, mgx.ConvertOp) for use in argument.uses):
                return False
        elif argument.type != f16:
            return False
    results = [result for o in block for result in o.results]
    converted = [o.operands[0] for o in block if isinstance(o, mgx.ConvertOp)]
    return all(x.type == f16 for x in results) and all(x in numbers for x in converted)


@dataclass
class _Numbers:
    """Numbers of 4 bits, two a byte, plus `added`, an integer."""

    bytes: ir.Value
    bias: int
    added: int = 0

    def value(self) -> ir.Value:
        return halves_of(self.bytes, self.bias, self.added)


def compute_halfway(matrix: Computed, tensors: Sequence[ir.Value]) -> ir.Value:
    """A vector of elements; `tensors`: bytes of numbers, or f16, of each tensor that is read."""
    block = matrix.op.regions[0].blocks[0]
    waiting = list(tensors)
    values: dict[ir.Value, ir.Value | _Numbers] = {}
    lanes = max(
        ir.VectorType(x.type).shape[0] * read.per_byte
        for x, read in zip(tensors, matrix.tensors, strict=True)
    )
    for argument, read in zip(block.arguments, matrix.reads, strict=True):
        if not isinstance(read, Read):
            values[argument] = emit.attribute_constant(read, lanes)
        elif read.per_byte == 2:
            values[argument] = _Numbers(waiting.pop(0), _NUMBERS[read.element])
        else:
            values[argument] = waiting.pop(0)
    for op in block:
        operands = list(op.operands)
        added = _added(op, values)
        found = [values[x] for x in operands]
        with op.location:
            if added is not None or isinstance(op, mgx.ConvertOp):
                values[op.results[0]] = found[0] if added is None else added
                continue
            plain = [x.value() if isinstance(x, _Numbers) else x for x in found]
            # Converted once, where other ops use it too.
            values.update(zip(operands, plain, strict=True))
            if isinstance(op, mgx.YieldOp):
                return plain[0]
            if isinstance(op, mgx.ConstantOp):
                result = emit.attribute_constant(_constant(op), lanes)
            elif isinstance(op, mgx.NegOp):
                result = arith.negf(*plain)
            else:
                result = _PLAIN[type(op)](*plain)
        values[op.results[0]] = result
    raise AssertionError("a body without mgx.yield")


def _added(op: ir.OpView, values: Mapping[ir.Value, ir.Value | _Numbers]) -> _Numbers | None:
    """The numbers plus or minus a small integer, where an op computes that; None for others."""
    operands = list(op.operands)
    if not isinstance(op, mgx.AddOp | mgx.SubOp):
        return None
    if isinstance(op, mgx.AddOp) and isinstance(values[operands[1]], _Numbers):
        operands.reverse()
    numbers, maker = values[operands[0]], definition(operands[1])
    if not isinstance(numbers, _Numbers) or not isinstance(maker, mgx.ConstantOp):
        return None
    constant = ir.FloatAttr(_constant(maker)).value
    if constant != round(constant) or abs(constant) > _MOST_ADDED:
        return None
    change = round(constant) if isinstance(op, mgx.AddOp) else -round(constant)
    if abs(numbers.added + change) > _MOST_ADDED:
        return None
    return replace(numbers, added=numbers.added + change)


def _constant(op: mgx.ConstantOp) -> ir.Attribute:
    attribute = op.value
    if isinstance(attribute, ir.DenseElementsAttr):
        return attribute.get_splat_value()
    return attribute


def halves_of(x: ir.Value, bias: int, added: int = 0) -> ir.Value:
    """The numbers of 4 bits in a vector of bytes, less `bias` where their highest bit is flipped,
    plus `added`, as f16."""
    words = ir.VectorType(x.type).shape[0] // 4
    pairs = [pair for number in range(words) for pair in _pairs(memory.word(x, number), bias)]
    f16 = ir.F16Type.get()
    type_ = ir.VectorType.get([2 * len(pairs)], f16)
    two = ir.VectorType.get([2], f16)
    change = added - bias
    scale, shift = (
        arith.constant(
            two, ir.DenseElementsAttr.get([ir.FloatAttr.get(f16, float(x)) for x in pair], two)
        )
        for pair in ((1, 1 / 16), (change - 1024, change - 64))
    )
    i32 = ir.IntegerType.get_signless(32)
    found = []
    for pair in pairs:
        half = vector.BitCastOp(two, emit.splat(pair, 1)).result
        number = math.fma(half, scale, shift)
        one = ir.VectorType.get([1], i32)
        found.append(memory.element(vector.BitCastOp(one, number).result, 0))
    return vector.BitCastOp(type_, memory.joined(found)).result


def _pairs(word: ir.Value, bias: int) -> list[ir.Value]:
    """For each byte of a word, both numbers as the mantissas of two f16."""
    i32 = ir.IntegerType.get_signless(32)

    def constant(value: int) -> ir.Value:
        return arith.constant(i32, value - (1 << 32) if value >> 31 else value)

    if bias:
        word = arith.xori(word, constant(0x88888888))
    # In a vector register: an instruction of CDNA that masks and sets takes one constant only.
    exponents = memory.opaque_word(constant(0x64006400))
    found: list[ir.Value] = []
    for byte in range(4):
        both = native.permuted(word, word, 0x0C000C00 | byte << 16 | byte)
        both = arith.andi(both, constant(0x00F0000F))
        found.append(arith.ori(both, exponents))
    return found
