"""Caches of keys and values in fp8."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto

import mgx_mlir
from mgx_mlir import Calibration, Precision, quantize
from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.models.generation import Decoder
from mgx_mlir.models.generation.form import Form
from mgx_mlir.tools.mgx import main

from ..decoder_models import EACH, LAYERS, SHARED, grouped, llama
from .test_quantize import convolutional, sqnr

FP8 = ml_dtypes.float8_e4m3fn
CACHE = Precision(kv_cache="fp8")


def inputs(past=5, new=2):
    rng = np.random.default_rng(0)
    given = {
        "input_ids": rng.integers(0, 40, (1, new)),
        "attention_mask": np.ones((1, past + new), np.int64),
        "position_ids": np.arange(past, past + new)[None],
    }
    for layer in range(LAYERS):
        for part in ("key", "value"):
            cache = rng.normal(0, 1, (1, SHARED, past, EACH)).astype(FP8).astype(np.float32)
            given[f"past_key_values.{layer}.{part}"] = cache
    return given


def narrow(given):
    return {n: a.astype(FP8) if n.startswith("past") else a for n, a in given.items()}


def test_a_step_is_that_of_f32_with_rounded_entries():
    model, given = llama(), inputs()
    expected = mgx_mlir.Model(model).run(given)
    made = quantize(model, CACHE)
    onnx.checker.check_model(made.proto(), full_check=True)
    found = mgx_mlir.Model(made.source).run(narrow(given))
    assert sqnr(found["logits"], expected["logits"]) > 20
    for name, array in expected.items():
        if name == "present.0.value":  # the same in both models, but for its rounding
            assert found[name].dtype == FP8
            wide, rounded = (x.astype(np.float32) for x in (found[name], array.astype(FP8)))
            assert (wide == rounded).mean() > 0.97
            np.testing.assert_array_equal(wide[:, :, :5], given["past_key_values.0.value"])


def test_tokens_are_generated_with_a_cache_of_fp8(tmp_path):
    model = llama()
    prompt, count = [3, 11, 7], 12
    quantize(model, CACHE).save(tmp_path / "q.onnx")
    decoder = Decoder(tmp_path / "q.onnx")
    assert decoder.form is Form.APPENDED
    (found,) = decoder.generate([prompt], max_new_tokens=count)
    step = mgx_mlir.Model(quantize(model, CACHE).source)
    caches = {
        f"past_key_values.{layer}.{part}": np.zeros((1, SHARED, 0, EACH), FP8)
        for layer in range(LAYERS) for part in ("key", "value")
    }  # fmt: skip
    tokens, fresh = list(prompt), list(prompt)
    for _ in range(count):
        start = len(tokens) - len(fresh)
        results = step.run(
            {"input_ids": np.array([fresh]), "attention_mask": np.ones((1, len(tokens)), np.int64),
             "position_ids": np.arange(start, len(tokens))[None], **caches}
        )  # fmt: skip
        fresh = [int(results["logits"][0, -1].argmax())]
        tokens += fresh
        caches = {n: results[n.replace("past_key_values", "present")] for n in caches}
    assert list(found)[-count:] == tokens[-count:]


def test_caches_of_group_query_attention_keep_their_memory():
    model = grouped()
    made = quantize(model, CACHE)
    prompt, count = [3, 11, 7], 12
    wide, small = (Decoder(m) for m in (model, made.source))
    assert small.form is wide.form
    (expected,), (found,) = (d.generate([prompt], max_new_tokens=count) for d in (wide, small))
    assert len(found) == count and found[:2] == expected[:2]
    kinds = {v.name: v.type.tensor_type.elem_type for v in made.proto().graph.input}
    assert {k for n, k in kinds.items() if n.startswith("past")} == {TensorProto.FLOAT8E4M3FN}


def test_other_precisions_go_with_it():
    model, given = llama(), inputs()
    made = quantize(model, Precision("int8", kv_cache="fp8"), Calibration([given]))
    assert "int8" in {choice.precision for choice in made.choices}
    accuracy = made.accuracy()
    assert accuracy.outputs["logits"].sqnr > 15


def test_models_without_such_caches_are_refused():
    with pytest.raises(UsageError, match="the model has no cache"):
        quantize(convolutional(), CACHE)
    model = llama()
    model.graph.node.add(op_type="Abs", input=["past_key_values.0.key"], output=["other"])
    with pytest.raises(UnsupportedError, match=r"past_key_values.0.key' is read by"):
        quantize(model, CACHE)


def test_the_command_line_stores_the_cache_in_fp8(tmp_path, capsys):
    onnx.save(llama(), tmp_path / "m.onnx")
    out = tmp_path / "q.onnx"
    words = ["quantize", str(tmp_path / "m.onnx"), "-o", str(out), "--kv-cache", "fp8"]
    assert main([*words, "--int4-weights"]) == 0
    kinds = {v.name: v.type.tensor_type.elem_type for v in onnx.load(out).graph.input}
    assert kinds["past_key_values.0.key"] == TensorProto.FLOAT8E4M3FN
