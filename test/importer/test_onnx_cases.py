"""ONNX's own test cases of its operators, in each of the project's supported forms.

A case counts where its operator is in the table. Inputs that must be constants (axes,
shapes, sizes of windows) are made so.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import cache

import numpy as np
import onnx
import onnx.backend.test.case.node as cases
import pytest
from onnx import numpy_helper

from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import parse_onnx
from test.importer.agreement import assert_close, outputs_of

# Cases that ask for more than the importer takes, by a part of the reason that it gives.
LEFT_OUT = (
    "this operator is not supported",
    "operators of domain",
    "of string elements",
    "of undefined elements",
    "inputs of",
    "training_mode",
    "is used",
    "rounds in a way of its own",
    "when the model runs",
    "is not known",
    "branches give tensors of different types",
    "changes its type",
    "whose bits differ in number",
)
# Where onnx's expectation is one of several readings: conversions out of range, which ONNX
# leaves open, and the length of a result that scales do not fill (onnxruntime rounds it).
OPEN_QUESTIONS = ("UINT4", "INT4", "UINT2", "INT2", "scales_linear_align_corners",
                  "scales_cubic_align_corners")  # fmt: skip


@cache
def cases_of(module: str) -> list:
    """The cases that a module of onnx defines as it is imported."""
    known = cases._NodeTestCases
    before = len(known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(f"{cases.__name__}.{module}")
    return known[before:]


MODULES = sorted(m.name for m in pkgutil.iter_modules(cases.__path__) if m.name[0] != "_")
SLOW = frozenset(
    """affinegrid attention averagepool castlike flexattention layernormalization
    linear_attention lppool maxpool negativeloglikelihoodloss softmax_cross_entropy_loss""".split()
)


@pytest.mark.parametrize(
    "module", [pytest.param(m, marks=[pytest.mark.slow] if m in SLOW else []) for m in MODULES]
)
def test_cases_of(module: str):
    for case in cases_of(module):
        if not any(part in case.name for part in OPEN_QUESTIONS):
            run(case)


def run(case) -> None:
    inputs, outputs = case.data_sets[0]
    arrays = (np.ndarray, np.generic, onnx.TensorProto)
    if not all(isinstance(a, arrays) for a in (*inputs, *outputs)):
        return  # sequences and optionals
    given = {v.name: array_of(a) for v, a in zip(case.model.graph.input, inputs, strict=False)}
    graph = None
    for constants in (False, True):
        try:
            model, fed = with_constants(case.model, given) if constants else (case.model, given)
            dims = {name: list(array.shape) for name, array in fed.items()}
            graph = parse_onnx(model, input_dims=dims)
            break
        except UnsupportedError as error:
            assert any(part in str(error) for part in LEFT_OUT), f"{case.name}: {error}"
    if graph is None:
        return
    want = [array_of(a) for a in outputs]
    half = any(a.dtype.itemsize == 2 for a in want)
    tolerance = {"rtol": 1e-2, "atol": 1e-2} if half else {}
    try:
        assert_close(outputs_of(graph, fed), want, **tolerance)
    except AssertionError as error:
        raise AssertionError(f"{case.name}: {error}") from error


def array_of(value: np.ndarray | onnx.TensorProto) -> np.ndarray:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value)


def with_constants(
    model: onnx.ModelProto, given: dict[str, np.ndarray]
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model with its small vectors and scalars as initialisers."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    small = {n: a for n, a in given.items() if a.ndim <= 1 and a.dtype != object and a.size <= 64}
    changed.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in small.items())
    kept = [v for v in changed.graph.input if v.name not in small]
    del changed.graph.input[:]
    changed.graph.input.extend(kept)
    return changed, {n: a for n, a in given.items() if n not in small}
