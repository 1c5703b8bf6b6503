"""Any kernel as nests of loops on flat memory; its sizes may be arguments of its functions.

A tensor is one nest over its elements, a reduction is a loop in that nest (see codegen.generic.
lowering). An op that has no such form raises UnsupportedError.

    %y = mgx.softmax %x axis = 1 : tensor<?x?xf32, #mgx.dims<[batch, seq]>>

becomes nests that find each row's maximum, its powers, their sum and the quotients, one after
another. A target builds functions (size batch, size seq, pointers...) of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

import numpy as np
from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.codegen.loops.body import (
    FunctionBody,
    Held,
    Place,
    Slice,
    Start,
    Table,
    element_bytes,
    memory_type,
)
from mgx_mlir.codegen.loops.nest import Nest, constant_of
from mgx_mlir.codegen.meaning.body import Indices
from mgx_mlir.codegen.meaning.element import BOOL, Element, element_of, sizes_of
from mgx_mlir.codegen.meaning.index import Index, index_constant
from mgx_mlir.codegen.meaning.kernel import Combine, Kernel, Work
from mgx_mlir.codegen.meaning.value import Stored
from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.constants import attribute_array, dense_attribute
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.rewriting import symbolic
from mgx_mlir.sizes.arithmetic import Number, Size, Symbol, bounds, ceil_div, symbols

SCRATCH_ALIGNMENT = 256
_DIALECTS = ("arith", "func", "gpu", "llvm", "math", "memref", "scf", "vector")


class Functions(Protocol):
    """The functions of a kernel under construction."""

    def add(self, nest: Nest) -> None:
        """Adds the work of a nest, after that of the nests before it."""

    def end(self) -> None:
        """Ends what was added: the kernel has no more nests."""


class NestKernel(Kernel):
    """Lowers a kernel's block into functions."""

    def __init__(self, functions: Functions) -> None:
        super().__init__()
        self._functions = functions

    def generic(
        self,
        extents: Sequence[Number],
        parallel: int,
        inits: Sequence[tuple[Any, Sequence[int]]],
        emit: Callable[[Any, tuple[Index, ...]], Sequence[ir.Value]],
        combine: Combine | None = None,
        neighbours: bool = False,
    ) -> list[Any]:
        held = tuple(
            Held(Place(start.type, math.prod(start.shape)), start.shape, element_of(start.type))
            for start, _ in inits
        )
        starts = tuple(start for start, _ in inits) if combine else ()
        nest = Nest(tuple(extents), parallel, emit, held, starts, combine, neighbours)
        self._functions.add(nest)
        return list(held)

    def memory(self, tensor: Any, element: Element) -> Stored:
        return Held(tensor.value, tensor.shape, element)

    def empty(self, shape: Sequence[Number], element: Element) -> Any:
        return Start(tuple(shape), element.storage(), None)

    def filled(self, shape: Sequence[Number], element: Element, value: float | int) -> Any:
        return Start(tuple(shape), element.computed().storage(), value)

    def rows(
        self,
        extents: Sequence[Number],
        results: Sequence[Any],
        axes: Sequence[Sequence[int]],
        work: Work,
    ) -> list[Any]:
        held = [self._started(result) for result in results]

        def emit(body: FunctionBody, row: Indices) -> Sequence[ir.Value]:
            pairs = zip(held, axes, strict=True)
            work(body, row, [Slice(one, tuple(inside), row) for one, inside in pairs])
            return ()

        self._functions.add(Nest.of(extents, emit))
        return held

    def _started(self, result: Held | Start) -> Held:
        """The memory of a result, holding its initial elements."""
        if isinstance(result, Held):
            return result
        shape, type_ = result.shape, result.type
        held = Held(Place(type_, math.prod(shape)), shape, element_of(type_))
        if result.value is not None:

            def fill(body: FunctionBody, dims: Indices) -> Sequence[ir.Value]:
                return [constant_of(result)]

            self._functions.add(Nest(shape, len(shape), fill, (held,)))
        return held

    def constant_tensor(self, value: ir.DenseElementsAttr, element: Element) -> Stored:
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


def split(item: ir.Value, extents: Sequence[Number]) -> list[ir.Value]:
    """The indices of an item of a space, from its row-major number."""
    counts: list[ir.Value] = []
    for size in reversed(extents[1:]):
        count = index_constant(size)
        counts.insert(0, arith.remui(item, count))
        item = arith.divui(item, count)
    return [item, *counts] if extents else []


def _tensors(kernel: mgx.KernelOp) -> list[ir.Type]:
    """The types of a kernel's inputs, and of what its ops give: its results and others."""
    block = kernel.body.blocks[0]
    values = [*block.arguments, *(value for op in block.operations for value in op.results)]
    return [value.type for value in values]


def is_symbolic(kernel: mgx.KernelOp) -> bool:
    """Whether a kernel has sizes that are known only at run time."""
    return not all(ir.RankedTensorType(type_).has_static_shape for type_ in _tensors(kernel))


def kernel_symbols(kernel: mgx.KernelOp) -> tuple[str, ...]:
    """The names of the symbols that a kernel's sizes depend on, sorted."""
    found = {
        symbol.name
        for tensor in _tensors(kernel)
        for size in symbolic.sizes_of(tensor, {})
        if size is not None
        for symbol in symbols(size)
    }
    return tuple(sorted(found))


def lower_nests(
    kernel: mgx.KernelOp,
    functions: Functions,
    state: NestKernel | None = None,
    inputs: Sequence[Place] = (),
) -> list[Place]:
    """Adds the functions of an `mgx.kernel` with symbolic sizes; gives the outputs' Places.

    inputs: the Places of the last inputs, which are not those of the kernel's caller. Needs an
    active location. Raises UnsupportedError for an op that needs its sizes.
    """
    for dialect in _DIALECTS:
        kernel.context.get_dialect_descriptor(dialect)  # loads it
    block = kernel.body.blocks[0]
    state = state or NestKernel(functions)
    for number, argument in enumerate(block.arguments):
        shape, element = sizes_of(argument.type), element_of(argument.type)
        place = Place(element.storage(), math.prod(shape), Argument("input", number))
        if number >= len(block.arguments) - len(inputs):
            place = inputs[number - len(block.arguments)]
        state.values[argument] = Held(place, shape, element, owned=False)
    try:
        places: list[Any] = list(state.results(state.lower_block(block)))
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
