"""Constants: numpy arrays on one side, attributes of `mgx.constant` on the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from mlir import ir

from mgx_mlir._native import _mgx, _mgx_ops_gen
from mgx_mlir.dialects.types import element_type, numpy_dtype
from mgx_mlir.elements import ELEMENTS

# Elements of less than a byte: MLIR wants the upper bits of their byte to be zero, which
# ml_dtypes leaves open.
_BITS = {row.name: row.bits for row in ELEMENTS if row.bits < 8}


def dense_attribute(array: np.ndarray, element: ir.Type | None = None) -> ir.DenseElementsAttr:
    """The array as dense elements, converted to `element` where that is given.

    An array whose elements are all one (a broadcast of one) becomes a splat.
    """
    element = element_type(array.dtype) if element is None else element
    type_ = ir.RankedTensorType.get(array.shape, element)
    if array.size > 1 and not any(array.strides):
        array = array.reshape(-1)[:1]
    raw = np.ascontiguousarray(array, numpy_dtype(element)).reshape(-1).view(np.uint8)
    bits = _BITS.get(str(element))
    if bits is not None:
        raw = raw & np.uint8((1 << bits) - 1)
    return ir.DenseElementsAttr(_mgx.dense_elements(type_, raw.tobytes()))


def constant(
    value: npt.ArrayLike,
    dtype: npt.DTypeLike | None = None,
    *,
    type: ir.Type | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value:
    """An array or a number as `mgx.constant`.

    `type` is a tensor type, which one element fills as a splat, or a scalar type, for the
    body of a pointwise op. Without it the result has the shape of `value`, and `dtype` or
    that of `value`.
    """
    if type is not None and not isinstance(type, ir.ShapedType):
        attribute = _scalar_attribute(value, type)
        return _mgx_ops_gen.ConstantOp(attribute, loc=loc, ip=ip).result
    array = np.asarray(value, dtype)
    if type is None:
        attribute = dense_attribute(array)
    else:
        shape = tuple(ir.RankedTensorType(type).shape)
        array = (
            array.reshape(shape) if array.size != 1 else np.broadcast_to(array.reshape(()), shape)
        )
        attribute = dense_attribute(array, type.element_type)
    return _mgx_ops_gen.ConstantOp(attribute, loc=loc, ip=ip).result


def splat(
    value: Any,
    type: ir.Type,
    *,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value:
    """A constant of that tensor or scalar type whose elements are all `value`.

    For a tensor with sizes that only a run knows, it is the broadcast of one element.
    """
    number = np.asarray(value).reshape(())
    if not isinstance(type, ir.RankedTensorType) or type.has_static_shape:
        return constant(number, type=type, loc=loc, ip=ip)
    one = ir.RankedTensorType.get([1] * type.rank, type.element_type)
    return _mgx_ops_gen.multibroadcast(
        type, constant(number, type=one, loc=loc, ip=ip), loc=loc, ip=ip
    )


def _scalar_attribute(value: npt.ArrayLike, type_: ir.Type) -> ir.Attribute:
    # Through the dtype, so that the number is rounded as an element of a tensor would be.
    number = np.asarray(value).reshape(()).astype(numpy_dtype(type_))
    if isinstance(type_, ir.IntegerType):
        # The binding takes the bits of a 64-bit number as a signed one.
        return ir.IntegerAttr.get(type_, int(number.view("i8") if number.itemsize == 8 else number))
    return ir.FloatAttr.get(type_, float(number))


def constant_array(op: ir.OpView | ir.Operation | ir.Value) -> np.ndarray:
    """The array of a `mgx.constant`, read-only; a splat is a broadcast of one element."""
    if isinstance(op, ir.Value):
        op = op.owner
    return attribute_array(op.operation.attributes["value"])


def attribute_array(attribute: ir.Attribute) -> np.ndarray:
    """The array of dense elements (of a number: without dimensions), read-only."""
    dtype = numpy_dtype(attribute.type)
    if not isinstance(attribute, ir.DenseElementsAttr):
        number: Any = attribute
        array = np.asarray(number.value).astype(dtype)
        array.flags.writeable = False
        return array
    shape = tuple(ir.RankedTensorType(attribute.type).shape)
    raw = np.frombuffer(_mgx.dense_bytes(attribute), np.uint8)
    array = raw.view(dtype)
    array.flags.writeable = False
    return np.broadcast_to(array.reshape(()), shape) if attribute.is_splat else array.reshape(shape)
