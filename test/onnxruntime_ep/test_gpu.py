"""The provider on emulated GPUs, which onnxruntime takes for devices with memory of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

import mgx_mlir
from mgx_mlir import emulator
from mgx_mlir.models.ep_context import context_model
from test.onnxruntime_ep import provider

AMD = 0x1002
WEIGHT = np.random.default_rng(0).standard_normal((8, 4), np.float32)


def product() -> onnx.ModelProto:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 8] x) => (float[n, 4] y) { a = MatMul(x, w)  y = Relu(a) }""")
    model.graph.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
    return model


def given(n: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, 8), np.float32)


def expected(x: np.ndarray) -> np.ndarray:
    return np.maximum(x @ WEIGHT, 0)


def grown(name: str, work: Any) -> int:
    before = provider.counters()[name]
    work()
    return provider.counters()[name] - before


def test_one_model_runs_on_each_of_its_targets() -> None:
    contexts = context_model(provider.islands_of(product(), "gfx942,gfx1100"))
    for chip in provider.CHIPS:
        session = provider.session(contexts, target=chip, fallback=False)
        for n in (3, 5):
            (y,) = session.run(None, {"x": given(n)})
            np.testing.assert_allclose(y, expected(given(n)), 1e-5)


def test_a_model_compiles_for_the_chip_of_its_device(tmp_path: Path) -> None:
    session = provider.session(product(), target="gfx1100", cache_dir=str(tmp_path), fallback=False)
    np.testing.assert_allclose(session.run(None, {"x": given(4)})[0], expected(given(4)), 1e-5)


def test_pythons_log_hears_the_library_while_the_provider_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider.devices()
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[4, 8] x) => (float[4, 4] z) { y = Softmax(x)
                                               t = Transpose(y)  z = MatMul(x, t) }""")

    def failing() -> bool:
        program = mgx_mlir.compile(model, "gfx942")
        emulator.set_failures("hipGraphCreate:1")
        try:
            program.run({"x": given(4)})
        finally:
            emulator.set_failures("")
        return "no HIP graph" in caplog.text

    onnxruntime.register_execution_provider_library("later", str(provider.LIBRARY))
    try:
        assert failing()
    finally:
        onnxruntime.unregister_execution_provider_library("later")
    caplog.clear()
    assert failing()


def test_plain_runs_copy_inputs_and_outputs() -> None:
    session = provider.context_session(product(), "gfx942")
    assert grown("copies", lambda: session.run(None, {"x": given(3)})) == 2


def test_bound_values_on_the_device_are_not_copied() -> None:
    session = provider.context_session(product(), "gfx942")
    number = int(provider.devices()["gfx942"].ep_metadata["mgx_device"].removeprefix("hip:"))
    x = onnxruntime.OrtValue.ortvalue_from_numpy(given(3), "gpu", number, AMD)
    y = onnxruntime.OrtValue.ortvalue_from_shape_and_type([3, 4], np.float32, "gpu", number, AMD)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    assert grown("copies", lambda: session.run_with_iobinding(binding)) == 0
    np.testing.assert_allclose(y.numpy(), expected(given(3)), 1e-5)


def test_later_runs_of_a_size_allocate_nothing() -> None:
    session = provider.context_session(product(), "gfx942")
    for n in (3, 5):
        session.run(None, {"x": given(n)})
    for n in (5, 3):
        assert grown("allocations", lambda n=n: session.run(None, {"x": given(n)})) == 0


def test_nodes_of_the_cpu_read_results_of_the_device() -> None:
    model = product()
    model.graph.node.add(op_type="NonZero", input=["y"], output=["places"])
    model.graph.output.append(
        onnx.helper.make_tensor_value_info("places", onnx.TensorProto.INT64, [2, "m"])
    )
    session = provider.context_session(model, "gfx942")
    y, places = session.run(None, {"x": given(6)})
    np.testing.assert_array_equal(places, np.nonzero(y))


def test_an_artifact_for_another_chip_names_the_command() -> None:
    contexts = context_model(provider.islands_of(product(), "gfx942"))
    with pytest.raises(Exception, match="mgx finalize"):
        provider.session(contexts, target="gfx1100")
