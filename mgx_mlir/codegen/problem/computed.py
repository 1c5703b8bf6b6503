"""Operands that a product's kernel computes as it reads them, mostly weights of few bits.

    %d = mgx.pointwise(%codes, %scales) ... : tensor<64x32xf16>

A vector of elements, neighbours along rows or columns, is computed from a vector of each tensor
read: its elements are neighbours too, or all equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mlir import ir
from mlir.dialects import arith, vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.meaning.pointwise import emit_pointwise
from mgx_mlir.codegen.problem.problem import Axis, Computed, ComputedImage, Matrix, Read
from mgx_mlir.codegen.problem.views import View, element_name, resolve, splat_constant
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting import views
from mgx_mlir.rewriting.queries import definition


def computed_by(value: ir.Value) -> tuple[mgx.PointwiseOp, list[View | ir.Attribute]] | None:
    """The `mgx.pointwise` whose result a value is a view of, and its operands in that view.

    None where no such op computes it, or strides cannot express the view. Views count numbers,
    not the bytes that hold them.
    """
    value, chain = _behind_views(value)
    op = definition(value)
    if not isinstance(op, mgx.PointwiseOp) or len(op.outputs) != 1:
        return None
    found: list[View | ir.Attribute] = []
    for operand in op.inputs:
        constant = splat_constant(operand)
        if constant is not None:
            found.append(constant)
            continue
        seen = _unpacked(operand)
        for view in reversed(chain):
            seen = seen and views.apply(seen, view)
        if seen is None:
            return None
        found.append(seen)
    return op, found


def computed_matrix(value: ir.Value, place: Callable[[View], Matrix | None]) -> Computed | None:
    """A product's operand as a computed matrix; None if nothing computes it or strides fail.

    `place`: the matrix that a view is.
    """
    found = computed_by(value)
    if found is None:
        return None
    op, operands = found
    reads: list[Read | ir.Attribute] = []
    for operand, view in zip(op.operands, operands, strict=True):
        if isinstance(view, ir.Attribute):
            reads.append(view)
            continue
        if (read := _read(view, operand.type, place)) is None:
            return None
        reads.append(read)
    tensors = [read for read in reads if isinstance(read, Read)]
    if not tensors:
        return None
    most = max(tensors, key=lambda read: (_varies(read.matrix), read.per_byte)).matrix
    return Computed(
        most.argument, element_name(value.type), most.offset, most.batch, most.row, most.column,
        op, tuple(reads),
    )  # fmt: skip


def _behind_views(value: ir.Value) -> tuple[ir.Value, list[ir.OpView]]:
    """The value that a chain of views starts from, and the views, the last one first."""
    chain = []
    while (op := definition(value)) is not None and views.is_view(op):
        chain.append(op)
        value = op.operands[0]
    return value, chain


def _unpacked(value: ir.Value) -> View | None:
    """A view of an input; where the value is unpacked, a view of the numbers in its bytes."""
    value, chain = _behind_views(value)
    found, op = resolve(value), definition(value)
    if isinstance(op, mgx.UnpackOp):
        found = resolve(op.x)
        found = found and _of_numbers(found, 8 // element_of(value.type).bits)
    for view in reversed(chain):
        found = found and views.apply(found, view)
    return found


def _of_numbers(view: View, per_byte: int) -> View | None:
    """The view of the numbers that the bytes of a view hold."""
    *outer, last = view.dims
    if not last or last[-1][1] != 1:
        return None
    dims = tuple(tuple((size, stride * per_byte) for size, stride in dim) for dim in outer)
    last = tuple((size, stride * per_byte) for size, stride in last[:-1])
    inner = (view.dims[-1][-1][0] * per_byte, 1)
    return View(view.offset * per_byte, (*dims, (*last, inner)), view.argument, "")


def _read(view: View, type_: ir.Type, place: Callable[[View], Matrix | None]) -> Read | None:
    element, matrix = element_of(type_), place(view)
    if matrix is None or (element.bits < 8 and element.kind == "bool"):
        return None
    name = "ui8" if element.bits < 8 or element.is_byte_float else element.name
    packed = view.element == ""
    return Read(replace(matrix, element=name), element.name, 8 // element.bits if packed else 1)


def _varies(matrix: Matrix) -> int:
    """The number of distinct elements of a matrix: strides of 0 repeat elements."""
    factors = (*matrix.row.factors, *matrix.column.factors)
    found = 1
    for size, stride in factors:
        found *= size if stride else 1
    return found


def repeats(axis: Axis, lanes: int) -> bool:
    """Whether each group of `lanes` elements, aligned to `lanes`, repeats one element."""
    if not axis.factors:
        return True
    size, stride = axis.factors[-1]
    return stride == 0 and (len(axis.factors) == 1 or size % lanes == 0)


def numbers_of(x: ir.Value, per_byte: int, count: int = 0) -> ir.Value:
    """The numbers in a vector of bytes, each in the low bits of an element of a longer vector.

    With `count`, only the first `count` numbers of each byte.
    """
    if per_byte == 1:
        return x
    type_, bits = ir.VectorType(x.type), 8 // per_byte
    # Shift four bytes at a time, as one word: bits of the neighbouring byte come in from above.
    word = math.gcd(type_.shape[0], 4)
    wide = ir.IntegerType.get_signless(8 * word)
    words = ir.VectorType.get([type_.shape[0] // word], wide)
    number = int.from_bytes(bytes([(1 << bits) - 1] * word))

    def splat(value: int) -> ir.Value:
        attribute = ir.IntegerAttr.get(wide, value)
        return arith.constant(words, ir.DenseElementsAttr.get_splat(words, attribute))

    mask, whole = splat(number), vector.BitCastOp(words, x).result
    parts: list[ir.Value] = [arith.andi(whole, mask)]
    for i in range(1, count or per_byte):
        parts.append(arith.andi(arith.shrui(whole, splat(bits * i)), mask))
    parts = [vector.BitCastOp(type_, part).result for part in parts]
    # Interleave pairs, then pairs of these where there are four.
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [_alternating(parts[i], parts[i + half]) for i in range(half)]
    return parts[0]


def _alternating(a: ir.Value, b: ir.Value) -> ir.Value:
    lanes = ir.VectorType(a.type).shape[0]
    order = [i for pair in zip(range(lanes), range(lanes, 2 * lanes), strict=True) for i in pair]
    return vector.ShuffleOp(a, b, order).result


def compute(operand: Computed | ComputedImage, tensors: Sequence[ir.Value]) -> ir.Value:
    """A vector of elements, computed from a vector of each tensor read, in order."""
    lanes = ir.VectorType(tensors[0].type).shape[0]
    waiting = list(tensors)
    operands = [
        emit.attribute_constant(read, lanes) if isinstance(read, ir.Attribute) else waiting.pop(0)
        for read in operand.reads
    ]
    with operand.op.location:
        (result,) = emit_pointwise(operand.op, operands)
    return result


def readable(matrix: Computed, along_rows: bool, lanes: int) -> bool:
    """Whether `vector_of` can read vectors of `lanes` along rows, or along columns."""
    for read in matrix.tensors:
        mine = read.matrix
        axis, other = (mine.row, mine.column) if along_rows else (mine.column, mine.row)
        if lanes == 1 or (repeats(axis, lanes) and read.per_byte == 1):
            continue
        strides = [stride for x in (mine.batch, other) for _, stride in x.factors]
        strides += [stride for _, stride in axis.factors[:-1]]
        whole = all(x % read.per_byte == 0 for x in (mine.offset, lanes, *strides))
        if not axis.contiguous(lanes) or not whole:
            return False
    return True


def vector_lanes(matrix: Computed, most: int = 16) -> tuple[int, bool]:
    """The largest vector length that `vector_of` can read, and whether along rows."""
    lanes = most
    while lanes > 1:
        for along_rows, axis in ((True, matrix.row), (False, matrix.column)):
            if axis.size % lanes == 0 and readable(matrix, along_rows, lanes):
                return lanes, along_rows
        lanes //= 2
    return 1, True


def vector_of(
    matrix: Computed,
    memories: Mapping[int, ir.Value],
    batch: Index,
    row: Index,
    column: Index,
    lanes: int,
    along_rows: bool,
) -> ir.Value:
    """`lanes` elements from [batch, row, column] on; the matrix must be `readable` that way."""
    tensors = []
    for read in matrix.tensors:
        mine = read.matrix
        memory, place = memories[mine.argument], mine.at(batch, row, column)
        axis = mine.row if along_rows else mine.column
        if (lanes == 1 or repeats(axis, lanes)) and read.per_byte == 1:
            tensors.append(emit.splat(emit.load(memory, place), lanes))
            continue
        at = emit.div(place, read.per_byte)
        if lanes < read.per_byte:  # shift the wanted number into the byte's low bits
            bits = emit.mul(emit.rem(place, read.per_byte), 8 // read.per_byte)
            x = emit.load_vector(memory, at, 1)
            shift = emit.splat(arith.index_cast(emit.element_type("ui8"), emit.value(bits)), 1)
            tensors.append(numbers_of(arith.shrui(x, shift), read.per_byte, 1))
            continue
        x = emit.load_vector(memory, at, lanes // read.per_byte)
        tensors.append(numbers_of(x, read.per_byte))
    return compute(matrix, tensors)
