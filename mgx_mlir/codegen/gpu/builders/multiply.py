"""The instructions that multiply a lane's fragments, and what they take of a chunk."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import amdgpu, arith, llvm

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.units import Unit

# Chunks of 16 bytes, neighbours along k, of one row or column.
Fragment = list[ir.Value]


def zero(unit: Unit) -> ir.Value:
    """The initial sums of one tile."""
    return emit.constant(0, unit.accumulator, unit.values)


def pieces(unit: Unit, fragment: Fragment) -> list[ir.Value]:
    """A fragment as the operands of one instruction after another."""
    if unit.per_lane > unit.chunk:
        return [memory.concatenated(fragment)]
    each = unit.depth if unit.kind == "fma" else unit.per_lane
    parts = [memory.part(x, start, each) for x in fragment for start in range(0, unit.chunk, each)]
    # A lane's one element is a scalar.
    return [memory.element(x, 0) for x in parts] if each == 1 else parts


def multiply(
    unit: Unit,
    row: ir.Value,
    columns: list[ir.Value],
    sums: ir.Value,
    elements: tuple[str, str] = ("", ""),
    scales: tuple[ir.Value, ir.Value] | None = None,
) -> ir.Value:
    """sums + row * columns by one instruction of a tile.

    `elements`: types of A and B, which tell the kinds of bytes in LDS. `scales`: of both, as i32.

    The result is transposed: columns are the instruction's first operand.
    """
    if unit.kind == "fma" and unit.depth > 1:
        return _dot_products(row, columns, sums, elements[0])
    if unit.kind == "fma":
        left = emit.splat(row, unit.values)
        return emit.multiply_add(left, memory.joined(columns), sums, unit.accumulator)
    (column,) = columns
    if scales is not None:
        return _scaled_product(unit, (column, row), sums, scales[::-1])
    if unit.element in emit.BYTE_FLOATS:
        row, column = (_floats(x, e) for x, e in zip((row, column), elements, strict=True))
    if unit.kind == "wmma":
        unsigned = [element == "ui8" or None for element in elements]
        flags = {"unsignedA": unsigned[1], "unsignedB": unsigned[0]}
        return amdgpu.WMMAOp(16, 16, unit.depth, column, row, sums, **flags).result
    return amdgpu.MFMAOp(unit.columns, unit.rows, unit.depth, column, row, sums).result


# Instructions that add the products of two registers' elements to a third: in f32, in i32.
_DOT_PRODUCTS = {"f16": "fdot2", "i8": "sdot4", "ui8": "udot4"}


def dot_product(
    element: str, left: ir.Value, right: ir.Value, total: ir.Value, *, signs: bool = False
) -> ir.Value:
    """total + the products of two registers' elements: two f16, or four bytes as an i32.

    `signs`: the chip's instruction of bytes is told for each operand whether it has a sign.
    """
    kept = emit.constant(0, "i1")  # no clamping
    name, operands = _DOT_PRODUCTS[element], [left, right, total, kept]
    if signs and element != "f16":
        signed = emit.constant(int(element == "i8"), "i1")
        name, operands = "sudot4", [signed, left, signed, right, total, kept]
    # A kernel has up to a thousand of them, and the op's class takes longer to build one.
    attributes = {
        "intrin": ir.StringAttr.get(f"llvm.amdgcn.{name}"),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
    }
    call = ir.Operation.create(
        "llvm.call_intrinsic", results=[total.type], operands=operands, attributes=attributes
    )
    return call.results[0]


def dot_products(
    a: ir.Value, b: ir.Value, sums: ir.Value, element: str = "f16", *, signs: bool = False
) -> ir.Value:
    """Adds to each sum the products of its neighbours: two of f16, or four bytes."""
    totals = []
    for i in range(ir.VectorType(sums.type).shape[0]):
        f16 = element == "f16"
        left, right = (memory.part(x, 2 * i, 2) if f16 else memory.word(x, i) for x in (a, b))
        totals.append(dot_product(element, left, right, memory.element(sums, i), signs=signs))
    return memory.joined(totals)


def _dot_products(row: ir.Value, columns: list[ir.Value], sums: ir.Value, element: str) -> ir.Value:
    """sums of a lane's results + row * columns, each some neighbours along k."""
    results = []
    for number, column in enumerate(columns):
        left, right = (x if element == "f16" else memory.word(x, 0) for x in (row, column))
        results.append(dot_product(element, left, right, memory.element(sums, number)))
    return memory.joined(results)


# How an instruction is told the kind of an operand (CDNA 4 ISA, V_MFMA_*_F8F6F4: CBSZ, BLGP).
_KINDS = {"f8E4M3FN": 0, "f8E5M2": 1, "f4E2M1FN": 4}


def _scaled_product(
    unit: Unit, factors: tuple[ir.Value, ir.Value], sums: ir.Value, scales: Sequence[ir.Value]
) -> ir.Value:
    """The product of two operands of 128 elements along k, a scale for each 32."""
    i32 = ir.IntegerType.get_signless(32)
    first, second = map(memory.words, factors)
    kind, lowest = arith.constant(i32, _KINDS[unit.element]), arith.constant(i32, 0)
    mangled = f"v{unit.per_lane // 4}i32"
    name = f"llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4.{mangled}.{mangled}"
    # The scale is the lowest byte of its register.
    operands = [first, second, sums, kind, kind, lowest, scales[0], lowest, scales[1]]
    return llvm.CallIntrinsicOp(sums.type, name, operands, [], []).operation.results[0]


def _floats(x: ir.Value, element: str) -> ir.Value:
    """A vector of bytes as 8-bit floats."""
    type_ = ir.VectorType.get(ir.VectorType(x.type).shape, ir.Type.parse(element))
    return arith.bitcast(type_, x)
