"""MIGraphX's macros: composites of operators, each computed by an operator of ONNX."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from mgx_mlir.errors import UsageError
from mgx_mlir.migraphx.by_onnx import OnnxNode
from mgx_mlir.migraphx.operators import advice, both_sides


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
    "tile": _Macro("Tile", {}, constant="repeats"),
}


class macro:
    """A composite of operators, which `module.add_macro` builds. Raises UsageError as `op`."""

    def __init__(self, name: str, **attributes: Any) -> None:
        if name not in _MACROS:
            raise UsageError(f"MIGraphX's macro '{name}' {advice(name, _MACROS)}")
        row = _MACROS[name]
        for attribute in attributes:
            if attribute not in row.renamed and attribute != row.constant:
                known = ", ".join([*row.renamed, *filter(None, [row.constant])]) or "none"
                raise UsageError(f"macro '{name}' has no attribute '{attribute}'; it has: {known}")
        self._name = name
        self.attributes = MappingProxyType(attributes)

    def name(self) -> str:
        """The macro's name."""
        return self._name

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
    return frozenset(_MACROS)
