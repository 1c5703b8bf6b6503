"""ONNX's own backend tests, through its own runner, on emulated chips.

A case passes where its results are right and kernels ran on the device, if it has anything
to compute there.
"""

from __future__ import annotations

import gc
import re
from typing import Any

import numpy as np
import onnx
import pytest
from hip_programs import CHIPS

from mgx_mlir import backend, emulator
from mgx_mlir.runtime.hip.program import HipProgram
from test import onnx_suite

# The default tier takes every so many'th case of those in the slow one.
SAMPLE = 10
GROUPS = ("Node", "Simple", "PyTorchConverted", "PyTorchOperator")

# Why a case leaves nothing to compute, and the beginnings of the names of such cases.
WITHOUT_KERNELS: tuple[tuple[str, str], ...] = (
    ("the result is the input", r"clip_default_(int8_)?inbounds|dropout_|einsum_scalar|identity"),
    (
        "the result is the input",
        r"(max|mean|min|sum)_one_input|operator_index|optional_get_element",
    ),
    ("the result is the input", r"reduce_sum_empty_axes_input_noop|training_dropout_zero"),
    ("the input in another shape", r"flatten|operator_(flatten|permute2|view)|reshape|squeeze"),
    ("the input in another shape", r"transpose_all_permutations_0|unsqueeze"),
    (
        "known from shapes or constants",
        r"constant|expand_shape|eyelike|if_cpu|optional_has_element",
    ),
    (
        "known from shapes or constants",
        r"reduce_\w+_empty_set",
    ),
    ("known from shapes or constants", r"sequence_model|shape|size|split_zero_size|melweight"),
    ("known from shapes or constants", r"tri[lu]_out"),
    ("a result of no elements", r"slice_start_out_of_bounds|tri[lu]_zero"),
    ("sizes that are built in say it all", r"(blackman|hamming|hann)window|range_"),
    ("strings, on the host", r"ai_onnx_ml_label_encoder|equal_string|regex|str(ing|norm)|tfidf"),
    ("sequences, on the host", r"if_(opt|seq)|sequence_(insert|map)|split_to_sequence"),
    ("files of images, on the host", r"image_decoder"),
    (
        "sizes that the data decide, on the host",
        r"compress|nonmaxsuppression|nonzero|onehot|unique",
    ),
    ("random numbers, on the host", r"training_dropout"),
)


# Cases that expect sums in f16 to be rounded in an order of their own: results differ by two
# units in the last place.
ROUNDED = r"test_attention_4d_(causal|gqa_with_past_and_present)_fp16"


def on_chip(chip: str) -> type[backend.MgxBackend]:
    class OnChip(backend.MgxBackend):
        """The backend under test; onnx's runner only knows devices CPU and CUDA."""

        @classmethod
        def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> backend.MgxBackendRep:
            return super().prepare(model, chip, **kwargs)

    return OnChip


CASES = {chip: onnx_suite.cases_for(on_chip(chip), __name__) for chip in CHIPS}
NAMES = [
    (group, name)
    for group, name in onnx_suite.included(onnx_suite.names_of(CASES[CHIPS[0]]))
    if any(f"Backend{part}Model" in group for part in GROUPS) and not re.match(ROUNDED, name)
]


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path_factory):
    onnx_suite.share_cache(monkeypatch, tmp_path_factory)


@pytest.fixture
def launched(monkeypatch) -> list[str]:
    """The kernels that programs launch, by their ONNX nodes."""
    found: list[str] = []
    run_of = HipProgram.run

    def counted(self: HipProgram, *given: Any, **named: Any) -> Any:
        found.extend(s.node for s in self.plan.work() if getattr(s, "kernel", -1) >= 0)
        return run_of(self, *given, **named)

    monkeypatch.setattr(HipProgram, "run", counted)
    return found


def run(chip: str, group: str, name: str, launched: list[str]) -> None:
    try:
        onnx_suite.run(CASES[chip], group, name)
    except BaseException:
        # The device refuses everything after a fault.
        gc.collect()
        emulator.reset_device(CHIPS.index(chip))
        raise
    patterns = "|".join(pattern for _, pattern in WITHOUT_KERNELS)
    assert launched or re.match(f"test_({patterns})", name), "nothing ran on the device"


@pytest.mark.parametrize(("group", "name"), NAMES[::SAMPLE])
@pytest.mark.parametrize("chip", CHIPS)
def test_case(chip, group, name, launched):
    run(chip, group, name, launched)


# Cases that broke once: offsets with negative terms, which buffers' bounds refuse.
NEGATIVE = (
    ("OnnxBackendNodeModelTest", "test_slice_neg_steps_cpu"),
    ("OnnxBackendPyTorchConvertedModelTest", "test_MaxPool3d_stride_padding_cpu"),
)


@pytest.mark.parametrize(("group", "name"), NEGATIVE)
@pytest.mark.parametrize("chip", CHIPS)
def test_places_with_negative_parts(chip, group, name, launched):
    run(chip, group, name, launched)


@pytest.mark.slow
@pytest.mark.parametrize(("group", "name"), [case for n, case in enumerate(NAMES) if n % SAMPLE])
@pytest.mark.parametrize("chip", CHIPS)
def test_other_case(chip, group, name, launched):
    run(chip, group, name, launched)


def test_most_node_cases_run_on_every_chip():
    assert sum("BackendNodeModel" in group for group, _ in NAMES) >= 1700


def test_a_chip_is_a_device_of_the_backend():
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    for chip in CHIPS:
        assert backend.supports_device(chip)
        (y,) = backend.run_node(node, [np.array([-1, 2], np.float32)], chip)
        np.testing.assert_array_equal(y, [0, 2])
    assert not backend.supports_device("gfx908")
