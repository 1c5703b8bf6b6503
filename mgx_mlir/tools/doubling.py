"""A program in f64, for `mgx verify --ref-use-double`: its floats of 16 and 32 bits are widened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.constants import constant_array
from mgx_mlir.dialects.types import dims_of
from mgx_mlir.reference import evaluate
from mgx_mlir.rewriting.graph import Graph, main_function, set_signature
from mgx_mlir.rewriting.queries import blocks

_WIDENED = {np.dtype(kind) for kind in (np.float16, np.float32, ml_dtypes.bfloat16)}


class DoubleProgram:
    """The reference of a graph, which it changes: all of it is computed in f64."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        main = main_function(graph.module)
        with graph.module.context, ir.Location.unknown():
            for block in blocks(main):
                for value in block.arguments:
                    _widen(value)
                for op in list(block.operations):
                    if isinstance(op, mgx.ConstantOp):
                        _widen_constant(op)
                        continue
                    for result in op.results:
                        _widen(result)
            set_signature(main)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The outputs in f64 for inputs of the graph's types before."""
        weights = {key: widened(weight.array()) for key, weight in self._graph.weights.items()}
        wide = {name: widened(array) for name, array in inputs.items()}
        return dict(evaluate(self._graph.module, weights, wide, accumulate=np.float64))


def widened(array: np.ndarray) -> np.ndarray:
    """A float tensor of 16 or 32 bits in f64; others as they are."""
    return array.astype(np.float64) if array.dtype in _WIDENED else array


def _widen(value: ir.Value) -> None:
    if mgx.numpy_dtype(value.type) in _WIDENED:
        value.set_type(mgx.tensor_type(dims_of(value.type), mgx.element_type(np.float64)))


def _widen_constant(op: mgx.ConstantOp) -> None:
    array = constant_array(op)
    if array.dtype in _WIDENED:
        with ir.InsertionPoint(op):
            wide = mgx.constant(np.array(array, np.float64))
        op.results[0].replace_all_uses_with(wide)
        op.operation.erase()
