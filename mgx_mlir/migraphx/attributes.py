"""The attributes of MIGraphX's operators, and those that they have without being told."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mgx_mlir.dialects import mgx

_BY_AXIS = {
    **dict.fromkeys(("argmax", "argmin", "gather"), 0),
    **dict.fromkeys([f"scatter_{kind}" for kind in ("add", "max", "min", "mul", "none")], 0),
    **dict.fromkeys(("flatten", "logsoftmax", "softmax"), 1),
}
# An operator that reduces along no axes reduces along all.
_REDUCED = ("all", "any", "max", "mean", "min", "prod", "sum")
DEFAULTS: dict[str, dict[str, Any]] = {
    **{name: {"axis": axis} for name, axis in _BY_AXIS.items()},
    **{f"reduce_{kind}": {"axes": []} for kind in _REDUCED},
    "elu": {"alpha": 1.0},
    "leaky_relu": {"alpha": 0.01},
    "lrn": {"alpha": 0.0001, "beta": 0.75, "bias": 1.0, "size": 1},
    "prefix_scan_sum": {"axis": 0, "exclusive": False, "reverse": False},
}
# Parameters of builders of ops that are no attributes.
PLACES = ("results", "loc", "ip", "at")


def of_function(function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of a function that are attributes, with their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {
        p.name: None if p.default is p.empty else p.default
        for p in parameters
        if p.kind is p.KEYWORD_ONLY
    }


def of_op(name: str) -> dict[str, Any]:
    """The attributes of an mgx op, with the defaults of the operator of that name."""
    (op_class,) = (
        found
        for found in vars(mgx).values()
        if getattr(found, "OPERATION_NAME", "") == f"mgx.{name}"
    )
    return {n: None for n, m in vars(op_class).items() if _is_attribute(m)} | DEFAULTS.get(name, {})


def _is_attribute(member: Any) -> bool:
    """Whether a member of an op's class reads one of its attributes, not an operand."""
    code = getattr(member.fget, "__code__", None) if isinstance(member, property) else None
    return code is not None and "attributes" in code.co_names
