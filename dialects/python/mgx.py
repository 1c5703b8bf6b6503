"""The ops of mgx: a function for each, by its name in the dialect, returning its results.

    y = mgx.convolution(x, w, pads=1)
    y = mgx.relu(mgx.add(y, mgx.multibroadcast(bias, [1, 64, 56, 56])))

The functions build at the current insertion point and location, or at `ip` and `loc`.
Result types are inferred. An axis may be negative: it counts from the end. Raises
MLIRError where operands or attributes do not fit, with the message of the op's verifier.
The op classes (`AddOp`, ...) are here too, for matching and for building by hand.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mlir import ir

from mgx_mlir._native import _mgx, _mgx_enum_gen, _mgx_ops_gen
from mgx_mlir._native._mgx import ArchAttr, DimAttr, DimsAttr
from mgx_mlir.dialects import builders as _builders
from mgx_mlir.dialects import regions as _regions
from mgx_mlir.dialects.constants import (
    attribute_array,
    constant,
    constant_array,
    dense_attribute,
    splat,
)
from mgx_mlir.dialects.groups import (
    BROADCASTS,
    COMMUTATIVE,
    CONTRACTIONS,
    CONTROL_FLOW,
    CONVOLUTIONS,
    COSTLY,
    DOTS,
    FUSED,
    GATHERS,
    MOVERS,
    NEUTRAL_RIGHT,
    PASSES,
    POINTWISE_OPS,
    REDUCTION_OPS,
    RESHAPES,
    SOURCES,
    VIEW_OPS,
    is_pointwise,
    is_reduction,
    is_view,
)
from mgx_mlir.dialects.types import byte_size, element_type, numpy_dtype, tensor_type

OPS = frozenset(_mgx.op_names())

__all__ = [
    "BROADCASTS",
    "COMMUTATIVE",
    "CONTRACTIONS",
    "CONTROL_FLOW",
    "CONVOLUTIONS",
    "COSTLY",
    "DOTS",
    "FUSED",
    "GATHERS",
    "MOVERS",
    "NEUTRAL_RIGHT",
    "OPS",
    "PASSES",
    "POINTWISE_OPS",
    "REDUCTION_OPS",
    "RESHAPES",
    "SOURCES",
    "VIEW_OPS",
    "ArchAttr",
    "DimAttr",
    "DimsAttr",
    "attribute_array",
    "byte_size",
    "constant",
    "constant_array",
    "dense_attribute",
    "element_type",
    "is_pointwise",
    "is_reduction",
    "is_view",
    "numpy_dtype",
    "splat",
    "tensor_type",
]


def _with_positive_axes(build: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The builder, with axes that count from the end made to count from the start."""
    signature = inspect.signature(build)
    parameter = "axis" if "axis" in signature.parameters else "axes"

    def builder(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments[parameter]
        first = next(iter(bound.arguments.values()))
        rank = (first if isinstance(first, ir.Value) else first[0]).type.rank
        if isinstance(given, int) and given < 0:
            bound.arguments[parameter] = given + rank
        elif isinstance(given, list | tuple):
            # The axes of unsqueeze are the result's.
            rank += len(given) if name == "unsqueeze" else 0
            bound.arguments[parameter] = [a + rank if a < 0 else a for a in given]
        return build(*bound.args, **bound.kwargs)

    builder.__name__ = name
    builder.__doc__ = build.__doc__
    builder.__signature__ = signature  # type: ignore[attr-defined]
    return builder


def _builder(name: str, op: type[ir.OpView]) -> Callable[..., Any]:
    own = getattr(_builders, name, None) or getattr(_regions, name, None)
    build = own or getattr(_mgx_ops_gen, name)
    if own is None:
        build.__doc__ = op.__doc__
    parameters = inspect.signature(build).parameters
    # The axis of broadcast is the result's: its builder sees to it.
    has_axes = name != "broadcast" and ("axis" in parameters or "axes" in parameters)
    return _with_positive_axes(build, name) if has_axes else build


def _python_name(op: type[ir.OpView]) -> str:
    """The function's name: the op's, with an underscore after a keyword of Python."""
    name: str = op.OPERATION_NAME.removeprefix("mgx.")
    return name if hasattr(_mgx_ops_gen, name) else name + "_"


for _op in vars(_mgx_ops_gen).copy().values():
    if isinstance(_op, type) and issubclass(_op, ir.OpView) and _op is not ir.OpView:
        globals()[_op.__name__] = _op
        if (_name := _python_name(_op)) not in globals():
            globals()[_name] = _builder(_name, _op)
for _enum in ("CoordinateMode", "NearestMode", "PadMode", "PoolingMode", "ResizeMode"):
    globals()[_enum] = getattr(_mgx_enum_gen, _enum)


def __getattr__(name: str) -> Any:
    # Tells type checkers that the loop above defines names, and users which exist.
    raise AttributeError(f"mgx has no op or name '{name}'")
