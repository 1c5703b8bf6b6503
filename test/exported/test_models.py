"""Models as exporters write them, against onnxruntime: `make test-models` writes them first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from mgx_mlir.compiler import CompileOptions
from mgx_mlir.models.staged import Model
from mgx_mlir.models.staged.check import check
from mgx_mlir.settings import Settings
from test.exported.export import EXPORTERS, FOLDER

pytestmark = pytest.mark.slow

# Models that run on an emulated chip too: small ones, of the kinds of work that there are.
ON_CHIPS = {
    "jax2onnx/scan": "gfx1100",
    "keras/cnn": "gfx942",
    "keras/transformer": "gfx942",
    "onnxruntime_tools/bert_fused": "gfx942",
    "onnxruntime_tools/resnet_static_qdq": "gfx1100",
    "onnxscript/loop_with_break": "gfx1100",
    "onnxsim/lstm_onnxsim": "gfx942",
    "paddle2onnx/transposed_convolutions": "gfx942",
    "pytorch/bert": "gfx942",
    "torchscript/lstm": "gfx1100",
    "skl2onnx/regressor_random_forest": "gfx942",
    "spox/attention": "gfx1100",
    "tf2onnx/convolutions": "gfx1100",
}


def names() -> Iterator[str]:
    """EXPORTER/MODEL of every file; EXPORTER alone where there is none."""
    for exporter in EXPORTERS:
        files = sorted(p for s in ("onnx", "refused") for p in (FOLDER / exporter).glob(f"*.{s}"))
        yield from (f"{exporter}/{path.stem}" for path in files) if files else (exporter,)


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> Settings:
    cache = tmp_path_factory.mktemp("kernels")
    chips = tuple(sorted(set(ON_CHIPS.values())))
    return Settings(cache_dir=cache, jobs=1, threads=2, hip="emulated", emulated_devices=chips)


@pytest.mark.parametrize("name", list(names()))
def test_an_exported_model_agrees_with_onnxruntime(name, settings):
    path = FOLDER / f"{name}.onnx"
    if not path.is_file():
        refused = path.with_suffix(".refused")
        why = refused.read_text().strip().splitlines()[-1] if refused.is_file() else "not exported"
        pytest.skip(f"{name}: {why}; `make test-models` exports")
    onnxruntime = pytest.importorskip("onnxruntime")
    onnxruntime.set_default_logger_severity(4)
    # Optimised, it rounds at other places, and quantized models move by steps: one has to agree.
    levels = onnxruntime.GraphOptimizationLevel
    sessions = [
        _session(onnxruntime, path, level)
        for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL)
    ]
    tolerance = _tolerance(path)
    for target in filter(None, ("cpu", ON_CHIPS.get(name))):
        model = Model(path, target=target, settings=settings)
        for inputs in _inputs(path):
            found = model.run(inputs)
            expected = (session.run(None, inputs) for session in sessions)
            for key, plain, optimised in zip(model.outputs, *expected, strict=True):
                try:
                    _compare(found[key], plain, tolerance, key)
                except AssertionError:
                    _compare(found[key], optimised, tolerance, key)
        if name.startswith("architectures/"):
            assert model.compiled == 1  # one program, whatever the sizes
    sizes = {key: x.shape for key, x in next(_inputs(path)).items()}
    assert not check(path, CompileOptions(input_dims=sizes)).unsupported


def _session(onnxruntime: Any, path: Path, level: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _inputs(path: Path) -> Iterator[dict[str, np.ndarray]]:
    """The sets of inputs of a model; strings as objects."""
    for number in range(len(list(path.parent.glob(f"{path.stem}.*.npz")))):
        with np.load(path.with_suffix(f".{number}.npz")) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        yield {n: x.astype(object) if x.dtype.kind == "U" else x for n, x in found.items()}


def _tolerance(path: Path) -> float:
    """Relative to the largest element: rounded values may fall to the other side."""
    graph = onnx.load(path).graph
    if any("Quantize" in node.op_type for node in graph.node):
        return 2e-2
    values = (*graph.input, *graph.output, *graph.value_info)
    kinds = {value.type.tensor_type.elem_type for value in values}
    kinds |= {tensor.data_type for tensor in graph.initializer}
    return 2e-2 if onnx.TensorProto.FLOAT16 in kinds else 1e-4


def _compare(found: Any, wanted: Any, tolerance: float, where: str) -> None:
    """Compares arrays, and what lists and maps hold."""
    if isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
            _compare(a, b, tolerance, f"{where}[{number}]")
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
