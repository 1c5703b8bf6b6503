"""Matches kernels that are pointwise: from mgx ops to elements by one index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.family import is_free
from mgx_mlir.codegen.gpu.families.rows.match import RowBody, Source
from mgx_mlir.codegen.meaning.element import Element, element_of
from mgx_mlir.codegen.problem.match import through_reshapes
from mgx_mlir.codegen.problem.views import resolve, splat_constant
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.in_place import overwritable
from mgx_mlir.rewriting.symbolic import shape_of


@dataclass(frozen=True)
class Result:
    """A value that is stored, element by element, as output `number`, or as a `part` of it."""

    value: ir.Value
    number: int
    element: Element
    part: MemoryOperand | None = None


@dataclass(frozen=True)
class Elements(RowBody):
    """A kernel over `size` elements, in the row-major order of its results.

    Operands have the elements' number as their inner index. The result may be written over
    the inputs `overwritable`.
    """

    size: int
    results: tuple[Result, ...]
    overwritable: frozenset[int]

    @property
    def operands(self) -> tuple[MemoryOperand, ...]:
        """The operands that are read with an element for each of the results, and the results."""
        return (*self.read, *(self.operand_of(r) for r in self.results))

    def operand_of(self, result: Result) -> MemoryOperand:
        return result.part or MemoryOperand.flat(result.number, result.element, self.size)


def match_elements(kernel: mgx.KernelOp) -> Elements | Refusal | None:
    """The kernel as elements, or why it does not match; None where it holds other work."""
    *ops, terminator = kernel.regions[0].blocks[0].operations
    work = [op for op in ops if mgx.is_pointwise(op) or isinstance(op, mgx.PointwiseOp)]
    if any(op not in work and not is_free(op) for op in ops):
        return None
    name = work[-1].operation.name if work else "a copy"
    returned = [through_reshapes(value) for value in terminator.operands]
    sizes = {math.prod(shape_of(value.type)) for value in terminator.operands}
    sizes |= {math.prod(shape_of(r.type)) for op in work for r in op.results}
    if len(sizes) != 1 or 0 in sizes:
        return Refusal(f"{name}: results of different sizes, or of none")
    results = tuple(
        Result(value, number, element_of(value.type)) for number, value in enumerate(returned)
    )
    (size,) = sizes
    return elements_of(name, work, results, size, overwritable(kernel))


def elements_of(
    name: str,
    work: Sequence[ir.OpView],
    results: Sequence[Result],
    size: int,
    overwritable: frozenset[int] = frozenset(),
) -> Elements | Refusal:
    """The elements that some ops of a kernel compute, from its inputs alone."""
    sources: dict[ir.Value, Source] = {}
    wholes: set[ir.Value] = set()
    made = {result for op in work for result in op.results}

    def read(value: ir.Value) -> bool:
        if value in sources or value in made:
            return True
        found = _source(value, size)
        if found is None:
            return False
        sources[value] = found
        if isinstance(found, MemoryOperand) and not found.repeated:
            wholes.add(value)
        return True

    for op in work:
        if not all(read(value) for value in op.operands):
            return Refusal(f"{name}: an input that is no strided view")
        if any(value in wholes for value in op.operands):
            wholes.update(op.results)
    if not all(read(result.value) for result in results):
        return Refusal(f"{name}: a result that is no strided view")
    return Elements(
        name, tuple(work), sources, frozenset(wholes), size, tuple(results), overwritable
    )


def _source(value: ir.Value, size: int) -> Source | None:
    constant = splat_constant(value)
    if constant is not None:
        return constant
    view = resolve(value)
    if view is None or math.prod(view.shape) != size:
        return None
    return MemoryOperand.row(view, element_of(value.type))
