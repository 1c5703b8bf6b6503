"""MIGraphX's macros: composites of operators, each computed by an operator of ONNX."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mgx_mlir.errors import UsageError
from mgx_mlir.migraphx.operators import advice, both_sides


@dataclass(frozen=True)
class _Macro:
    """An ONNX operator that computes a macro; `renamed` gives its names of attributes."""

    operator: str
    renamed: dict[str, str]
    domain: str = ""
    fixed: tuple[tuple[str, Any], ...] = ()


_WINDOW = {"padding": "pads", "stride": "strides", "dilation": "dilations", "group": "group"}
_MACROS = {
    "batchnorm": _Macro("BatchNormalization", {"epsilon": "epsilon"}),
    "celu": _Macro("Celu", {"alpha": "alpha"}),
    "clip": _Macro("Clip", {}),
    "convolution": _Macro("Conv", _WINDOW),
    "dot": _Macro("MatMul", {}),
    "einsum": _Macro("Einsum", {"equation": "equation"}),
    "gelu_erf": _Macro("Gelu", {}),
    "gelu_quick": _Macro("QuickGelu", {"alpha": "alpha"}, "com.microsoft"),
    "gelu_tanh": _Macro("Gelu", {}, fixed=(("approximate", "tanh"),)),
    "gemm": _Macro("Gemm", {n: n for n in ("alpha", "beta", "transA", "transB")}),
    "mean_variance_normalization": _Macro("MeanVarianceNormalization", {"axes": "axes"}),
    "quant_dot": _Macro("MatMulInteger", {}),
}


class macro:
    """A composite of operators, which `module.add_macro` builds. Raises UsageError as `op`."""

    def __init__(self, name: str, **attributes: Any) -> None:
        if name not in _MACROS:
            raise UsageError(f"MIGraphX's macro '{name}' {advice(name, _MACROS)}")
        row = _MACROS[name]
        for attribute in attributes:
            if attribute not in row.renamed:
                known = ", ".join(row.renamed) or "none"
                raise UsageError(f"macro '{name}' has no attribute '{attribute}'; it has: {known}")
        self._name = name
        self.attributes = MappingProxyType(attributes)

    def name(self) -> str:
        """The macro's name."""
        return self._name

    def onnx(self, rank: int) -> tuple[str, str, dict[str, Any]]:
        """The domain, the name and the attributes of the ONNX operator; x has `rank` dimensions."""
        row = _MACROS[self._name]
        found = dict(row.fixed)
        for name, value in self.attributes.items():
            found[row.renamed[name]] = value
        if "pads" in found:
            found["pads"] = both_sides(found["pads"], rank - 2)
        return row.domain, row.operator, found


def macros() -> frozenset[str]:
    """The macros there are."""
    return frozenset(_MACROS)
