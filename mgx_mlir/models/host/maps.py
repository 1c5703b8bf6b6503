"""Operators of ai.onnx.ml on maps and on strings.

Maps are dicts: keys of int or str, values of Python's numbers or str.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import numpy_helper

from mgx_mlir.errors import ModelError
from mgx_mlir.models.host.table import Call, Kind, host_operator

DOMAIN = "ai.onnx.ml"
_CASTS = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}


@host_operator("ZipMap", Kind.SEQUENCES, DOMAIN)
def zip_map(call: Call) -> Any:
    """A map from labels, in order, to scores for each row of scores [batch, labels]."""
    labels = call.attribute("classlabels_strings") or call.attribute("classlabels_int64s")
    scores = call.array(0)
    scores = scores[None] if scores.ndim == 1 else scores
    if not labels:
        raise ModelError("it states neither classlabels_strings nor classlabels_int64s")
    if scores.ndim != 2 or scores.shape[1] != len(labels):
        raise ModelError(f"scores of {list(scores.shape)} for {len(labels)} labels")
    order = sorted(range(len(labels)), key=labels.__getitem__)
    return [[{labels[i]: row[i] for i in order} for row in scores.tolist()]]


@host_operator("CastMap", Kind.SEQUENCES, DOMAIN)
def cast_map(call: Call) -> Any:
    """The values of a map by rising keys, or at the indices that the keys give: [1, count]."""
    given, form = call.map(0), call.attribute("map_form")
    kind = call.attribute("cast_to")
    if kind not in _CASTS or form not in ("DENSE", "SPARSE"):
        raise ModelError(f"cast_to = {kind}, map_form = {form}")
    if form == "DENSE":
        values = [_cast(value, kind) for _, value in sorted(given.items())]
        return [np.array([values], _CASTS[kind])]
    most = call.attribute("max_map")
    if not 0 < most <= 1 << 30 or any(not 0 <= key < most for key in given):
        raise ModelError(f"keys {sorted(given)[:4]} in a map of {most}")
    values = [_cast(given[key], kind) if key in given else _ABSENT[kind] for key in range(most)]
    return [np.array([values], _CASTS[kind])]


_ABSENT: dict[str, Any] = {"TO_FLOAT": 0.0, "TO_INT64": 0, "TO_STRING": "0.f"}


def _cast(value: Any, kind: str) -> Any:
    if kind == "TO_STRING":
        return value if isinstance(value, str) else f"{value:f}"
    number = float(value)
    return number if kind == "TO_FLOAT" else math.trunc(number)


@host_operator("DictVectorizer", Kind.SEQUENCES, DOMAIN)
def dict_vectorizer(call: Call) -> Any:
    """The values of a map in the order of a vocabulary, [1, size]; absent ones are zero or ''."""
    given = call.map(0)
    words = call.attribute("string_vocabulary") or call.attribute("int64_vocabulary")
    if not words:
        raise ModelError("it states neither string_vocabulary nor int64_vocabulary")
    value = next(iter(given.values()), 0.0)
    if isinstance(value, str):
        return [np.array([[given.get(word, "") for word in words]], object)]
    dtype = np.asarray(value).dtype if isinstance(value, int | np.generic) else np.dtype(np.float32)
    return [np.array([[given.get(word, 0) for word in words]], dtype)]


@host_operator("CategoryMapper", Kind.STRINGS, DOMAIN)
def category_mapper(call: Call) -> Any:
    """Strings to integers or integers to strings, by two lists of equal length."""
    strings, numbers = call.attribute("cats_strings"), call.attribute("cats_int64s")
    if not strings or not numbers or len(strings) != len(numbers):
        raise ModelError("cats_strings and cats_int64s must have equal lengths, not 0")
    x = call.array(0)
    if x.dtype.kind == "O":
        table, default = dict(zip(strings, numbers, strict=True)), call.attribute("default_int64")
        return [_looked_up(x, table, default, np.dtype(np.int64))]
    names, other = dict(zip(numbers, strings, strict=True)), call.attribute("default_string")
    return [_looked_up(x, names, other, np.dtype(object))]


@host_operator("LabelEncoder", Kind.STRINGS, DOMAIN)
def label_encoder(call: Call) -> Any:
    """Each element's value by its key; the first one of equal keys counts."""
    x = call.array(0)
    if call.version < 2:
        names = call.attribute("classes_strings") or []
        if x.dtype.kind == "O":
            table: dict[Any, Any] = {name: n for n, name in enumerate(names)}
            return [_looked_up(x, table, call.attribute("default_int64"), np.dtype(np.int64))]
        default = call.attribute("default_string")
        return [_looked_up(x, dict(enumerate(names)), default, np.dtype(object))]
    keys, values = _column(call, "keys"), _column(call, "values")
    if len(keys) != len(values):
        raise ModelError(f"{len(keys)} keys and {len(values)} values")
    pairs = zip(reversed(keys.tolist()), reversed(values.tolist()), strict=True)
    table = {key if key == key else _not_a_number(call): value for key, value in pairs}
    return [_looked_up(x, table, _default(call, values.dtype), values.dtype)]


_NAN = object()  # the key of every NaN


def _not_a_number(call: Call) -> object:
    """The key of NaN, which equals nothing before version 4."""
    return _NAN if call.version >= 4 else object()


def _looked_up(
    x: np.ndarray, table: dict[Any, Any], default: Any, dtype: np.dtype[Any]
) -> np.ndarray:
    found = [table.get(_NAN if key != key else key, default) for key in x.reshape(-1).tolist()]
    return np.array(found, dtype).reshape(x.shape)


def _column(call: Call, what: str) -> np.ndarray:
    """The keys or the values of a LabelEncoder, from whichever attribute holds them."""
    tensor = call.attribute(f"{what}_tensor")
    if tensor is not None:
        return _array(tensor).reshape(-1)
    for kind, dtype in (("strings", object), ("int64s", np.int64), ("floats", np.float32)):
        stated = call.attribute(f"{what}_{kind}")
        if stated:
            return np.array(stated, dtype)
    raise ModelError(f"it states no {what}")


def _array(tensor: Any) -> np.ndarray:
    array = numpy_helper.to_array(tensor)
    if array.dtype.kind not in "OSU":
        return array
    texts = [t.decode() if isinstance(t, bytes) else str(t) for t in array.reshape(-1).tolist()]
    return np.array(texts, object).reshape(array.shape)


def _default(call: Call, dtype: np.dtype[Any]) -> Any:
    tensor = call.attribute("default_tensor")
    if tensor is not None and tensor.data_type:
        return _array(tensor).reshape(-1)[0]
    if dtype.kind == "O":
        return call.attribute("default_string")
    return call.attribute("default_float" if dtype.kind == "f" else "default_int64")


@host_operator("OneHotEncoder", Kind.STRINGS, DOMAIN)
def one_hot_encoder(call: Call) -> Any:
    """A new last dimension, with a one where the element is that category."""
    x = call.array(0)
    strings = x.dtype.kind == "O"
    categories = call.attribute("cats_strings" if strings else "cats_int64s")
    if not categories:
        raise ModelError("it states no categories of its input's type")
    places = {category: place for place, category in enumerate(categories)}
    values = x.reshape(-1) if strings else x.reshape(-1).astype(np.int64)
    ones = np.zeros((x.size, len(categories)), np.float32)
    for row, value in enumerate(values.tolist()):
        if value in places:
            ones[row, places[value]] = 1
        elif not call.attribute("zeros"):
            raise ModelError(f"{value!r} is no category, and zeros is 0")
    return [ones.reshape(*x.shape, len(categories))]
