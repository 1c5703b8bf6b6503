"""Any kernel as nests of loops on flat memory; its sizes may be arguments of its functions.

A value is a rule that gives each element where it is read (`value`), over index expressions with
known ranges. Views, pointwise ops, padding, gathers only compose such rules; contractions,
reductions and the results of the kernel put values into memory, each with one nest. So the chain of
views and pointwise work around a reduction is part of its nest, with no fusion pass. The functions
that lower each op are in ops/, found by `lowers`; an op without one raises UnsupportedError.

    %y = mgx.softmax %x axis = 1 : tensor<?x?xf32, #mgx.dims<[batch, seq]>>

becomes nests that find each row's maximum, its powers, their sum and the quotients, one after
another. A target builds functions (size batch, size seq, pointers...) of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
from mlir import ir
from mlir.dialects import arith, func

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.codegen.loops.body import (
    Body,
    Held,
    Indices,
    Lazy,
    Slice,
)
from mgx_mlir.codegen.loops.nest import Combine, Nest, constant_of
from mgx_mlir.codegen.loops.place import Place, Start, Table, element_bytes, memory_type
from mgx_mlir.codegen.loops.value import Computed, Reshaped
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.by_class import ByClass
from mgx_mlir.codegen.meaning.element import BOOL, Element, element_of, sizes_of
from mgx_mlir.codegen.meaning.index import Index, index_constant
from mgx_mlir.codegen.meaning.pointwise import number as number_of
from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.constants import attribute_array, dense_attribute
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.rewriting import symbolic
from mgx_mlir.rewriting.queries import walk
from mgx_mlir.scan import import_modules
from mgx_mlir.sizes.arithmetic import Number, Size, Symbol, bounds, ceil_div, symbols

SCRATCH_ALIGNMENT = 256
_DIALECTS = ("arith", "func", "gpu", "llvm", "math", "memref", "scf", "vector")
# The highest cost of one read of a value whose elements are each read many times.
CHEAP = 8

Lowering = Callable[["Kernel", Any, Sequence[Lazy]], "Lazy | list[Lazy]"]
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
    import_modules("mgx_mlir.codegen.loops.ops")
    return lowers


class Functions(Protocol):
    """The functions of a kernel under construction."""

    def add(self, nest: Nest) -> None:
        """Adds the work of a nest, after that of the nests before it."""

    def end(self) -> None:
        """Ends what was added: the kernel has no more nests."""


class Kernel:
    """Lowers a kernel's block into functions: the values seen so far, and the nests of others."""

    def __init__(self, functions: Functions) -> None:
        self.values: dict[ir.Value, Lazy] = {}
        self._stored: dict[Lazy, Held] = {}
        self._functions = functions

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

    def results(self, values: Sequence[Lazy]) -> list[Place]:
        """The memory that the kernel returns: distinct for each value."""
        sources: list[Lazy] = []
        for value in values:
            while isinstance(value, Reshaped):
                value = value.source
            sources.append(value)
        places: list[Place] = []
        for have in self.stored_together(sources):
            if not have.owned or have.place in places:
                have = self.copied(have)
            places.append(have.place)
        return places

    def shared(self, value: ir.Value, found: Lazy) -> Lazy:
        """A result of an op as those that use it see it: where it is worth it, in memory."""
        return found

    def packed_product(self, op: ir.OpView, operands: Sequence[Lazy]) -> Lazy | None:
        """A product by weights that are packed; None of others."""
        return None

    # Putting values into memory

    def stored(self, value: Lazy) -> Held:
        return self.stored_together([value])[0]

    def settled(self, value: Lazy, cost: int = CHEAP) -> Lazy:
        """The value itself if a read of it costs no more than `cost`, else its tensor in memory."""
        return value if value.cost <= cost else self.stored(value)

    def stored_together(self, values: Sequence[Lazy]) -> list[Held]:
        """The values in memory; values of one shape are computed by one nest."""
        pending: dict[tuple[Number, ...], list[Lazy]] = {}
        for value in values:
            if not isinstance(value, Held) and value not in self._stored:
                group = pending.setdefault(value.shape, [])
                if value not in group:
                    group.append(value)
        for group in pending.values():
            self._stored.update(zip(group, self._elementwise(group), strict=True))
        return [v if isinstance(v, Held) else self._stored[v] for v in values]

    def copied(self, value: Lazy) -> Held:
        """A new tensor with the same elements."""
        return self._elementwise([value])[0]

    def _elementwise(self, group: Sequence[Lazy]) -> list[Any]:
        shape = group[0].shape
        with group[0].location:
            starts = [self.empty(shape, value.element) for value in group]
            return self.generic(
                shape, len(shape), starts, lambda body, dims: [body.at(v, dims) for v in group]
            )

    # Building blocks

    def generic(
        self,
        extents: Sequence[Number],
        parallel: int,
        starts: Sequence[Start],
        emit: Callable[[Body, Indices], Sequence[ir.Value]],
        combine: Combine | None = None,
        neighbours: bool = False,
    ) -> list[Any]:
        """Loops over `extents`, the first `parallel` of them parallel, the others reductions.

        starts: the initial elements of each result (`empty`, `filled`). emit: builds the body and
        gives the elements of the results, or, of reductions, the terms, which `combine` makes part
        of the results so far. neighbours: whether neighbours along the last parallel loop read
        neighbouring elements.
        """
        held, own = tuple(map(_held, starts)), tuple(starts) if combine else ()
        return self.added(Nest(tuple(extents), parallel, emit, held, own, combine, neighbours))

    def added(self, nest: Nest) -> list[Any]:
        """The results of a nest, whose work is added to that of the nests before it."""
        self._functions.add(nest)
        return list(nest.results)

    def rows(
        self,
        extents: Sequence[Number],
        results: Sequence[Held | Start],
        axes: Sequence[Sequence[int]],
        work: Work,
    ) -> list[Held]:
        """The results after sequential `work` on every row; rows are independent.

        extents: the number of rows along each row dimension. A result starts as `empty`, `filled`,
        or a value in memory that is the kernel's own. axes: for each result, the dimensions that
        lie inside a row; the others are the row dimensions, in order.
        """
        held = [self.started(result) for result in results]

        def emit(body: Body, row: Indices) -> Sequence[ir.Value]:
            pairs = zip(held, axes, strict=True)
            work(body, row, [Slice(one, tuple(inside), row) for one, inside in pairs])
            return ()

        self._functions.add(Nest.of(extents, emit))
        return held

    def repeat(self, op: mgx.LoopOp, operands: Sequence[Lazy]) -> list[Lazy]:
        raise UnsupportedError(f"{op.location}: a loop is a kernel of one function")

    def empty(self, shape: Sequence[Number], element: Element) -> Start:
        """A tensor whose elements are not set."""
        return Start(tuple(shape), element, None)

    def filled(self, shape: Sequence[Number], element: Element, value: float | int) -> Start:
        """A tensor whose every element is a number of the computed type of `element`."""
        return Start(tuple(shape), element.computed(), value)

    def started(self, result: Held | Start) -> Held:
        """The memory of a result, holding its initial elements."""
        if isinstance(result, Held):
            return result
        held = _held(result)
        if result.value is not None:

            def fill(body: Body, dims: Indices) -> Sequence[ir.Value]:
                return [constant_of(result)]

            self._functions.add(Nest(result.shape, len(result.shape), fill, (held,)))
        return held

    def scalar(self, element: Element, value: float | int | bool) -> ir.Value:
        """A constant, as memory holds it."""
        return number_of(Arithmetic(), element, value)

    def result_of(
        self, op: ir.OpView, rule: Callable[[Body, tuple[Index, ...]], ir.Value], cost: int
    ) -> Computed:
        """The first result of an op, computed by `rule`, with the op's result type."""
        type_ = op.results[0].type
        return Computed(sizes_of(type_), element_of(type_), rule, cost)

    def constant_tensor(self, value: ir.DenseElementsAttr, element: Element) -> Held:
        """A table in the code."""
        array = attribute_array(value).reshape(-1)
        narrow = element.is_integer and element.bits < 8
        held = memory_type(element.storage())
        if element.kind == BOOL or narrow:
            array = array.astype(np.int8)
        elif element.is_byte_float or element.is_integer:
            array = array.view(f"int{max(element.bits, 8)}")
        shape = tuple(ir.RankedTensorType(value.type).shape)
        table = Table(element.storage(), math.prod(shape), elements=dense_attribute(array, held))
        return Held(table, shape, element, owned=False)


def _held(start: Start) -> Held:
    """New memory for a result."""
    return Held(Place(start.type, math.prod(start.shape)), start.shape, start.element)


def split(item: ir.Value, extents: Sequence[Number]) -> list[ir.Value]:
    """The indices of an item of a space, from its row-major number."""
    counts: list[ir.Value] = []
    for size in reversed(extents[1:]):
        count = index_constant(size)
        counts.insert(0, arith.remui(item, count))
        item = arith.divui(item, count)
    return [item, *counts] if extents else []


def _tensors(kernel: mgx.KernelOp) -> list[ir.Type]:
    """The types of a kernel's tensors: inputs, and what its ops give, those of regions too."""
    values = [*kernel.body.blocks[0].arguments, *(x for op in walk(kernel) for x in op.results)]
    return [value.type for value in values if isinstance(value.type, ir.RankedTensorType)]


def is_symbolic(kernel: mgx.KernelOp) -> bool:
    """Whether a kernel has sizes that are known only at run time."""
    return not all(ir.RankedTensorType(type_).has_static_shape for type_ in _tensors(kernel))


def kernel_symbols(kernel: mgx.KernelOp) -> tuple[str, ...]:
    """The names of the symbols that a kernel's sizes depend on, sorted."""
    found = {
        symbol.name
        for tensor in _tensors(kernel)
        for size in symbolic.sizes_of(tensor, None)
        if size is not None
        for symbol in symbols(size)
    }
    return tuple(sorted(found))


def lower_nests(
    kernel: mgx.KernelOp,
    functions: Functions,
    state: Kernel | None = None,
    inputs: Sequence[Place] = (),
) -> list[Place]:
    """Adds the functions of an `mgx.kernel` with symbolic sizes; gives the outputs' Places.

    inputs: the Places of the last inputs, which are not those of the kernel's caller. Needs an
    active location. Raises UnsupportedError for an op that needs its sizes.
    """
    for dialect in _DIALECTS:
        kernel.context.get_dialect_descriptor(dialect)  # loads it
    block = kernel.body.blocks[0]
    state = state or Kernel(functions)
    for number, argument in enumerate(block.arguments):
        shape, element = sizes_of(argument.type), element_of(argument.type)
        place = Place(element.storage(), math.prod(shape), Argument("input", number))
        if number >= len(block.arguments) - len(inputs):
            place = inputs[number - len(block.arguments)]
        state.values[argument] = Held(place, shape, element, owned=False)
    try:
        places: list[Place] = state.results(state.lower_block(block))
    except UnsupportedError as error:
        name = kernel.sym_name.value
        raise UnsupportedError(f"kernel @{name}: {error}", error.args[1:]) from error
    for number, place in enumerate(places):
        place.argument = Argument("output", number)
    functions.end()
    return places


def launch_arguments(
    names: Sequence[str],
    used: Sequence[Sequence[Place]],
    formulas: Formulas,
    lasting: Collection[Place] = (),
) -> tuple[list[tuple[Argument, ...]], int]:
    """The arguments of functions: sizes of these names, then the places that each one uses.

    The second result is the bytes of scratch memory. Places that no two functions need at one time
    may share it, but for those that are `lasting`.
    """
    last = {place: number for number, places in enumerate(used) for place in places}
    found: dict[Place, Argument] = {}
    free: list[tuple[Number, Number]] = []  # size and offset of pieces
    held: dict[Place, tuple[Number, Number]] = {}
    end: Number = 0
    for number, places in enumerate(used):
        for place in places:
            if place in found:
                continue
            if place.argument is not None:
                found[place] = place.argument
                continue
            lines = ceil_div(place.size * element_bytes(place.type), SCRATCH_ALIGNMENT)
            size = lines * SCRATCH_ALIGNMENT
            fitting = [] if place in lasting else [piece for piece in free if piece[0] >= size]
            piece = min(fitting, key=lambda piece: bounds(piece[0])) if fitting else (size, end)
            if fitting:
                free.remove(piece)
            else:
                end = end + size
            held[place] = piece
            found[place] = Argument("scratch", formulas.number(piece[1]))
        free += [held[p] for p in places if p in held and last[p] == number and p not in lasting]
    scratch = formulas.number(end)
    sizes = [Argument("size", formulas.number(Size.of(Symbol(name)))) for name in names]
    return [(*sizes, *(found[place] for place in places)) for places in used], scratch
