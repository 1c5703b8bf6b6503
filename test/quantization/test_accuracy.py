"""The error of quantized models, and the mixed precision that keeps a loss."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import mgx_mlir
from mgx_mlir import Calibration, Precision, quantize
from mgx_mlir.errors import UsageError
from mgx_mlir.quantization.accuracy import Error
from mgx_mlir.quantization.search import Trial, search
from mgx_mlir.tools.mgx import main

from ..onnx_models import Builder
from ..tools.report.test_page import Page

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((12, 2, 16)).astype(np.float32)
SAMPLES = [{"x": rows} for rows in ROWS]


def layers():
    """Three products with Relu between them."""
    b = Builder(0)
    x = "x"
    for number in range(3):
        weight = RNG.normal(0, 0.3, (16, 16)).astype(np.float32)
        x = b.op("MatMul", x, b.add(weight, f"w{number}"))
        x = b.op("Relu", x) if number < 2 else x
    return b.model({"x": (TensorProto.FLOAT, [2, 16])}, {"y": (x, [2, 16])}, "net")


def test_errors_are_those_of_numpy():
    error = Error()
    expected, found = RNG.standard_normal((2, 4, 8)), RNG.standard_normal((2, 4, 8))
    for a, b in zip(expected, found, strict=True):
        error.add(a, b, classes=True)
    noise = np.square(expected - found).sum()
    assert error.sqnr == pytest.approx(10 * np.log10(np.square(expected).sum() / noise))
    a, b = expected.ravel(), found.ravel()
    assert error.cosine == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    assert error.worst == pytest.approx(np.abs(a - b).max())
    assert error.agreement == (expected.argmax(-1) == found.argmax(-1)).mean()
    same = Error()
    same.add(expected, expected)
    assert (same.sqnr, same.agreement) == (np.inf, None)
    assert same.cosine == pytest.approx(1)


def test_elements_that_f32_does_not_have_do_not_count():
    error = Error()
    error.add(np.array([1, np.inf, np.nan]), np.array([1, 5, 7.0]))
    assert error.sqnr == np.inf


def test_each_node_and_the_outputs_are_measured():
    model = layers()
    made = quantize(model, Precision("int8"), Calibration(SAMPLES))
    accuracy = made.accuracy()
    assert [row.operator for row in accuracy.rows].count("MatMul") == 3
    assert accuracy.samples == 12
    assert set(accuracy.outputs) == {"y"}
    assert 25 < accuracy.outputs["y"].sqnr < 60
    found = np.array([mgx_mlir.compile(made.source).run(s)["y"] for s in SAMPLES])
    expected = np.array([mgx_mlir.compile(model).run(s)["y"] for s in SAMPLES])
    ratio = 10 * np.log10(np.square(expected).sum() / np.square(expected - found).sum())
    assert accuracy.outputs["y"].sqnr == pytest.approx(ratio, abs=0.5)
    assert accuracy.outputs["y"].rows == 24


@pytest.mark.parametrize("precision", [Precision("int8"), Precision("", "int4", block=16)])
def test_switches_choose_between_f32_and_the_quantized_model(precision):
    model = layers()
    made = quantize(model, precision, Calibration(SAMPLES))
    trial = Trial(made.network, precision, made.ranges, made.samples, made.options)
    names = [choice.node for choice in made.choices]
    assert trial.errors([])[0].noise == 0
    everything = trial.errors(names)[0].sqnr
    assert everything == pytest.approx(made.accuracy().outputs["y"].sqnr, abs=0.3)
    assert trial.errors(names[:1])[0].sqnr > everything


def test_the_search_takes_back_the_most_sensitive_product(tmp_path):
    b = Builder(0)
    weights = [RNG.normal(0, 0.3, (16, 16)).astype(np.float32) for _ in range(3)]
    y = "x"
    for number, weight in enumerate(weights):
        y = b.op("MatMul", y, b.add(weight, f"w{number}"))
        if number == 0:  # a large channel spoils the scale of the next product's operand
            scale = np.ones(16, np.float32)
            scale[5] = 3000
            y = b.op("Mul", y, b.add(scale, "up"))
            weights[1][5] = 0
    model = b.model({"x": (TensorProto.FLOAT, [2, 16])}, {"y": (y, [2, 16])}, "net")
    steps = []
    made = quantize(
        model,
        Precision("int8"),
        Calibration(SAMPLES, method="minmax"),
        max_loss=0.05,
        tell=steps.append,
    )
    assert [choice.precision for choice in made.choices] == ["int8", "f32", "int8"]
    assert [step.node for step in steps] == ["", made.choices[1].node]
    assert steps[0].loss > 0.05 >= steps[1].loss
    assert made.accuracy().outputs["y"].loss <= 0.05


def test_a_loss_that_nothing_keeps_is_an_error():
    model = layers()
    made = quantize(model, Precision("int8"), Calibration(SAMPLES))
    trial = Trial(made.network, made.precision, made.ranges, made.samples, made.options)
    with pytest.raises(UsageError, match="no quantized product keeps"):
        search(trial, -1.0)
    with pytest.raises(UsageError, match="measured on data"):
        quantize(model, Precision("int8"), max_loss=0.1)


def test_the_verbs_print_and_report_the_errors(tmp_path, capsys):
    file, data, page = (str(tmp_path / n) for n in ("<m>.onnx", "d.npz", "r.html"))
    onnx.save(layers(), file)
    np.savez(data, x=ROWS)
    words = ["--calibrate", data, "--samples", "4"]
    out = str(tmp_path / "q.onnx")
    assert main(["quantize", file, "-o", out, "--int8", *words, "--report", page]) == 0
    shown = capsys.readouterr().out
    assert "output y" in shown and "top-1 class" in shown
    text = (tmp_path / "r.html").read_text()
    data = Page(text).data
    assert len(data["plots"][0]["points"]) == 6 and len(data["graphs"][0]["steps"]) >= 6
    assert {table["id"] for table in data["tables"]} == {"outputs", "nodes"}
    assert "&lt;m&gt;.onnx" in text and "<m>" not in text
    for words_of in (["--int8"], ["--fp16"], ["--int4-weights", "--block", "16"]):
        assert main(["verify", file, "--against", "f32", *words_of, *words, "--json"]) == 0
        record = json.loads(capsys.readouterr().out)
        assert record["samples"] == 4 and record["outputs"]["y"]["sqnr"] > 10
    strict = ["--int2-weights", "--block", "16", "--max-loss", "0%"]
    assert main(["verify", file, "--against", "f32", *strict, *words]) == 1
    assert "more than 0" in capsys.readouterr().out
    assert main(["verify", file, "--against", "f32", *words]) == 2
    assert "give --int8, --fp16" in capsys.readouterr().err
    assert main(["quantize", file, "-o", out, "--int8", "--report", page]) == 2
