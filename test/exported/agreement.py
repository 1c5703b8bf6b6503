"""How a model that an exporter wrote agrees with onnxruntime, and the programs that this takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from mgx_mlir.models.staged import Model


def agree(
    path: Path,
    model: Model,
    sets: int = 1,
    tolerance: float | None = None,
    most: int | None = None,
) -> list[int]:
    """Runs each set of inputs, `sets` times over; how many programs were compiled by then.

    most: only so many sets. Raises AssertionError where a result is neither that of onnxruntime
    with its optimisations nor that without, within `tolerance` or that of the model's types.
    """
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    # Optimised, it rounds at other places, and quantized models move by steps: one has to agree.
    levels = onnxruntime.GraphOptimizationLevel
    sessions = [
        session_of(onnxruntime, path, level)
        for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL)
    ]
    tolerance = tolerance_of(path) if tolerance is None else tolerance
    compiled = []
    for inputs in list(inputs_of(path))[:most] * sets:
        found = model.run(inputs)
        expected = (session.run(None, inputs) for session in sessions)
        for key, plain, optimised in zip(model.outputs, *expected, strict=True):
            try:
                compare(found[key], plain, tolerance, key)
            except AssertionError:
                compare(found[key], optimised, tolerance, key)
        compiled.append(model.compiled)
    return compiled


def session_of(onnxruntime: Any, path: Path, level: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1  # of several, each rounds what is its own by its own range
    options.log_severity_level = 3  # exporters declare sizes that their models do not have
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def inputs_of(path: Path) -> Iterator[dict[str, np.ndarray]]:
    """The sets of inputs of a model; strings as objects."""
    for number in range(len(list(path.parent.glob(f"{path.stem}.*.npz")))):
        with np.load(path.with_suffix(f".{number}.npz")) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        yield {n: x.astype(object) if x.dtype.kind == "U" else x for n, x in found.items()}


def tolerance_of(path: Path) -> float:
    """Relative to the largest element: rounded values may fall to the other side."""
    graph = onnx.load(path).graph
    if any("Quantize" in node.op_type for node in graph.node):
        return 2e-2
    values = (*graph.input, *graph.output, *graph.value_info)
    kinds = {value.type.tensor_type.elem_type for value in values}
    kinds |= {tensor.data_type for tensor in graph.initializer}
    return 2e-2 if onnx.TensorProto.FLOAT16 in kinds else 1e-4


def compare(found: Any, wanted: Any, tolerance: float, where: str) -> None:
    """Compares arrays, and what lists and maps hold."""
    if isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
            compare(a, b, tolerance, f"{where}[{number}]")
        return
    if isinstance(wanted, dict):
        assert list(found) == list(wanted), where
        found, wanted = list(found.values()), list(wanted.values())
    a, b = np.asarray(found), np.asarray(wanted)
    assert (a.shape, a.dtype.kind) == (b.shape, b.dtype.kind), where
    if b.dtype.kind != "f":
        np.testing.assert_array_equal(a, b, where)
        return
    finite = np.abs(b[np.isfinite(b)])
    scale = finite.max() if finite.size else 0.0
    # Sums of f32 in another order are off by parts of the largest element.
    np.testing.assert_allclose(
        a.astype(np.float64), b, rtol=2 * tolerance, atol=tolerance * scale, err_msg=where
    )
