"""Models for Triton's Python backend, whose module stands in for the server's."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mgx_mlir
from mgx_mlir.tools.mgx import main
from test.serving.digits import EXAMPLES, artifact, images, wanted


class Tensor:
    def __init__(self, name: str, array: np.ndarray) -> None:
        self.name, self.array = name, array

    def as_numpy(self) -> np.ndarray:
        return self.array


def server() -> ModuleType:
    """The part of triton_python_backend_utils that a model calls."""
    module: Any = ModuleType("triton_python_backend_utils")
    module.Tensor = Tensor
    module.TritonError = str
    module.InferenceResponse = lambda output_tensors=(), error=None: SimpleNamespace(
        outputs={tensor.name: tensor.array for tensor in output_tensors}, error=error
    )
    module.get_input_tensor_by_name = lambda request, name: request[name]
    return module  # type: ignore[no-any-return]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The model of a folder that the command wrote, as the server loads it."""
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", server())
    file = artifact(tmp_path)
    assert main(["triton", str(file), "-o", str(tmp_path / "repository")]) == 0
    folder = tmp_path / "repository" / "digits"
    spec = importlib.util.spec_from_file_location("triton_digits", folder / "1" / "model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.TritonPythonModel()
    config = {"max_batch_size": 32, "parameters": {"target": {"string_value": "cpu"}}}
    model.initialize({"model_config": json.dumps(config), "model_instance_kind": "CPU"})
    return SimpleNamespace(model=model, folder=folder, file=file)


def test_requests_that_come_together_are_one_batch(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = []
    run = made.model.program.run

    def noted(given: dict[str, np.ndarray]) -> Any:
        batches.append(len(given["image"]))
        return run(given)

    monkeypatch.setattr(made.model.program, "run", noted)
    parts = np.split(images()[:9], [2, 3])
    answers = made.model.execute([{"image": Tensor("image", part)} for part in parts])
    found = np.concatenate([answer.outputs["probabilities"] for answer in answers])
    np.testing.assert_allclose(found, wanted(made.file)[:9], 1e-5, 1e-6)
    assert [len(answer.outputs["probabilities"]) for answer in answers] == [2, 1, 6]
    assert batches == [9]


def test_a_wrong_request_has_an_error_and_spoils_no_other(made: Any) -> None:
    wrong = {"image": Tensor("image", np.zeros((1, 1, 7, 7), np.float32))}
    right = {"image": Tensor("image", images()[:1])}
    bad, good = made.model.execute([wrong, right])
    assert "'image'" in bad.error and good.error is None
    assert good.outputs["probabilities"].shape == (1, 10)


def test_the_configuration_is_that_of_the_signature(made: Any) -> None:
    text = (made.folder / "config.pbtxt").read_text()
    assert 'name: "digits"\nbackend: "python"\nmax_batch_size: 32' in text
    assert 'input [ { name: "image" data_type: TYPE_FP32 dims: [ 1, 8, 8 ] } ]' in text
    assert 'output [ { name: "probabilities" data_type: TYPE_FP32 dims: [ 10 ] } ]' in text
    assert "dynamic_batching" in text and "KIND_CPU" in text


def test_a_program_of_given_sizes_has_no_batches(tmp_path: Path) -> None:
    file = tmp_path / "given.mgx"
    mgx_mlir.save(mgx_mlir.compile_to_bytecode(EXAMPLES / "digits.onnx"), file)
    assert main(["triton", str(file), "-o", str(tmp_path), "--target", "gfx942"]) == 0
    text = (tmp_path / "given" / "config.pbtxt").read_text()
    assert "max_batch_size: 0" in text and "dims: [ 1, 1, 8, 8 ]" in text
    assert "dynamic_batching" not in text and "KIND_GPU" in text


def test_a_model_that_is_there_is_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "given.mgx"
    mgx_mlir.save(mgx_mlir.compile_to_bytecode(EXAMPLES / "digits.onnx"), file)
    assert main(["triton", str(file), "-o", str(tmp_path)]) == 0
    assert main(["triton", str(file), "-o", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err
