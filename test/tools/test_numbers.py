"""Options that take numbers, and those that exclude each other, in every verb."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import mgx_mlir
from mgx_mlir.errors import UsageError
from mgx_mlir.models.generation import Sampling
from mgx_mlir.quantization import Precision, quantize
from mgx_mlir.tools.mgx import main
from mgx_mlir.tuning.search import Effort

FLOATS = {
    "tune": ["--budget"],
    "generate": ["--temperature", "--top-p", "--repetition-penalty"],
    "verify": ["--rtol", "--atol", "--rms-tol", "--smooth", "--max-loss"],
    "quantize": ["--smooth", "--max-loss"],
}
WHOLE = {
    "tune": ["--tried", "--rounds", "--batch"],
    "generate": ["--top-k", "--max-new-tokens", "--seed"],
    "run": ["--device", "--samples", "--seed", "--trim"],
    "perf": ["--runs"],
}


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "-1", "1e999", "two"])
@pytest.mark.parametrize(
    ("verb", "flag"), [(verb, flag) for verb, flags in FLOATS.items() for flag in flags]
)
def test_numbers_are_finite_and_not_below_0(
    verb: str, flag: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"'{text}' is no number from 0" in refused(capsys, verb, "m.onnx", f"{flag}={text}")


@pytest.mark.parametrize("text", ["-1", "1.5", "nan", "\N{SUPERSCRIPT TWO}"])
@pytest.mark.parametrize(
    ("verb", "flag"), [(verb, flag) for verb, flags in WHOLE.items() for flag in flags]
)
def test_counts_are_whole_numbers(
    verb: str, flag: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"'{text}' is no whole number from" in refused(capsys, verb, "m.onnx", f"{flag}={text}")


@pytest.mark.parametrize("number", [np.nan, np.inf, -1.0])
def test_numbers_of_the_api_are_finite_too(number: float) -> None:
    with pytest.raises(UsageError, match="budget is"):
        Effort(budget=number)
    for name in ("temperature", "top_p", "repetition_penalty"):
        with pytest.raises(UsageError, match=name):
            Sampling(**{name: number}).check()
    with pytest.raises(UsageError, match="max_loss is"):
        quantize("m.onnx", Precision("int8"), max_loss=number)


@pytest.mark.parametrize(
    "verb", ["compile", "generate", "perf", "quantize", "read", "run", "tune", "verify"]
)
def test_one_type_of_floats_is_chosen(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, verb, "m.onnx", "--fp16", "--bf16")
    assert "--bf16: not allowed with argument --fp16" in said


@pytest.mark.parametrize(
    "words",
    ["--int8 --fp8", "--int8 --mx fp4", "--fp8 --mx fp8", "--int4-weights --int2-weights",
     "--kv-cache fp4"],
)  # fmt: skip
@pytest.mark.parametrize("verb", ["compile", "perf", "quantize", "run", "verify"])
def test_one_type_of_products_is_chosen(
    verb: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, verb, "m.onnx", *words.split())


def test_the_api_has_one_type_of_floats() -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
    with pytest.raises(UsageError, match="use one of"):
        mgx_mlir.compile_to_bytecode(onnx.parser.parse_model(text), floats="f16,bf16")
