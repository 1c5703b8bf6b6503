"""MIGraphX's macros: composites of operators, most of them computed by an operator of ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from mlir import ir
from onnx import helper

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UsageError
from mgx_mlir.migraphx.by_onnx import OnnxNode
from mgx_mlir.migraphx.composed import rotary_embedding
from mgx_mlir.migraphx.operators import Made, advice, build, numbered, op
from mgx_mlir.migraphx.shape import dtype_of
from mgx_mlir.migraphx.tensors import as_type, rank_of, sizes_of, sizes_together
from mgx_mlir.migraphx.windows import both_sides, mode_name


@dataclass(frozen=True)
class _Macro:
    """An ONNX operator that computes a macro; `renamed` gives its names of attributes.

    `constant` is an attribute that ONNX has as its second operand, `fixed` are defaults.
    """

    operator: str
    renamed: dict[str, str]
    domain: str = ""
    fixed: tuple[tuple[str, Any], ...] = ()
    constant: str = ""


_WINDOW = {
    "paddings": "pads", "strides": "strides", "dilations": "dilations", "group": "group",
    "auto_pad": "auto_pad", "padding_mode": "padding_mode",
}  # fmt: skip
_MACROS = {
    "batchnorm": _Macro("BatchNormalization", {"epsilon": "epsilon"}),
    "celu": _Macro("Celu", {"alpha": "alpha"}),
    "clip": _Macro("Clip", {}),
    "convolution": _Macro("Conv", _WINDOW),
    "dequantizelinear": _Macro("DequantizeLinear", {"axis": "axis", "block_size": "block_size"}),
    "dot": _Macro("MatMul", {}),
    "einsum": _Macro("Einsum", {"equation": "equation"}),
    "gelu_erf": _Macro("Gelu", {}),
    "gelu_quick": _Macro("QuickGelu", {"alpha": "alpha"}, "com.microsoft", (("alpha", 1.0),)),
    "gemm": _Macro("Gemm", {n: n for n in ("alpha", "beta", "transA", "transB")}),
    "mean_variance_normalization": _Macro("MeanVarianceNormalization", {"axes": "axes"}),
    "quant_convolution": _Macro("ConvInteger", _WINDOW),
    "quant_dot": _Macro("MatMulInteger", {}),
    "quantizelinear": _Macro(
        "QuantizeLinear",
        {"axis": "axis", "block_size": "block_size", "output_type": "output_dtype"},
    ),
    "tile": _Macro("Tile", {}, constant="repeats"),
}


def _gelu_tanh(x: ir.Value, *, fast: bool = False) -> ir.Value:
    """gelu by a hyperbolic tangent; `fast` has constants of six digits."""

    def times(number: float, y: ir.Value) -> ir.Value:
        return mgx.mul(mgx.splat(number, y.type), y)

    cube = mgx.mul(mgx.mul(x, x), x)
    if fast:
        inner = mgx.add(times(0.035677, cube), times(0.797885, x))
    else:
        inner = times(math.sqrt(2 / math.pi), mgx.add(x, times(0.044715, cube)))
    return mgx.mul(times(0.5, x), mgx.add(mgx.splat(1, x.type), mgx.tanh(inner)))


def _gelu_split(x: ir.Value) -> ir.Value:
    """The first half of the last dimension times the gelu of the second."""
    axis, size = rank_of(x) - 1, sizes_of(x)[-1]
    if size % 2:
        raise ValueError(f"a last dimension of {size}, which has no halves")
    left, right = (mgx.slice(x, [axis], [at], [at + size // 2]) for at in (0, size // 2))
    half, one, root = (mgx.splat(n, right.type) for n in (0.5, 1, math.sqrt(0.5)))
    share = mgx.mul(half, mgx.add(one, mgx.erf(mgx.mul(right, root))))
    return mgx.mul(left, mgx.mul(right, share))


def _bias_uint8(x: ir.Value, bias: ir.Value, *, has_bias: bool = False) -> list[ir.Value]:
    """x and its difference from the bias, or x twice, as int8: uint8 less 128."""

    def shifted(y: ir.Value) -> ir.Value:
        wide = as_type(y, np.int16)
        return as_type(mgx.sub(wide, mgx.splat(128, wide.type)), np.int8)

    if mgx.numpy_dtype(x.type) == np.uint8:
        x, bias = shifted(x), shifted(bias) if has_bias else bias
        bias = bias if has_bias else x
    return [x, mgx.sub(x, mgx.multibroadcast(bias, sizes_of(x))) if has_bias else bias]


def _pointwise(name: str) -> Callable[..., Made]:
    def pointwise(a: ir.Value, b: ir.Value, *, broadcasted_axis: int | None = None) -> Made:
        """The tensor of fewer dimensions lies along the other's from the axis on; else as numpy."""
        if broadcasted_axis is None:
            sizes = sizes_together(sizes_of(a), sizes_of(b))
            return build(op(name), [mgx.multibroadcast(x, sizes) for x in (a, b)])
        more, fewer = (b, a) if rank_of(a) < rank_of(b) else (a, b)
        return build(op(name), [more, mgx.broadcast(fewer, sizes_of(more), broadcasted_axis)])

    return pointwise


_POINTWISE = "add bitwise_and div logical_and logical_or logical_xor mul pow prelu sqdiff sub"
COMPOSED: dict[str, Callable[..., Made]] = {
    "bias_uint8": _bias_uint8,
    "gelu_split": _gelu_split,
    "gelu_tanh": _gelu_tanh,
    "rotary_embedding": rotary_embedding,
    **{name: _pointwise(name) for name in _POINTWISE.split()},
}


class macro:
    """A composite of operators, which `module.add_macro` builds. Raises UsageError as `op`."""

    def __init__(self, name: str, **attributes: Any) -> None:
        if name not in macros():
            raise UsageError(f"MIGraphX's macro '{name}' {advice(name, macros())}")
        row = _MACROS.get(name)
        for attribute in attributes:
            if row and attribute not in row.renamed and attribute != row.constant:
                known = ", ".join([*row.renamed, *filter(None, [row.constant])]) or "none"
                raise UsageError(f"macro '{name}' has no attribute '{attribute}'; it has: {known}")
        self._name = name
        self.attributes = MappingProxyType(attributes)

    def name(self) -> str:
        """The macro's name."""
        return self._name

    def options(self) -> dict[str, Any]:
        """The attributes that were given; enums' values are numbers."""
        return {n: numbered(self._name, n, v) for n, v in self.attributes.items()}

    def __repr__(self) -> str:
        return f"macro '{self._name}'"

    def onnx(self, rank: int) -> OnnxNode:
        """The ONNX node; x has `rank` dimensions. Raises UsageError for a missing attribute."""
        row, given = _MACROS[self._name], dict(self.attributes)
        operands: list[int | np.ndarray | None] | None = None
        if row.constant:
            if row.constant not in given:
                raise UsageError(f"macro '{self._name}' needs the attribute '{row.constant}'")
            operands = [0, np.array(given.pop(row.constant), np.int64)]
        found = dict(row.fixed) | {row.renamed[name]: value for name, value in given.items()}
        if row.renamed is _WINDOW:
            found = _windowed(found, rank - 2)
        if "output_dtype" in found:
            dtype = dtype_of(found["output_dtype"])
            found["output_dtype"] = helper.np_dtype_to_tensor_dtype(dtype)
        return OnnxNode(row.operator, found, row.domain, operands=operands)


def _windowed(given: dict[str, Any], spatial: int) -> dict[str, Any]:
    """The attributes of a convolution of ONNX: padding of both sides, or a rule for it alone."""
    found = dict(given)
    rule = mode_name(found.pop("padding_mode", 0))
    if "SAME" in (given_rule := str(found.pop("auto_pad", "")).upper()):
        rule = given_rule
    pads = found.pop("pads", ())
    if rule != "default":
        return found | {"auto_pad": rule.upper()}
    return found | ({"pads": both_sides(pads, spatial)} if len(pads) else {})


def macros() -> frozenset[str]:
    """The macros there are."""
    return frozenset(_MACROS) | frozenset(COMPOSED)
