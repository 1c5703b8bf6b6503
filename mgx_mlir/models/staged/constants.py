"""The values of a graph that are known without running."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from mgx_mlir.artifact.weights import Weight
from mgx_mlir.errors import MgxError, ModelError, UnsupportedError
from mgx_mlir.importer import tensor_data
from mgx_mlir.models import host
from mgx_mlir.models.host.evaluate import Evaluator
from mgx_mlir.models.host.values import normal
from mgx_mlir.models.staged.partition import Known


def value_of(entry: Known, opsets: Mapping[str, int]) -> Any:
    """The value of a constant in the forms of inputs. Raises ModelError."""
    if isinstance(entry, Weight):
        return entry.array()
    if isinstance(entry, TensorProto):
        try:
            return tensor_data.small_array(entry, entry.name)
        except UnsupportedError:
            return normal(onnx.numpy_helper.to_array(entry))
    try:
        row = host.HostOperator("", "Constant", host.Kind.STRINGS)
        return Evaluator(entry, row, opsets).run([], lambda seed: np.random.RandomState(seed))[0]
    except MgxError as error:
        raise ModelError(f"a constant cannot be read: {error}") from error
