"""Models of PyTorch and transformers, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from mgx_mlir.settings import Settings
from mgx_mlir.staged import Model
from test.onnx_models import random_inputs

pytestmark = pytest.mark.slow

NAMES = (
    *("bert", "detector", "distilbert", "efficientnet", "gpt2", "gru", "lstm", "mobilenet"),
    *("resnet", "t5", "unet", "vit", "whisper"),
)


def sized(model: onnx.ModelProto, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Random inputs of these sizes of the symbolic dimensions."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value in copy.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_value = sizes[dim.dim_param]
    return random_inputs(copy)


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> Settings:
    return Settings(cache_dir=tmp_path_factory.mktemp("kernels"), jobs=1, threads=2)


@pytest.mark.parametrize("name", NAMES)
def test_an_exported_model_agrees_with_onnxruntime(name, settings):
    for package in ("torch", "torchvision", "transformers", "onnxscript"):
        pytest.importorskip(package)
    onnxruntime = pytest.importorskip("onnxruntime")
    from test.exported.models import EXAMPLES, export

    assert set(NAMES) == set(EXAMPLES)
    exported = export(name)
    data = exported.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    model = Model(data, settings=settings)
    for number in (2, 5):
        sizes = {"batch": number - 1, "length": number + 4, "past": number, "answer": number}
        inputs = sized(exported, sizes)
        expected = session.run(None, inputs)
        found = model.run(inputs).values()
        for a, b in zip(found, expected, strict=True):
            assert a.shape == b.shape
            scale = np.abs(b).max()
            assert b.dtype.kind != "f" or scale > 0.005  # not all but zero
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-4 * scale)
