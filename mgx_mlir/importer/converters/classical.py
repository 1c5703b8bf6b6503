"""Classical machine learning (ai.onnx.ml): linear models and the preparation of features."""

from __future__ import annotations

import math

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.importer.tensor_data import small_array

DOMAIN = "ai.onnx.ml"


@operator("ArrayFeatureExtractor", (1, 1), "gather", DOMAIN)
def array_feature_extractor(node: Node) -> ir.Value:
    """Elements of the last dimension, chosen by indices."""
    x = node.tensor(0)
    x = emit.unsqueeze(x, [0]) if tensors.rank(x) == 1 else x
    indices = node.tensor(1)
    count = math.prod(tensors.known_sizes(indices, "what chooses the elements"))
    flat = emit.reshape(indices, tensors.named([count]))
    return mgx.gather(x, flat, tensors.rank(x) - 1)


@operator("Binarizer", (1, 1), "greater convert", DOMAIN)
def binarizer(node: Node) -> ir.Value:
    x = node.tensor(0)
    above = mgx.greater(x, emit.like(x, node.attribute("threshold")))
    return emit.convert(above, tensors.element(x))


@operator("FeatureVectorizer", (1, 1), "convert concat", DOMAIN)
def feature_vectorizer(node: Node) -> ir.Value:
    """Rows of all inputs, one after another; the attribute gives the columns used of each."""
    parts = []
    widths = node.attribute("inputdimensions") or [None] * len(node.inputs)
    for x, width in zip(node.tensors(), widths, strict=True):
        x = emit.convert(x, "f32")
        x = emit.unsqueeze(x, [0]) if tensors.rank(x) == 1 else x
        have = tensors.size_of(x, 1, "the number of columns")
        if width is not None and width > have:
            zeros = emit.filled(np.zeros((), np.float32), [tensors.dims(x)[0], width - have])
            x = emit.concat([x, zeros], 1)
        parts.append(x if width is None else emit.take(x, 1, 0, width))
    return emit.concat(parts, 1)


@operator("Imputer", (1, 1), "equal isnan where", DOMAIN)
def imputer(node: Node) -> ir.Value:
    x = node.tensor(0)
    kind = "float" if tensors.is_float(x) else "int64"
    replaced, imputed = (
        node.attribute(f"replaced_value_{kind}"),
        node.attribute(f"imputed_value_{kind}s"),
    )
    if imputed is None:
        raise ModelError(f"imputed_value_{kind}s is missing")
    is_nan = kind == "float" and math.isnan(replaced)
    missing = mgx.isnan(x) if is_nan else mgx.equal(x, emit.like(x, replaced))
    return emit.where(missing, node.make(np.array(imputed, emit.numpy_type(x))), x)


@operator("Normalizer", (1, 1), "abs mul reduce_sum reduce_max sqrt div where", DOMAIN)
def normalizer(node: Node) -> ir.Value:
    """Rows over their largest element, or the sum or root of squares; rows of zeros stay."""
    x = emit.convert(node.tensor(0), "f32")
    last = [tensors.rank(x) - 1]
    kind = node.attribute("norm")
    if kind == "MAX":
        size = mgx.reduce_max(x, last)
    elif kind == "L1":
        size = mgx.reduce_sum(mgx.abs(x), last)
    elif kind == "L2":
        size = mgx.sqrt(mgx.reduce_sum(mgx.mul(x, x), last))
    else:
        raise UnsupportedError(f"norm = {kind}; MAX, L1 and L2 are supported")
    return emit.div(x, emit.where(mgx.equal(size, emit.like(size, 0)), 1, size))


@operator("Scaler", (1, 1), "convert sub mul", DOMAIN)
def scaler(node: Node) -> ir.Value:
    x = emit.convert(node.tensor(0), "f32")
    offset, scale = (
        node.make(np.array(node.attribute(name), np.float32)) for name in ("offset", "scale")
    )
    return emit.mul(emit.sub(x, offset), scale)


@operator("OneHotEncoder", (1, 1), "convert equal", DOMAIN)
def one_hot_encoder(node: Node) -> ir.Value:
    """A new last dimension, with a one where the element is that category."""
    categories = node.attribute("cats_int64s")
    if categories is None:
        raise UnsupportedError("categories that are strings")
    if not node.attribute("zeros"):
        raise UnsupportedError("zeros = 0, where an unknown category is an error")
    x = emit.convert(node.tensor(0), "i64")
    hot = emit.binary(
        mgx.equal, emit.unsqueeze(x, [tensors.rank(x)]), node.make(np.array(categories, np.int64))
    )
    return emit.convert(hot, "f32")


@operator("LabelEncoder", (2, 4), "equal argmax gather where", DOMAIN)
def label_encoder(node: Node) -> ir.Value:
    """Each element's key, looked up; the first one of equal keys counts.

    NaN has a key from version 4 on; before, it equals nothing.
    """
    keys, values = _column(node, "keys"), _column(node, "values")
    if keys.size != values.size or not keys.size:
        raise ModelError(f"{keys.size} keys and {values.size} values")
    x = node.tensor(0)
    table = node.make(keys.astype(emit.numpy_type(x)))
    last = tensors.rank(x)
    found = emit.binary(mgx.equal, emit.unsqueeze(x, [last]), table)
    if node.version >= 4 and keys.dtype.kind == "f" and np.isnan(keys).any():
        x_is_nan = emit.unsqueeze(mgx.isnan(x), [last])
        both = emit.binary(mgx.logical_and, x_is_nan, node.make(np.isnan(keys)))
        found = mgx.logical_or(found, both)
    places = emit.convert(found, "i32")
    chosen = emit.squeeze(mgx.argmax(places, last), [last])
    known = emit.squeeze(mgx.reduce_max(places, [last]), [last])
    result = mgx.gather(node.make(values), chosen, 0)
    default = _default(node, values.dtype)
    return emit.where(mgx.greater(known, emit.like(known, 0)), result, node.make(default))


_KINDS = (("floats", np.float32), ("int64s", np.int64))


def _column(node: Node, what: str) -> np.ndarray:
    """The keys or the values of a LabelEncoder, from whichever attribute holds them."""
    if node.has_attribute(f"{what}_tensor"):
        return small_array(node.attribute(f"{what}_tensor"), node.name)
    for kind, dtype in _KINDS:
        stated = node.attribute(f"{what}_{kind}")
        if stated is not None:
            return np.array(stated, dtype)
    raise UnsupportedError(f"{what} that are strings")


def _default(node: Node, dtype: np.dtype) -> np.ndarray:
    if node.has_attribute("default_tensor"):
        return small_array(node.attribute("default_tensor"), node.name).reshape(())
    names = {"f": "default_float", "i": "default_int64"}
    for name in names.values():
        node.attribute(name)
    return np.array(node.attribute(names[dtype.kind]), dtype)


# Models --------------------------------------------------------------------------------------


@operator("LinearRegressor", (1, 1), "dot add", DOMAIN)
def linear_regressor(node: Node) -> ir.Value:
    scores = _linear(node, int(node.attribute("targets")))
    return transformed(scores, str(node.attribute("post_transform")))


def _linear(node: Node, count: int) -> ir.Value:
    """x times coefficients plus intercepts: (batch, count)."""
    x = emit.convert(node.tensor(0), "f32")
    x = emit.unsqueeze(x, [0]) if tensors.rank(x) == 1 else x
    weights = np.array(node.attribute("coefficients"), np.float32).reshape(count, -1)
    y = emit.dot(x, node.make(np.ascontiguousarray(weights.T)))
    intercepts = node.attribute("intercepts")
    return y if intercepts is None else emit.add(y, node.make(np.array(intercepts, np.float32)))


@operator("LinearClassifier", (1, 1), "dot add argmax gather", DOMAIN)
def linear_classifier(node: Node) -> list[ir.Value]:
    """The best class, and the scores; of two classes, one may be the other's opposite."""
    node.attribute("multi_class")  # how the model was trained
    labels = labels_of(node, "classlabels_ints")
    features = tensors.size_of(node.tensor(0), -1, "the number of features")
    count = len(node.attribute("coefficients")) // features
    scores = _linear(node, count)
    transform = str(node.attribute("post_transform"))
    if count == 1 and len(labels) == 2:
        above = emit.squeeze(mgx.greater(scores, emit.like(scores, 0)), [1])
        chosen = emit.convert(above, "i64")
        return [mgx.gather(node.make(labels), chosen, 0), of_two(scores, transform)]
    chosen = emit.squeeze(mgx.argmax(scores, 1), [1])
    return [mgx.gather(node.make(labels), chosen, 0), transformed(scores, transform)]


def labels_of(node: Node, name: str) -> np.ndarray:
    """The classes' labels, which are integers: labels.py has replaced those that are strings."""
    labels = node.attribute(name)
    if not labels:
        raise ModelError(f"it states neither {name} nor classlabels_strings")
    return np.array(labels, np.int64)


def of_two(score: ir.Value, transform: str) -> ir.Value:
    """The scores of two classes (batch, 2) from the score of the second class."""
    if transform == "LOGISTIC":
        return mgx.sigmoid(emit.concat([mgx.neg(score), score], 1))
    if transform == "PROBIT":
        raise UnsupportedError("post_transform = PROBIT of one score of two classes")
    return emit.concat([emit.add(mgx.neg(score), 1), score], 1)


def transformed(scores: ir.Value, name: str) -> ir.Value:
    """Scores (batch, count) through one of the transforms of ai.onnx.ml.

    A single score stays as it is, but for PROBIT, as onnxruntime has it.
    """
    if name == "NONE" or (tensors.dims(scores)[1] == 1 and name != "PROBIT"):
        return scores
    if name == "LOGISTIC":
        return mgx.sigmoid(scores)
    if name == "SOFTMAX":
        return mgx.softmax(scores, 1)
    if name == "SOFTMAX_ZERO":  # scores of zero are left out
        zero = mgx.equal(scores, emit.like(scores, 0))
        shifted = emit.sub(scores, mgx.reduce_max(scores, [1]))
        powers = emit.where(zero, 0, mgx.exp(shifted))
        return emit.div(powers, mgx.reduce_sum(powers, [1]))
    if name == "PROBIT":
        return _probit(scores)
    raise UnsupportedError(f"post_transform = {name}")


def _probit(p: ir.Value) -> ir.Value:
    """The quantile of the normal distribution, by Winitzki's formula for erf's inverse."""
    a = 0.147
    x = emit.add(emit.mul(p, 2), -1)
    log = mgx.log(emit.add(mgx.neg(mgx.mul(x, x)), 1))
    half = emit.add(emit.mul(log, 0.5), 2 / (math.pi * a))
    root = mgx.sqrt(mgx.sub(mgx.mul(half, half), emit.mul(log, 1 / a)))
    size = mgx.sqrt(mgx.sub(root, half))
    return emit.mul(mgx.mul(mgx.sign(x), size), math.sqrt(2))


@operator("SVMRegressor", (1, 1), "dot mul add exp tanh pow", DOMAIN)
def svm_regressor(node: Node) -> ir.Value:
    x = emit.convert(node.tensor(0), "f32")
    x = emit.unsqueeze(x, [0]) if tensors.rank(x) == 1 else x
    count = int(node.attribute("n_supports"))
    rho = float(node.required("rho")[0])
    coefficients = np.array(node.required("coefficients"), np.float32)
    vectors = node.attribute("support_vectors")
    if count:
        table = np.array(vectors, np.float32).reshape(count, -1)
        x = _kernel(node, x, table)
    elif node.attribute("kernel_type") != "LINEAR":
        raise ModelError("a kernel without support vectors")
    else:
        node.attribute("kernel_params")
    y = emit.add(emit.dot(x, node.make(coefficients[:, None])), rho)
    node.attribute("post_transform")  # onnxruntime leaves a single score as it is
    if node.attribute("one_class"):
        return emit.where(mgx.greater(y, emit.like(y, 0)), 1, emit.like(y, -1))
    return y


def _kernel(node: Node, x: ir.Value, vectors: np.ndarray) -> ir.Value:
    """The kernel of each row of x with each vector: (batch, vectors)."""
    gamma, offset, degree = node.attribute("kernel_params") or (0.0, 0.0, 0.0)
    kind = str(node.attribute("kernel_type"))
    if kind == "RBF":
        table = node.make(vectors[None])
        difference = emit.sub(emit.unsqueeze(x, [1]), table)
        squares = emit.squeeze(mgx.reduce_sum(mgx.mul(difference, difference), [2]), [2])
        return mgx.exp(emit.mul(squares, -gamma))
    products = emit.dot(x, node.make(np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return products
    scaled = emit.add(emit.mul(products, gamma), offset)
    if kind == "POLY":
        return emit.binary(mgx.pow, scaled, degree)
    if kind == "SIGMOID":
        return mgx.tanh(scaled)
    raise UnsupportedError(f"kernel_type = {kind}")
