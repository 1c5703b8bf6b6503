"""MIGraphX's macros: composites of operators, most of them computed by an operator of ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UsageError
from mgx_mlir.migraphx.by_onnx import OnnxNode
from mgx_mlir.migraphx.operators import Made, advice, build, op
from mgx_mlir.migraphx.tensors import as_type, rank_of, sizes_of, sizes_together
from mgx_mlir.migraphx.windows import both_sides


@dataclass(frozen=True)
class _Macro:
    """An ONNX operator that computes a macro; `renamed` gives its names of attributes.

    `constant` is an attribute that ONNX has as its second operand.
    """

    operator: str
    renamed: dict[str, str]
    domain: str = ""
    fixed: tuple[tuple[str, Any], ...] = ()
    constant: str = ""


_WINDOW = {"padding": "pads", "stride": "strides", "dilation": "dilations", "group": "group"}
_MACROS = {
    "batchnorm": _Macro("BatchNormalization", {"epsilon": "epsilon"}),
    "celu": _Macro("Celu", {"alpha": "alpha"}),
    "clip": _Macro("Clip", {}),
    "convolution": _Macro("Conv", _WINDOW),
    "dequantizelinear": _Macro("DequantizeLinear", {"axis": "axis", "block_size": "block_size"}),
    "dot": _Macro("MatMul", {}),
    "einsum": _Macro("Einsum", {"equation": "equation"}),
    "gelu_erf": _Macro("Gelu", {}),
    "gelu_quick": _Macro("QuickGelu", {"alpha": "alpha"}, "com.microsoft"),
    "gelu_tanh": _Macro("Gelu", {}, fixed=(("approximate", "tanh"),)),
    "gemm": _Macro("Gemm", {n: n for n in ("alpha", "beta", "transA", "transB")}),
    "mean_variance_normalization": _Macro("MeanVarianceNormalization", {"axes": "axes"}),
    "quant_dot": _Macro("MatMulInteger", {}),
    "quantizelinear": _Macro("QuantizeLinear", {"axis": "axis", "block_size": "block_size"}),
    "rotary_embedding": _Macro("RotaryEmbedding", {"interleaved": "interleaved"}, "com.microsoft"),
    "tile": _Macro("Tile", {}, constant="repeats"),
}


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
        if "pads" in found:
            found["pads"] = both_sides(found["pads"], rank - 2)
        return OnnxNode(row.operator, found, row.domain, operands=operands)


def macros() -> frozenset[str]:
    """The macros there are."""
    return frozenset(_MACROS) | frozenset(COMPOSED)
