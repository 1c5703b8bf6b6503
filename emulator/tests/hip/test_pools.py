"""Stream-ordered allocation and memory pools."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hip import hip
from hip_support import E, K, code, download, ok, raw, used_bytes, void

A = hip.hipMemPoolAttr


def get(pool, attribute):
    value = ctypes.c_uint64()
    assert raw.hipMemPoolGetAttribute(void(pool), int(attribute), ctypes.byref(value)) == 0
    return value.value


def put(pool, attribute, number):
    value = ctypes.c_uint64(number)
    return raw.hipMemPoolSetAttribute(void(pool), int(attribute), ctypes.byref(value))


@pytest.fixture
def pool():
    return ok(hip.hipDeviceGetDefaultMemPool(0))


def test_memory_lives_from_its_allocation_to_its_free_in_the_stream(stream):
    before = used_bytes()
    pointer = ok(hip.hipMallocAsync(4096, stream))
    ok(hip.hipMemsetAsync(pointer, 5, 4096, stream))
    out = np.zeros(4096, np.uint8)
    ok(hip.hipMemcpyAsync(out, pointer, 4096, K.hipMemcpyDeviceToHost, stream))
    ok(hip.hipFreeAsync(pointer, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert (out == 5).all() and used_bytes() == before
    assert code(hip.hipFreeAsync(pointer, stream)) == E.hipErrorInvalidValue
    assert code(hip.hipMemset(pointer, 0, 1)) == E.hipErrorInvalidValue


def test_both_kinds_of_free_take_both_kinds_of_memory(stream):
    ordered = ok(hip.hipMallocAsync(4096, stream))
    plain = ok(hip.hipMalloc(4096))
    ok(hip.hipFree(ordered))
    ok(hip.hipFreeAsync(plain, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert used_bytes() == 0
    assert raw.hipFreeAsync(None, void(stream)) == 0


def test_a_freed_pointer_is_not_freed_twice(stream):
    pointer = ok(hip.hipMallocAsync(64, stream))
    ok(hip.hipFreeAsync(pointer, stream))
    assert code(hip.hipFree(pointer)) == E.hipErrorInvalidValue


def test_the_pool_counts_what_is_used(pool, stream):
    pointer = ok(hip.hipMallocAsync(1000, stream))
    other = ok(hip.hipMallocAsync(3000, stream))
    assert get(pool, A.hipMemPoolAttrUsedMemCurrent) == 4000
    ok(hip.hipFreeAsync(other, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert get(pool, A.hipMemPoolAttrUsedMemCurrent) == 1000
    assert get(pool, A.hipMemPoolAttrUsedMemHigh) >= 4000
    assert put(pool, A.hipMemPoolAttrUsedMemHigh, 0) == 0
    assert get(pool, A.hipMemPoolAttrUsedMemHigh) == 1000
    assert put(pool, A.hipMemPoolAttrUsedMemHigh, 5) == E.hipErrorInvalidValue
    assert put(pool, A.hipMemPoolAttrUsedMemCurrent, 0) == E.hipErrorInvalidValue
    ok(hip.hipFree(pointer))


def test_a_pool_keeps_blocks_up_to_its_threshold(pool, stream):
    assert put(pool, A.hipMemPoolAttrReleaseThreshold, 1 << 30) == 0
    first = ok(hip.hipMallocAsync(8192, stream))
    ok(hip.hipFreeAsync(first, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert used_bytes() == 8192
    again = ok(hip.hipMallocAsync(8192, stream))
    assert int(again) == int(first)
    ok(hip.hipFreeAsync(again, stream))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipMemPoolTrimTo(pool, 0))
    assert used_bytes() == 0 == get(pool, A.hipMemPoolAttrReservedMemCurrent)
    assert put(pool, A.hipMemPoolAttrReleaseThreshold, 0) == 0


def test_kept_blocks_make_room_before_an_allocation_fails(pool, stream):
    assert put(pool, A.hipMemPoolAttrReleaseThreshold, 1 << 62) == 0
    total = ok(hip.hipDeviceTotalMem(0))
    ok(hip.hipFreeAsync(ok(hip.hipMallocAsync(total // 2, stream)), stream))
    ok(hip.hipFreeAsync(ok(hip.hipMallocAsync(total // 4 * 3, stream)), stream))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipMemPoolTrimTo(pool, 0))
    assert put(pool, A.hipMemPoolAttrReleaseThreshold, 0) == 0
    assert used_bytes() == 0


def test_own_pools(stream):
    props = hip.hipMemPoolProps()
    props.allocType = hip.hipMemAllocationType.hipMemAllocationTypePinned
    props.location.type = hip.hipMemLocationType.hipMemLocationTypeDevice
    props.location.id = 0
    own = ok(hip.hipMemPoolCreate(props))
    pointer = ok(hip.hipMallocFromPoolAsync(512, own, stream))
    assert get(own, A.hipMemPoolAttrUsedMemCurrent) == 512
    ok(hip.hipDeviceSetMemPool(0, own))
    assert int(ok(hip.hipDeviceGetMemPool(0))) == int(own)
    second = ok(hip.hipMallocAsync(256, stream))
    assert get(own, A.hipMemPoolAttrUsedMemCurrent) == 768
    ok(hip.hipMemPoolDestroy(own))
    default = ok(hip.hipDeviceGetDefaultMemPool(0))
    assert int(ok(hip.hipDeviceGetMemPool(0))) == int(default)
    # Memory that was allocated from the pool outlives it.
    ok(hip.hipFreeAsync(pointer, stream))
    ok(hip.hipFreeAsync(second, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert used_bytes() == 0
    assert code(hip.hipMemPoolTrimTo(own, 0)) == E.hipErrorInvalidValue
    assert code(hip.hipMemPoolDestroy(default)) == E.hipErrorInvalidValue


def test_a_pool_of_another_device_cannot_be_set(pool):
    assert code(hip.hipDeviceSetMemPool(1, pool)) == E.hipErrorInvalidValue


def test_flags_of_a_pool(pool):
    value = ctypes.c_int(0)
    flag = int(A.hipMemPoolReuseAllowOpportunistic)
    assert raw.hipMemPoolSetAttribute(void(pool), flag, ctypes.byref(value)) == 0
    value.value = 7
    assert raw.hipMemPoolGetAttribute(void(pool), flag, ctypes.byref(value)) == 0
    assert value.value == 0
    assert raw.hipMemPoolGetAttribute(void(pool), 99, ctypes.byref(value)) == 1


def test_ordered_memory_is_device_memory(stream):
    pointer = ok(hip.hipMallocAsync(16, stream))
    ok(hip.hipMemset(pointer, 1, 16))
    assert (download(pointer, 16, np.uint8) == 1).all()
    assert code(hip.hipMallocAsync(1 << 62, stream)) == E.hipErrorOutOfMemory
    assert code(hip.hipMallocAsync(16, 0xDEAD)) == E.hipErrorInvalidHandle
