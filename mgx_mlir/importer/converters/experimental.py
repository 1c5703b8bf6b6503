"""Operators in ONNX's own domain that its standard does not list, and that models hold.

SimplifiedLayerNormalization is onnxruntime's; the others were in ONNX before 1.5, as experiments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError
from mgx_mlir.importer import element_types, emit, tensors
from mgx_mlir.importer.converters.normalization import root_mean_square
from mgx_mlir.importer.converters.pointwise import softplus_of
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator

_ONLY = (1, 1)


@operator("SimplifiedLayerNormalization", _ONLY, "mul reduce_mean rsqrt")
def simplified_layer_normalization(node: Node) -> Any:
    """x over its root mean square, times input 1; and 1 over the root."""
    x = node.tensor(0)
    rank = tensors.rank(x)
    axes = list(range(tensors.axis_in(int(node.attribute("axis", -1)), rank), rank))
    node.choice("stash_type", 0, 1, default=1)
    y, inverse = root_mean_square(
        emit.convert(x, "f32"), axes, float(node.attribute("epsilon", 1e-5))
    )
    return [emit.mul(emit.convert(y, tensors.element(x)), node.tensor(1)), inverse]


@operator("Affine", _ONLY, "mul add")
def affine(node: Node) -> ir.Value:
    scaled = emit.mul(node.tensor(0), node.attribute("alpha", 1.0))
    return emit.add(scaled, node.attribute("beta", 0.0))


@operator("Scale", _ONLY, "mul")
def scale(node: Node) -> ir.Value:
    return emit.mul(node.tensor(0), node.attribute("scale", 1.0))


@operator("ScaledTanh", _ONLY, "mul tanh")
def scaled_tanh(node: Node) -> ir.Value:
    inner = emit.mul(node.tensor(0), node.attribute("beta", 1.0))
    return emit.mul(mgx.tanh(inner), node.attribute("alpha", 1.0))


@operator("ParametricSoftplus", _ONLY, "mul max exp log add")
def parametric_softplus(node: Node) -> ir.Value:
    inner = emit.mul(node.tensor(0), node.attribute("beta", 1.0))
    return emit.mul(softplus_of(inner), node.attribute("alpha", 1.0))


@operator("ImageScaler", _ONLY, "mul add")
def image_scaler(node: Node) -> ir.Value:
    """x (batch, channels, height, width) times a number, plus one for each channel."""
    x = emit.mul(node.tensor(0), node.attribute("scale", 1.0))
    bias = np.array(node.required("bias"), emit.numpy_type(x))
    return mgx.add(x, emit.along(x, node.make(bias), 1))


@operator("Crop", _ONLY, "slice")
def crop(node: Node) -> ir.Value:
    """Borders left, top, right, bottom are cut, or sizes are kept from the left and top ones on."""
    x = node.tensor(0)
    height, width = tensors.static_dims(x)[2:]
    left, top, right, bottom = node.required("border")
    size = node.attribute("scale") or [height - top - bottom, width - left - right]
    if min(left, top, *size) < 0 or top + size[0] > height or left + size[1] > width:
        raise ModelError(f"a part of {list(size)} from {top}, {left} of {height} by {width}")
    return emit.take(emit.take(x, 2, top, top + size[0]), 3, left, left + size[1])


@operator("ConstantFill", _ONLY, "constant")
def constant_fill(node: Node) -> Any:
    """One number, in the shape of the attribute, of the input, or that the input holds."""
    element = element_types.of_onnx(node.attribute("dtype", 1))
    sizes, held = list(node.attribute("shape", [])), node.attribute("input_as_shape", 0)
    if node.given(0):
        sizes = node.integers(0, "shape") if held else list(tensors.static_dims(node.tensor(0)))
        sizes += node.attribute("extra_shape", [])
    value = np.array(node.attribute("value", 0.0)).astype(element.numpy)
    return np.broadcast_to(value, sizes)
