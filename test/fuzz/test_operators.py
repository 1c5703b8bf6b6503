"""Random nodes of all operators beside two references; and forms that such nodes found wrong."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest

from test.fuzz.command import ROOT, fuzz
from test.fuzz.operators.check import OPERATORS, difference, draw_case
from test.fuzz.operators.disputes import ROWS


def test_a_node_of_each_operator() -> None:
    """Some have types that neither reference runs."""
    said = fuzz("operators", "--seeds", "0")
    ran = int(said.rpartition(" ok")[0].split()[-1])
    assert ran >= 0.9 * len(OPERATORS), said


def test_equal_seeds_give_equal_cases() -> None:
    for name in ("Conv", "Slice", "com.microsoft.Attention"):
        first, second = draw_case(name, 5), draw_case(name, 5)
        assert first.model.SerializeToString(deterministic=True) == (
            second.model.SerializeToString(deterministic=True)
        )
        for key, array in first.feeds.items():
            assert array.tobytes() == second.feeds[key].tobytes()


def test_opsets_of_cases_go_from_old_to_new() -> None:
    opsets = {draw_case(name, 0).opset for name in OPERATORS}
    assert {7, 11, 13, 18, 23, 25} <= opsets


def test_differences_are_seen() -> None:
    ones = np.ones(3, np.float32)
    assert difference(ones, ones) == ""
    assert "shape" in difference(ones, ones[:2])
    assert "float64" in difference(ones, ones.astype(np.float64))
    assert "1 of 3" in difference(ones, np.array([1, 1.01, 1], np.float32))
    assert "1 of 3" in difference(ones, np.array([1, np.nan, 1], np.float32))
    assert "1 of 3" in difference(ones.astype(np.int8), np.array([1, 2, 1], np.int8))
    assert difference(ones.astype(np.int8), np.array([1, 2, 1], np.int8), loose=True) == ""


def test_disputes_name_operators_that_there_are() -> None:
    for operators, reference, _, reason in ROWS:
        assert set(operators.split()) <= set(OPERATORS), operators
        assert reference in ("onnx", "onnxruntime") and reason


def test_a_wrong_name_is_an_error_that_lists_operators() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "test.fuzz.operators", "--op", "Convv"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "no operator Convv" in done.stderr and "ConvTranspose" in done.stderr


def test_every_operator_of_onnx_with_a_schema() -> None:
    for name in OPERATORS:
        domain, _, kind = name.rpartition(".")
        assert domain or onnx.defs.has(kind), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "seeds"), [("cpu", "100-129"), ("gfx942", "100-104"), ("gfx1201", "105-109")]
)
def test_more_nodes(target: str, seeds: str) -> None:
    fuzz("operators", "--target", target, "--seeds", seeds)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "seeds"), [("cpu", "501-504"), ("gfx1100", "500")])
def test_nodes_of_symbolic_sizes(target: str, seeds: str) -> None:
    fuzz("operators", "--open", "--target", target, "--seeds", seeds)


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_no_element_of_an_empty_image_is_read(target: str) -> None:
    """Its pads are: a convolution, whose size of 0 comes when it runs."""
    fuzz("operators", "--open", "--target", target, "--op", "Conv", "--seeds", "44")
