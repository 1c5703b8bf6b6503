"""Numbers of 4 bits as f16, two an instruction, and what is done with them in f16.

    0x6400 | n, read as f16, is 1024 + n; with n four bits further up, 1024 + 16 n.

One permutation puts a byte into both halves of a register, one operation masks a number in each
and sets the exponents, and one multiply-add makes both of them the numbers themselves, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, math, vector

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.problem import Computed, Read
from mgx_mlir.codegen.gpu.contraction import memory

_PLAIN = {"mgx.add": arith.addf, "mgx.mul": arith.mulf, "mgx.sub": arith.subf}
_OPS = frozenset(_PLAIN) | {"mgx.constant", "mgx.convert", "mgx.neg", "mgx.yield"}
_NUMBERS = {"i4": 8, "ui4": 0}  # what is added to a number, so that it is not negative


def is_halfway(matrix: Computed, lanes: int) -> bool:
    """Whether all that is done is arithmetic of f16, with numbers of 4 bits that become f16."""
    block = matrix.op.regions[0].blocks[0]
    if matrix.element != "f16" or lanes % 8 or any(o.operation.name not in _OPS for o in block):
        return False
    f16 = ir.F16Type.get()
    numbers = []
    for argument, read in zip(block.arguments, matrix.reads, strict=True):
        if isinstance(read, Read) and read.per_byte == 2 and read.element in _NUMBERS:
            numbers.append(argument)
            if any(use.owner.name != "mgx.convert" for use in argument.uses):
                return False
        elif argument.type != f16:
            return False
    results = [result for o in block for result in o.operation.results]
    converted = [o.operands[0] for o in block if o.operation.name == "mgx.convert"]
    return all(x.type == f16 for x in results) and all(x in numbers for x in converted)


def compute_halfway(matrix: Computed, tensors: Sequence[ir.Value]) -> ir.Value:
    """A vector of elements; `tensors`: bytes of numbers, or f16, of each tensor that is read."""
    block = matrix.op.regions[0].blocks[0]
    waiting, values = list(tensors), {}
    lanes = max(
        ir.VectorType(x.type).shape[0] * read.per_byte
        for x, read in zip(tensors, matrix.tensors, strict=True)
    )
    for argument, read in zip(block.arguments, matrix.reads, strict=True):
        if not isinstance(read, Read):
            values[argument] = emit.attribute_constant(read, lanes)
        elif read.per_byte == 2:
            values[argument] = halves_of(waiting.pop(0), _NUMBERS[read.element])
        else:
            values[argument] = waiting.pop(0)
    for op in block:
        name, operands = op.operation.name, [values[x] for x in op.operation.operands]
        if name == "mgx.yield":
            return operands[0]
        with op.location:
            if name == "mgx.constant":
                attribute = op.attributes["value"]
                if isinstance(attribute, ir.DenseElementsAttr):
                    attribute = attribute.get_splat_value()
                result = emit.attribute_constant(attribute, lanes)
            elif name == "mgx.convert":
                (result,) = operands
            elif name == "mgx.neg":
                result = arith.negf(*operands)
            else:
                result = _PLAIN[name](*operands)
        values[op.operation.results[0]] = result
    raise AssertionError("a body without mgx.yield")


def halves_of(x: ir.Value, bias: int) -> ir.Value:
    """The numbers of 4 bits in a vector of bytes, less `bias` where their highest bit is flipped,
    as f16."""
    words = ir.VectorType(x.type).shape[0] // 4
    pairs = [pair for number in range(words) for pair in _pairs(memory.word(x, number), bias)]
    f16 = ir.F16Type.get()
    type_ = ir.VectorType.get([2 * len(pairs)], f16)
    two = ir.VectorType.get([2], f16)
    scale, shift = (
        arith.constant(
            two, ir.DenseElementsAttr.get([ir.FloatAttr.get(f16, float(x)) for x in pair], two)
        )
        for pair in ((1, 1 / 16), (-1024 - bias, -64 - bias))
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
    found = []
    for byte in range(4):
        both = memory.permuted(word, word, 0x0C000C00 | byte << 16 | byte)
        both = arith.andi(both, constant(0x00F0000F))
        found.append(arith.ori(both, constant(0x64006400)))
    return found
