"""Long sums on emulated chips: their error does not grow with the number of terms, and their bits
do not depend on the order in which work-groups add them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hip_programs import CHIPS
from onnx import TensorProto, helper

import mgx_mlir

PROGRAMS = ("split_sums.py", "reduced_rows.py")
TERMS = 1_000_000
SHAPES = {
    # One element: the generic path, whose thread adds up all products.
    "MatMul": ((1, TERMS), (TERMS, 1), (1, 1)),
    # Tiles of the matrix cores.
    "Conv": ((1, 1, TERMS // 2), (2, 1, TERMS // 2), (1, 2, 1)),
}


@pytest.mark.parametrize("operator", SHAPES)
def test_a_sum_of_many_products_is_precise(operator: str) -> None:
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip("xwy", SHAPES[operator], strict=True)
    ]
    node = helper.make_node(operator, ["x", "w"], ["y"])
    model = helper.make_model(
        helper.make_graph([node], "sum", values[:2], values[2:]),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    random = np.random.default_rng(0)
    x, w = (random.random(shape, dtype=np.float32) for shape in SHAPES[operator][:2])
    found = mgx_mlir.compile(model, target="gfx942").run({"x": x, "w": w})["y"]
    want = np.reshape(w, (-1, x.size)).astype(np.float64) @ np.ravel(x).astype(np.float64)
    np.testing.assert_allclose(np.ravel(found), want, rtol=1.5e-6)


def _hash(program: str, chip: str, order: str) -> str:
    environment = os.environ | {
        "MGX_EMULATED_DEVICES": chip,
        "MGX_EMULATOR_ORDER": order,
        "MGX_EMULATOR_STRICT": "1",
        "MGX_HIP": "emulated",
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(program)), chip],
        env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.every(3)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("chip", CHIPS)
def test_the_last_work_groups_give_the_same_bits_in_any_order(chip: str, program: str) -> None:
    assert _hash(program, chip, "forward") == _hash(program, chip, "random:1")
