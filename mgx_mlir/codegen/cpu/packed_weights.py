"""Products of rows by weights in a loop's kernel, as recurrent layers have them.

The weights are packed by a launch of its own, once for all runs. A trip's products are register
tiles over that block, as those of other products are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.contraction import emit_contraction, emit_packing
from mgx_mlir.codegen.cpu.nests import Functions
from mgx_mlir.codegen.cpu.schedule import FEW_ROWS, CpuSchedule, Machine, choose
from mgx_mlir.codegen.loops.body import Held
from mgx_mlir.codegen.loops.place import Place, element_bytes
from mgx_mlir.codegen.loops.repeat import PartFunction
from mgx_mlir.codegen.meaning.element import element_of, sizes_of
from mgx_mlir.codegen.problem.problem import Axis, Contraction, Matrix
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import ops_inside
from mgx_mlir.sizes.arithmetic import Number, Size, exact

# The types of elements that are packed, and of their sums.
_SUMS = {"f32": "f32", "i8": "i32"}


@dataclass(frozen=True)
class PackedWeights:
    """The product of a trip's rows by weights, input `source`, which `place` holds packed."""

    problem: Contraction
    schedule: CpuSchedule
    source: Place
    place: Place

    @staticmethod
    def of(number: int, op: ir.OpView, machine: Machine) -> PackedWeights | None:
        """A product by input `number`; None where there are no tiles for it."""
        element = element_of(op.operands[0].type).name
        (*batch, rows, depth), (*matrices, _, columns) = (sizes_of(x.type) for x in op.operands)
        given = [*matrices, depth, columns]
        if element not in _SUMS or batch != matrices or not all(isinstance(n, int) for n in given):
            return None
        if element != element_of(op.operands[1].type).name or len(batch) > 1 or not depth:
            return None
        if element == "i8" and machine.joined == 1:
            return None
        (count,) = batch or [1]

        def matrix(own: int, high: Number, wide: Number) -> Matrix:
            steps = (count, high * wide), (high, wide), (wide, 1)
            return Matrix(own, element, 0, *(Axis.of(step) for step in steps))

        a, b = matrix(0, rows, depth), matrix(number, depth, columns)
        problem = Contraction(count, rows, columns, depth, a, b, _SUMS[element])
        few = replace(problem, M=FEW_ROWS) if isinstance(rows, Size) else problem
        schedule = replace(choose(few, machine), shared=True)
        packed = emit.element_type(schedule.packed_element(problem))
        source = Place(emit.element_type(element), math.prod(given), Argument("input", number))
        return PackedWeights(
            problem, schedule, source, Place(packed, schedule.packed_size(problem))
        )

    def pack(self, pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        """Builds the packing of pieces begin .. end of the weights."""
        source, packed = pointers
        emit_packing(self.problem, self.schedule, source, packed, begin, end)

    def product(self, function: PartFunction, left: Held, result: ir.Type) -> Held:
        """Builds the sums of products of a part's rows in memory, at the insertion point."""
        problem, schedule, element = self.problem, self.schedule, element_of(result)
        made = Place(element.storage(), problem.batch * problem.M * problem.N)
        a, b, c = (function.pointer(place) for place in (left.place, self.place, made))

        def store(x: ir.Value, batch: Index, m: Index, n: Index, mask: ir.Value | None) -> None:
            place = emit.linear(n, (batch, problem.M * problem.N), (m, problem.N))
            emit.store_vector(x, c, place, mask)

        first, count = emit.value(0), schedule.items(problem)
        if function.parts:
            count = exact(count, problem.batch)
            first = emit.value(emit.mul(function.part[0], count))
        emit_contraction(problem, schedule, a, b, store, first, emit.value(emit.add(first, count)))
        return Held(made, sizes_of(result), element)


def pack_weights(
    kernel: mgx.KernelOp, functions: Functions, machine: Machine, parts: Sequence[Number]
) -> dict[ir.Value, PackedWeights]:
    """Adds the functions that pack the weights of a kernel's products, one each; gives them by the
    products' results. Of parts, each is one of a product's matrices."""
    found: dict[ir.Value, PackedWeights] = {}
    made: dict[tuple[int, Number], PackedWeights] = {}
    inputs = [*kernel.body.blocks[0].arguments]
    for op in ops_inside(kernel, mgx.DotOp, mgx.QuantDotOp):
        if op.operands[1] not in inputs:
            continue
        number = inputs.index(op.operands[1])
        own = PackedWeights.of(number, op, machine)
        if own is None or (parts and [*parts] != [own.problem.batch]):
            continue
        found[op.result] = made.setdefault((number, own.problem.M), own)
    for own in made.values():
        items, size = own.schedule.pack_items(own.problem), own.place.size
        assert isinstance(size, int)
        functions.add_on(
            [own.source, own.place], items, own.pack, size * element_bytes(own.place.type)
        )
    return found
