"""Sums of four products of 8-bit integers in one instruction, vpdpbusd.

It multiplies unsigned numbers by signed ones. A packed block of B holds its numbers plus 128, and
the sums start at -128 times the sum of the row of A. Four rows of B are interleaved:

    row k:     b0 b1 b2 ...        quad:  b0 c0 d0 e0  b1 c1 d1 e1  b2 ...
    row k + 1: c0 c1 c2 ...
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, llvm, vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.pack import Copy, Packed
from mgx_mlir.sizes.arithmetic import ceil_div

MIDDLE = -128  # the bits of 128 as a signed number


def dot(sums: ir.Value, unsigned: ir.Value, signed: ir.Value) -> ir.Value:
    """sums + products of neighbouring four bytes of two vectors of bytes."""
    (lanes,) = ir.VectorType(sums.type).shape
    name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
    call = llvm.CallIntrinsicOp(sums.type, name, [sums, unsigned, signed], [], [])
    value: ir.Value = call.results[0]
    return value


def splat(memory: ir.Value, place: Index, lanes: int) -> ir.Value:
    """The four bytes at a place, `lanes` times."""
    word = ir.IntegerType.get_signless(32)
    four = emit.load_vector(memory, place, 4)
    one = vector.BitCastOp(ir.VectorType.get([1], word), four).result
    words = emit.splat(vector.extract(one, [], [0]), lanes)
    bytes_ = ir.VectorType.get([4 * lanes], ir.IntegerType.get_signless(8))
    value: ir.Value = vector.BitCastOp(bytes_, words).result
    return value


def interleave(rows: Copy, target: Packed, vectors: Index) -> None:
    """Interleaves packed rows, plus 128, by fours. `vectors`: those of a row.

    Rows past the depth, up to a multiple of four, are numbers that A multiplies by zero.
    """
    lanes, row = rows.lanes, rows.target.k_step
    middle = emit.constant(MIDDLE, "i8", lanes)
    order = [number * lanes + lane for lane in range(lanes) for number in range(4)]

    def quad(number: Index) -> None:
        k = emit.mul(number, 4)

        def part(j: Index) -> None:
            place = emit.linear(rows.target.start, (k, row), (j, lanes))
            parts = [
                arith.xori(
                    emit.load_vector(rows.target.memory, emit.add(place, i * row), lanes), middle
                )
                for i in range(4)
            ]
            whole = list(range(2 * lanes))
            low, high = (vector.shuffle(parts[i], parts[i + 1], whole) for i in (0, 2))
            to = emit.linear(target.start, (k, target.k_step), (j, 4 * lanes))
            emit.store_vector(vector.shuffle(low, high, order), target.memory, to)

        emit.loop(0, vectors, 1, part)

    emit.loop(0, emit.div(emit.add(rows.depth, 3), 4), 1, quad)


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
