"""Products of rows by weights in a loop's kernel, as recurrent layers have them.

The weights are packed by a launch of its own, once for all runs. A trip's products are register
tiles over that block, as those of other products are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

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
    """The product of a trip's rows by weights, which `place` holds packed."""

    problem: Contraction
    schedule: CpuSchedule
    place: Place

    @staticmethod
    def of(number: int, op: ir.OpView, machine: Machine) -> PackedWeights | None:
        """A product by input `number`; None where there are no tiles for it."""
        element, other = (element_of(x.type).name for x in op.operands)
        sizes = cast("list[list[int]]", [sizes_of(x.type) for x in op.operands])
        (*batch, rows, depth), (*matrices, _, columns) = sizes
        given = [*matrices, depth, columns]
        if element != other or element not in _SUMS or batch != matrices or len(batch) > 1:
            return None
        if not all(isinstance(n, int) for n in given) or 0 in (rows, *given):
            return None
        if element == "i8" and machine.joined == 1:
            return None
        (count,) = batch or [1]

        def matrix(own: int, high: int, wide: int) -> Matrix:
            steps = (count, high * wide), (high, wide), (wide, 1)
            return Matrix(own, element, 0, *(Axis.of(step) for step in steps))

        a, b = matrix(0, rows, depth), matrix(number, depth, columns)
        problem = Contraction(count, rows, columns, depth, a, b, _SUMS[element])
        few = replace(problem, M=FEW_ROWS) if isinstance(rows, Size) else problem
        schedule = replace(choose(few, machine), shared=True)
        held = emit.element_type(schedule.held_element(problem))
        return PackedWeights(problem, schedule, Place(held, schedule.packed_size(problem)))

    def add(self, functions: Functions) -> None:
        """Adds the function that packs the weights."""
        problem, schedule, b = self.problem, self.schedule, self.problem.b
        size = problem.batch * problem.K * problem.N
        source = Place(emit.element_type(b.element), size, Argument("input", b.argument))

        def pack(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
            emit_packing(problem, schedule, pointers[0], pointers[1], begin, end)

        kept = schedule.packed_size(problem) * element_bytes(self.place.type)
        functions.add_on([source, self.place], schedule.pack_items(problem), pack, kept)

    def product(self, function: PartFunction, left: Held, result: ir.Type) -> Held:
        """Builds the sums of products of a part's rows in memory, at the insertion point."""
        problem, schedule, element = self.problem, self.schedule, element_of(result)
        made = Place(element.storage(), problem.batch * problem.M * problem.N)
        a, b, c = (function.pointer(place) for place in (left.place, self.place, made))

        def store(x: ir.Value, batch: Index, m: Index, n: Index, mask: ir.Value | None) -> None:
            place = emit.linear(n, (batch, problem.M * problem.N), (m, problem.N))
            emit.store_vector(x, c, place, mask)

        count = cast("int", exact(schedule.items(problem), math.prod(function.parts)))
        first = emit.value(emit.mul(function.part[0], count) if function.parts else 0)
        emit_contraction(problem, schedule, a, b, store, first, emit.value(emit.add(first, count)))
        return Held(made, sizes_of(result), element)


def pack_weights(
    kernel: mgx.KernelOp, functions: Functions, machine: Machine, parts: Sequence[Number]
) -> dict[ir.Value, PackedWeights]:
    """A kernel's products by weights, by results, with functions that pack: a matrix for a part."""
    made: dict[tuple[int, Number], PackedWeights] = {}
    found: dict[ir.Value, PackedWeights] = {}
    inputs = [*kernel.body.blocks[0].arguments]
    for op in ops_inside(kernel, mgx.DotOp, mgx.QuantDotOp):
        number = inputs.index(op.operands[1]) if op.operands[1] in inputs else -1
        own = PackedWeights.of(number, op, machine) if number >= 0 else None
        if own is not None and (not parts or [*parts] == [own.problem.batch]):
            found[op.result] = made.setdefault((number, own.problem.M), own)
    for own in made.values():
        own.add(functions)
    return found
