"""Launches: arguments in all forms, shapes, limits."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hip import hip
from hip_support import Arguments, E, code, download, launch, ok, raw, upload, void


class Mixed(ctypes.Structure):
    _fields_ = [("flag", ctypes.c_char), ("weight", ctypes.c_double), ("offset", ctypes.c_short)]


def test_arguments_as_pointers_to_values(kernel):
    x = upload(np.arange(100, dtype=np.float32))
    assert launch(kernel("add_value"), [x, 100, 2.5], grid=2, block=64) == E.hipSuccess
    assert (download(x, 100) == np.arange(100) + 2.5).all()


def test_arguments_as_a_packed_buffer(kernel):
    x = upload(np.arange(100, dtype=np.float32))
    extra = (x, ctypes.c_int(90), ctypes.c_float(1))
    ok(hip.hipModuleLaunchKernel(kernel("add_value"), 2, 1, 1, 64, 1, 1, 0, 0, None, extra))
    expected = np.arange(100, dtype=np.float32)
    expected[:90] += 1
    assert (download(x, 100) == expected).all()


def test_every_kind_of_argument_arrives(kernel):
    out = ok(hip.hipMalloc(64))
    values = [ctypes.c_char(b"\x85"), ctypes.c_short(-300), -70000, ctypes.c_longlong(-(1 << 40))]
    arguments = [out, *values, 0.5, Mixed(b"\x03", -1.25, -7)]
    assert launch(kernel("mixed"), arguments) == E.hipSuccess
    expected = [-123, -300, -70000, -(1 << 40), 0.5, 3, -1.25, -7]
    assert download(out, 8, np.float64).tolist() == expected


def packed(pointer, *pairs, end=3):
    return (ctypes.c_void_p * 5)(*pairs, end)


def test_the_buffer_form_is_checked(kernel):
    function = kernel("add_value")
    x = ok(hip.hipMalloc(64))
    buffer = ctypes.create_string_buffer(64)
    size, small = ctypes.c_size_t(64), ctypes.c_size_t(15)
    address, of_size = ctypes.addressof(buffer), ctypes.addressof(size)

    def go(*extra):
        array = (ctypes.c_void_p * len(extra))(*extra)
        return raw.hipModuleLaunchKernel(
            void(function), 1, 1, 1, 64, 1, 1, 0, None, None, ctypes.byref(array)
        )

    assert go(1, address, 2, of_size, 3) == 0
    assert go(2, of_size, 1, address, 3) == 0
    assert go(1, address, 2, ctypes.addressof(small), 3) == E.hipErrorInvalidValue
    assert go(1, address, 3) == E.hipErrorInvalidValue
    assert go(7, address, 2, of_size, 3) == E.hipErrorInvalidValue
    assert go(1, address, 2, 0, 3) == E.hipErrorInvalidValue
    assert go(3) == E.hipErrorInvalidValue
    array = (ctypes.c_void_p * 5)(1, address, 2, of_size, 3)
    both = Arguments(x, 1, 1.0)
    assert (
        raw.hipModuleLaunchKernel(
            void(function), 1, 1, 1, 64, 1, 1, 0, None, both.array, ctypes.byref(array)
        )
        == E.hipErrorInvalidValue
    )


def test_a_kernel_with_arguments_needs_them(kernel):
    assert launch(kernel("add_value")) == E.hipErrorInvalidValue
    assert launch(kernel("nothing")) == E.hipSuccess


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((0, 1, 1), (64, 1, 1)),
        ((1, 0, 1), (64, 1, 1)),
        ((1, 1, 1), (64, 1, 0)),
        ((1, 1, 1), (1025, 1, 1)),
        ((1, 1, 1), (32, 33, 1)),
        ((1, 1 << 20, 1), (1, 1, 1)),
    ],
)
def test_shapes_that_no_device_takes_are_invalid(kernel, grid, block):
    assert launch(kernel("nothing"), grid=grid, block=block) == E.hipErrorInvalidValue


def test_more_work_items_than_a_packet_counts_are_an_invalid_configuration(kernel):
    result = launch(kernel("nothing"), grid=(1 << 23, 1, 1), block=1024)
    assert result == E.hipErrorInvalidConfiguration


def test_a_block_larger_than_the_kernel_allows_is_a_launch_failure(kernel):
    out = ok(hip.hipMalloc(4))
    assert launch(kernel("small_blocks"), [out], block=128) == E.hipErrorLaunchFailure
    # Refused, not run: the device is as before.
    assert launch(kernel("small_blocks"), [out], block=64) == E.hipSuccess
    ok(hip.hipDeviceSynchronize())


def test_lds_is_limited_by_the_chip_and_what_the_kernel_has(kernel):
    x = ok(hip.hipMalloc(4096))
    assert launch(kernel("reverse_in_lds"), [x, 64], lds=65537) == E.hipErrorInvalidValue
    assert launch(kernel("static_lds"), [x], block=1024, lds=62000) == E.hipErrorInvalidValue
    assert launch(kernel("static_lds"), [x], block=1024, lds=4096) == E.hipSuccess
    assert (download(x, 1024, np.int32) == np.arange(1023, -1, -1)).all()


def test_dynamic_lds(kernel):
    x = upload(np.arange(256, dtype=np.float32))
    assert launch(kernel("reverse_in_lds"), [x, 256], block=256, lds=1024) == E.hipSuccess
    assert (download(x, 256) == np.arange(255, -1, -1)).all()


def test_kernels_know_the_shape_of_their_launch(kernel):
    out = ok(hip.hipMalloc(24))
    assert launch(kernel("shape"), [out], grid=(5, 3, 2), block=(8, 4, 2)) == E.hipSuccess
    assert download(out, 6, np.uint32).tolist() == [8, 4, 2, 40, 12, 4]


def test_globals_keep_their_values_between_launches(kernel):
    out = ok(hip.hipMalloc(4))
    seen = []
    for _ in range(3):
        assert launch(kernel("bump_counter"), [out]) == E.hipSuccess
        seen.append(int(download(out, 1, np.int32)[0]))
    assert seen == [7, 8, 9]


def test_grids_in_work_items_may_end_within_a_block(kernel):
    out = upload(np.zeros(256, np.uint32))
    arguments = Arguments(out, 256)
    function = kernel("mark")
    start, stop = ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    go = raw.hipExtModuleLaunchKernel
    result = go(
        void(function), 150, 1, 1, 64, 1, 1, ctypes.c_size_t(0), None, arguments.array, None,
        void(start), void(stop), 0,
    )  # fmt: skip
    assert result == 0
    got = download(out, 256, np.uint32)
    assert (got[:150] == np.arange(1, 151)).all() and (got[150:] == 0).all()
    ok(hip.hipEventSynchronize(stop))
    assert ok(hip.hipEventElapsedTime(start, stop)) >= 0


def test_cooperative_launches_have_to_fit_the_device(kernel):
    x = upload(np.zeros(64, np.float32))
    go = hip.hipModuleLaunchCooperativeKernel
    arguments = Arguments(x, 64, 1.0)
    ok(go(kernel("add_value"), 1, 1, 1, 64, 1, 1, 0, 0, arguments.addresses))
    assert (download(x, 64) == 1).all()
    result = go(kernel("add_value"), 1 << 20, 1, 1, 1024, 1, 1, 0, 0, arguments.addresses)
    assert code(result) == E.hipErrorCooperativeLaunchTooLarge


def test_launches_with_a_configuration(kernel):
    x = upload(np.zeros(64, np.float32))
    config = hip.HIP_LAUNCH_CONFIG_st()
    config.gridDimX = config.gridDimY = config.gridDimZ = 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 64, 1, 1
    arguments = Arguments(x, 64, 3.0)
    ok(hip.hipDrvLaunchKernelEx(config, kernel("add_value"), arguments.addresses, None))
    assert (download(x, 64) == 3).all()
    config.blockDimX = 0
    result = hip.hipDrvLaunchKernelEx(config, kernel("add_value"), arguments.addresses, None)
    assert code(result) == E.hipErrorInvalidValue
    assert raw.hipDrvLaunchKernelEx(None, void(kernel("add_value")), None, None) == 1


def test_a_function_runs_on_the_device_of_its_module(kernel, chip):
    ok(hip.hipSetDevice(1 if chip == "gfx942" else 0))
    assert launch(kernel("nothing")) == E.hipErrorInvalidHandle


def test_what_is_no_function_is_refused(stream):
    assert launch(0xBAD0) == E.hipErrorInvalidHandle
    assert launch(stream) == E.hipErrorInvalidHandle


def test_arguments_are_copied_at_the_launch(kernel, stream):
    x = upload(np.zeros(64, np.float32))
    packed = Arguments(x, 64, 1.0)
    function = kernel("add_value")
    for value in (1.0, 2.0, 4.0):
        packed.values[2].value = value
        ok(
            hip.hipModuleLaunchKernel(
                function, 1, 1, 1, 64, 1, 1, 0, stream, packed.addresses, None
            )
        )
    packed.values[2].value = 100.0
    ok(hip.hipStreamSynchronize(stream))
    assert (download(x, 64) == 7).all()
