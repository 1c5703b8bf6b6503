"""`mgx verify`: differences that the reference shows against itself are told apart."""

from __future__ import annotations

import argparse
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

from mgx_mlir.tools import references
from mgx_mlir.tools.comparing import compare
from mgx_mlir.tools.mgx import main

FIRST = np.array([1, 2, 3, 4], np.float32)


def verdict(found: np.ndarray, **variants: np.ndarray) -> tuple[bool, str]:
    result = compare(found, {"unoptimised": FIRST.astype(found.dtype), **variants}, None, None)
    return result.ok, result.text


def test_one_variant_that_agrees_is_enough() -> None:
    other = FIRST + np.float32(0.5)
    ok, text = verdict(other, optimised=other)
    assert ok
    assert text.startswith("ok; unoptimised: worst") and "optimised: worst 0 of" in text


def test_elements_where_the_reference_differs_from_itself_are_excused() -> None:
    optimised = FIRST + np.array([0, 0.5, 0, 0], np.float32)
    ok, text = verdict(FIRST - np.array([0, 0.4, 0, 0], np.float32), optimised=optimised)
    assert ok and "at 1 of these the reference differs from itself by as much (optimised)" in text


@pytest.mark.parametrize("change", [[0, 0.5, 0, 0.5], [0, 5, 0, 0]], ids=["elsewhere", "by more"])
def test_other_differences_count(change: list[float]) -> None:
    optimised = FIRST + np.array([0, 0.5, 0, 0], np.float32)
    ok, _ = verdict(FIRST - np.array(change, np.float32), optimised=optimised)
    assert not ok


def test_places_of_ties_may_be_any() -> None:
    found = np.array([1, 9, 3, 4])
    assert verdict(found, nudged=np.array([1, 7, 3, 4]))[0]
    assert not verdict(found, nudged=np.array([7, 2, 3, 4]))[0]


def test_a_shape_that_the_reference_does_not_have_fails() -> None:
    ok, text = verdict(FIRST[:3])
    assert not ok and "shape (3,), expected (4,)" in text
    assert verdict(FIRST[:3], nudged=FIRST[:3])[0]


def model(file: Path, text: str) -> str:
    onnx.save(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]>' + text), file)
    return str(file)


def test_a_near_tie_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sums of both rows are the same number, and any rounding decides which is larger."""
    text = "g (float[2, 999] x) => (int64[1] y, float[2] s) {"
    text += "s = ReduceMean<axes = [1], keepdims = 0>(x) y = ArgMax<keepdims = 1>(s) }"
    generator = np.random.default_rng(0)
    row = generator.standard_normal(999).astype(np.float32)
    np.save(tmp_path / "x.npy", np.stack([row, generator.permutation(row)]))
    file = model(tmp_path / "m.onnx", text)
    assert main(["verify", file, "--input", f"x={tmp_path / 'x.npy'}"]) == 0
    assert "verified" in capsys.readouterr().out


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_nudged_inputs_keep_their_shape_and_type(dtype: type, shape: tuple[int, ...]) -> None:
    seen = []
    given = np.full(shape, 3, dtype)
    reference = references.Reference("r", {"": {}}, lambda v: seen.append(v["s"]), {"s": given})
    for seed in (1, 2):
        reference.add_nudged(seed)
    assert len(seen) == 2
    for array in seen:
        assert isinstance(array, np.ndarray)
        assert (array.shape, array.dtype) == (given.shape, given.dtype)


def test_a_difference_that_the_reference_never_shows_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = model(tmp_path / "m.onnx", "g (float[4] x) => (float[4] y) { y = Exp(x) }")

    def doubled(options: argparse.Namespace, inputs: references.Inputs) -> references.Reference:
        def run(values: references.Inputs) -> references.Outputs:
            return {"y": 2 * np.exp(values["x"])}

        return references.Reference("another", {"": run(inputs)}, run, inputs)

    monkeypatch.setattr(references, "reference_of", doubled)
    assert main(["verify", file]) == 1
    printed = capsys.readouterr().out
    assert "4 of 4 elements differ" in printed and "1 of 1 outputs differ" in printed


def test_both_levels_of_optimisation_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = model(tmp_path / "m.onnx", "g (float[4] x) => (float[4] y) { y = Exp(x) }")
    assert main(["verify", file]) == 0
    printed = capsys.readouterr().out
    assert "unoptimised: worst" in printed and "; optimised: worst" in printed


def test_products_that_saturate_are_computed_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All products are 255 * 127, whose sums of pairs leave 16 bits."""
    text = """g (uint8[2, 64] x) => (int32[2, 8] y) { w = Constant<value = int8[1] {127}>()
        s = Constant<value = int64[2] {64, 8}>() e = Expand(w, s) y = MatMulInteger(x, e) }"""
    np.save(tmp_path / "x.npy", np.full((2, 64), 255, np.uint8))
    file = model(tmp_path / "m.onnx", text)
    assert main(["verify", file, "--input", f"x={tmp_path / 'x.npy'}"]) == 0
    assert "verified" in capsys.readouterr().out
