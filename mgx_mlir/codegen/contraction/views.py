"""Where a value of a kernel lies in memory: chains of view ops as strides of an input.

    %t = mgx.transpose %b permutation = [1, 0] : tensor<5x4xf32> -> tensor<4x5xf32>

is input b with dimensions of stride 1 and 4. A reshape may split a dimension, or give a
dimension that moves through memory in several strides: each is a list of factors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from mgx_mlir.codegen.contraction.problem import Axis

# (size, stride) of one dimension, slowest first.
Factors = tuple[tuple[int, int], ...]

RESHAPES = frozenset(
    ("mgx.reshape", "mgx.squeeze", "mgx.unsqueeze", "mgx.flatten", "mgx.identity", "mgx.contiguous")
)


@dataclass(frozen=True)
class View:
    """A tensor of `element` whose element [0, ...] is element `offset` of input `argument`."""

    argument: int
    element: str
    offset: int
    dims: tuple[Factors, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(math.prod(size for size, _ in dim) for dim in self.dims)

    def axis(self, start: int, end: int) -> Axis:
        """Dimensions start .. end as one index in row-major order."""
        return Axis.of(*(factor for dim in self.dims[start:end] for factor in dim))

    def split(self, dim: int, outer: int) -> View | None:
        """The view with dimension `dim` as two, the first of size `outer`."""
        shape = list(self.shape)
        shape[dim : dim + 1] = [outer, shape[dim] // outer]
        return reshaped(self, shape)


def element_name(type_: ir.Type) -> str:
    """The name of a tensor's (or scalar's) element type, such as 'f32' or 'ui8'."""
    if isinstance(type_, ir.RankedTensorType):
        return str(type_.element_type)
    return str(type_)


def whole(argument: int, type_: ir.Type) -> View:
    """Input number `argument`, row-major."""
    shape = tuple(type_.shape)
    strides = row_major(shape)
    dims = tuple(((size, stride),) for size, stride in zip(shape, strides, strict=True))
    return View(argument, element_name(type_), 0, dims)


def row_major(shape: Sequence[int]) -> list[int]:
    strides = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * shape[i + 1]
    return strides


def resolve(value: ir.Value) -> View | None:
    """The view of an input that `value` is; None where it is not one with fixed strides."""
    if isinstance(value.owner, ir.Block):
        return whole(ir.BlockArgument(value).arg_number, value.type)
    op = value.owner
    name = op.name
    if name in RESHAPES:
        view = resolve(op.operands[0])
        return view and reshaped(view, value.type.shape)
    if name not in _VIEWS:
        return None
    view = resolve(op.operands[0])
    return view and _VIEWS[name](view, op.opview, tuple(value.type.shape))


def splat_constant(value: ir.Value) -> ir.Attribute | None:
    """The element of a constant whose elements are all equal, through any view ops."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner
        if op.name == "mgx.constant":
            attribute = op.attributes["value"]
            if not isinstance(attribute, ir.DenseElementsAttr):
                return attribute
            return attribute.get_splat_value() if attribute.is_splat else None
        if op.name not in RESHAPES and op.name not in _VIEWS:
            return None
        value = op.operands[0]
    return None


def reshaped(view: View, shape: Sequence[int]) -> View | None:
    """The elements in row-major order in another shape; None where that needs a copy."""
    rest = [factor for dim in view.dims for factor in dim if factor[0] != 1]
    dims: list[Factors] = []
    for size in shape:
        dim: list[tuple[int, int]] = []
        while size > 1:
            if not rest:
                return None
            have, stride = rest.pop(0)
            if size % have == 0:
                dim.append((have, stride))
                size //= have
            elif have % size == 0:
                dim.append((size, stride * (have // size)))
                rest.insert(0, (have // size, stride))
                size = 1
            else:
                return None
        dims.append(tuple(dim) or ((size, 0),))
    return View(view.argument, view.element, view.offset, tuple(dims))


def _integers(op: ir.OpView, name: str) -> list[int]:
    return list(ir.DenseI64ArrayAttr(op.attributes[name]))


def _transpose(view: View, op: ir.OpView, _: tuple[int, ...]) -> View | None:
    dims = tuple(view.dims[i] for i in _integers(op, "permutation"))
    return View(view.argument, view.element, view.offset, dims)


def _multibroadcast(view: View, op: ir.OpView, shape: tuple[int, ...]) -> View | None:
    return _expand(view, shape, len(shape) - len(view.dims))


def _broadcast(view: View, op: ir.OpView, shape: tuple[int, ...]) -> View | None:
    return _expand(view, shape, ir.IntegerAttr(op.attributes["axis"]).value)


def _expand(view: View, shape: tuple[int, ...], at: int) -> View:
    """The view's dimensions from dimension `at` of `shape`, repeated where sizes differ."""
    dims: list[Factors] = [((size, 0),) for size in shape]
    for i, (have, dim) in enumerate(zip(view.shape, view.dims, strict=True)):
        if have == shape[at + i]:
            dims[at + i] = dim
    return View(view.argument, view.element, view.offset, tuple(dims))


def _slice(view: View, op: ir.OpView, _: tuple[int, ...]) -> View | None:
    offset, dims, sizes = view.offset, list(view.dims), view.shape
    for axis, start, end in zip(
        _integers(op, "axes"), _integers(op, "starts"), _integers(op, "ends"), strict=True
    ):
        if start == 0 and end == sizes[axis]:
            continue
        if len(dims[axis]) != 1:
            return None
        stride = dims[axis][0][1]
        offset += start * stride
        dims[axis] = ((end - start, stride),)
    return View(view.argument, view.element, offset, tuple(dims))


def _step(view: View, op: ir.OpView, _: tuple[int, ...]) -> View | None:
    dims = list(view.dims)
    for axis, step in zip(_integers(op, "axes"), _integers(op, "steps"), strict=True):
        if len(dims[axis]) != 1:
            return None
        size, stride = dims[axis][0]
        dims[axis] = ((-(-size // step), stride * step),)
    return View(view.argument, view.element, view.offset, tuple(dims))


def _reverse(view: View, op: ir.OpView, _: tuple[int, ...]) -> View | None:
    offset, dims = view.offset, list(view.dims)
    for axis in _integers(op, "axes"):
        offset += sum((size - 1) * stride for size, stride in dims[axis])
        dims[axis] = tuple((size, -stride) for size, stride in dims[axis])
    return View(view.argument, view.element, offset, tuple(dims))


_VIEWS = {
    "mgx.broadcast": _broadcast,
    "mgx.multibroadcast": _multibroadcast,
    "mgx.reverse": _reverse,
    "mgx.slice": _slice,
    "mgx.step": _step,
    "mgx.transpose": _transpose,
}
