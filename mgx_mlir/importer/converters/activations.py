"""The functions that recurrent networks and fused operators name by an attribute."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import emit
from mgx_mlir.importer.converters.pointwise import (
    gelu_erf,
    hard_sigmoid_of,
    softplus_of,
    softsign_of,
)

Activation = Callable[[ir.Value], ir.Value]


def activation_of(name: str, alpha: float | None, beta: float | None) -> Activation:
    """The function of that name. Defaults of alpha and beta: ONNX's operators of those names."""

    def number(value: float | None, default: float) -> float:
        return default if value is None else value

    functions: dict[str, Activation] = {
        "affine": lambda x: emit.add(emit.mul(x, number(alpha, 1)), number(beta, 0)),
        "elu": lambda x: mgx.elu(x, alpha=number(alpha, 1)),
        "gelu": gelu_erf,
        "hardsigmoid": lambda x: hard_sigmoid_of(x, number(alpha, 0.2), number(beta, 0.5)),
        "hardswish": lambda x: mgx.mul(x, hard_sigmoid_of(x, 1 / 6, 0.5)),
        "leakyrelu": lambda x: mgx.leaky_relu(x, alpha=number(alpha, 0.01)),
        "relu": mgx.relu,
        "scaledtanh": lambda x: emit.mul(mgx.tanh(emit.mul(x, number(beta, 1))), number(alpha, 1)),
        "sigmoid": mgx.sigmoid,
        "silu": lambda x: mgx.mul(x, mgx.sigmoid(x)),
        "softplus": softplus_of,
        "softsign": softsign_of,
        "tanh": mgx.tanh,
        "thresholdedrelu": lambda x: emit.where(
            mgx.greater(x, emit.like(x, number(alpha, 1))), x, 0
        ),
    }
    if name.lower() not in functions:
        raise UnsupportedError(f"activation {name}; there are {', '.join(functions)}")
    return functions[name.lower()]


# The activations that take alpha, and beta: their values are listed in this order.
TAKES_ALPHA = {"affine", "elu", "hardsigmoid", "leakyrelu", "scaledtanh", "thresholdedrelu"}
TAKES_BETA = {"affine", "hardsigmoid", "scaledtanh"}
