"""The layout of a kernel's values in memory: chains of view ops as strides of an input.

    %t = mgx.transpose %b permutation = [1, 0] : tensor<5x4xf32> -> tensor<4x5xf32>

is input b with dimensions of stride 1 and 4 (see mgx_mlir.rewriting.views).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlir import ir

from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting import views
from mgx_mlir.rewriting.queries import definition
from mgx_mlir.rewriting.symbolic import shape_of


@dataclass(frozen=True)
class View(views.Layout):
    """A layout of elements of type `element` of input `argument`."""

    argument: int
    element: str

    def axis(self, start: int, end: int) -> Axis:
        """Dimensions start .. end as one index in row-major order."""
        return Axis.of(*(factor for dim in self.dims[start:end] for factor in dim))

    def split(self, dim: int, outer: int) -> View | None:
        """The view with dimension `dim` as two, the first of size `outer`."""
        own = replace(self, dims=self.dims[dim : dim + 1])
        parts = own.reshaped([outer, self.shape[dim] // outer])
        return parts and replace(self, dims=(*self.dims[:dim], *parts.dims, *self.dims[dim + 1 :]))


def element_name(type_: ir.Type) -> str:
    """The name of a tensor's (or scalar's) element type, such as 'f32' or 'ui8'."""
    if isinstance(type_, ir.RankedTensorType):
        return str(type_.element_type)
    return str(type_)


def whole(argument: int, type_: ir.Type) -> View:
    """Input number `argument`, row-major."""
    return View(0, views.whole(shape_of(type_)).dims, argument, element_name(type_))


def resolve(value: ir.Value) -> View | None:
    """The view of an input that `value` is; None where it is none with fixed strides."""
    op = definition(value)
    if op is None:
        return whole(ir.BlockArgument(value).arg_number, value.type)
    if not views.is_view(op):
        return None
    view = resolve(op.operands[0])
    return view and views.apply(view, op)


def splat_constant(value: ir.Value) -> ir.Attribute | None:
    """The element of a constant whose elements are all equal, through any view ops."""
    op = definition(value)
    while views.is_view(op):
        assert op is not None
        op = definition(op.operands[0])
    if not isinstance(op, mgx.ConstantOp):
        return None
    if not isinstance(op.value, ir.DenseElementsAttr):
        return op.value
    return op.value.get_splat_value() if op.value.is_splat else None
