"""The caller's streams, and device tensors that speak DLPack."""

from __future__ import annotations

import gc
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hip import hip
from hip_programs import close, image, program, used_bytes

from mgx_mlir.errors import UsageError
from mgx_mlir.runtime import dlpack
from mgx_mlir.runtime.hip.library import call
from mgx_mlir.runtime.hip.tensor import DeviceTensor


class Foreign:
    """A tensor of another library: all that is known of it is DLPack."""

    def __init__(self, tensor: DeviceTensor) -> None:
        self._tensor = tensor
        self.streams: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor.__dlpack_device__()

    def __dlpack__(self, *, stream: Any = None) -> Any:
        self.streams.append(stream)
        return self._tensor.__dlpack__(stream=stream)


@pytest.fixture
def stream() -> Any:
    call("hipSetDevice", 0)
    made = call("hipStreamCreateWithFlags", 1)
    yield made
    call("hipStreamDestroy", made)


def test_work_goes_to_the_caller_s_stream(stream: Any) -> None:
    digit = program()
    tensor = DeviceTensor.from_numpy(image(0))
    found = digit.run({"image": tensor}, stream=stream, results="device")["probabilities"]
    call("hipStreamSynchronize", stream)
    assert close(found.numpy(), image(0))
    assert close(digit.run({"image": image(1)}, stream=int(stream))["probabilities"], image(1))
    assert close(digit.run({"image": image(2)}, stream=0)["probabilities"], image(2))


def test_runs_on_different_streams_follow_each_other(stream: Any) -> None:
    digit = program()
    tensors = [DeviceTensor.from_numpy(image(seed)) for seed in range(6)]
    found = [
        digit.run({"image": t}, stream=stream if n % 2 else 0, results="device")["probabilities"]
        for n, t in enumerate(tensors)
    ]
    for seed, result in enumerate(found):
        assert close(result.numpy(), image(seed))


def test_asynchronous_runs_on_a_stream(stream: Any) -> None:
    handle = program().run_async({"image": image(3)}, stream=stream, results="device")
    assert close(handle.result()["probabilities"].numpy(), image(3))


def test_what_is_no_stream_is_refused() -> None:
    with pytest.raises(UsageError, match="a str is not a HIP stream"):
        program().run({"image": image(0)}, stream="fast")


def test_foreign_tensors_are_used_where_they_lie(stream: Any) -> None:
    digit = program()
    x = Foreign(DeviceTensor.from_numpy(image(0)))
    y = DeviceTensor.empty((1, 10), np.float32)
    result = digit.run({"image": x}, {"probabilities": Foreign(y)}, stream=stream)
    assert isinstance(result["probabilities"], Foreign)
    assert x.streams == [int(stream)]
    call("hipStreamSynchronize", stream)
    assert close(y.numpy(), image(0))


def test_results_are_handed_to_others() -> None:
    start = used_bytes()
    digit = program()
    found = digit.run({"image": image(0)}, results="device")["probabilities"]
    assert found.__dlpack_device__() == (dlpack.ROCM, 0)
    taken = dlpack.Imported(found.__dlpack__())
    assert (taken.address, taken.shape, taken.dtype) == (found.address, (1, 10), "float32")
    assert taken.contiguous
    del found
    assert dlpack._exported
    host = np.empty((1, 10), np.float32)
    kind = hip.hipMemcpyKind.hipMemcpyDeviceToHost
    call("hipMemcpy", host.ctypes.data, taken.address, host.nbytes, kind)
    assert close(host, image(0))
    del taken, digit
    gc.collect()
    assert not dlpack._exported
    assert used_bytes() == start


def test_a_capsule_that_nobody_takes_gives_its_memory_back() -> None:
    start = used_bytes()
    capsule = DeviceTensor.empty((1000,), np.float32).__dlpack__()
    assert used_bytes() > start
    del capsule
    assert used_bytes() == start


def test_a_capsule_of_a_device_that_the_consumer_does_not_know() -> None:
    """numpy refuses it, and gives it back while its exception is on its way."""
    start = used_bytes()
    tensor = DeviceTensor.empty((1000,), np.float32)
    with pytest.raises((RuntimeError, BufferError), match="device"):
        np.from_dlpack(tensor)
    assert not dlpack._exported
    del tensor
    assert used_bytes() == start


def test_device_tensors_come_to_the_host_on_request() -> None:
    tensor = DeviceTensor.from_numpy(image(0))
    np.testing.assert_array_equal(tensor.numpy(), image(0))
    with pytest.raises(BufferError, match="numpy"):
        tensor.__dlpack__(copy=True)


def test_host_tensors_that_speak_dlpack_are_arrays() -> None:
    assert close(program().run({"image": memoryview(image(0))})["probabilities"], image(0))


@pytest.mark.parametrize("name", ["cuda_stream", "ptr"])
def test_streams_of_other_libraries_have_a_number(name: str, stream: Any) -> None:
    theirs = SimpleNamespace(**{name: int(stream)})
    found = program().run({"image": image(0)}, stream=theirs)
    assert close(found["probabilities"], image(0))


def test_threads_run_on_streams_of_their_own() -> None:
    digit, wrong = program(), []

    def work(number: int) -> None:
        call("hipSetDevice", 0)
        mine = call("hipStreamCreateWithFlags", 1)
        tensor = DeviceTensor.from_numpy(image(number))
        for _ in range(10):
            found = digit.run({"image": tensor}, stream=mine, results="device")
            if not close(found["probabilities"].numpy(), image(number)):
                wrong.append(number)
        call("hipStreamDestroy", mine)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
