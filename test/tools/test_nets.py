"""The benchmark of whole networks: launches, and clocks under the memory's roof."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from benchmarks.nets import LAUNCH_CLOCKS, Run, priced
from benchmarks.priced_resident import Phase, barrier_clocks, clocks_of
from mgx_mlir import Target
from test.onnx_models import Builder, half


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A row, times 2048 x 4096 numbers, with a bias and a Relu."""
    b = Builder()
    y = b.op("Relu", b.linear("x", "layer", 2048, 4096))
    given = {"x": (TensorProto.FLOAT, ["rows", 2048])}
    file = tmp_path_factory.mktemp("nets") / "model.onnx"
    onnx.save(half(b.model(given, {"y": (y, ["rows", 4096])}, "layer")), file)
    np.savez(file.with_suffix(".npz"), x=np.ones((1, 2048), np.float16))
    return file


def test_a_run_takes_launches_and_what_its_weights_take_from_memory(model: Path) -> None:
    run = priced(model, "gfx942")
    memory = 2048 * 4096 * 2 / 2535  # bytes a clock
    assert run.launches == 1
    assert run.kernels > memory
    assert run.clocks == run.kernels + LAUNCH_CLOCKS


def test_passes_that_are_left_out_show_in_launches(model: Path) -> None:
    run: Run = priced(model, "gfx942", disable=["mgx-fuse-pointwise"])
    assert run.launches == 3


def test_resident_kernels_are_a_launch_with_barriers_between_their_phases(model: Path) -> None:
    memory, barrier = 2048 * 4096 * 2 / 2535, barrier_clocks(Target.get("gfx942"), True)
    run = priced(model, "gfx942", disable=["mgx-fuse-pointwise"], persistent=True)
    assert run.launches == 1
    assert memory + 2 * barrier < run.kernels < memory + 2 * (barrier + 3000) + 3000


def test_phases_that_do_not_wait_are_on_other_units_as_far_as_there_are_some() -> None:
    target = Target.get("gfx1100")
    first, second = Phase(False, 900, 60, 0), Phase(False, 500, 36, 0)
    assert clocks_of([first, second], target, 1500) == [900, 0]
    assert clocks_of([first, replace(second, units=40)], target, 1500) == [900, 500]
    assert clocks_of([first, replace(second, waits=True)], target, 1500) == [
        900,
        1500 + 500,
    ]
    assert clocks_of([first, replace(second, bytes=384_000)], target, 1500) == [900, 100]
