"""The references that `mgx verify` compares with."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np

from mgx_mlir.errors import UsageError
from mgx_mlir.tools import options as shared


def reference_outputs(
    options: argparse.Namespace, inputs: Mapping[str, np.ndarray]
) -> tuple[str, dict[str, np.ndarray]]:
    """The reference's name and its outputs for the inputs. Raises UsageError."""
    if options.reference in ("auto", "onnxruntime"):
        found = _onnxruntime(options, inputs)
        if found is not None:
            return "onnxruntime", found
    from mgx_mlir.compiler import import_model
    from mgx_mlir.reference import evaluate

    graph = import_model(options.model, shared.compile_options(options))
    return "the numpy reference", evaluate(graph.module, graph.weights, dict(inputs))


def _onnxruntime(
    options: argparse.Namespace, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray] | None:
    """onnxruntime's outputs; None where it is missing or refuses and another may serve."""
    try:
        import onnxruntime
    except ImportError as error:
        if options.reference == "onnxruntime":
            raise UsageError("onnxruntime is not installed; pip install onnxruntime") from error
        return None
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            str(options.model), settings, providers=["CPUExecutionProvider"]
        )
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, dict(inputs)), strict=True))
    except Exception as error:
        # onnxruntime raises a class of its own for each status; all derive from Exception.
        if options.reference == "onnxruntime":
            raise UsageError(f"onnxruntime refuses the model: {error}") from error
        return None
