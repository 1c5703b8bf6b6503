"""Makes mgx ops from Python values, with the broadcasts and conversions that ONNX implies.

All functions insert at the current insertion point, with the current location.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import tensors
from mgx_mlir.importer.tensors import Dim
from mgx_mlir.sizes.arithmetic import Size, exact, symbols

Binary = Callable[[ir.Value, ir.Value], ir.Value]
Number = float | int | bool


def numpy_type(x: ir.Value) -> np.dtype:
    """The element type of x, as numpy's."""
    dtype: np.dtype = mgx.numpy_dtype(x.type)
    return dtype


def counted(size: Dim) -> ir.Value:
    """0, 1, 2, ... as i64, as many as a size says."""
    if isinstance(size, int):
        return mgx.constant(np.arange(size))
    ones = filled(np.ones((), np.int64), [size])
    return mgx.prefix_scan_sum(ones, 0, exclusive=True)


def amount(number: int | Size) -> ir.Value:
    """A size as an i64 scalar."""
    if isinstance(number, int):
        return mgx.constant(number, np.int64)
    return size_of(filled(np.zeros((), np.int64), tensors.named([number])), 0)


def size_of(x: ir.Value, axis: int) -> ir.Value:
    """The size of one dimension, as an i64 scalar."""
    size = tensors.dims(x)[axis]
    if isinstance(size, int):
        return mgx.constant(size, np.int64)
    return reshape(mgx.dimensions_of(x, axis, axis + 1), [])


def like(x: ir.Value, number: Number | np.generic) -> ir.Value:
    """A tensor of x's type whose elements are all `number`."""
    scalar = np.asarray(number).astype(numpy_type(x))
    return filled(scalar, tensors.dims(x))


def filled(scalar: np.ndarray, sizes: Sequence[Dim]) -> ir.Value:
    """A tensor of those sizes that repeats a scalar."""
    known = [s for s in sizes if isinstance(s, int)]
    if len(known) == len(sizes):
        return mgx.constant(np.broadcast_to(scalar, known))
    return broadcast(mgx.constant(scalar), sizes)


def broadcast(x: ir.Value, sizes: Sequence[Dim]) -> ir.Value:
    """x repeated to those sizes, by numpy's rule."""
    have = tensors.dims(x)
    if have == tuple(sizes):
        return x
    pairs = zip(reversed(have), reversed(sizes), strict=False)
    if len(have) > len(sizes) or any(
        a not in (1, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)
    ):
        raise ModelError(f"a tensor {tensors.show(have)} cannot be repeated to {list(sizes)}")
    for one, other in zip(reversed(have), reversed(sizes), strict=False):
        if one != 1:
            tensors.require_equal([one], [other])
    splat = _splat(x)
    if splat is not None and all(isinstance(s, int) for s in sizes):
        return filled(splat, sizes)
    return mgx.multibroadcast(x, tensors.tensor_type(tensors.element(x), sizes))


def broadcast_together(*values: ir.Value) -> list[ir.Value]:
    """The values, broadcast to one shape."""
    sizes = tensors.broadcast_dims(*(tensors.dims(v) for v in values))
    return [broadcast(v, sizes) for v in values]


def along(x: ir.Value, vector: ir.Value, axis: int) -> ir.Value:
    """A vector, or scalar, repeated so that it runs along an axis of x."""
    sizes = tensors.dims(x)
    if tensors.rank(vector) == 0:
        return broadcast(vector, sizes)
    (size,) = tensors.dims(vector) if tensors.rank(vector) == 1 else (-1,)
    if isinstance(size, int) and isinstance(sizes[axis], int) and size != sizes[axis]:
        raise ModelError(
            f"a tensor {tensors.show(tensors.dims(vector))} where one element for each of the "
            f"{sizes[axis]} along axis {axis} belongs"
        )
    tensors.require_equal([size], [sizes[axis]])
    splat = _splat(vector)
    if splat is not None:
        return filled(splat, sizes)
    return mgx.broadcast(vector, sizes, axis)


def binary(op: Binary, a: ir.Value, b: ir.Value | Number) -> ir.Value:
    """`op` on a and b, broadcast to one shape; a number becomes a tensor like a."""
    if isinstance(b, ir.Value):
        return op(*broadcast_together(*in_one_type(a, b)))
    return op(a, like(a, b))


def in_one_type(*values: ir.Value) -> list[ir.Value]:
    """The values in the widest type among them: all are integers, or all are floats.

    Raises ModelError where they are not.
    """
    types = {numpy_type(v) for v in values}
    if len(types) == 1:
        return list(values)
    if len({tensors.is_float(v) for v in values}) > 1 or np.dtype(bool) in types:
        shown = " and ".join(dict.fromkeys(tensors.element_name(v) for v in values))
        raise ModelError(f"operands of {shown}")
    widest = max(values, key=lambda v: (numpy_type(v).itemsize, numpy_type(v).kind == "i"))
    return [convert(v, tensors.element(widest)) for v in values]


def add(a: ir.Value, b: ir.Value | Number) -> ir.Value:
    """a + b"""
    return binary(mgx.add, a, b)


def sub(a: ir.Value, b: ir.Value | Number) -> ir.Value:
    """a - b"""
    return binary(mgx.sub, a, b)


def mul(a: ir.Value, b: ir.Value | Number) -> ir.Value:
    """a * b"""
    return binary(mgx.mul, a, b)


def div(a: ir.Value, b: ir.Value | Number) -> ir.Value:
    """a / b"""
    return binary(mgx.div, a, b)


def where(condition: ir.Value, a: ir.Value | Number, b: ir.Value | Number) -> ir.Value:
    """a where the condition holds, else b; one of them is a tensor."""
    if not isinstance(a, ir.Value):
        assert isinstance(b, ir.Value)
        a = like(b, a)
    if not isinstance(b, ir.Value):
        b = like(a, b)
    return mgx.where(*broadcast_together(condition, a, b))


def clip(x: ir.Value, low: Number, high: Number) -> ir.Value:
    """x bounded below and above."""
    return mgx.clip(x, like(x, low), like(x, high))


def convert(x: ir.Value, element: ir.Type | str, saturate: bool = True) -> ir.Value:
    """x in another element type."""
    if isinstance(element, str):
        element = ir.Type.parse(element)
    if tensors.element(x) == element:
        return x
    return mgx.convert(x, element, saturate=saturate)


def to_float(x: ir.Value) -> ir.Value:
    """x, as f32 where it is not a float."""
    return x if tensors.is_float(x) else convert(x, "f32")


def widened(x: ir.Value) -> ir.Value:
    """x, as f32 where it is a narrower float: squares and sums overflow there, and round away."""
    return convert(x, "f32") if tensors.is_float(x) and numpy_type(x).itemsize < 4 else x


def reshape(x: ir.Value, sizes: Sequence[Dim]) -> ir.Value:
    """x in another shape."""
    have = tensors.dims(x)
    if have == tuple(sizes):
        return x
    _require_as_many(have, sizes)
    if _elements(have) not in (None, _elements(sizes)) and _elements(sizes) is not None:
        raise ModelError(f"a tensor {tensors.show(have)} cannot have the shape {list(sizes)}")
    return mgx.reshape(x, tensors.tensor_type(tensors.element(x), sizes))


def reshape_to(x: ir.Value, *sizes: int | Size) -> ir.Value:
    """x in a shape of sizes, which may be formulas."""
    return reshape(x, tensors.named(sizes))


def _require_as_many(have: Sequence[Dim], wanted: Sequence[Dim]) -> None:
    """Raises UnequalError where one symbol's size decides whether there are as many elements."""
    products = [_product(sizes) for sizes in (have, wanted)]
    for one, other in (products, products[::-1]):
        if not isinstance(one, Size) or not isinstance(other, int):
            continue
        for symbol in symbols(one):
            each = exact(one, Size.of(symbol))
            if isinstance(each, int) and other % each == 0:
                raise tensors.UnequalError(
                    (str(symbol), other // each),
                    f"whether {tensors.show(have)} and {tensors.show(wanted)} have as many "
                    "elements is not known",
                )


def _product(sizes: Sequence[Dim]) -> Size | int | None:
    total: Size | int = 1
    for dim in sizes:
        size = tensors.size(dim)
        if size is None:
            return None
        total = total * size
    return total


def _elements(sizes: Sequence[Dim]) -> int | None:
    known = [d for d in sizes if isinstance(d, int)]
    return math.prod(known) if len(known) == len(sizes) else None


def transpose(x: ir.Value, permutation: Sequence[int]) -> ir.Value:
    """Dimension i of the result is dimension permutation[i] of x."""
    if list(permutation) == list(range(tensors.rank(x))):
        return x
    return mgx.transpose(x, list(permutation))


def squeeze(x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """x without those dimensions, of size 1."""
    return mgx.squeeze(x, sorted(axes)) if axes else x


def unsqueeze(x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """x with dimensions of size 1 at those axes of the result."""
    return mgx.unsqueeze(x, sorted(axes)) if axes else x


def take(x: ir.Value, axis: int, start: int, end: int) -> ir.Value:
    """Elements start to end (excluded) along one axis."""
    if tensors.dims(x)[axis] == end - start:
        return x
    return mgx.slice(x, axes=[axis], starts=[start], ends=[end])


def concat(values: Sequence[ir.Value], axis: int) -> ir.Value:
    """The tensors one after another along an axis."""
    first, *others = (tensors.dims(v)[:axis] + tensors.dims(v)[axis + 1 :] for v in values)
    for dims in others:
        tensors.require_equal(first, dims)
    if len(values) == 1:
        return values[0]
    parts = [tensors.size(tensors.dims(v)[axis]) for v in values]
    if None in parts or all(isinstance(n, int) for n in parts):
        return mgx.concat(list(values), axis)
    total = sum((n for n in parts if n is not None), 0)
    sizes = list(tensors.dims(values[0]))
    sizes[axis : axis + 1] = tensors.named([total])
    result = tensors.tensor_type(tensors.element(values[0]), sizes)
    return mgx.ConcatOp(list(values), axis, results=[result]).y


def stack(values: Sequence[ir.Value], axis: int) -> ir.Value:
    """The tensors along a new axis."""
    return concat([unsqueeze(v, [axis]) for v in values], axis)


def dot(a: ir.Value, b: ir.Value) -> ir.Value:
    """numpy's matmul: operands of one or more dimensions, batch dimensions broadcast."""
    if tensors.rank(a) == 0 or tensors.rank(b) == 0:
        raise UnsupportedError("a matrix product with a scalar")
    drop = []
    if tensors.rank(a) == 1:
        a = unsqueeze(a, [0])
        drop.append(-2)
    if tensors.rank(b) == 1:
        b = unsqueeze(b, [1])
        drop.append(-1)
    c = _matrix_product(a, b)
    return squeeze(c, [tensors.rank(c) + d for d in drop])


def _matrix_product(a: ir.Value, b: ir.Value) -> ir.Value:
    left, right = tensors.dims(a), tensors.dims(b)
    tensors.require_equal(left[-1:], right[-2:-1])
    if len(left) > 2 and len(right) == 2 and all(isinstance(s, int) for s in left):
        # One matrix for the whole batch: one product instead of many.
        rows = int(np.prod([s for s in left[:-1] if isinstance(s, int)], dtype=np.int64))
        flat = mgx.dot(reshape(a, (rows, left[-1])), b)
        return reshape(flat, (*left[:-1], right[-1]))
    batch = tensors.broadcast_dims(left[:-2], right[:-2])
    return mgx.dot(broadcast(a, (*batch, *left[-2:])), broadcast(b, (*batch, *right[-2:])))


def moved_to_end(x: ir.Value, axis: int) -> tuple[ir.Value, list[int]]:
    """x with one axis last, and the permutation that moves it back."""
    order = [i for i in range(tensors.rank(x)) if i != axis] + [axis]
    return transpose(x, order), [order.index(i) for i in range(len(order))]


def _splat(x: ir.Value) -> np.ndarray | None:
    """The scalar that a constant repeats; None where x is something else."""
    if not isinstance(x.owner, mgx.ConstantOp):
        return None
    array: np.ndarray = mgx.constant_array(x)
    is_splat = array.size == 1 or (array.size > 1 and is_repeated(array))
    return array.reshape(-1)[0] if is_splat else None


def is_repeated(array: np.ndarray) -> bool:
    """Whether the array is one value repeated without being stored."""
    return all(s == 0 or n == 1 for s, n in zip(array.strides, array.shape, strict=True))
