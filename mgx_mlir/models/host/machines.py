"""SVMClassifier: support vector machines, a decision for each pair of classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgx_mlir.errors import ModelError
from mgx_mlir.models.host.table import Call, Kind, host_operator

# Probabilities of pairs keep this distance from 0 and 1, as in libsvm.
_LEAST = 1e-7
_TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")


@host_operator("SVMClassifier", Kind.CLASSICAL, "ai.onnx.ml")
def svm_classifier(call: Call) -> Any:
    """The class of each row of x [batch, features], and its scores [batch, columns].

    With support vectors: the class with most votes of the pairs; scores are probabilities
    where the model has their parameters, else the decisions of the pairs. Without: a linear
    decision for each class.
    """
    strings = call.attribute("classlabels_strings")
    labels = np.array(
        strings or call.attribute("classlabels_ints") or [], object if strings else np.int64
    )
    if not len(labels):
        raise ModelError("it states neither classlabels_ints nor classlabels_strings")
    x = call.array(0).astype(np.float32)
    x = x.reshape(1, -1) if x.ndim == 1 else x
    if x.ndim != 2:
        raise ModelError(f"its input has the shape {list(x.shape)}, not [batch, features]")
    transform = call.attribute("post_transform")
    if transform not in _TRANSFORMS:
        raise ModelError(f"post_transform = {transform}; {', '.join(_TRANSFORMS)} are known")
    counts = [int(n) for n in call.attribute("vectors_per_class") or []]
    if not sum(counts):
        scores = _linear(call, x, len(labels))
        chosen, best = scores.argmax(axis=1), scores.max(axis=1)
        if len(labels) == 2:
            positive = min(call.attribute("coefficients")) >= 0
            chosen = np.where(best >= 0.5 if positive else best > 0, 1, chosen)
        return [labels[chosen], transformed(scores, transform)]
    decisions = _decisions(call, x, counts, len(labels))
    first, second = np.triu_indices(len(labels), 1)
    votes = np.zeros((len(x), len(labels)), np.int64)
    for pair, (i, j) in enumerate(zip(first, second, strict=True)):
        votes[:, i] += decisions[:, pair] > 0
        votes[:, j] += ~(decisions[:, pair] > 0)
    scores = decisions.astype(np.float32)
    slopes = call.attribute("prob_a")
    if slopes:
        of_pairs = _of_pairs(call, scores, slopes)
        scores = np.array([coupled(row, len(labels)) for row in of_pairs], np.float32)
        scores = scores.reshape(len(x), len(labels))
    elif len(labels) == 2:
        return [labels[votes.argmax(axis=1)], _of_two(scores, transform)]
    return [labels[votes.argmax(axis=1)], transformed(scores, transform)]


def _list(call: Call, name: str, least: int) -> np.ndarray:
    stated = call.attribute(name) or []
    if len(stated) < least:
        raise ModelError(f"{name} has {len(stated)} numbers; at least {least} are needed")
    return np.array(stated, np.float32)


def _linear(call: Call, x: np.ndarray, count: int) -> np.ndarray:
    weights = _list(call, "coefficients", count * x.shape[1]).reshape(count, -1)
    if weights.shape[1] != x.shape[1]:
        raise ModelError(f"its input has {x.shape[1]} features, the model {weights.shape[1]}")
    scores: np.ndarray = x @ weights.T + _list(call, "rho", 1)[0]
    return scores


def _decisions(call: Call, x: np.ndarray, counts: list[int], classes: int) -> np.ndarray:
    """The decision of each pair of classes (0, 1), (0, 2) ...: above 0 it is the first."""
    if len(counts) != classes or min(counts) < 0:
        raise ModelError(f"vectors_per_class = {counts} for {classes} classes")
    total, pairs = sum(counts), classes * (classes - 1) // 2
    vectors = _list(call, "support_vectors", total * x.shape[1])
    if len(vectors) != total * x.shape[1]:
        raise ModelError(f"its input has {x.shape[1]} features, not those of the vectors")
    weights = _list(call, "coefficients", (classes - 1) * total)[: (classes - 1) * total]
    weights = weights.reshape(classes - 1, total).astype(np.float64)
    kernels = _kernel(call, x, vectors.reshape(total, -1))
    offsets = _list(call, "rho", pairs)
    ends = np.cumsum(counts)
    of = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    found = np.zeros((len(x), pairs))
    for pair, (i, j) in enumerate(zip(*np.triu_indices(classes, 1), strict=True)):
        found[:, pair] = kernels[:, of[i]] @ weights[j - 1, of[i]]
        found[:, pair] += kernels[:, of[j]] @ weights[i, of[j]] + offsets[pair]
    return found


def _kernel(call: Call, x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    gamma, offset, degree = [*(call.attribute("kernel_params") or ()), 0.0, 0.0, 0.0][:3]
    kind = call.attribute("kernel_type")
    if kind == "RBF":
        squares = [((x - vector) ** 2).sum(axis=1) for vector in vectors]
        return np.exp(-gamma * np.stack(squares, 1))
    products: np.ndarray = x @ vectors.T
    if kind == "LINEAR":
        return products
    if kind == "POLY":
        return np.asarray((gamma * products + offset) ** degree)
    if kind == "SIGMOID":
        return np.tanh(gamma * products + offset)
    raise ModelError(f"kernel_type = {kind}; LINEAR, POLY, RBF and SIGMOID are known")


def _of_pairs(call: Call, scores: np.ndarray, slopes: list[float]) -> np.ndarray:
    """The probability of the first class of each pair, by Platt's sigmoids."""
    pairs = scores.shape[1]
    a, b = _list(call, "prob_a", pairs)[:pairs], _list(call, "prob_b", pairs)[:pairs]
    return np.clip(1 / (1 + np.exp(scores.astype(np.float64) * a + b)), _LEAST, 1 - _LEAST)


def coupled(of_pairs: np.ndarray, count: int) -> np.ndarray:
    """Probabilities of `count` classes from those of the first class of each pair.

    Wu, Lin and Weng (2004), second method: minimises the sum over pairs of
    (r_ji p_i - r_ij p_j)^2 by an iteration over classes; libsvm stops it at 0.005 / count.
    """
    r = np.zeros((count, count))
    first, second = np.triu_indices(count, 1)
    r[first, second], r[second, first] = of_pairs, 1 - of_pairs
    q = -r.T * r
    np.fill_diagonal(q, (r**2).sum(axis=0))
    p = np.full(count, 1 / count)
    for _ in range(max(100, count)):
        gradient = q @ p
        energy = p @ gradient
        if np.abs(gradient - energy).max() < 0.005 / count:
            break
        for t in range(count):
            step = (energy - gradient[t]) / q[t, t]
            p[t] += step
            energy = (energy + step * (step * q[t, t] + 2 * gradient[t])) / (1 + step) ** 2
            gradient = (gradient + step * q[t]) / (1 + step)
            p /= 1 + step
    return p


# Scores --------------------------------------------------------------------------------------


def _of_two(score: np.ndarray, transform: str) -> np.ndarray:
    """The scores of two classes by the one decision between them: [batch, 2]."""
    if transform == "NONE":
        return np.concatenate([-score, score], 1)
    if transform == "LOGISTIC":
        score = transformed(np.concatenate([score, score], 1), transform)[:, :1]
    if transform == "PROBIT":
        raise ModelError("post_transform = PROBIT of one decision between two classes")
    return np.concatenate([1 - score, score], 1)


def transformed(scores: np.ndarray, name: str) -> np.ndarray:
    """Scores [batch, classes] through one of the transforms of ai.onnx.ml.

    A single score stays as it is, but for PROBIT, as onnxruntime has it.
    """
    if scores.shape[1] == 1 and name != "PROBIT":
        return scores
    if name == "LOGISTIC":
        return 1 / (1 + np.exp(-scores))
    if name == "PROBIT":
        return _probit(scores)
    if name in ("SOFTMAX", "SOFTMAX_ZERO"):
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        if name == "SOFTMAX_ZERO":
            powers = np.where(np.abs(scores) > 1e-7, powers, 0)
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))
    return scores


def _probit(p: np.ndarray) -> np.ndarray:
    """The quantile of the normal distribution, by Winitzki's formula for erf's inverse."""
    a = 0.147
    log = np.log(1 - (2 * p - 1) ** 2)
    half = 2 / (math.pi * a) + log / 2
    root = np.sqrt(np.sqrt(half**2 - log / a) - half)
    return np.asarray(math.sqrt(2) * np.sign(2 * p - 1) * root)
