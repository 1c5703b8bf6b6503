"""Modules, functions, globals and attributes."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hip import hip
from hip_support import DEVICES, E, bundle, code, download, ok, raw, used_bytes, void

A = hip.hipFunction_attribute


def test_a_module_knows_its_functions(module):
    function = ok(hip.hipModuleGetFunction(module, b"add_value"))
    again = ok(hip.hipModuleGetFunction(module, b"add_value"))
    assert int(function) == int(again)
    assert ok(hip.hipModuleGetFunctionCount(module)) == 17
    raw.hipKernelNameRef.restype = ctypes.c_char_p
    assert raw.hipKernelNameRef(void(function)) == b"add_value"


def test_missing_functions_and_globals_are_not_found(module):
    assert code(hip.hipModuleGetFunction(module, b"no_such")) == E.hipErrorNotFound
    assert code(hip.hipModuleGetFunction(module, b"")) == E.hipErrorInvalidValue
    assert code(hip.hipModuleGetGlobal(module, b"no_such")) == E.hipErrorNotFound


def test_the_image_may_be_freed_after_loading(chip, image):
    size = image(chip).stat().st_size
    buffer = ctypes.create_string_buffer(image(chip).read_bytes(), size)
    module = ok(hip.hipModuleLoadData(ctypes.addressof(buffer)))
    ctypes.memset(buffer, 0, size)
    table, _ = ok(hip.hipModuleGetGlobal(module, b"table"))
    assert download(table, 4).tolist() == [1, 2, 3, 4]


def test_modules_load_from_files(chip, image):
    module = ok(hip.hipModuleLoad(str(image(chip)).encode()))
    ok(hip.hipModuleGetFunction(module, b"add_value"))
    assert code(hip.hipModuleLoad(b"/no/such/file.co")) == E.hipErrorFileNotFound


def test_options_of_the_loader_are_taken(chip, image):
    data = image(chip).read_bytes()
    buffer = ctypes.create_string_buffer(data, len(data))
    module = ctypes.c_void_p()
    assert raw.hipModuleLoadDataEx(ctypes.byref(module), buffer, 0, None, None) == 0
    ok(hip.hipModuleGetFunction(module.value, b"nothing"))


def test_code_for_another_chip_is_no_binary_for_this_gpu(image):
    for ordinal, other in enumerate(reversed(DEVICES)):
        ok(hip.hipSetDevice(ordinal))
        data = image(other).read_bytes()
        assert code(hip.hipModuleLoadData(data)) == E.hipErrorNoBinaryForGpu


def test_a_bundle_gives_each_device_its_code(image, tmp_path):
    data = bundle({chip: image(chip).read_bytes() for chip in DEVICES})
    path = tmp_path / "kernels.hipfb"
    path.write_bytes(data)
    for ordinal in range(len(DEVICES)):
        ok(hip.hipSetDevice(ordinal))
        module = ok(hip.hipModuleLoadData(data))
        ok(hip.hipModuleGetFunction(module, b"add_value"))
        ok(hip.hipModuleLoad(str(path).encode()))


def test_a_bundle_without_the_chip_is_no_binary_for_this_gpu(image):
    data = bundle({"gfx1100": image("gfx1100").read_bytes()})
    assert code(hip.hipModuleLoadData(data)) == E.hipErrorNoBinaryForGpu


@pytest.mark.parametrize("data", [b"\0" * 256, b"\x7fELF" + b"\0" * 252, b"text" * 64])
def test_nonsense_is_an_invalid_image(data):
    assert code(hip.hipModuleLoadData(data)) == E.hipErrorInvalidImage


def test_a_cut_file_is_an_invalid_image(chip, image, tmp_path):
    data = image(chip).read_bytes()
    cut = tmp_path / "cut.co"
    for size in (0, 3, 64, len(data) // 2):
        cut.write_bytes(data[:size])
        assert code(hip.hipModuleLoad(str(cut).encode())) == E.hipErrorInvalidImage


def test_unloading_takes_functions_and_memory(chip, image):
    before = used_bytes()
    module = ok(hip.hipModuleLoadData(image(chip).read_bytes()))
    function = ok(hip.hipModuleGetFunction(module, b"nothing"))
    ok(hip.hipModuleUnload(module))
    assert used_bytes() == before
    assert code(hip.hipModuleUnload(module)) == E.hipErrorInvalidHandle
    assert code(hip.hipModuleGetFunction(module, b"nothing")) == E.hipErrorInvalidHandle
    result = hip.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, 0, None, None)
    assert code(result) == E.hipErrorInvalidHandle


def test_globals_are_device_memory(module):
    pointer, size = ok(hip.hipModuleGetGlobal(module, b"counter"))
    assert size == 4 and download(pointer, 1, np.int32)[0] == 7
    ok(hip.hipMemsetD32(pointer, 9, 1))
    assert download(pointer, 1, np.int32)[0] == 9


def test_two_loads_have_globals_of_their_own(chip, image):
    first, second = (ok(hip.hipModuleLoadData(image(chip).read_bytes())) for _ in range(2))
    a, _ = ok(hip.hipModuleGetGlobal(first, b"counter"))
    b, _ = ok(hip.hipModuleGetGlobal(second, b"counter"))
    ok(hip.hipMemsetD32(a, 1, 1))
    assert int(a) != int(b) and download(b, 1, np.int32)[0] == 7


def test_attributes_of_functions(kernel):
    plain, small = kernel("add_value"), kernel("small_blocks")
    lds = kernel("static_lds")

    def get(function, attribute):
        return ok(hip.hipFuncGetAttribute(attribute, function))

    assert get(plain, A.HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 1024
    assert get(small, A.HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 64
    assert get(lds, A.HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 4096
    assert get(lds, A.HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) == 65536 - 4096
    assert get(plain, A.HIP_FUNC_ATTRIBUTE_NUM_REGS) > 0
    attributes = ok(hip.hipFuncGetAttributes(lds))
    assert attributes.sharedSizeBytes == 4096 and attributes.maxThreadsPerBlock == 1024
    assert raw.hipFuncGetAttribute(None, 0, void(plain)) == E.hipErrorInvalidValue
    assert raw.hipFuncGetAttribute(ctypes.byref(ctypes.c_int()), 55, void(plain)) == 1


def test_the_dynamic_lds_of_a_function_can_be_limited(kernel):
    function = kernel("reverse_in_lds")
    limit = hip.hipFuncAttribute.hipFuncAttributeMaxDynamicSharedMemorySize
    ok(hip.hipFuncSetAttribute(function, limit, 1024))
    wanted = A.HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert ok(hip.hipFuncGetAttribute(wanted, function)) == 1024
    assert code(hip.hipFuncSetAttribute(function, limit, 1 << 20)) == E.hipErrorInvalidValue
    assert code(hip.hipFuncSetAttribute(0xBAD, limit, 1)) == E.hipErrorInvalidDeviceFunction


def test_occupancy(kernel):
    plain, lds = kernel("add_value"), kernel("static_lds")
    per_cu = ok(hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(plain, 256, 0))
    assert per_cu >= 4
    # 4 KB of static LDS and nearly all of the rest: one group at a time.
    full = ok(hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(lds, 1024, 60 * 1024))
    assert full >= 1
    over = ok(hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(lds, 1024, 64 * 1024))
    assert over == 0
    grid, block = ok(hip.hipModuleOccupancyMaxPotentialBlockSize(plain, 0, 0))
    assert 64 <= block <= 1024 and grid > 0
    _, limited = ok(hip.hipModuleOccupancyMaxPotentialBlockSize(plain, 0, 128))
    assert limited <= 128
    result = hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(plain, 0, 0)
    assert code(result) == E.hipErrorInvalidValue
