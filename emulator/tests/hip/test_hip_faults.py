"""Faults of kernels: sticky errors, their text, and the way back."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hip import hip
from hip_support import E, code, download, launch, ok, passes, raw, run_python, upload, void

from mgx_mlir import emulator


def fault(kernel):
    """Stores far outside the allocation."""
    x = ok(hip.hipMalloc(64))
    first = launch(kernel("store_at"), [x, ctypes.c_longlong(1 << 30)])
    second = code(hip.hipDeviceSynchronize())
    assert E.hipErrorIllegalAddress == second and first in (E.hipSuccess, second)


def test_an_access_outside_every_allocation_is_sticky(kernel, stream):
    x = upload(np.zeros(16, np.float32))
    event = ok(hip.hipEventCreate())
    fault(kernel)
    results = [
        hip.hipMalloc(64),
        hip.hipMemset(x, 0, 4),
        hip.hipMemcpyDtoD(x, x, 4),
        hip.hipStreamSynchronize(stream),
        hip.hipStreamCreate(),
        hip.hipEventRecord(event, stream),
        hip.hipDeviceSynchronize(),
        hip.hipMallocAsync(64, stream),
    ]
    assert [code(r) for r in results] == [E.hipErrorIllegalAddress] * len(results)
    assert launch(kernel("nothing")) == E.hipErrorIllegalAddress
    for _ in range(2):
        assert code(hip.hipGetLastError()) == E.hipErrorIllegalAddress


def test_cleaning_up_and_asking_works_after_a_fault(kernel, module, stream):
    x, y = ok(hip.hipMalloc(64)), ok(hip.hipMallocAsync(64, stream))
    event = ok(hip.hipEventCreate())
    fault(kernel)
    ok(hip.hipFree(x))
    ok(hip.hipFreeAsync(y, stream))
    ok(hip.hipEventDestroy(event))
    ok(hip.hipStreamDestroy(stream))
    ok(hip.hipModuleUnload(module))
    ok(hip.hipMemGetInfo())
    ok(hip.hipGetDevice())


def test_the_text_says_kernel_and_address(kernel):
    fault(kernel)
    text = emulator.last_fault()
    assert "store_at" in text and "0x" in text


def test_a_reset_clears_the_fault(kernel, chip, image):
    fault(kernel)
    ok(hip.hipDeviceReset())
    hip.hipGetLastError()
    module = ok(hip.hipModuleLoadData(image(chip).read_bytes()))
    x = upload(np.zeros(64, np.float32))
    function = ok(hip.hipModuleGetFunction(module, b"add_value"))
    assert launch(function, [x, 64, 1.0]) == E.hipSuccess
    assert (download(x, 64) == 1).all()


def test_other_devices_go_on(kernel, chip):
    fault(kernel)
    ok(hip.hipSetDevice(1 if chip == "gfx942" else 0))
    assert code(hip.hipGetLastError()) in (E.hipSuccess, E.hipErrorIllegalAddress)
    x = upload(np.zeros(4, np.float32))
    assert (download(x, 4) == 0).all()


def test_just_behind_an_allocation_is_outside(kernel):
    x = ok(hip.hipMalloc(64))
    assert launch(kernel("store_at"), [x, ctypes.c_longlong(15)]) == E.hipSuccess
    launch(kernel("store_at"), [x, ctypes.c_longlong(16)])
    assert code(hip.hipDeviceSynchronize()) == E.hipErrorIllegalAddress


def test_memory_of_another_device_needs_peer_access(kernel, chip):
    here = ok(hip.hipGetDevice())
    ok(hip.hipSetDevice(1 - here))
    far = ok(hip.hipMalloc(64))
    ok(hip.hipSetDevice(here))
    ok(hip.hipDeviceEnablePeerAccess(1 - here, 0))
    later = ok(hip.hipSetDevice(1 - here)) or ok(hip.hipMalloc(64))
    ok(hip.hipSetDevice(here))
    for pointer in (far, later):
        assert launch(kernel("store_at"), [pointer, ctypes.c_longlong(3)]) == E.hipSuccess
        assert download(pointer, 16)[3] == 1
    ok(hip.hipDeviceDisablePeerAccess(1 - here))
    launch(kernel("store_at"), [far, ctypes.c_longlong(3)])
    assert code(hip.hipDeviceSynchronize()) == E.hipErrorIllegalAddress


def test_pinned_and_managed_memory_is_addressable_and_own_memory_is_not(kernel):
    for pointer in (ok(hip.hipHostMalloc(64, 0)), ok(hip.hipMallocManaged(64, 1))):
        assert launch(kernel("store_at"), [pointer, ctypes.c_longlong(2)]) == E.hipSuccess
        ok(hip.hipDeviceSynchronize())
        assert (ctypes.c_float * 16).from_address(int(pointer))[2] == 1
    own = np.zeros(16, np.float32)
    ok(hip.hipHostRegister(own.ctypes.data, 64, 0))
    assert launch(kernel("store_at"), [void(own.ctypes.data), ctypes.c_longlong(5)]) == E.hipSuccess
    ok(hip.hipDeviceSynchronize())
    assert own[5] == 1
    ok(hip.hipHostUnregister(own.ctypes.data))
    launch(kernel("store_at"), [void(own.ctypes.data), ctypes.c_longlong(5)])
    assert code(hip.hipDeviceSynchronize()) == E.hipErrorIllegalAddress


def test_a_trap_is_a_launch_failure(kernel):
    launch(kernel("trap_now"))
    assert code(hip.hipDeviceSynchronize()) == E.hipErrorLaunchFailure
    assert "trap_now" in emulator.last_fault()


def test_a_kernel_that_does_not_end_times_out(image):
    script = f"""
    module = ok(hip.hipModuleLoadData(open({str(image("gfx942"))!r}, "rb").read()))
    flag = upload(np.zeros(1, np.int32))
    function = ok(hip.hipModuleGetFunction(module, b"spin_forever"))
    launch(function, [flag])
    print(hip.hipDeviceSynchronize()[0].name, emulator.last_fault())
    """
    out = passes(run_python(script, MGX_EMULATOR_BUDGET="20000"))
    assert "hipErrorLaunchTimeOut" in out and "spin_forever" in out


def test_a_replayed_copy_of_freed_memory_is_an_illegal_address(stream):
    x, y = ok(hip.hipMalloc(64)), ok(hip.hipMalloc(64))
    graph = ok(hip.hipGraphCreate(0))
    kind = hip.hipMemcpyKind.hipMemcpyDeviceToDevice
    ok(hip.hipGraphAddMemcpyNode1D(graph, None, 0, x, y, 64, kind))
    executable = ok(hip.hipGraphInstantiateWithFlags(graph, 0))
    ok(hip.hipFree(y))
    hip.hipGraphLaunch(executable, stream)
    assert code(hip.hipStreamSynchronize(stream)) == E.hipErrorIllegalAddress


def test_callbacks_learn_of_the_fault(image):
    script = f"""
    module = ok(hip.hipModuleLoadData(open({str(image("gfx942"))!r}, "rb").read()))
    stream = ok(hip.hipStreamCreate())
    x = ok(hip.hipMalloc(64))
    seen = []
    note = CALLBACK(lambda stream, status, data: seen.append(status))
    wait = HOST_FN(lambda data: __import__("time").sleep(0.2))
    ok(hip.hipLaunchHostFunc(stream, entry(wait), None))
    function = ok(hip.hipModuleGetFunction(module, b"store_at"))
    assert launch(function, [x, ctypes.c_longlong(1 << 30)], stream=stream) == E.hipSuccess
    ok(hip.hipStreamAddCallback(stream, entry(note), None, 0))
    print(hip.hipStreamSynchronize(stream)[0].name, seen)
    """
    out = passes(run_python(script, MGX_EMULATOR_ASYNC="1"))
    assert out.split() == ["hipErrorIllegalAddress", "[700]"]


@pytest.mark.parametrize("device", [-1, 64, 100])
def test_own_functions_check_their_device(device):
    assert raw.mgxEmulatorResetDevice(device) == E.hipErrorInvalidDevice
    assert raw.mgxEmulatorProfileReset(device) == E.hipErrorInvalidDevice
