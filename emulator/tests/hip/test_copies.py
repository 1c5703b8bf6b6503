"""Copies and fills of all forms, and their bounds."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hip import hip
from hip_support import E, K, code, download, ok, raw, upload, void


@pytest.fixture
def numbers():
    return np.arange(1000, dtype=np.float32)


def test_round_trip_through_every_blocking_form(numbers):
    size = numbers.nbytes
    a, b = ok(hip.hipMalloc(size)), ok(hip.hipMalloc(size))
    out = np.zeros_like(numbers)
    ok(hip.hipMemcpyHtoD(a, numbers, size))
    ok(hip.hipMemcpyDtoD(b, a, size))
    ok(hip.hipMemcpyDtoH(out, b, size))
    assert (out == numbers).all()
    ok(hip.hipMemset(b, 0, size))
    ok(hip.hipMemcpy(b, a, size, K.hipMemcpyDeviceToDevice))
    out[:] = 0
    ok(hip.hipMemcpy(out, b, size, K.hipMemcpyDefault))
    assert (out == numbers).all()


def test_round_trip_through_every_stream_form(numbers, stream):
    size = numbers.nbytes
    a, b = ok(hip.hipMalloc(size)), ok(hip.hipMalloc(size))
    out = np.zeros_like(numbers)
    ok(hip.hipMemcpyHtoDAsync(a, numbers, size, stream))
    ok(hip.hipMemcpyDtoDAsync(b, a, size, stream))
    ok(hip.hipMemcpyDtoHAsync(out, b, size, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert (out == numbers).all()
    out[:] = 0
    ok(hip.hipMemsetAsync(b, 0, size, stream))
    ok(hip.hipMemcpyAsync(b, a, size, K.hipMemcpyDeviceToDevice, stream))
    ok(hip.hipMemcpyWithStream(out, b, size, K.hipMemcpyDeviceToHost, stream))
    assert (out == numbers).all()


def test_the_caller_may_reuse_pageable_memory_at_once(stream):
    source = np.full(50_000, 3, np.float32)
    pointer = ok(hip.hipMalloc(source.nbytes))
    ok(hip.hipMemcpyHtoDAsync(pointer, source, source.nbytes, stream))
    source[:] = 0
    ok(hip.hipStreamSynchronize(stream))
    assert (download(pointer, source.shape) == 3).all()


def test_host_to_host(numbers):
    out = np.zeros_like(numbers)
    ok(hip.hipMemcpy(out, numbers, numbers.nbytes, K.hipMemcpyHostToHost))
    assert (out == numbers).all()


@pytest.mark.parametrize("offset, size", [(0, 4001), (4, 4000), (3999, 2), (0, 1 << 62)])
def test_copies_beyond_the_allocation_are_invalid(numbers, offset, size):
    pointer = upload(numbers)
    host = np.zeros(2000, np.float32)
    for result in (
        hip.hipMemcpy(int(pointer) + offset, host, size, K.hipMemcpyHostToDevice),
        hip.hipMemcpy(host, int(pointer) + offset, size, K.hipMemcpyDeviceToHost),
        hip.hipMemset(int(pointer) + offset, 1, size),
    ):
        assert code(result) == E.hipErrorInvalidValue
    assert (download(pointer, 1000) == numbers).all()


def test_both_sides_are_checked(numbers):
    small, large = ok(hip.hipMalloc(100)), ok(hip.hipMalloc(4000))
    assert code(hip.hipMemcpyDtoD(small, large, 101)) == E.hipErrorInvalidValue
    assert code(hip.hipMemcpyDtoD(large, small, 101)) == E.hipErrorInvalidValue
    ok(hip.hipMemcpyDtoD(large, small, 100))


def test_a_wrong_direction_is_noticed(numbers):
    pointer = upload(numbers)
    host = np.zeros_like(numbers)
    size = numbers.nbytes
    wrong = [
        hip.hipMemcpy(host, numbers, size, K.hipMemcpyHostToDevice),
        hip.hipMemcpy(host, numbers, size, K.hipMemcpyDeviceToHost),
        hip.hipMemcpy(pointer, pointer, size, K.hipMemcpyHostToHost),
        hip.hipMemcpy(host, pointer, size, K.hipMemcpyHostToDevice),
    ]
    assert [code(w) for w in wrong] == [E.hipErrorInvalidValue] * 4
    direction = raw.hipMemcpy(void(pointer), void(pointer), ctypes.c_size_t(4), 9)
    assert direction == E.hipErrorInvalidMemcpyDirection


def test_freed_memory_is_not_copied(numbers):
    pointer = upload(numbers)
    ok(hip.hipFree(pointer))
    host = np.zeros_like(numbers)
    result = hip.hipMemcpy(host, pointer, numbers.nbytes, K.hipMemcpyDefault)
    assert code(result) == E.hipErrorInvalidValue


def test_null_and_zero():
    pointer = ok(hip.hipMalloc(64))
    assert raw.hipMemcpy(None, void(pointer), ctypes.c_size_t(4), 3) == E.hipErrorInvalidValue
    assert raw.hipMemcpy(void(pointer), None, ctypes.c_size_t(4), 3) == E.hipErrorInvalidValue
    assert raw.hipMemcpy(None, None, ctypes.c_size_t(0), 3) == 0
    assert raw.hipMemset(None, 0, ctypes.c_size_t(4)) == E.hipErrorInvalidValue
    assert raw.hipMemset(None, 0, ctypes.c_size_t(0)) == 0


def test_fills_of_every_width(stream):
    pointer = ok(hip.hipMalloc(4096))
    ok(hip.hipMemset(pointer, 0x1AB, 4096))  # the low byte counts
    assert (download(pointer, 4096, np.uint8) == 0xAB).all()
    ok(hip.hipMemsetD8Async(pointer, 0x11, 16, stream))
    ok(hip.hipMemsetD16Async(int(pointer) + 16, 0x2233, 8, stream))
    ok(hip.hipMemsetD32Async(int(pointer) + 32, 0x44556677, 4, stream))
    ok(hip.hipStreamSynchronize(stream))
    got = download(pointer, 64, np.uint8)
    assert (got[:16] == 0x11).all() and (got[16:32].view(np.uint16) == 0x2233).all()
    assert (got[32:48].view(np.uint32) == 0x44556677).all() and (got[48:] == 0xAB).all()
    ok(hip.hipMemsetD8(pointer, 1, 4))
    ok(hip.hipMemsetD16(pointer, 2, 1))
    ok(hip.hipMemsetD32(int(pointer) + 4, 3, 1))
    assert download(pointer, 8, np.uint8).tolist() == [2, 0, 1, 1, 3, 0, 0, 0]


def test_fills_need_aligned_addresses():
    pointer = ok(hip.hipMalloc(64))
    assert code(hip.hipMemsetD32(int(pointer) + 2, 0, 1)) == E.hipErrorInvalidValue
    assert code(hip.hipMemsetD16(int(pointer) + 1, 0, 1)) == E.hipErrorInvalidValue


def test_fills_count_elements_in_their_bounds():
    pointer = ok(hip.hipMalloc(64))
    ok(hip.hipMemsetD32(pointer, 0, 16))
    assert code(hip.hipMemsetD32(pointer, 0, 17)) == E.hipErrorInvalidValue


def test_rows_with_pitch():
    source = np.arange(12 * 5, dtype=np.uint8).reshape(5, 12)
    pointer, pitch = ok(hip.hipMallocPitch(8, 5))
    ok(hip.hipMemset2D(pointer, pitch, 9, 8, 5))
    ok(hip.hipMemcpy2D(pointer, pitch, source, 12, 8, 5, K.hipMemcpyHostToDevice))
    out = np.zeros((5, 10), np.uint8)
    ok(hip.hipMemcpy2D(out, 10, pointer, pitch, 8, 5, K.hipMemcpyDeviceToHost))
    assert (out[:, :8] == source[:, :8]).all() and (out[:, 8:] == 0).all()


def test_rows_longer_than_their_pitch_are_refused():
    pointer, pitch = ok(hip.hipMallocPitch(8, 5))
    host = np.zeros((5, 8), np.uint8)
    result = hip.hipMemcpy2D(pointer, pitch, host, 4, 8, 5, K.hipMemcpyHostToDevice)
    assert code(result) == E.hipErrorInvalidPitchValue
    assert code(hip.hipMemset2D(pointer, pitch, 0, pitch + 1, 5)) == E.hipErrorInvalidPitchValue
    # The last row needs no padding behind it, and one row more is too much.
    ok(hip.hipMemset2D(pointer, pitch, 0, pitch, 5))
    assert code(hip.hipMemset2D(pointer, pitch, 0, 8, 6)) == E.hipErrorInvalidValue


def test_boxes(stream):
    shape = (3, 4, 6)
    source = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    extent = hip.hipExtent()
    extent.width, extent.height, extent.depth = 6, 4, 3
    pitched = ok(hip.hipMalloc3D(extent))
    ok(hip.hipMemset3D(pitched, 7, extent))
    p = hip.hipMemcpy3DParms()
    p.srcPtr.ptr, p.srcPtr.pitch, p.srcPtr.xsize, p.srcPtr.ysize = source.ctypes.data, 6, 6, 4
    p.dstPtr.ptr, p.dstPtr.pitch = int(pitched.ptr), pitched.pitch
    p.dstPtr.xsize, p.dstPtr.ysize = 6, 4
    p.srcPos.x = p.dstPos.x = 1
    p.extent.width, p.extent.height, p.extent.depth = 4, 4, 3
    p.kind = K.hipMemcpyHostToDevice
    ok(hip.hipMemcpy3DAsync(p, stream))
    ok(hip.hipStreamSynchronize(stream))
    got = download(pitched.ptr, (3, 4, pitched.pitch), np.uint8)[:, :, :6]
    expected = np.full(shape, 7, np.uint8)
    expected[:, :, 1:5] = source[:, :, 1:5]
    assert (got == expected).all()


def test_peer_copies_between_devices(numbers):
    a = upload(numbers)
    ok(hip.hipSetDevice(1))
    b = ok(hip.hipMalloc(numbers.nbytes))
    ok(hip.hipMemcpyPeer(b, 1, a, 0, numbers.nbytes))
    assert (download(b, 1000) == numbers).all()
    none = ok(hip.hipGetDeviceCount())
    assert code(hip.hipMemcpyPeer(b, 1, a, none, 4)) == E.hipErrorInvalidDevice


def test_the_old_driver_form_of_rows():
    source = np.arange(64, dtype=np.uint8)
    pointer = ok(hip.hipMalloc(64))
    p = hip.hip_Memcpy2D()
    p.srcMemoryType = hip.hipMemoryType.hipMemoryTypeHost
    p.srcHost, p.srcPitch = source.ctypes.data, 16
    p.dstMemoryType = hip.hipMemoryType.hipMemoryTypeDevice
    p.dstDevice, p.dstPitch = int(pointer), 16
    p.WidthInBytes, p.Height = 16, 4
    ok(hip.hipMemcpyParam2D(p))
    assert (download(pointer, 64, np.uint8) == source).all()
    p.Height = 5
    assert code(hip.hipMemcpyParam2D(p)) == E.hipErrorInvalidValue
