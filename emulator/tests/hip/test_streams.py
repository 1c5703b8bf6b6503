"""Streams, events, callbacks, host functions, values in memory."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
import pytest
from hip import hip
from hip_support import CALLBACK, HOST_FN, E, K, code, download, entry, ok, raw, upload, void


def test_streams_say_what_they_are():
    a = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    least, greatest = ok(hip.hipDeviceGetStreamPriorityRange())
    assert least >= 0 >= greatest
    b = ok(hip.hipStreamCreateWithPriority(hip.hipStreamDefault, greatest))
    assert ok(hip.hipStreamGetFlags(a)) == hip.hipStreamNonBlocking
    assert ok(hip.hipStreamGetFlags(b)) == hip.hipStreamDefault
    assert ok(hip.hipStreamGetPriority(b)) == greatest
    assert ok(hip.hipStreamGetPriority(a)) == 0
    assert ok(hip.hipStreamGetId(a)) != ok(hip.hipStreamGetId(b))
    assert ok(hip.hipStreamGetDevice(a)) == 0


def test_priorities_are_clamped_and_flags_checked():
    least, _ = ok(hip.hipDeviceGetStreamPriorityRange())
    stream = ok(hip.hipStreamCreateWithPriority(0, 1000))
    assert ok(hip.hipStreamGetPriority(stream)) == least
    assert code(hip.hipStreamCreateWithFlags(8)) == E.hipErrorInvalidValue
    assert raw.hipStreamCreate(None) == E.hipErrorInvalidValue


def test_a_stream_belongs_to_the_device_it_was_made_on():
    ok(hip.hipSetDevice(1))
    stream = ok(hip.hipStreamCreate())
    ok(hip.hipSetDevice(0))
    assert ok(hip.hipStreamGetDevice(stream)) == 1
    assert raw.hipGetStreamDeviceId(void(stream)) == 1


def test_constant_handles_are_streams_that_cannot_be_destroyed():
    for handle in (0, 1, 2):
        assert raw.hipStreamSynchronize(void(handle)) == 0
        assert raw.hipStreamQuery(void(handle)) == 0
        assert raw.hipStreamDestroy(void(handle)) == E.hipErrorInvalidHandle


def test_a_destroyed_stream_is_gone(stream):
    ok(hip.hipStreamDestroy(stream))
    for result in (
        hip.hipStreamDestroy(stream),
        hip.hipStreamSynchronize(stream),
        hip.hipStreamGetFlags(stream),
        hip.hipMemsetAsync(0, 0, 0, stream),
    ):
        assert code(result) == E.hipErrorInvalidHandle


def test_destroying_a_stream_lets_its_work_finish():
    pointer = ok(hip.hipMalloc(1 << 20))
    for value in range(20):
        stream = ok(hip.hipStreamCreate())
        ok(hip.hipMemsetAsync(pointer, value, 1 << 20, stream))
        ok(hip.hipStreamDestroy(stream))
        ok(hip.hipDeviceSynchronize())
        assert (download(pointer, 16, np.uint8) == value).all()


def test_host_functions_run_in_stream_order(stream):
    seen = []
    functions = [HOST_FN(lambda _, i=i: seen.append(i)) for i in range(10)]
    for function in functions:
        ok(hip.hipLaunchHostFunc(stream, entry(function), None))
    ok(hip.hipStreamSynchronize(stream))
    assert seen == list(range(10))


def test_host_functions_get_their_data_and_see_the_copies_before(stream):
    host = ok(hip.hipHostMalloc(64, 0))
    device = upload(np.full(16, 4, np.int32))
    seen = []

    @HOST_FN
    def read(data):
        seen.append((data, (ctypes.c_int * 16).from_address(int(host))[3]))

    ok(hip.hipMemcpyAsync(host, device, 64, K.hipMemcpyDeviceToHost, stream))
    ok(hip.hipLaunchHostFunc(stream, entry(read), 0x77))
    ok(hip.hipStreamSynchronize(stream))
    assert seen == [(0x77, 4)]


def test_callbacks_get_stream_status_and_data(stream):
    seen = []
    callback = CALLBACK(lambda *arguments: seen.append(arguments))
    ok(hip.hipStreamAddCallback(stream, entry(callback), 0x42, 0))
    ok(hip.hipStreamSynchronize(stream))
    assert seen == [(int(stream), 0, 0x42)]
    assert (
        code(hip.hipStreamAddCallback(stream, entry(callback), None, 1)) == E.hipErrorInvalidValue
    )
    assert raw.hipStreamAddCallback(void(stream), None, None, 0) == E.hipErrorInvalidValue
    assert raw.hipLaunchHostFunc(void(stream), None, None) == E.hipErrorInvalidValue


def test_a_host_function_must_not_call_the_runtime(stream):
    results = []

    @HOST_FN
    def misuse(_):
        results.append(raw.hipStreamSynchronize(void(stream)))
        results.append(raw.hipDeviceSynchronize())

    ok(hip.hipLaunchHostFunc(stream, entry(misuse), None))
    ok(hip.hipStreamSynchronize(stream))
    assert results == [E.hipErrorNotSupported] * 2


def test_events_measure_and_order(stream):
    start, stop = ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    wait = HOST_FN(lambda _: time.sleep(0.02))
    ok(hip.hipEventRecord(start, stream))
    ok(hip.hipLaunchHostFunc(stream, entry(wait), None))
    ok(hip.hipEventRecord(stop, stream))
    ok(hip.hipEventSynchronize(stop))
    ok(hip.hipEventQuery(stop))
    assert 15 < ok(hip.hipEventElapsedTime(start, stop)) < 2000
    assert ok(hip.hipEventElapsedTime(stop, start)) < 0


def test_an_event_without_a_record_is_complete_and_has_no_time(stream):
    a, b = ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    ok(hip.hipEventQuery(a))
    ok(hip.hipEventSynchronize(a))
    ok(hip.hipStreamWaitEvent(stream, a, 0))
    ok(hip.hipEventRecord(b, stream))
    assert code(hip.hipEventElapsedTime(a, b)) == E.hipErrorInvalidHandle
    assert raw.hipEventElapsedTime(None, void(b), void(b)) == E.hipErrorInvalidValue


def test_events_without_timing_have_no_time(stream):
    event = ok(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))
    ok(hip.hipEventRecord(event, stream))
    ok(hip.hipEventSynchronize(event))
    assert code(hip.hipEventElapsedTime(event, event)) == E.hipErrorInvalidHandle
    assert code(hip.hipEventCreateWithFlags(0x100)) == E.hipErrorInvalidValue


def test_a_destroyed_event_is_gone_and_its_waits_remain(stream):
    other = ok(hip.hipStreamCreate())
    event = ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(event, stream))
    ok(hip.hipStreamWaitEvent(other, event, 0))
    ok(hip.hipEventDestroy(event))
    ok(hip.hipStreamSynchronize(other))
    assert code(hip.hipEventRecord(event, stream)) == E.hipErrorInvalidHandle
    assert code(hip.hipEventDestroy(event)) == E.hipErrorInvalidHandle
    assert code(hip.hipStreamWaitEvent(stream, event, 0)) == E.hipErrorInvalidHandle


def test_an_event_is_recorded_on_its_own_device_only():
    event = ok(hip.hipEventCreate())
    ok(hip.hipSetDevice(1))
    stream = ok(hip.hipStreamCreate())
    assert code(hip.hipEventRecord(event, stream)) == E.hipErrorInvalidHandle
    # Waiting for another device's event is allowed.
    ok(hip.hipStreamWaitEvent(stream, event, 0))


def test_streams_wait_for_events_of_other_streams():
    producer, consumer = ok(hip.hipStreamCreate()), ok(hip.hipStreamCreate())
    event = ok(hip.hipEventCreate())
    a, b = ok(hip.hipMalloc(1 << 16)), ok(hip.hipMalloc(1 << 16))
    late = HOST_FN(lambda _: time.sleep(0.005))
    for value in range(10):
        ok(hip.hipLaunchHostFunc(producer, entry(late), None))
        ok(hip.hipMemsetAsync(a, value, 1 << 16, producer))
        ok(hip.hipEventRecord(event, producer))
        ok(hip.hipStreamWaitEvent(consumer, event, 0))
        ok(hip.hipMemcpyAsync(b, a, 1 << 16, K.hipMemcpyDeviceToDevice, consumer))
        ok(hip.hipStreamSynchronize(consumer))
        assert (download(b, 1 << 16, np.uint8) == value).all()


def test_the_null_stream_waits_for_blocking_streams_and_they_for_it(stream):
    a = ok(hip.hipMalloc(1 << 16))
    late = HOST_FN(lambda _: time.sleep(0.01))
    ok(hip.hipLaunchHostFunc(stream, entry(late), None))
    ok(hip.hipMemsetAsync(a, 1, 1 << 16, stream))
    out = np.zeros(1 << 16, np.uint8)
    ok(hip.hipMemcpy(out, a, 1 << 16, K.hipMemcpyDeviceToHost))
    assert (out == 1).all()
    ok(hip.hipLaunchHostFunc(0, entry(late), None))
    ok(hip.hipMemsetAsync(a, 2, 1 << 16, 0))
    ok(hip.hipMemcpyAsync(out, a, 1 << 16, K.hipMemcpyDeviceToHost, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert (out == 2).all()


def test_per_thread_streams_are_different_in_each_thread():
    ids = []

    def note():
        number = ctypes.c_ulonglong()
        assert raw.hipStreamGetId(void(2), ctypes.byref(number)) == 0
        ids.append(number.value)

    threads = [threading.Thread(target=note) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    note()
    note()
    assert len(set(ids)) == 4 and ids[-1] == ids[-2]


def test_functions_of_per_thread_programs(stream):
    pointer = ok(hip.hipMalloc(64))
    ok(hip.hipMemset_spt(pointer, 3, 64))
    out = np.zeros(64, np.uint8)
    ok(hip.hipMemcpy_spt(out, pointer, 64, K.hipMemcpyDeviceToHost))
    assert (out == 3).all()
    ok(hip.hipStreamSynchronize_spt(0))
    ok(hip.hipStreamQuery_spt(0))


@pytest.mark.parametrize("bits", [32, 64])
def test_values_in_memory(stream, bits):
    kind = ctypes.c_uint32 if bits == 32 else ctypes.c_uint64
    write = getattr(raw, f"hipStreamWriteValue{bits}")
    wait = getattr(raw, f"hipStreamWaitValue{bits}")
    pointer = ok(hip.hipMalloc(64))
    ok(hip.hipMemset(pointer, 0, 64))
    everything = kind(~0 & ((1 << bits) - 1))
    assert write(void(stream), void(pointer), kind(5), 0) == 0
    for condition, value in ((0, 5), (0, 4), (1, 5), (2, 4), (3, 8)):
        assert wait(void(stream), void(pointer), kind(value), condition, everything) == 0
    ok(hip.hipStreamSynchronize(stream))
    assert wait(void(stream), void(pointer), kind(1), 7, everything) == E.hipErrorInvalidValue
    host = np.zeros(4, np.uint64)
    assert write(void(stream), void(host.ctypes.data), kind(5), 0) == E.hipErrorInvalidValue
    assert write(void(stream), void(int(pointer) + 64), kind(5), 0) == E.hipErrorInvalidValue
