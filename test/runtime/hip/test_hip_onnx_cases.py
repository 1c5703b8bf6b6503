"""ONNX's own test cases of its operators on emulated chips, against the host."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import onnx
import pytest
from hip_programs import CHIPS

import mgx_mlir
from mgx_mlir import emulator
from mgx_mlir.artifact import Artifact
from mgx_mlir.errors import UserError
from test.importer.test_onnx_cases import MODULES, array_of, cases_of, with_constants

# The device refuses everything after a fault, so each module of cases starts afresh.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("chip", CHIPS)
def test_cases_of(chip: str, module: str) -> None:
    wrong = []
    for case in cases_of(module):
        artifact, fed = compiled(case)
        if artifact is None:
            continue
        host = mgx_mlir.compile(artifact, "cpu").run(fed)
        found = mgx_mlir.compile(artifact, chip).run(fed)
        wrong += [case.name for name in host if not agree(found[name], host[name])]
    gc.collect()
    emulator.reset_device(CHIPS.index(chip))
    assert not wrong


def compiled(case: Any) -> tuple[Artifact | None, dict[str, np.ndarray]]:
    """The case's model, where it compiles with its inputs or with the small ones constant."""
    inputs = case.data_sets[0][0]
    if not all(isinstance(a, np.ndarray | np.generic | onnx.TensorProto) for a in inputs):
        return None, {}  # sequences and optionals
    given = {v.name: array_of(a) for v, a in zip(case.model.graph.input, inputs, strict=False)}
    for constants in (False, True):
        model, fed = with_constants(case.model, given) if constants else (case.model, given)
        dims = {name: list(array.shape) for name, array in fed.items()}
        try:
            options = mgx_mlir.CompileOptions(input_dims=dims)
            return mgx_mlir.compile_to_bytecode(model, options), fed
        except UserError:
            continue
    return None, {}


def agree(found: np.ndarray, expected: np.ndarray) -> bool:
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    if np.issubdtype(expected.dtype, np.integer) or expected.dtype == np.bool_:
        return np.array_equal(found, expected)
    tolerance = 1e-4 if expected.dtype.itemsize >= 4 else 2e-2
    a, b = found.astype(np.float64), expected.astype(np.float64)
    return np.allclose(a, b, rtol=tolerance, atol=tolerance / 10, equal_nan=True)
