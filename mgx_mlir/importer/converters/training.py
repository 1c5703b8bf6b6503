"""Steps of optimisers: ai.onnx.preview.training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator

_DOMAIN = "ai.onnx.preview.training"


def _each(node: Node, kinds: int, step: Callable[..., list[ir.Value]]) -> list[Any]:
    """Updates each tensor. Inputs and outputs are grouped by kind: all X, all gradients, ..."""
    count, rest = divmod(len(node.inputs) - 2, kinds)
    if rest or not count:
        raise ModelError(f"{len(node.inputs) - 2} tensors do not make groups of {kinds}")
    groups = [
        step(*(node.tensor(2 + kind * count + i) for kind in range(kinds))) for i in range(count)
    ]
    return [result for column in zip(*groups, strict=True) for result in column]


def _scalar(node: Node, index: int, like: ir.Value) -> ir.Value:
    """The rate or the number of the step, repeated in the shape of a tensor."""
    scalar = emit.reshape(node.tensor(index), [])
    return emit.broadcast(emit.convert(scalar, tensors.element(like)), tensors.dims(like))


def _regularized(node: Node, x: ir.Value, gradient: ir.Value, default: float | None) -> ir.Value:
    factor = node.attribute("norm_coefficient", default)
    return mgx.add(emit.mul(x, factor), gradient)


@operator("Adagrad", (1, 1), "mul add sqrt div sub", _DOMAIN)
def adagrad(node: Node) -> list[Any]:
    epsilon = node.attribute("epsilon", 1e-6)
    decay = node.attribute("decay_factor", 0.0)

    def step(x: ir.Value, g: ir.Value, h: ir.Value) -> list[ir.Value]:
        rate = mgx.div(_scalar(node, 0, x), emit.add(emit.mul(_scalar(node, 1, x), decay), 1))
        g = _regularized(node, x, g, 0.0)
        h = mgx.add(h, mgx.mul(g, g))
        x = mgx.sub(x, mgx.div(mgx.mul(rate, g), emit.add(mgx.sqrt(h), epsilon)))
        return [x, h]

    return _each(node, 3, step)


@operator("Adam", (1, 1), "mul add sqrt pow div sub where", _DOMAIN)
def adam(node: Node) -> list[Any]:
    alpha, beta = node.attribute("alpha", 0.9), node.attribute("beta", 0.999)
    epsilon = node.attribute("epsilon", 1e-6)
    after = node.attribute("norm_coefficient_post", 0.0)

    def step(x: ir.Value, g: ir.Value, v: ir.Value, h: ir.Value) -> list[ir.Value]:
        g = _regularized(node, x, g, 0.0)
        v = mgx.add(emit.mul(v, alpha), emit.mul(g, 1 - alpha))
        h = mgx.add(emit.mul(h, beta), emit.mul(mgx.mul(g, g), 1 - beta))
        rate, t = _scalar(node, 0, x), _scalar(node, 1, x)
        # The moments start at zero; the first steps correct that bias.
        of_h = mgx.sqrt(emit.add(mgx.neg(mgx.pow(emit.like(x, beta), t)), 1))
        of_v = emit.add(mgx.neg(mgx.pow(emit.like(x, alpha), t)), 1)
        corrected = mgx.div(mgx.mul(rate, of_h), of_v)
        rate = emit.where(mgx.greater(t, emit.like(t, 0)), corrected, rate)
        x = mgx.sub(x, mgx.mul(rate, mgx.div(v, emit.add(mgx.sqrt(h), epsilon))))
        return [emit.mul(x, 1 - after), v, h]

    return _each(node, 4, step)


@operator("Momentum", (1, 1), "mul add where sub", _DOMAIN)
def momentum(node: Node) -> list[Any]:
    alpha, beta = node.attribute("alpha"), node.attribute("beta")
    mode = node.attribute("mode")
    if mode not in ("standard", "nesterov"):
        raise UnsupportedError(f"mode = {mode}; standard and nesterov are supported")

    def step(x: ir.Value, g: ir.Value, v: ir.Value) -> list[ir.Value]:
        rate, t = _scalar(node, 0, x), _scalar(node, 1, x)
        g = _regularized(node, x, g, None)
        # The first step has no history: its gradient has the full weight.
        share = emit.where(mgx.greater(t, emit.like(t, 0)), emit.like(x, beta), 1)
        v = mgx.add(emit.mul(v, alpha), mgx.mul(share, g))
        move = v if mode == "standard" else mgx.add(g, emit.mul(v, alpha))
        return [mgx.sub(x, mgx.mul(rate, move)), v]

    return _each(node, 3, step)
