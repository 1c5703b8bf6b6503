"""Products of rows of bytes by weights in a loop's kernel, as recurrent layers have them.

The weights are packed by a launch of its own, once for all runs. A trip's products are register
tiles over that block, as those of other products are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.contraction import emit_contraction, emit_packing
from mgx_mlir.codegen.cpu.nests import Functions
from mgx_mlir.codegen.cpu.schedule import FEW_ROWS, CpuSchedule, Machine, choose
from mgx_mlir.codegen.loops.body import Function, Held, Lazy
from mgx_mlir.codegen.loops.place import Place, element_bytes
from mgx_mlir.codegen.meaning.element import I32, element_of, sizes_of
from mgx_mlir.codegen.problem.problem import Axis, Contraction, Matrix
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import ops_inside
from mgx_mlir.sizes.arithmetic import Number, Size


@dataclass(frozen=True)
class PackedBytes:
    """The product of a trip's rows by weights, input `source`, which `place` holds packed."""

    problem: Contraction
    schedule: CpuSchedule
    source: Place
    place: Place

    @staticmethod
    def of(number: int, rows: int, shape: tuple[int, int], machine: Machine) -> PackedBytes:
        """The product of so many rows by input `number`, of a shape."""
        depth, columns = shape
        a = Matrix(0, "i8", 0, Axis(()), Axis.of((rows, depth)), Axis.of((depth, 1)))
        b = Matrix(number, "i8", 0, Axis(()), Axis.of((depth, columns)), Axis.of((columns, 1)))
        problem = Contraction(1, rows, columns, depth, a, b, "i32")
        few = replace(problem, M=FEW_ROWS) if isinstance(rows, Size) else problem
        schedule = replace(choose(few, machine), shared=True)
        element = emit.element_type(schedule.packed_element(problem))
        source = Place(emit.element_type("i8"), depth * columns, Argument("input", number))
        return PackedBytes(problem, schedule, source, Place(element, schedule.packed_size(problem)))

    def serves(self, op: mgx.QuantDotOp, values: Mapping[ir.Value, Lazy]) -> bool:
        """Whether these are the weights of a product of signed bytes of these sizes."""
        weights = values[op.operands[1]]
        own = isinstance(weights, Held) and weights.place.argument == self.source.argument
        return own and _rows(op.operands[0].type) == self.problem.M

    def pack(self, pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        """Builds the packing of pieces begin .. end of the weights."""
        source, packed = pointers
        emit_packing(self.problem, self.schedule, source, packed, begin, end)

    def product(self, function: Function, left: Held) -> Held:
        """Builds the sums of products of rows in memory, at the insertion point."""
        problem, schedule = self.problem, self.schedule
        result = Place(I32.storage(), problem.M * problem.N)
        a, b, c = (function.pointer(place) for place in (left.place, self.place, result))

        def store(x: ir.Value, _: Index, m: Index, n: Index, mask: ir.Value | None) -> None:
            emit.store_vector(x, c, emit.linear(n, (m, problem.N)), mask)

        first, last = emit.value(0), emit.value(schedule.items(problem))
        emit_contraction(problem, schedule, a, b, store, first, last)
        return Held(result, (problem.M, problem.N), I32)


def pack_weights(kernel: mgx.KernelOp, functions: Functions, machine: Machine) -> list[PackedBytes]:
    """Adds the functions that pack the weights of a kernel's products of bytes, one each."""
    if machine.joined == 1:
        return []
    found: dict[int, PackedBytes] = {}
    for op in ops_inside(kernel, mgx.QuantDotOp):
        x, w = op.operands
        number = next(
            (n for n, own in enumerate(kernel.body.blocks[0].arguments) if own == w), None
        )
        rows = _rows(x.type)
        if number is None or number in found or rows is None or not isinstance(_rows(w.type), int):
            continue
        depth, columns = ir.RankedTensorType(w.type).shape
        found[number] = PackedBytes.of(number, cast(int, rows), (depth, columns), machine)
    for own in found.values():
        items, size = own.schedule.pack_items(own.problem), own.place.size
        assert isinstance(size, int)
        kept = size * element_bytes(own.place.type)
        functions.add_on([own.source, own.place], items, own.pack, kept)
    return list(found.values())


def _rows(type_: ir.Type) -> Number | None:
    """The rows of a matrix of signed bytes with a known row."""
    if element_of(type_).name != "i8" or len(sizes := sizes_of(type_)) != 2:
        return None
    return sizes[0] if isinstance(sizes[1], int) and sizes[1] else None
