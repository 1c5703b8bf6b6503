"""Random operators. The same seed gives the same numbers, those of numpy's RandomState.

A node without a seed has one of its own, made of the model's and of the node's name.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import helper

from mgx_mlir.errors import ModelError
from mgx_mlir.models.host.table import Call, Kind, host_operator


def _generator(call: Call) -> np.random.RandomState:
    """The generator of the node's seed: a float, which RandomState takes without its fraction."""
    seed = call.attribute("seed")
    if seed is None or math.isnan(seed):
        return call.draw(None)
    return call.draw(int(seed) % (1 << 32))


def _dtype(call: Call) -> np.dtype:
    """The element type that the node states, else that of its input."""
    number = call.attribute("dtype")
    if number:
        return np.dtype(helper.tensor_dtype_to_np_dtype(number))
    return call.array(0).dtype if call.inputs else np.dtype(np.float32)


def _shape(call: Call) -> tuple[int, ...]:
    return call.array(0).shape if call.inputs else tuple(call.attribute("shape", []))


def _normal(call: Call) -> Any:
    drawn = _generator(call).standard_normal(_shape(call))
    drawn = drawn * call.attribute("scale") + call.attribute("mean")
    return [np.asarray(drawn).astype(_dtype(call))]


def _uniform(call: Call) -> Any:
    low, high = call.attribute("low"), call.attribute("high")
    return [np.asarray(_generator(call).uniform(low, high, _shape(call))).astype(_dtype(call))]


for _name in ("RandomNormal", "RandomNormalLike"):
    host_operator(_name, Kind.RANDOM)(_normal)
for _name in ("RandomUniform", "RandomUniformLike"):
    host_operator(_name, Kind.RANDOM)(_uniform)


@host_operator("Bernoulli", Kind.RANDOM)
def bernoulli(call: Call) -> Any:
    chances = call.array(0).astype(np.float64)
    return [(_generator(call).uniform(size=chances.shape) < chances).astype(_dtype(call))]


@host_operator("Multinomial", Kind.RANDOM)
def multinomial(call: Call) -> Any:
    """Classes (batch, sample_size) drawn by unnormalised log-probabilities (batch, classes)."""
    logits = call.array(0).astype(np.float64)
    if logits.ndim != 2 or not logits.shape[1]:
        raise ModelError(f"its input has the shape {list(logits.shape)}, not [batch, classes]")
    top = logits.max(axis=1, keepdims=True)
    weights = np.exp(logits - np.where(np.isfinite(top), top, 0))
    reached = np.cumsum(weights, axis=1)
    draws = _generator(call).uniform(size=(len(logits), call.attribute("sample_size", 1)))
    rows = [
        np.searchsorted(row, draw * row[-1], side="right")
        for row, draw in zip(reached, draws, strict=True)
    ]
    last = logits.shape[1] - 1
    dtype = helper.tensor_dtype_to_np_dtype(call.attribute("dtype"))
    return [np.minimum(np.array(rows).reshape(draws.shape), last).astype(dtype)]


@host_operator("Dropout", Kind.RANDOM)
def dropout(call: Call) -> Any:
    """Elements are kept, and grow to keep the mean, where a draw in [0, 1) reaches the ratio."""
    x, ratio = call.array(0), float(call.scalar(1, 0.5))
    if not 0 <= ratio < 1:
        raise ModelError(f"its ratio is {ratio:g}; it must lie in [0, 1)")
    if not call.scalar(2, False) or not ratio:
        return [x, np.ones(x.shape, np.bool_)]
    kept = _generator(call).uniform(size=x.shape) >= ratio
    return [np.where(kept, x / x.dtype.type(1 - ratio), x.dtype.type(0)), kept]
