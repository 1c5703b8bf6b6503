"""Any kernel with symbolic sizes, as functions that get the sizes as arguments.

The lowering of static kernels gives each element. Here its loops are built directly on flat
memory, and not as linalg ops: a tensor is one function over its elements, a reduction is a loop
in that function. An op that has no such form raises UnsupportedError.

    %y = mgx.softmax %x axis = 1 : tensor<?x?xf32, #mgx.dims<[batch, seq]>>

becomes functions (size batch, size seq, pointers...) that find each row's maximum, its
powers, their sum and the quotients, one after another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.codegen.generic.dynamic.body import (
    FunctionBody,
    Functions,
    Held,
    Place,
    Slice,
    Start,
    element_bytes,
)
from mgx_mlir.codegen.generic.lowering.arithmetic import Arithmetic
from mgx_mlir.codegen.generic.lowering.body import Indices
from mgx_mlir.codegen.generic.lowering.element import Element, element_of, sizes_of
from mgx_mlir.codegen.generic.lowering.index import Index, index_constant, linear
from mgx_mlir.codegen.generic.lowering.kernel import Kernel
from mgx_mlir.codegen.generic.lowering.rows import Work
from mgx_mlir.codegen.generic.lowering.value import Stored
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.rewriting import symbolic
from mgx_mlir.sizes.arithmetic import Number, Size, Symbol, ceil_div, symbols

SCRATCH_ALIGNMENT = 256
_DIALECTS = ("arith", "func", "gpu", "llvm", "math", "memref", "scf")


class DynamicKernel(Kernel):
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
        neighbours: bool = False,
    ) -> list[Any]:
        held = [
            Held(Place(start.type, math.prod(start.shape)), start.shape, element_of(start.type))
            for start, _ in inits
        ]

        reduces = parallel < len(extents)

        def build(body: FunctionBody, elements: Sequence[Indices]) -> None:
            if reduces:
                starts = [[constant_of(start) for start, _ in inits] for _ in elements]
                values = body.reduce(
                    extents[parallel:],
                    starts,
                    lambda number, inner: emit(body, (*elements[number], *inner)),
                )
            else:
                values = [list(emit(body, dims)) for dims in elements]
            for dims, own in zip(elements, values, strict=True):
                for value, result, (_, axes) in zip(own, held, inits, strict=True):
                    body.put(value, result.value, linear([dims[d] for d in axes], result.shape))

        self._functions.add(extents[:parallel], build, reduces and neighbours)
        return held

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

        def build(body: FunctionBody, elements: Sequence[Indices]) -> None:
            for row in elements:
                pairs = zip(held, axes, strict=True)
                work(body, row, [Slice(one, tuple(inside), row) for one, inside in pairs])

        self._functions.add(extents, build, False)
        return held

    def _started(self, result: Held | Start) -> Held:
        """The memory of a result, holding its initial elements."""
        if isinstance(result, Held):
            return result
        shape, type_ = result.shape, result.type
        held = Held(Place(type_, math.prod(shape)), shape, element_of(type_))
        if result.value is not None:

            def build(body: FunctionBody, elements: Sequence[Indices]) -> None:
                for dims in elements:
                    body.put(constant_of(result), held.value, linear(dims, shape))

            self._functions.add(shape, build, False)
        return held

    def constant_tensor(self, value: ir.DenseElementsAttr, element: Element) -> Stored:
        raise UnsupportedError("a table of constants has no form beside sizes that a run knows")


def constant_of(start: Start) -> ir.Value:
    """The number that a result's elements start from."""
    assert start.value is not None
    return Arithmetic().constant(start.value, start.type)


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


def is_dynamic(kernel: mgx.KernelOp) -> bool:
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


def lower_dynamic(
    kernel: mgx.KernelOp, functions: Functions, state: DynamicKernel | None = None
) -> list[Place]:
    """Adds the functions of an `mgx.kernel` with symbolic sizes; gives the outputs' Places.

    Needs an active location. Raises UnsupportedError for an op that needs its sizes.
    """
    for dialect in _DIALECTS:
        kernel.context.get_dialect_descriptor(dialect)  # loads it
    block = kernel.body.blocks[0]
    state = state or DynamicKernel(functions)
    for number, argument in enumerate(block.arguments):
        shape, element = sizes_of(argument.type), element_of(argument.type)
        place = Place(element.storage(), math.prod(shape), Argument("input", number))
        state.values[argument] = Held(place, shape, element, owned=False)
    try:
        places: list[Any] = list(state.results(state.lower_block(block)))
    except UnsupportedError as error:
        name = kernel.sym_name.value
        raise UnsupportedError(f"kernel @{name}: {error}", error.args[1:]) from error
    for number, place in enumerate(places):
        place.argument = Argument("output", number)
    return places


def launch_arguments(
    names: Sequence[str], used: Sequence[Sequence[Place]], formulas: Formulas
) -> tuple[list[tuple[Argument, ...]], int]:
    """The arguments of functions: sizes of these names, then the places that each one uses.

    Scratch pieces lie one after another; the second result is the bytes of all.
    """
    found: dict[Place, Argument] = {}
    offset: Number = 0
    for place in dict.fromkeys(place for places in used for place in places):
        found[place] = place.argument or Argument("scratch", formulas.number(offset))
        if place.argument is None:
            lines = ceil_div(place.size * element_bytes(place.type), SCRATCH_ALIGNMENT)
            offset = offset + lines * SCRATCH_ALIGNMENT
    scratch = formulas.number(offset)
    sizes = [Argument("size", formulas.number(Size.of(Symbol(name)))) for name in names]
    return [(*sizes, *(found[place] for place in places)) for places in used], scratch
