"""Sums of several products of 8-bit integers in one instruction: four, or two.

vpdpbusd multiplies unsigned bytes by signed ones. Where both operands are signed, a packed block of
B holds its numbers plus 128, and the sums start at -128 times the sum of the row of A. Four rows of
B are interleaved:

    row k:     b0 b1 b2 ...        together:  b0 c0 d0 e0  b1 c1 d1 e1  b2 ...
    row k + 1: c0 c1 c2 ...

vpmaddwd multiplies signed numbers of 16 bits, two rows together. Its sums of two do not saturate.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, llvm, vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.pack import Copy, Packed
from mgx_mlir.sizes.arithmetic import ceil_div

MIDDLE = -128  # the bits of 128 as a signed number
# vpmaddwd by the bytes of a vector.
_PAIRS = {
    16: "llvm.x86.sse2.pmadd.wd",
    32: "llvm.x86.avx2.pmadd.wd",
    64: "llvm.x86.avx512.pmaddw.d.512",
}


def dot(sums: ir.Value, b: ir.Value, a: ir.Value) -> ir.Value:
    """sums + products of neighbours in two vectors: four bytes (b's unsigned), or two numbers."""
    (lanes,) = ir.VectorType(sums.type).shape
    if ir.VectorType(b.type).shape[0] == 4 * lanes:
        name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
        return _called(name, sums.type, sums, b, a)
    return arith.addi(sums, _called(_PAIRS[4 * lanes], sums.type, b, a))


def _called(name: str, type_: ir.Type, *operands: ir.Value) -> ir.Value:
    value: ir.Value = llvm.CallIntrinsicOp(type_, name, list(operands), [], []).results[0]
    return value


def splat(memory: ir.Value, place: Index, lanes: int, joined: int) -> ir.Value:
    """The `joined` numbers at a place, four bytes, `lanes` times."""
    few = emit.load_vector(memory, place, joined)
    word = ir.VectorType.get([1], ir.IntegerType.get_signless(32))
    one = vector.extract(vector.BitCastOp(word, few).result, [], [0])
    type_ = ir.VectorType.get([joined * lanes], ir.VectorType(few.type).element_type)
    value: ir.Value = vector.BitCastOp(type_, emit.splat(one, lanes)).result
    return value


def interleave(
    rows: Copy, target: Packed, vectors: Index, joined: int, shifted: bool = False
) -> None:
    """Interleaves packed rows, `joined` at a time. `vectors`: those of a row.

    `shifted`: the numbers become 128 larger, without a sign. Rows past the depth, up to a multiple
    of that, are numbers that A multiplies by zero.
    """
    lanes, row = rows.lanes, rows.target.k_step
    order = [number * lanes + lane for lane in range(lanes) for number in range(joined)]

    def group(number: Index) -> None:
        k = emit.mul(number, joined)

        def part(j: Index) -> None:
            place = emit.linear(rows.target.start, (k, row), (j, lanes))
            parts = [
                emit.load_vector(rows.target.memory, emit.add(place, i * row), lanes)
                for i in range(joined)
            ]
            if joined == 4:
                if shifted:
                    middle = emit.constant(MIDDLE, "i8", lanes)
                    parts = [arith.xori(x, middle) for x in parts]
                whole = list(range(2 * lanes))
                parts = [vector.shuffle(parts[i], parts[i + 1], whole) for i in (0, 2)]
            to = emit.linear(target.vector(j, joined * lanes), (k, target.k_step))
            emit.store_vector(vector.shuffle(parts[0], parts[1], order), target.memory, to)

        emit.loop(0, vectors, 1, part)

    emit.loop(0, emit.div(emit.add(rows.depth, joined - 1), joined), 1, group)


def store_offsets(rows: Copy, count: int, offsets: ir.Value) -> None:
    """Stores -128 times the sum of each packed row of A, which ends with zeros."""
    lanes = rows.lanes
    middle = emit.constant(MIDDLE, "i8", lanes)
    zero = emit.constant(0, "i32", ceil_div(lanes, 4))
    for row in range(count):

        def step(k: Index, sums: ir.Value, row: int = row) -> list[ir.Value]:
            x = emit.load_vector(rows.target.memory, emit.add(k, row * rows.target.step), lanes)
            return [dot(sums, middle, x)]

        (sums,) = emit.loop(0, rows.depth, lanes, step, [zero])
        total = emit.reduce_add(sums, "i32")
        emit.store(arith.subi(emit.constant(0, "i32"), total), offsets, row)
