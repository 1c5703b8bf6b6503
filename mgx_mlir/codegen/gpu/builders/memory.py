"""Vectors in global memory, through raw buffers, and in LDS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from mlir import ir
from mlir.dialects import amdgpu, arith, llvm, vector

from mgx_mlir.capabilities import CHUNK_BYTES, MAX_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.meaning.element import bit_width
from mgx_mlir.codegen.meaning.native import element as element
from mgx_mlir.codegen.meaning.native import joined as joined
from mgx_mlir.codegen.problem.problem import Axis, Matrix

# A byte offset past the end of any buffer: reads there give 0, writes are dropped
# (CDNA 3 ISA, 9.1.5.1: range checking of raw buffers).
OUTSIDE = MAX_BYTES


# An index of a getelementptr that is the next operand (LLVM::GEPOp::kDynamicIndex).
_AT_OPERAND = -(1 << 31)


def buffer(pointer: ir.Value) -> ir.Value:
    """A memref argument as a raw buffer, whose bounds the hardware checks."""
    type_ = ir.MemRefType(pointer.type)
    space = ir.Attribute.parse("#amdgpu.address_space<fat_raw_buffer>")
    result = ir.MemRefType.get(type_.shape, type_.element_type, memory_space=space)
    return amdgpu.FatRawBufferCastOp(pointer, results=[result]).result


def moved(pointer: ir.Value, start: ir.Value, size: ir.Value | None = None) -> ir.Value:
    """The `size` elements of a memref argument from `start` on; both are i64, size below 2^31.

    Without a size, the type of the argument gives it. The descriptor is built directly, because
    indices of memrefs have 32 bits.
    """
    type_ = ir.MemRefType(pointer.type)
    result = type_
    if size is not None:
        dynamic, space = ir.ShapedType.get_dynamic_size(), type_.memory_space
        result = ir.MemRefType.get([dynamic], type_.element_type, memory_space=space)
    i32 = ir.IntegerType.get_signless(32)
    there = address(pointer, start)
    count = arith.constant(i32, type_.shape[0]) if size is None else arith.trunci(i32, size)
    values = [(there, [0]), (there, [1]), (arith.constant(i32, 0), [2])]
    values += [(count, [3, 0]), (arith.constant(i32, 1), [4, 0])]
    return _cast(_replaced(pointer, values), result)


def early(pointer: ir.Value) -> ir.Value:
    """The same memref argument; LLVM would read its address where it is used first, and wait."""
    there = llvm.extractvalue(ir.Type.parse("!llvm.ptr<1>"), _descriptor(pointer), [1])
    there = llvm.InlineAsmOp(there.type, [there], "", "=s,0").result
    return _cast(_replaced(pointer, [(there, [0]), (there, [1])]), pointer.type)


def _replaced(pointer: ir.Value, values: Sequence[tuple[ir.Value, list[int]]]) -> ir.Value:
    """The parts of a memref argument, some of them replaced."""
    whole = _descriptor(pointer)
    for value, position in values:
        whole = llvm.insertvalue(whole, value, position)
    return whole


def address(pointer: ir.Value, start: ir.Value) -> ir.Value:
    """The LLVM pointer to element `start` (i64) of a memref argument."""
    first = llvm.extractvalue(ir.Type.parse("!llvm.ptr<1>"), _descriptor(pointer), [1])
    element = ir.MemRefType(pointer.type).element_type
    return llvm.getelementptr(first.type, first, [start], [_AT_OPERAND], element, 0)


def _descriptor(pointer: ir.Value) -> ir.Value:
    """The parts of a memref argument."""
    parts = "!llvm.ptr<1>, !llvm.ptr<1>, i32, array<1 x i32>, array<1 x i32>"
    return _cast(pointer, ir.Type.parse(f"!llvm.struct<({parts})>"))


def _cast(value: ir.Value, type_: ir.Type) -> ir.Value:
    return ir.Operation.create(
        "builtin.unrealized_conversion_cast", results=[type_], operands=[value]
    ).result


def guarded(
    offset: Index, inside: Sequence[ir.Value], element_bytes: int, grows: bool = False
) -> Index:
    """`offset`, or one outside of every buffer where one of the conditions fails.

    grows: it is a sum of terms of which none is negative.
    """
    if not inside:
        return offset
    condition = inside[0]
    for other in inside[1:]:
        condition = arith.andi(condition, other)
    # Where LLVM proves the condition, nothing else stops it from splitting the offset.
    here = emit.value(offset if grows else opaque(offset))
    return arith.select(condition, here, emit.value(OUTSIDE // element_bytes))


def unsplit(offset: Index, along: Axis | Matrix) -> Index:
    """An offset along an axis, or in a matrix: opaque to LLVM where that does not grow."""
    return offset if along.grows else opaque(offset)


def opaque(offset: Index) -> Index:
    """The same offset, opaque to LLVM, which cannot split it into parts.

    It is for offsets along axes that do not grow (`Axis.grows`), or that may lie before an
    image. LLVM would split such an offset into a part that may be negative and a constant, and
    give the constant to the buffer instruction. That checks the bounds of the sum without
    wrapping: 0 is read.
    """
    if isinstance(offset, int):
        return offset
    number = arith.index_cast(ir.IntegerType.get_signless(32), emit.value(offset))
    return arith.index_cast(ir.IndexType.get(), opaque_word(number))


def opaque_word(number: ir.Value, register: str = "v", stays: bool = False) -> ir.Value:
    """The same i32, opaque to LLVM, in a vector register ('v') or a scalar one ('s').

    stays: LLVM cannot hoist computations with it out of a loop.
    """
    written = f"={register},0"
    return llvm.InlineAsmOp(number.type, [number], "", written, has_side_effects=stays).result


def held(x: ir.Value) -> None:
    """Forces a vector to be read here; LLVM would sink the read into the branch that uses it."""
    whole = words(x)
    if ir.VectorType(whole.type).shape == [1]:
        whole = element(whole, 0)  # registers have no vector of one
    llvm.InlineAsmOp(None, [whole], "", "v", has_side_effects=True)


def load(memory: ir.Value, offset: Index, count: int) -> ir.Value:
    """A vector of `count` elements, from an offset that is a multiple of `count`."""
    element = ir.MemRefType(memory.type).element_type
    type_ = ir.VectorType.get([count], element)
    bytes_ = bit_width(element) // 8 * count
    return vector.LoadOp(type_, memory, [emit.value(offset)], alignment=bytes_).result


def load_far(memory: ir.Value, offset: Index, step: Index, count: int) -> ir.Value:
    """A vector at `offset + step` of a buffer argument, both multiples of `count`.

    `step` is uniform over all threads. Only the bounds of `offset` are checked.
    """
    element = ir.MemRefType(memory.type).element_type
    most = CHUNK_BYTES * 8 // bit_width(element)
    if count > most:  # one instruction takes no more
        parts = [load_far(memory, emit.add(offset, i), step, most) for i in range(0, count, most)]
        return concatenated(parts)
    i32 = ir.IntegerType.get_signless(32)
    at, far = (arith.index_cast(i32, emit.value(x)) for x in (offset, step))
    type_ = ir.VectorType.get([count], element)
    return amdgpu.RawBufferLoadOp(type_, memory, [at], sgprOffset=far).result


def select(condition: ir.Value, x: ir.Value, other: ir.Value) -> ir.Value:
    """One of two vectors, as words where they are of bytes: LLVM would select each byte alone."""
    chosen = arith.select(condition, words(x), words(other))
    return vector.BitCastOp(x.type, chosen).result


def store(x: ir.Value, memory: ir.Value, offset: Index) -> None:
    """Stores a vector at an offset that is a multiple of its length."""
    type_ = ir.VectorType(x.type)
    bytes_ = bit_width(type_.element_type) // 8 * type_.shape[0]
    vector.StoreOp(x, memory, [emit.value(offset)], alignment=min(bytes_, CHUNK_BYTES))


def part(x: ir.Value, start: int, count: int) -> ir.Value:
    """`count` neighbours of a vector."""
    type_ = ir.VectorType(x.type)
    if count == type_.shape[0]:
        return x
    result = ir.VectorType.get([count], type_.element_type)
    # Kernels have hundreds of them, and the op's class takes three times as long to build one.
    i64 = ir.IntegerType.get_signless(64)
    names = {"offsets": start, "sizes": count, "strides": 1}
    attributes = {n: ir.ArrayAttr.get([ir.IntegerAttr.get(i64, i)]) for n, i in names.items()}
    slice_ = ir.Operation.create(
        "vector.extract_strided_slice", results=[result], operands=[x], attributes=attributes
    )
    return slice_.results[0]


def concatenated(vectors: Sequence[ir.Value]) -> ir.Value:
    def pair(a: ir.Value, b: ir.Value) -> ir.Value:
        lanes = ir.VectorType(a.type).shape[0] + ir.VectorType(b.type).shape[0]
        return vector.ShuffleOp(a, b, list(range(lanes))).result

    return reduce(pair, vectors)


def word(x: ir.Value, number: int) -> ir.Value:
    """Four neighbours of a vector of bytes, as an i32."""
    return element(words(x), number)


def words(x: ir.Value) -> ir.Value:
    """A vector as one of words of 32 bits, or of fewer where it is none of whole words."""
    type_ = ir.VectorType(x.type)
    bits = type_.shape[0] * bit_width(type_.element_type)
    word = math.gcd(bits, 32)
    own = ir.VectorType.get([bits // word], ir.IntegerType.get_signless(word))
    return vector.BitCastOp(own, x).result
