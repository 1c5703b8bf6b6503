"""Operators whose inputs have open sizes: ONNX's own cases, and those of onnxruntime's domains."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.backend.test.case.node import collect_testcases

import mgx_mlir
from mgx_mlir import CompileOptions
from mgx_mlir.errors import MgxError
from test.importer.agreement import assert_close, contributed, expected, floats

Array = np.ndarray[Any, Any]
FULL = CompileOptions(mode="full-dynamic")
# Operators of which some case is refused with an open first dimension. Most of the cases have
# axes, counts, places or weights as inputs.
REFUSED = frozenset(
    "AffineGrid Bernoulli CausalConvWithState CenterCropPad Compress ConvTranspose CumProd Einsum "
    "Expand GRU LSTM NegativeLogLikelihoodLoss NonMaxSuppression NonZero RNN ReduceL1 "
    "ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare Reshape Slice SoftmaxCrossEntropyLoss Split TfIdfVectorizer Tile TopK Trilu "
    "Unique Unsqueeze".split()
)


def _cases() -> dict[str, list[Any]]:
    """ONNX's cases of single operators on tensors, by operator; not those of function bodies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: dict[str, list[Any]] = {}
        for case in collect_testcases(None):
            if case.model is None or not case.data_sets or len(case.model.graph.node) != 1:
                continue
            arrays = [x for part in case.data_sets[0] for x in part]
            if all(isinstance(x, np.ndarray) and x.dtype.kind in "fiubV" for x in arrays):
                found.setdefault(case.model.graph.node[0].op_type, []).append(case)
    return found


CASES = _cases()


def _has_open(number: int, value: onnx.ValueInfoProto, array: Array) -> bool:
    """Whether an input gets an open dimension: vectors may be places or weights."""
    if not value.type.tensor_type.shape.dim or array.shape[0] < 2:
        return False
    return array.ndim > 1 or (number == 0 and array.dtype.kind in "fV")


@pytest.mark.parametrize("most", [4, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.parametrize("operator", sorted(CASES))
def test_first_dimensions(operator: str, most: int | None) -> None:
    """Inputs of two dimensions or more, or the first one, have an open first dimension.

    most: about how many of the operator's cases, all where it is None.
    """
    refused = []
    cases = CASES[operator]
    for case in cases[:: max(1, len(cases) // (most or len(cases)))]:
        model = onnx.ModelProto.FromString(case.model.SerializeToString())
        inputs, outputs = case.data_sets[0]
        pairs = list(enumerate(zip(model.graph.input, inputs, strict=True)))
        chosen = [value for number, (value, x) in pairs if _has_open(number, value, x)]
        if not chosen:
            continue
        sizes = dict(zip((value.name for value in model.graph.input), inputs, strict=True))
        for value in chosen:
            dim = value.type.tensor_type.shape.dim[0]
            dim.Clear()
            dim.dim_param = f"n{sizes[value.name].shape[0]}"
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")
        try:
            program = mgx_mlir.compile(model, "cpu", FULL)
        except MgxError as error:
            refused.append(f"{case.name}: {error}")
            continue
        found = program.run(sizes)
        for array, wanted in zip(found.values(), outputs, strict=True):
            assert array.shape == wanted.shape
            narrow = wanted.dtype.itemsize < 4 and wanted.dtype.kind in "fV"
            np.testing.assert_allclose(
                array.astype(np.float64), wanted.astype(np.float64),
                rtol=2e-2 if narrow else 1e-3, atol=1e-2 if narrow else 1e-4,
            )  # fmt: skip
    assert not refused or operator in REFUSED, refused[0]


# Operators of onnxruntime's domain, by the numbers of sequences and of tokens. ------------------

HEADS, SIZE, WIDTH = 2, 8, 16
Made = tuple[Mapping[str, Array | None], Mapping[str, Sequence[str | int]]]


def tokens(batch: int, rows: int, high: int) -> Array:
    return np.random.default_rng(batch + rows).integers(0, high, (batch, rows)).astype(np.int32)


def kept(batch: int, rows: int) -> Array:
    return (np.arange(rows) < np.arange(1, batch + 1)[:, None] + 1).astype(np.int32)


def projection(mask: Callable[[int, int], Array] | None = None) -> Callable[[int, int], Made]:
    def make(batch: int, rows: int) -> Made:
        inputs = {"x": floats(batch, rows, 5), "w": floats(5, 3 * WIDTH, seed=1),
                  "b": floats(3 * WIDTH, seed=2)}  # fmt: skip
        dims: dict[str, Sequence[str | int]] = {"x": ["batch", "rows", 5]}
        if mask is None:
            return inputs, dims
        array = mask(batch, rows)
        named: list[Sequence[str]] = [["batch"], ["batch", "rows"], ["batch", "rows", "rows"]]
        return inputs | {"mask": array}, dims | {"mask": named[array.ndim - 1]}

    return make


def queries(batch: int, rows: int) -> Made:
    inputs = {name: floats(batch, rows, WIDTH, seed=n) for n, name in enumerate("qkv")}
    past = {name: floats(batch, HEADS, 3, SIZE, seed=n) for n, name in enumerate(("pk", "pv"))}
    empty: dict[str, Array | None] = {"b": None, "padding": None, "bias": None}
    dims = {name: ["batch", "rows", WIDTH] for name in "qkv"}
    caches = {name: ["batch", HEADS, "past", SIZE] for name in past}
    return {**inputs, **empty, **past}, {**dims, **caches}


def words(batch: int, rows: int) -> Made:
    inputs = {
        "words": tokens(batch, rows, 7), "segments": tokens(batch, rows, 2),
        "table": floats(7, 4), "places": floats(9, 4, seed=1), "kinds": floats(2, 4, seed=2),
        "gamma": floats(4, seed=3), "beta": floats(4, seed=4), "mask": kept(batch, rows),
    }  # fmt: skip
    return inputs, {name: ["batch", "rows"] for name in ("words", "segments", "mask")}


def experts(batch: int, rows: int) -> Made:
    inputs = {
        "x": floats(batch, rows, 6), "router": floats(batch * rows, 4, seed=1),
        "w1": floats(4, 12, 6, seed=2), "b1": None, "w2": floats(4, 6, 12, seed=3),
    }  # fmt: skip
    return inputs, {"x": ["batch", "rows", 6], "router": ["batch*rows", 4]}


def table(batch: int, rows: int) -> Made:
    inputs = {
        "data": np.random.default_rng(0).integers(0, 256, (11, 32)).astype(np.uint8),
        "ids": tokens(batch, rows, 11), "scales": floats(11, 2),
    }  # fmt: skip
    return inputs, {"ids": ["batch", "rows"]}


def images(batch: int, rows: int) -> Made:
    inputs = {"x": floats(batch, rows, rows + 2, 8), "g": floats(8, seed=1), "b": floats(8, seed=2)}
    return inputs, {"x": ["batch", "rows", "columns", 8]}


MORE = {
    "attention": ("Attention", projection(), {"num_heads": HEADS}),
    "causal": ("Attention", projection(), {"num_heads": HEADS, "unidirectional": 1}),
    "ends": (
        "Attention",
        projection(lambda batch, rows: np.minimum(np.arange(batch) + 1, rows).astype(np.int32)),
        {"num_heads": HEADS},
    ),
    "kept tokens": ("Attention", projection(kept), {"num_heads": HEADS, "unidirectional": 1}),
    "kept pairs": (
        "Attention",
        projection(lambda b, r: np.repeat(kept(b, r)[:, None], r, 1)),
        {"num_heads": HEADS},
    ),
    "a past": ("MultiHeadAttention", queries, {"num_heads": HEADS, "unidirectional": 1}),
    "words": ("EmbedLayerNormalization", words, {}),
    "experts": ("MoE", experts, {"k": 2, "activation_type": "silu"}),
    "a table of few bits": ("GatherBlockQuantized", table, {"bits": 4, "block_size": 32}),
    "groups": ("GroupNorm", images, {"groups": 2, "activation": 0, "channels_last": 1}),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("name", MORE)
def test_operators_of_onnxruntime(name: str, target: str) -> None:
    kind, make, attributes = MORE[name]
    results = {"Attention": 1, "MultiHeadAttention": 3, "EmbedLayerNormalization": 2}
    types = (np.float32, np.int32) if name == "words" else (np.float32,) * results.get(kind, 1)
    program = None
    for batch, rows in ((2, 3), (1, 1), (3, 7)):
        inputs, dims = make(batch, rows)
        constants = [n for n, array in inputs.items() if array is not None and n not in dims]
        model, fed = contributed(kind, inputs, types, constants, **attributes)
        if program is None:
            program = mgx_mlir.compile(_opened(model, dims), target, FULL)
        if kind == "GroupNorm":  # onnxruntime has it on GPUs alone
            x = fed["x"].reshape(*fed["x"].shape[:3], 2, 4)
            mean, variance = (f(x, axis=(1, 2, 4), keepdims=True) for f in (np.mean, np.var))
            y = ((x - mean) / np.sqrt(variance + 1e-5)).reshape(fed["x"].shape)
            wanted = [y * inputs["g"] + inputs["b"]]
        else:
            wanted = expected(model, fed)
        assert_close(list(program.run(fed).values()), wanted, atol=1e-4)


def _opened(model: onnx.ModelProto, dims: Mapping[str, Sequence[str | int]]) -> onnx.ModelProto:
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for value in copy.graph.input:
        kind = value.type.tensor_type.elem_type
        value.CopyFrom(helper.make_tensor_value_info(value.name, kind, dims[value.name]))
    return copy
