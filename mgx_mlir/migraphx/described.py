"""An mgx op by MIGraphX's names: the way back of `operators`."""

from __future__ import annotations

import re
from typing import Any

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.migraphx.shape import type_name
from mgx_mlir.migraphx.tensors import sizes_of

_RENAMED = {
    "convolution": {"pads": "padding", "strides": "stride", "dilations": "dilation"},
    "convolution_backwards": {"pads": "padding", "strides": "stride", "dilations": "dilation"},
    "pooling": {"pads": "padding", "strides": "stride"},
    "quant_convolution": {"pads": "padding", "strides": "stride", "dilations": "dilation"},
    "resize": {"coordinate_mode": "coordinate_transformation_mode"},
}
# Ops whose attribute in MIGraphX is the shape or the element type of the result here.
_RESULT_SHAPE = {"broadcast": "out_lens", "multibroadcast": "out_lens", "reshape": "dims"}
_RESULT_TYPE = {"bit_cast": "target_type", "convert": "target_type", "quantizelinear": "out_type"}


def described(found: ir.OpView) -> tuple[str, dict[str, Any]]:
    """The name and the attributes, as Python values, that MIGraphX has for an mgx op."""
    name = found.operation.name.removeprefix("mgx.")
    renamed = _RENAMED.get(name, {})
    values = {n: _value(found.attributes[n]) for n in found.attributes}
    if name == "pad":
        values = {
            "pads": [*values["low"], *values["high"]],
            "value": values.get("value", 0.0),
            "mode": values.get("mode", "constant"),
        }
    result = found.results[0]
    if name == "resize":
        values["sizes"] = sizes_of(result)
    if name in _RESULT_SHAPE:
        values[_RESULT_SHAPE[name]] = sizes_of(result)
    if name == "unpack":
        values["to"] = mgx.numpy_dtype(result.type).name
    if name in _RESULT_TYPE:
        values[_RESULT_TYPE[name]] = type_name(mgx.numpy_dtype(result.type))
    return name, {renamed.get(n, n): value for n, value in values.items()}


def _value(attribute: ir.Attribute) -> Any:
    if isinstance(attribute, (ir.DenseI64ArrayAttr, ir.DenseF32ArrayAttr)):
        return list(attribute)
    if isinstance(attribute, (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr, ir.StringAttr)):
        return attribute.value
    if isinstance(attribute, ir.TypeAttr):
        return type_name(mgx.numpy_dtype(attribute.value))
    # An enum's text is #mgx<pooling_mode max>.
    return re.findall(r"\w+", str(attribute))[-1]
