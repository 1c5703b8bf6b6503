"""Programs on a GPU: the inputs that they take or refuse, and their results."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import onnx.parser
import pytest
from hip_programs import CHIPS, close, digits, expected, image, program, used_bytes

import mgx_mlir
from mgx_mlir import emulator
from mgx_mlir.errors import TargetError, UsageError
from mgx_mlir.runtime.hip.device import devices
from mgx_mlir.runtime.hip.tensor import DeviceTensor


@pytest.mark.parametrize("graph", [True, False], ids=["graph", "plain"])
@pytest.mark.parametrize("chip", CHIPS)
def test_results_are_the_host_s(chip: str, graph: bool) -> None:
    digit = program(chip, graph=graph)
    for seed in range(3):
        x = image(seed)
        assert close(digit.run({"image": x})["probabilities"], x)


def test_graph_and_plain_launches_give_the_same_bits() -> None:
    replayed, plain = program(), program(graph=False)
    for seed in range(5):
        x = {"image": image(seed)}
        first, second = replayed.run(x)["probabilities"], plain.run(x)["probabilities"]
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("graph", [True, False], ids=["graph", "plain"])
def test_a_thousand_runs_with_changing_inputs_and_addresses(graph: bool) -> None:
    digit = program(graph=graph)
    images = [image(seed) for seed in range(8)]
    want = [expected(x) for x in images]
    tensors = [DeviceTensor.from_numpy(x) for x in images]
    results = [DeviceTensor.empty((1, 10), np.float32) for _ in range(3)]
    start = used_bytes()
    for number in range(1000):
        which = number * 5 % 8
        given = tensors[which] if number % 3 else images[which]
        outputs = {"probabilities": results[number % 7]} if number % 7 < 3 else {}
        found = digit.run({"image": given}, outputs)["probabilities"]
        array = found.numpy() if outputs else found
        np.testing.assert_allclose(array, want[which], rtol=1e-4, atol=1e-6)
    # One context and its staging memory, once.
    assert used_bytes() - start <= 2 * (digit.memory_bytes["arena"] + 4096)


def test_launches_are_those_that_hip_is_given() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 20]>
        sums (float[1, 1000000] a) => (float[1, 1] y) { y = ReduceMean(a) }""")
    artifact = mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(model), arch=["gfx942"])
    (found,) = artifact.code_objects.values()
    count = artifact.plan.launches(found)
    assert count > artifact.plan.step_count == 1  # parts of the sums, and their sum
    assert f"launches of a run: {count}" in artifact.summary()
    ready = mgx_mlir.compile(model, "gfx942", graph=False)
    inputs = {"a": np.ones((1, 1000000), np.float32)}
    emulator.set_failures("hipMalloc:1000000")  # counts calls by name
    ready.run(inputs)
    assert emulator.call_count("hipModuleLaunchKernel") == count


def test_eight_threads_run_one_program() -> None:
    digit, wrong = program(), []

    def work(number: int) -> None:
        x = image(number)
        want = expected(x)
        for _ in range(25):
            found = digit.run({"image": x})["probabilities"]
            if not np.allclose(found, want, rtol=1e-4, atol=1e-6):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_go_into_given_arrays() -> None:
    y = np.zeros((1, 10), np.float32)
    found = program().run({"image": image(0)}, {"probabilities": y})
    assert found["probabilities"] is y
    assert close(y, image(0))


def test_asynchronous_runs_give_their_results_later() -> None:
    digit = program()
    handles = [digit.run_async({"image": image(seed)}) for seed in range(4)]
    for seed, handle in enumerate(handles):
        assert close(handle.result()["probabilities"], image(seed))
        assert handle.done()
        assert handle.result() is handle.result()


def test_an_unasked_run_ends_before_its_memory_goes() -> None:
    start = used_bytes()
    digit = program()
    digit.run_async({"image": image(0)})
    assert close(digit.run({"image": image(1)})["probabilities"], image(1))
    del digit
    assert used_bytes() == start


def test_programs_share_weights_and_modules() -> None:
    start = used_bytes()
    first = program()
    held = used_bytes() - start
    emulator.set_failures("hipModuleLoadData:1")
    second = program()
    added = used_bytes() - start - held
    assert first.memory_bytes["weights"] <= held - added
    del first
    assert close(second.run({"image": image(0)})["probabilities"], image(0))
    del second
    assert used_bytes() == start


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'image' is missing; the program's inputs: 'image'"),
        ({"image": image(0), "z": 1}, "no input 'z'; its inputs: 'image'"),
        ({"image": image(0).astype("f8")}, r"'image' is float32\[1, 1, 8, 8\]; got float64"),
        ({"image": np.zeros(7, np.float32)}, r"'image' is float32\[1, 1, 8, 8\]; got float32\[7\]"),
        ([image(0)], r"inputs are given by name: \{'image': ...\}; got a list"),
        (None, "inputs are given by name: .* got a NoneType"),
    ],
    ids=["missing", "unknown", "type", "shape", "list", "none"],
)
def test_refuses_inputs_that_do_not_fit_and_runs_on(inputs: Any, message: str) -> None:
    digit = program()
    with pytest.raises(UsageError, match=message):
        digit.run(inputs)
    assert close(digit.run({"image": image(0)})["probabilities"], image(0))


def test_refuses_outputs_that_do_not_fit() -> None:
    digit, x = program(), {"image": image(0)}
    with pytest.raises(UsageError, match="outputs are given by name"):
        digit.run(x, [image(0)])
    with pytest.raises(UsageError, match="no output 'q'"):
        digit.run(x, {"q": image(0)})
    with pytest.raises(UsageError, match="written into a list"):
        digit.run(x, {"probabilities": [0.0] * 10})
    with pytest.raises(UsageError, match=r"got float32\[10\]"):
        digit.run(x, {"probabilities": DeviceTensor.empty((10,), np.float32)})
    with pytest.raises(UsageError, match="results is 'cuda'"):
        digit.run(x, results="cuda")


def test_refuses_tensors_of_another_device() -> None:
    tensor = DeviceTensor.from_numpy(image(0), 1)
    with pytest.raises(UsageError, match="'image' is on device 1; the program runs on device 0"):
        program("gfx942").run({"image": tensor})
    assert close(program("gfx1100").run({"image": tensor})["probabilities"], image(0))


def test_devices_by_their_numbers() -> None:
    # Another test of the process may have added a device.
    assert [device.chip for device in devices()][: len(CHIPS)] == list(CHIPS)
    assert mgx_mlir.compile(digits(), "gpu", device=1).device.chip == "gfx1100"


def test_a_missing_chip_is_an_error_that_lists_the_devices() -> None:
    with pytest.raises(
        TargetError, match=r"(?s)no device is a gfx908; there are: device 0: gfx942"
    ):
        mgx_mlir.compile(digits(), "gfx908")
    with pytest.raises(TargetError, match="gfx908 is not emulated; these chips are: gfx90a"):
        mgx_mlir.compile(digits(), "gfx908")
    with pytest.raises(TargetError, match="device 0 is not a gfx1100"):
        mgx_mlir.compile(digits(), "gfx1100", device=0)
