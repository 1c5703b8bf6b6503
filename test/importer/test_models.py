"""Whole models agree with onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from mgx_mlir.importer import check_model, parse_onnx
from test.importer.agreement import assert_agrees, expected, outputs_of
from test.onnx_models import MODELS, light, light_names, random_inputs, small

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {"rtol": 1e-3, "atol": 1e-4}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_small_models_agree(name):
    model = small(name)
    assert_agrees(model, random_inputs(model))


def test_digits_reads_held_out_images():
    graph = parse_onnx(ROOT / "examples" / "digits.onnx")
    data = np.load(ROOT / "examples" / "digits_test.npz")
    right = 0
    for image, label in zip(data["images"][:40], data["labels"], strict=False):
        (shares,) = outputs_of(graph, {"image": image[None, None].astype(np.float32)})
        right += shares.argmax() == label
    assert right >= 38


@pytest.mark.parametrize("name", light_names())
def test_light_models_are_supported(name):
    report = check_model(light(name))
    assert report.supported, str(report)


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_light_models_with_random_weights_agree(name):
    model = light(name, seed=0)
    assert_agrees(model, random_inputs(model))


@pytest.mark.slow
@pytest.mark.parametrize("name", light_names())
def test_all_light_models_with_random_weights_agree(name, tmp_path):
    model = light(name, seed=0)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    inputs = random_inputs(model)
    for got, want in zip(
        outputs_of(parse_onnx(path), inputs), expected(model, inputs), strict=True
    ):
        np.testing.assert_allclose(got, want, **OPTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MODELS))
def test_full_models_agree(name):
    model = MODELS[name]()
    assert_agrees(model, random_inputs(model))


def test_node_names_are_locations():
    text = parse_onnx(ROOT / "examples" / "digits.onnx").module.operation.get_asm(
        enable_debug_info=True
    )
    assert 'loc("conv2")' in text


def test_two_imports_give_the_same_program():
    model = small("vit")
    assert str(parse_onnx(model).module) == str(parse_onnx(model).module)
