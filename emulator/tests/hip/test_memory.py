"""Device, pinned, registered and managed memory, and what is known of pointers."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hip import hip
from hip_support import E, code, download, ok, raw, upload, used_bytes, void

T = hip.hipMemoryType


def attributes(pointer):
    return ok(hip.hipPointerGetAttributes(pointer))


def test_memory_info_counts_live_bytes_exactly():
    before = used_bytes()
    first = ok(hip.hipMalloc(1000))
    second = ok(hip.hipMalloc(1 << 20))
    assert used_bytes() == before + 1000 + (1 << 20)
    ok(hip.hipFree(first))
    assert used_bytes() == before + (1 << 20)
    ok(hip.hipFree(second))
    assert used_bytes() == before


def test_memory_is_counted_by_device():
    ok(hip.hipSetDevice(1))
    pointer = ok(hip.hipMalloc(4096))
    assert used_bytes() == 4096
    ok(hip.hipSetDevice(0))
    assert used_bytes() == 0
    # A pointer knows its device: freeing needs no device to be current.
    ok(hip.hipFree(pointer))
    ok(hip.hipSetDevice(1))
    assert used_bytes() == 0


def test_zero_bytes_are_the_null_pointer():
    pointer = ctypes.c_void_p(1)
    assert raw.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(0)) == 0
    assert pointer.value is None
    assert raw.hipFree(None) == 0
    assert raw.hipHostFree(None) == 0


def test_more_than_the_device_has_is_out_of_memory():
    total = ok(hip.hipDeviceTotalMem(0))
    before = used_bytes()
    assert code(hip.hipMalloc(total + 1)) == E.hipErrorOutOfMemory
    assert code(hip.hipMalloc((1 << 63) - 1)) == E.hipErrorOutOfMemory
    big = ok(hip.hipMalloc(total - (1 << 20)))
    assert code(hip.hipMalloc(2 << 20)) == E.hipErrorOutOfMemory
    ok(hip.hipFree(big))
    assert used_bytes() == before


def test_freeing_what_is_no_allocation_is_an_invalid_value():
    pointer = ok(hip.hipMalloc(4096))
    pinned = ok(hip.hipHostMalloc(4096, 0))
    assert raw.hipFree(void(int(pointer) + 8)) == E.hipErrorInvalidValue
    assert raw.hipFree(void(0x1234)) == E.hipErrorInvalidValue
    assert raw.hipFree(void(pinned)) == E.hipErrorInvalidValue
    assert raw.hipHostFree(void(pointer)) == E.hipErrorInvalidValue
    ok(hip.hipFree(pointer))
    assert code(hip.hipFree(pointer)) == E.hipErrorInvalidValue
    ok(hip.hipHostFree(pinned))
    assert code(hip.hipHostFree(pinned)) == E.hipErrorInvalidValue


def test_pointers_of_every_kind_are_known():
    device = ok(hip.hipMalloc(64))
    pinned = ok(hip.hipHostMalloc(64, 0))
    managed = ok(hip.hipMallocManaged(64, hip.hipMemAttachGlobal))
    own = np.zeros(16, np.float32)
    a = attributes(device)
    assert a.type == T.hipMemoryTypeDevice and a.device == 0 and not a.isManaged
    assert int(a.devicePointer) == int(device)
    a = attributes(pinned)
    assert a.type == T.hipMemoryTypeHost and int(a.hostPointer) == int(pinned)
    a = attributes(managed)
    assert a.type == T.hipMemoryTypeManaged and a.isManaged
    a = attributes(own.ctypes.data)
    assert a.type == T.hipMemoryTypeUnregistered


def test_freed_device_memory_is_no_host_pointer():
    pointer = ok(hip.hipMalloc(64))
    ok(hip.hipFree(pointer))
    assert code(hip.hipPointerGetAttributes(pointer)) == E.hipErrorInvalidValue


def test_single_pointer_attributes():
    A = hip.hipPointer_attribute
    pointer = ok(hip.hipMalloc(1000))
    inside = int(pointer) + 100

    def get(attribute, kind):
        value = kind()
        assert raw.hipPointerGetAttribute(ctypes.byref(value), int(attribute), void(inside)) == 0
        return value.value

    assert get(A.HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, ctypes.c_void_p) == int(pointer)
    assert get(A.HIP_POINTER_ATTRIBUTE_RANGE_SIZE, ctypes.c_size_t) == 1000
    assert get(A.HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ctypes.c_int) == 0
    assert get(A.HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, ctypes.c_uint) == T.hipMemoryTypeDevice
    assert get(A.HIP_POINTER_ATTRIBUTE_DEVICE_POINTER, ctypes.c_void_p) == inside
    value = ctypes.c_uint64()
    assert raw.hipPointerGetAttribute(ctypes.byref(value), 99, void(inside)) == 1
    assert raw.hipPointerGetAttribute(None, 2, void(inside)) == 1


def test_address_range_finds_the_allocation():
    pointer = ok(hip.hipMalloc(1000))
    base, size = ok(hip.hipMemGetAddressRange(int(pointer) + 999))
    assert (int(base), size) == (int(pointer), 1000)
    assert code(hip.hipMemGetAddressRange(int(pointer) + 1000)) == E.hipErrorNotFound
    assert ok(hip.hipMemPtrGetInfo(pointer)) == 1000


def test_pinned_memory_is_one_address_for_both():
    pinned = ok(hip.hipHostMalloc(4096, hip.hipHostMallocMapped))
    assert int(ok(hip.hipHostGetDevicePointer(pinned, 0))) == int(pinned)
    assert ok(hip.hipHostGetFlags(pinned)) == hip.hipHostMallocMapped
    view = (ctypes.c_float * 4).from_address(int(pinned))
    view[:] = [1, 2, 3, 4]
    assert download(pinned, 4).tolist() == [1, 2, 3, 4]
    ok(hip.hipHostFree(pinned))
    assert code(hip.hipHostMalloc(4096, 0x100)) == E.hipErrorInvalidValue
    both = hip.hipHostMallocCoherent | (hip.hipHostMallocNonCoherent & 0xFFFFFFFF)
    assert raw.hipHostMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(8), both) == 1


def test_device_memory_has_no_host_view():
    pointer = ok(hip.hipMalloc(64))
    assert code(hip.hipHostGetDevicePointer(pointer, 0)) == E.hipErrorInvalidValue
    assert code(hip.hipHostGetFlags(pointer)) == E.hipErrorInvalidValue


def test_registered_memory_overlaps_nothing_and_is_unregistered_once():
    own = np.zeros(4096, np.uint8)
    address = own.ctypes.data
    ok(hip.hipHostRegister(address, 4096, hip.hipHostRegisterDefault))
    assert attributes(address + 5).type == T.hipMemoryTypeHost
    again = hip.hipHostRegister(address + 100, 10, 0)
    assert code(again) == E.hipErrorHostMemoryAlreadyRegistered
    ok(hip.hipHostUnregister(address))
    assert code(hip.hipHostUnregister(address)) == E.hipErrorHostMemoryNotRegistered
    ok(hip.hipHostRegister(address + 100, 10, 0))
    ok(hip.hipHostUnregister(address + 100))
    assert code(hip.hipHostRegister(address, 0, 0)) == E.hipErrorInvalidValue
    assert code(hip.hipHostRegister(address, 8, 0x4000)) == E.hipErrorInvalidValue


def test_device_memory_cannot_be_registered():
    pointer = ok(hip.hipMalloc(64))
    assert code(hip.hipHostRegister(pointer, 64, 0)) == E.hipErrorInvalidValue


def test_managed_memory_is_freed_as_device_memory():
    managed = ok(hip.hipMallocManaged(4096, hip.hipMemAttachGlobal))
    (ctypes.c_int * 2).from_address(int(managed))[:] = [5, 6]
    assert download(managed, 2, np.int32).tolist() == [5, 6]
    stream = ok(hip.hipStreamCreate())
    ok(hip.hipMemAdvise(managed, 4096, hip.hipMemoryAdvise.hipMemAdviseSetReadMostly, 0))
    ok(hip.hipMemPrefetchAsync(managed, 4096, 0, stream))
    ok(hip.hipMemPrefetchAsync(managed, 4096, hip.hipCpuDeviceId, stream))
    assert code(hip.hipMemPrefetchAsync(managed, 4097, 0, stream)) == E.hipErrorInvalidValue
    ok(hip.hipFree(managed))
    assert code(hip.hipMallocManaged(64, 0x40)) == E.hipErrorInvalidValue


def test_pitched_memory_has_aligned_rows():
    pointer, pitch = ok(hip.hipMallocPitch(100, 10))
    assert pitch >= 100 and pitch % 256 == 0
    assert used_bytes() == pitch * 10
    ok(hip.hipFree(pointer))
    extent = hip.hipExtent()
    extent.width, extent.height, extent.depth = 100, 4, 3
    pitched = ok(hip.hipMalloc3D(extent))
    assert pitched.pitch >= 100 and used_bytes() == pitched.pitch * 12


def test_contents_survive_neighbours_coming_and_going():
    rng = np.random.default_rng(1)
    kept = {}
    for _ in range(300):
        if kept and rng.random() < 0.4:
            pointer, array = kept.pop(rng.choice(list(kept)))
            assert (download(pointer, array.shape, array.dtype) == array).all()
            ok(hip.hipFree(pointer))
        else:
            array = rng.integers(0, 255, rng.integers(1, 20000), np.uint8)
            pointer = upload(array)
            kept[int(pointer)] = (pointer, array)
    for pointer, array in kept.values():
        assert (download(pointer, array.shape, array.dtype) == array).all()
        ok(hip.hipFree(pointer))
    assert used_bytes() == 0


@pytest.mark.parametrize("name", ["hipMalloc", "hipMallocHost"])
def test_null_outputs_are_refused(name):
    assert getattr(raw, name)(None, ctypes.c_size_t(64)) == E.hipErrorInvalidValue
