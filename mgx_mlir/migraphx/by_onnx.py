"""MIGraphX's operators that an operator of ONNX computes: recurrent layers, onehot, boxes, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgx_mlir.errors import UsageError
from mgx_mlir.importer.converters.bounded import DOMAIN as BOUNDED


@dataclass(frozen=True)
class OnnxNode:
    """An ONNX node: `operands` has None for an absent one, an array for a constant of its own.

    A number is the place of an operand of the caller's; all of these, in order, by default.
    """

    operator: str
    attributes: dict[str, Any]
    domain: str = ""
    outputs: int = 1
    operands: Sequence[int | np.ndarray | None] | None = None


@dataclass(frozen=True)
class _Recurrent:
    """An ONNX layer, its default functions, the names of its own flags, its states."""

    operator: str
    functions: tuple[str, ...]
    flags: tuple[str, ...] = ()
    states: int = 1


_RECURRENT = {
    "gru": _Recurrent("GRU", ("sigmoid", "tanh"), ("linear_before_reset",)),
    "lstm": _Recurrent("LSTM", ("sigmoid", "tanh", "tanh"), ("input_forget",), states=2),
    "rnn": _Recurrent("RNN", ("tanh",)),
}
NAMES = frozenset({*_RECURRENT, "nonmaxsuppression", "onehot", "roialign"})
# The operators that give a state after the last step: its place among the layer's states.
LAST_STATES = {"rnn_last_cell_output": 1, "rnn_last_hs_output": 0}
_DIRECTIONS = ("forward", "reverse", "bidirectional")
# Activations with a slope, and its default.
_SLOPES = {"elu": 1.0, "leaky_relu": 0.01}
_ROIALIGN = (
    "coordinate_transformation_mode",
    "output_height",
    "output_width",
    "sampling_ratio",
    "spatial_scale",
)


def node_of(name: str, given: Mapping[str, Any], ranks: Sequence[int]) -> OnnxNode | None:
    """The ONNX node for an operator with these attributes; None for operators of mgx itself.

    `ranks` are the operands'.
    """
    if name in _RECURRENT:
        return _recurrent(_RECURRENT[name], ranks, given)
    if name == "onehot":
        return _onehot(ranks, given)
    if name == "roialign":
        return _roialign(given)
    if name == "nonmaxsuppression":
        return _suppression(ranks, given)
    return None


def attributes_of(name: str) -> tuple[str, ...]:
    """The attributes that the operator of this name takes."""
    if name in _RECURRENT:
        return ("actv_func", "clip", "direction", "hidden_size", *_RECURRENT[name].flags)
    return {
        "nonmaxsuppression": ("center_point_box", "use_dyn_output"),
        "onehot": ("axis", "depth"),
        "roialign": (*_ROIALIGN, "mode"),
    }[name]


def _recurrent(row: _Recurrent, ranks: Sequence[int], given: Mapping[str, Any]) -> OnnxNode:
    """A layer; an operand from the fourth on without dimensions is `undefined`."""
    direction = given.get("direction", "forward")
    if direction not in _DIRECTIONS:
        direction = _DIRECTIONS[int(direction)]
    count = len(row.functions) * (1 + (direction == "bidirectional"))
    functions = [*given.get("actv_func", ())] or [*row.functions]
    if len(functions) == len(row.functions):
        functions *= 2  # both directions have the same ones
    pairs = [_function(function) for function in functions[:count]]
    found: dict[str, Any] = {
        "direction": direction,
        "activations": ["".join(part.capitalize() for part in n.split("_")) for n, _ in pairs],
        "activation_alpha": [slope for _, slope in pairs if slope is not None],
        "clip": float(given.get("clip", 0)),
        "hidden_size": given.get("hidden_size"),
    }
    found = {name: value for name, value in found.items() if value}
    found |= {flag: int(given.get(flag, 0)) for flag in row.flags}
    operands = [n if n < 3 or rank else None for n, rank in enumerate(ranks)]
    return OnnxNode(row.operator, found, outputs=1 + row.states, operands=operands)


def _function(function: Any) -> tuple[str, float | None]:
    """The name of an activation, which is an operator or its name, and its slope."""
    name = function if isinstance(function, str) else function.name()
    if name not in _SLOPES:
        return name, None
    given = {} if isinstance(function, str) else function.attributes
    return name, float(given.get("alpha", _SLOPES[name]))


def _onehot(ranks: Sequence[int], given: Mapping[str, Any]) -> OnnxNode:
    """OneHot of indices, a depth and two values, off and on; or with the depth as an attribute."""
    axis = {"axis": int(given.get("axis", -1))}
    if "depth" not in given:
        return OnnxNode("OneHot", axis)
    return OnnxNode("OneHot", axis, operands=[0, np.array(int(given["depth"])), 1])


def _suppression(ranks: Sequence[int], given: Mapping[str, Any]) -> OnnxNode:
    """NonMaxSuppression with room for all results; without a threshold of scores it is 0."""
    if given.get("use_dyn_output"):
        raise UsageError("use_dyn_output is not here: programs have results of known sizes")
    absent = (np.array(0, np.int64), np.zeros((), np.float32), np.zeros((), np.float32))
    operands = [*range(len(ranks)), *absent[len(ranks) - 2 :]]
    return OnnxNode(
        "NonMaxSuppression",
        {"center_point_box": int(given.get("center_point_box", 0))},
        BOUNDED,
        outputs=2,
        operands=operands,
    )


def _roialign(given: Mapping[str, Any]) -> OnnxNode:
    found = {name: given[name] for name in _ROIALIGN if name in given}
    mode = given.get("mode", "average")
    return OnnxNode(
        "RoiAlign", {**found, "mode": {"average": "avg", 0: "avg", 1: "max"}.get(mode, mode)}
    )
