"""mgx-bind-dims: dimensions that have one size become static."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UsageError
from mgx_mlir.rewriting.graph import (
    main_function,
    required_numbers,
    set_required_numbers,
    set_signature,
)
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import blocks, element_type, shape, slice_bounds
from mgx_mlir.rewriting.symbolic import OPEN_END, named_symbols, sizes_of, tensor_type
from mgx_mlir.sizes.arithmetic import Number, substitute
from mgx_mlir.sizes.parser import parse


@dataclass(frozen=True)
class BindDims(Pass):
    """Gives dimensions the sizes of the option; without it, those whose bounds leave one size.

    Before (sizes=batch:4):  %y = mgx.relu %x : tensor<?x3xf32, #mgx.dims<[batch : 1 ... 8, _]>>
    After:                   %y = mgx.relu %x : tensor<4x3xf32>

    Dimensions named by a formula of these follow. `mgx-simplify-dyn-ops` has named all.
    """

    sizes: tuple[str, ...] = ()

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-bind-dims"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        main = main_function(module)
        found = list(blocks(main))
        known = named_symbols(a.type for block in found for a in block.arguments)
        bound: dict[str, Number] = {
            name: symbol.low for name, symbol in known.items() if symbol.low == symbol.high
        }
        for entry in self.sizes:
            name, _, size = entry.rpartition(":")
            if not size.isdecimal():
                raise UsageError(f"{self.name}: '{entry}' is not a dimension's name, ':', its size")
            bound[name] = int(size)
        if not bound:
            return
        for block in found:
            for value in (*block.arguments, *_results(block)):
                sizes = [
                    None if size is None else substitute(size, bound)
                    for size in sizes_of(value.type, known)
                ]
                value.set_type(tensor_type(sizes, element_type(value)))
            for op in block.operations:
                if isinstance(op, mgx.SliceOp):
                    _state_ends(op)
        left = {text: substitute(parse(text, known), bound) for text in required_numbers(main)}
        for text, number in left.items():
            if isinstance(number, int) and number < 0:
                raise UsageError(
                    f"the program has no run with {', '.join(self.sizes)}: '{text}' is {number}, "
                    "which is out of range"
                )
        set_required_numbers(main, [str(n) for n in left.values() if not isinstance(n, int)])
        set_signature(main)


def _state_ends(op: mgx.SliceOp) -> None:
    """Gives a slice the ends that follow from the sizes of its result's type."""
    sizes, (axes, starts, ends) = shape(op.y), slice_bounds(op)
    for place, axis in enumerate(axes):
        if ends[place] == OPEN_END and sizes[axis] >= 0:
            ends[place] = starts[place] + sizes[axis]
    op.ends = ir.DenseI64ArrayAttr.get(ends)


def _results(block: ir.Block) -> list[ir.Value]:
    return [result for op in block.operations for result in op.results]
