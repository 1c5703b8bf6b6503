"""Calls of HIP that fail: what is said, and that nothing is lost."""

from __future__ import annotations

import gc
import logging
import threading

import numpy as np
import pytest
from hip_programs import close, image, program, used_bytes

from mgx_mlir import emulator
from mgx_mlir.errors import DeviceError
from mgx_mlir.runtime.hip.tensor import DeviceTensor


def test_out_of_memory_says_how_much_was_wanted_for_what() -> None:
    with pytest.raises(DeviceError, match=r"out of device memory: 1024.0 GB wanted for a tensor "):
        DeviceTensor.empty((1 << 40,), np.uint8)
    emulator.set_failures("hipMalloc:1")
    with pytest.raises(DeviceError, match=r"hipErrorOutOfMemory.*wanted for weight '.*free"):
        program()


def test_a_failed_launch_names_the_kernel() -> None:
    digit = program(graph=False)
    emulator.set_failures("hipModuleLaunchKernel:1")
    with pytest.raises(DeviceError, match=r"hipModuleLaunchKernel failed: .*conv1") as caught:
        digit.run({"image": image(0)})
    assert caught.value.call == "hipModuleLaunchKernel"
    assert "conv1" in caught.value.kernel
    assert close(digit.run({"image": image(1)})["probabilities"], image(1))


@pytest.mark.parametrize(
    "function", ["hipGraphCreate", "hipGraphAddKernelNode", "hipGraphInstantiateWithFlags"]
)
def test_without_a_graph_kernels_are_launched_one_by_one(
    function: str, caplog: pytest.LogCaptureFixture
) -> None:
    digit = program()
    emulator.set_failures(f"{function}:1")
    with caplog.at_level(logging.WARNING):
        for seed in range(3):
            assert close(digit.run({"image": image(seed)})["probabilities"], image(seed))
    (record,) = caplog.records
    assert "no HIP graph" in record.message
    assert function in record.message


def test_a_graph_that_cannot_be_updated_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    digit = program()
    tensors = [DeviceTensor.from_numpy(image(seed)) for seed in range(3)]
    assert close(digit.run({"image": tensors[0]})["probabilities"], image(0))
    emulator.set_failures("hipGraphExecKernelNodeSetParams:1")
    for seed, tensor in enumerate(tensors[1:], 1):
        assert close(digit.run({"image": tensor})["probabilities"], image(seed))
    assert "one by one" in caplog.text


def test_a_run_waits_where_memory_is_short_for_another_context() -> None:
    digit = program()
    first = digit.run_async({"image": image(0)})
    emulator.set_failures("hipMalloc:1")
    # Ends when the first run's handle gives its context back.
    threading.Timer(0.2, first.result).start()
    assert close(digit.run({"image": image(1)})["probabilities"], image(1))


@pytest.mark.parametrize("graph", [True, False], ids=["graph", "plain"])
def test_every_call_may_fail(graph: bool) -> None:
    """Each call of loading and running fails in turn: no leak, and right results afterwards."""
    tensor = DeviceTensor.from_numpy(image(1))

    def life() -> None:
        digit = program(graph=graph)
        digit.run({"image": image(0)})
        digit.run({"image": tensor}, results="device")

    life()
    gc.collect()
    start = used_bytes()
    emulator.set_failures("")
    life()
    calls = emulator.call_count()
    assert calls > 50
    failed = 0
    for number in range(1, calls + 1):
        digit = program(graph=graph) if number % 2 else None
        emulator.set_failures(f"any:{number}:999")
        try:
            life()
        except DeviceError:
            failed += 1
        emulator.set_failures("")
        if digit is not None:
            assert close(digit.run({"image": image(2)})["probabilities"], image(2))
        digit = None
        assert used_bytes() <= start, f"call {number} of {calls} failed and left memory"
    assert failed > calls // 3
