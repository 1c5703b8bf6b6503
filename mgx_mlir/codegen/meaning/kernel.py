"""A kernel under lowering: the mgx values seen so far, and the loops that compute them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from mlir import ir
from mlir.dialects import func

from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.body import Body, Indices, Lazy
from mgx_mlir.codegen.meaning.by_class import ByClass
from mgx_mlir.codegen.meaning.element import Element, element_of, sizes_of
from mgx_mlir.codegen.meaning.index import Index
from mgx_mlir.codegen.meaning.pointwise import number
from mgx_mlir.codegen.meaning.value import Computed, Reshaped, Stored, reshape
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.scan import import_modules
from mgx_mlir.sizes.arithmetic import Number

# The highest cost of one read of a value whose elements are each read many times.
CHEAP = 8

Lowering = Callable[["Kernel", Any, Sequence[Lazy]], "Lazy | list[Lazy]"]
# The results of a reduction with one more term of each, or with those of other terms.
Combine = Callable[[Arithmetic, Sequence[ir.Value], Sequence[ir.Value]], Sequence[ir.Value]]
# Given the body, the indices of a row and its slices, gives the slices after sequential work on
# the row. Slices are changed by `Body.insert`.
Work = Callable[[Body, Indices, Sequence[Any]], Sequence[Any]]
# Marks the function that lowers ops of some classes: it gets the kernel, the op and the values of
# its operands, and gives the values of its results.
lowers: ByClass[Lowering] = ByClass()


def lowering_of(op: ir.OpView) -> Lowering:
    """The function that lowers an op; UnsupportedError if there is none."""
    lowering = _lowerings().of(op)
    if lowering is None:
        raise UnsupportedError(
            f"{op.location}: {op.operation.name} has no lowering; it cannot stand in a kernel",
            (str(op.location),),
        )
    return lowering


def lowered_ops() -> tuple[str, ...]:
    """The names of all ops that have a lowering, sorted."""
    return tuple(class_.OPERATION_NAME for class_ in _lowerings().classes())


@cache
def _lowerings() -> ByClass[Lowering]:
    import_modules("mgx_mlir.codegen.meaning.ops")
    return lowers


class Kernel:
    """Lowers ops; where loops and memory are built is up to its subclasses."""

    def __init__(self) -> None:
        self.values: dict[ir.Value, Lazy] = {}
        self._stored: dict[Lazy, Stored] = {}

    # mgx ops

    def lower_block(self, block: ir.Block) -> list[Lazy]:
        """Lowers a block whose arguments have values; gives the terminator's operands."""
        for op in block.operations:
            operands = [self.values[x] for x in op.operands]
            if isinstance(op, mgx.ReturnOp | mgx.YieldOp | func.ReturnOp):
                return operands
            with op.location:
                results = lowering_of(op)(self, op, operands)
            results = [results] if isinstance(results, Lazy) else results
            pairs = zip(op.results, results, strict=True)
            self.values.update({value: self.shared(value, found) for value, found in pairs})
        return []

    def results(self, values: Sequence[Lazy]) -> list[ir.Value]:
        """The tensors that the kernel returns: memory of its own, distinct for each."""
        sources: list[Lazy] = []
        for value in values:
            while isinstance(value, Reshaped):
                value = value.source
            sources.append(value)
        taken: list[ir.Value] = []
        results: list[ir.Value] = []
        for wanted, have in zip(values, self.stored_together(sources), strict=True):
            if not have.owned or have.base in taken:
                have = self.copied(have)
            taken.append(have.base)
            result = reshape(have, wanted.shape)
            assert isinstance(result, Stored)
            results.append(result.value)
        return results

    def shared(self, value: ir.Value, found: Lazy) -> Lazy:
        """A result of an op as those that use it see it: where it is worth it, in memory."""
        return found

    def byte_product(self, op: mgx.QuantDotOp, operands: Sequence[Lazy]) -> Lazy | None:
        """A product of integers by an instruction for bytes; None where there is none for it."""
        return None

    # Putting values into memory

    def stored(self, value: Lazy) -> Stored:
        return self.stored_together([value])[0]

    def settled(self, value: Lazy, cost: int = CHEAP) -> Lazy:
        """The value itself if a read of it costs no more than `cost`, else its tensor in memory."""
        return value if value.cost <= cost else self.stored(value)

    def stored_together(self, values: Sequence[Lazy]) -> list[Stored]:
        """The values in memory; values of one shape are computed by one nest."""
        pending: dict[tuple[Number, ...], list[Lazy]] = {}
        for value in values:
            if not isinstance(value, Stored) and value not in self._stored:
                group = pending.setdefault(value.shape, [])
                if value not in group:
                    group.append(value)
        for group in pending.values():
            self._store(group)
        return [v if isinstance(v, Stored) else self._stored[v] for v in values]

    def copied(self, value: Lazy) -> Stored:
        """A new tensor with the same elements."""
        return self._elementwise([value])[0]

    def _store(self, group: Sequence[Lazy]) -> None:
        self._stored.update(zip(group, self._elementwise(group), strict=True))

    def _elementwise(self, group: Sequence[Lazy]) -> list[Stored]:
        shape = group[0].shape
        with group[0].location:
            inits = [(self.empty(shape, v.element), range(len(shape))) for v in group]
            results = self.generic(
                shape, len(shape), inits, lambda body, dims: [body.at(v, dims) for v in group]
            )
        return [self.memory(r, v.element) for r, v in zip(results, group, strict=True)]

    # Building blocks

    def generic(
        self,
        extents: Sequence[Number],
        parallel: int,
        inits: Sequence[tuple[Any, Sequence[int]]],
        emit: Callable[[Any, tuple[Index, ...]], Sequence[ir.Value]],
        combine: Combine | None = None,
        neighbours: bool = False,
    ) -> list[Any]:
        """Loops over `extents`, the first `parallel` of them parallel, the others reductions.

        inits: for each result, its initial tensor (`empty`, `filled`) and the loop dimensions that
        index it. emit: builds the body and gives the elements of the results, or, of reductions,
        the terms, which `combine` makes part of the results so far. neighbours: whether neighbours
        along the last parallel loop read neighbouring elements.
        """
        raise NotImplementedError

    def rows(
        self,
        extents: Sequence[Number],
        results: Sequence[Any],
        axes: Sequence[Sequence[int]],
        work: Work,
    ) -> list[Any]:
        """The results after sequential `work` on every row; rows are independent.

        extents: the number of rows along each row dimension. A result starts as `empty`, `filled`,
        or a value in memory that is the kernel's own. axes: for each result, the dimensions that
        lie inside a row; the others are the row dimensions, in order.
        """
        raise NotImplementedError

    def repeat(self, op: mgx.LoopOp, operands: Sequence[Lazy]) -> list[Lazy]:
        """The results of a loop."""
        raise UnsupportedError(f"{op.location}: a loop is a kernel of one function")

    def memory(self, tensor: Any, element: Element) -> Stored:
        """A result of `generic` as a value."""
        raise NotImplementedError

    def empty(self, shape: Sequence[Number], element: Element) -> Any:
        """A tensor whose elements are not set."""
        raise NotImplementedError

    def filled(self, shape: Sequence[Number], element: Element, value: float | int) -> Any:
        """A tensor whose every element is a number of the computed type of `element`."""
        raise NotImplementedError

    def scalar(self, element: Element, value: float | int | bool) -> ir.Value:
        """A constant, as memory holds it."""
        return number(Arithmetic(), element, value)

    def computed(
        self,
        shape: Sequence[Number],
        element: Element,
        rule: Callable[[Body, tuple[Index, ...]], ir.Value],
        cost: int,
    ) -> Computed:
        return Computed(shape, element, rule, cost)

    def result_of(
        self, op: ir.OpView, rule: Callable[[Body, tuple[Index, ...]], ir.Value], cost: int
    ) -> Computed:
        """The first result of an op, computed by `rule`, with the op's result type."""
        type_ = op.results[0].type
        return Computed(sizes_of(type_), element_of(type_), rule, cost)

    def constant_tensor(self, value: ir.DenseElementsAttr, element: Element) -> Stored:
        """A tensor of known elements of an mgx element type."""
        raise NotImplementedError


__all__ = [
    "Body",
    "Kernel",
    "Lazy",
    "Stored",
    "lowered_ops",
    "lowering_of",
    "lowers",
]
