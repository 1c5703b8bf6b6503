"""Capture of streams into graphs: what is captured, how streams fork and join, what is refused."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest
from hip import hip
from hip_support import (
    CALLBACK,
    CAPTURE,
    HOST_FN,
    E,
    K,
    all_nodes,
    code,
    download,
    entry,
    launch,
    ok,
    raw,
    upload,
    used_bytes,
    void,
)

STATUS = hip.hipStreamCaptureStatus
GLOBAL = CAPTURE.hipStreamCaptureModeGlobal
LOCAL = CAPTURE.hipStreamCaptureModeThreadLocal
RELAXED = CAPTURE.hipStreamCaptureModeRelaxed


def begin(stream, mode=GLOBAL):
    ok(hip.hipStreamBeginCapture(stream, mode))


def end(stream):
    return ok(hip.hipStreamEndCapture(stream))


def status(stream):
    return ok(hip.hipStreamIsCapturing(stream))


def replay(graph, stream, times=1):
    executable = ok(hip.hipGraphInstantiateWithFlags(graph, 0))
    for _ in range(times):
        ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))


def fork(source, *targets):
    event = ok(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))
    ok(hip.hipEventRecord(event, source))
    for target in targets:
        ok(hip.hipStreamWaitEvent(target, event, 0))


def exchange(mode):
    value = ctypes.c_int(int(mode))
    assert raw.hipThreadExchangeStreamCaptureMode(ctypes.byref(value)) == 0
    return value.value


@pytest.fixture
def memory():
    return upload(np.zeros(16, np.uint32))


def test_captured_work_runs_only_when_replayed(kernel, stream):
    x = upload(np.zeros(64, np.float32))
    out = np.full(64, -1, np.float32)
    seen = []
    note = HOST_FN(lambda _: seen.append(1))
    begin(stream)
    assert launch(kernel("add_value"), [x, 64, 2.0], stream=stream) == E.hipSuccess
    ok(hip.hipMemcpyAsync(out, x, 256, K.hipMemcpyDeviceToHost, stream))
    ok(hip.hipLaunchHostFunc(stream, entry(note), None))
    graph = end(stream)
    ok(hip.hipStreamSynchronize(stream))
    assert (download(x, 64) == 0).all() and (out == -1).all() and not seen
    replay(graph, stream, times=3)
    assert (out == 6).all() and len(seen) == 3
    assert len(all_nodes(raw.hipGraphGetNodes, graph)) == 3


def test_captured_work_is_a_chain(stream, memory):
    begin(stream)
    for value in range(4):
        ok(hip.hipMemsetD32Async(memory, value, 16, stream))
    graph = end(stream)
    assert len(all_nodes(raw.hipGraphGetRootNodes, graph)) == 1
    replay(graph, stream)
    assert (download(memory, 16, np.uint32) == 3).all()


def test_streams_fork_and_join(memory):
    a, b, c = (ok(hip.hipStreamCreate()) for _ in range(3))
    other = ok(hip.hipMalloc(64))
    begin(a)
    ok(hip.hipMemsetD32Async(memory, 1, 8, a))
    fork(a, b, c)
    assert status(b) == STATUS.hipStreamCaptureStatusActive
    ok(hip.hipMemsetD32Async(int(memory) + 32, 2, 8, b))
    ok(hip.hipMemsetD32Async(other, 3, 16, c))
    fork(b, a)
    fork(c, a)
    ok(hip.hipMemcpyAsync(other, memory, 32, K.hipMemcpyDeviceToDevice, a))
    graph = end(a)
    nodes = all_nodes(raw.hipGraphGetNodes, graph)
    assert len(nodes) == 4
    assert len(all_nodes(raw.hipGraphNodeGetDependencies, nodes[3])) == 3
    assert status(b) == status(c) == STATUS.hipStreamCaptureStatusNone
    replay(graph, a)
    assert download(memory, 16, np.uint32).tolist() == [1] * 8 + [2] * 8
    assert download(other, 16, np.uint32).tolist() == [1] * 8 + [3] * 8


def test_a_stream_that_did_not_join_makes_the_capture_fail(memory):
    a, b = ok(hip.hipStreamCreate()), ok(hip.hipStreamCreate())
    begin(a)
    fork(a, b)
    ok(hip.hipMemsetD32Async(memory, 2, 16, b))
    assert code(hip.hipStreamEndCapture(a)) == E.hipErrorStreamCaptureUnjoined
    for stream in (a, b):
        assert status(stream) == STATUS.hipStreamCaptureStatusNone
        ok(hip.hipMemsetD32Async(memory, 4, 16, stream))
        ok(hip.hipStreamSynchronize(stream))


def test_a_forked_stream_without_work_needs_no_join(memory):
    a, b = ok(hip.hipStreamCreate()), ok(hip.hipStreamCreate())
    begin(a)
    ok(hip.hipMemsetD32Async(memory, 1, 16, a))
    fork(a, b)
    end(a)
    assert status(b) == STATUS.hipStreamCaptureStatusNone


def test_only_the_origin_ends_a_capture():
    a, b = ok(hip.hipStreamCreate()), ok(hip.hipStreamCreate())
    begin(a)
    fork(a, b)
    assert code(hip.hipStreamEndCapture(b)) == E.hipErrorStreamCaptureUnmatched
    assert code(hip.hipStreamEndCapture(a)) == E.hipErrorStreamCaptureInvalidated


def test_beginning_and_ending_out_of_turn(stream):
    assert code(hip.hipStreamEndCapture(stream)) == E.hipErrorIllegalState
    begin(stream)
    assert code(hip.hipStreamBeginCapture(stream, GLOBAL)) == E.hipErrorIllegalState
    end(stream)
    assert raw.hipStreamBeginCapture(void(stream), 7) == E.hipErrorInvalidValue
    for null in (0, 1):
        result = raw.hipStreamBeginCapture(void(null), 0)
        assert result == E.hipErrorStreamCaptureUnsupported
    assert raw.hipStreamEndCapture(void(stream), None) == E.hipErrorInvalidValue


def test_the_per_thread_stream_can_capture(memory):
    assert raw.hipStreamBeginCapture(void(2), int(LOCAL)) == 0
    assert raw.hipMemsetD32Async(void(memory), 5, ctypes.c_size_t(16), void(2)) == 0
    graph = ctypes.c_void_p()
    assert raw.hipStreamEndCapture(void(2), ctypes.byref(graph)) == 0
    assert len(all_nodes(raw.hipGraphGetNodes, graph.value)) == 1


def test_an_empty_capture_is_an_empty_graph(stream):
    begin(stream)
    graph = end(stream)
    assert all_nodes(raw.hipGraphGetNodes, graph) == []
    replay(graph, stream)


def test_capture_info(stream, memory):
    state, number = ok(hip.hipStreamGetCaptureInfo(stream))
    assert (state, number) == (STATUS.hipStreamCaptureStatusNone, 0)
    begin(stream)
    _, first = ok(hip.hipStreamGetCaptureInfo(stream))
    ok(hip.hipMemsetD32Async(memory, 5, 16, stream))
    state, number, graph = ctypes.c_int(), ctypes.c_ulonglong(), ctypes.c_void_p()
    nodes, count = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_size_t()
    assert raw.hipStreamGetCaptureInfo_v2(
        void(stream), ctypes.byref(state), ctypes.byref(number), ctypes.byref(graph),
        ctypes.byref(nodes), ctypes.byref(count),
    ) == 0  # fmt: skip
    assert (state.value, number.value, count.value) == (1, first, 1)
    assert all_nodes(raw.hipGraphGetNodes, graph.value) == [nodes[0]]
    assert int(end(stream)) == graph.value
    begin(stream)
    assert ok(hip.hipStreamGetCaptureInfo(stream))[1] != first
    end(stream)


@pytest.mark.parametrize(
    "call",
    [
        lambda stream: hip.hipStreamSynchronize(stream),
        lambda stream: hip.hipStreamQuery(stream),
        lambda stream: hip.hipDeviceSynchronize(),
        lambda stream: hip.hipMalloc(64),
        lambda stream: hip.hipHostMalloc(64, 0),
        lambda stream: hip.hipStreamAddCallback(stream, entry(CALLBACK(print)), None, 0),
    ],
    ids=["synchronize", "query", "device", "malloc", "host-malloc", "callback"],
)
def test_calls_that_cannot_be_captured_invalidate(stream, memory, call):
    begin(stream)
    assert code(call(stream)) == E.hipErrorStreamCaptureUnsupported
    assert status(stream) == STATUS.hipStreamCaptureStatusInvalidated
    result = hip.hipMemsetD32Async(memory, 5, 16, stream)
    assert code(result) == E.hipErrorStreamCaptureInvalidated
    assert code(hip.hipStreamEndCapture(stream)) == E.hipErrorStreamCaptureInvalidated
    # And the stream works again.
    ok(hip.hipMemsetD32Async(memory, 6, 16, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert (download(memory, 16, np.uint32) == 6).all()


def test_the_null_stream_would_depend_on_a_capturing_blocking_stream(stream, memory):
    begin(stream, RELAXED)
    result = hip.hipMemset(memory, 1, 16)
    assert code(result) == E.hipErrorStreamCaptureImplicit
    assert status(stream) == STATUS.hipStreamCaptureStatusInvalidated
    assert code(hip.hipStreamEndCapture(stream)) == E.hipErrorStreamCaptureInvalidated


def test_the_null_stream_is_free_beside_a_non_blocking_capture(memory):
    stream = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    begin(stream, RELAXED)
    ok(hip.hipMemsetD32(memory, 1, 16))
    assert (download(memory, 16, np.uint32) == 1).all()
    end(stream)


def test_relaxed_captures_allow_allocations(stream):
    begin(stream, RELAXED)
    ok(hip.hipFree(ok(hip.hipMalloc(64))))
    end(stream)


def test_a_thread_may_relax_its_own_mode(stream):
    assert exchange(RELAXED) == GLOBAL
    begin(stream, GLOBAL)
    ok(hip.hipFree(ok(hip.hipMalloc(64))))
    end(stream)
    assert exchange(GLOBAL) == RELAXED
    assert raw.hipThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(9))) == 1


def in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (GLOBAL, E.hipErrorStreamCaptureUnsupported),
        (LOCAL, E.hipSuccess),
        (RELAXED, E.hipSuccess),
    ],
)
def test_modes_decide_what_other_threads_may_do(stream, mode, expected):
    begin(stream, mode)
    assert in_thread(lambda: code(hip.hipMalloc(64))) == expected
    if expected == E.hipSuccess:
        assert in_thread(lambda: code(hip.hipDeviceSynchronize())) == expected
    result = code(hip.hipStreamEndCapture(stream))
    failed = expected != E.hipSuccess
    assert result == (E.hipErrorStreamCaptureInvalidated if failed else E.hipSuccess)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(LOCAL, E.hipErrorStreamCaptureWrongThread), (RELAXED, E.hipSuccess)],
)
def test_only_relaxed_captures_end_in_another_thread(stream, mode, expected):
    begin(stream, mode)
    assert in_thread(lambda: code(hip.hipStreamEndCapture(stream))) == expected
    if expected != E.hipSuccess:
        end(stream)


def test_captures_do_not_merge(memory):
    a, b = ok(hip.hipStreamCreate()), ok(hip.hipStreamCreate())
    begin(a)
    begin(b)
    event = ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(event, a))
    assert code(hip.hipStreamWaitEvent(b, event, 0)) == E.hipErrorStreamCaptureMerge
    for stream in (a, b):
        assert code(hip.hipStreamEndCapture(stream)) == E.hipErrorStreamCaptureInvalidated


def test_captures_do_not_wait_for_uncaptured_work():
    a, b = ok(hip.hipStreamCreate()), ok(hip.hipStreamCreate())
    event = ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(event, b))
    begin(a)
    assert code(hip.hipStreamWaitEvent(a, event, 0)) == E.hipErrorStreamCaptureIsolation
    assert code(hip.hipStreamEndCapture(a)) == E.hipErrorStreamCaptureInvalidated


def test_events_of_a_capture_are_not_waited_for_by_the_host(stream):
    event = ok(hip.hipEventCreate())
    begin(stream)
    ok(hip.hipEventRecord(event, stream))
    assert code(hip.hipEventQuery(event)) == E.hipErrorCapturedEvent
    assert code(hip.hipEventSynchronize(event)) == E.hipErrorCapturedEvent
    assert code(hip.hipStreamEndCapture(stream)) == E.hipErrorStreamCaptureInvalidated
    ok(hip.hipEventRecord(event, stream))
    ok(hip.hipEventSynchronize(event))


def test_the_null_stream_does_not_join_a_capture(stream):
    event = ok(hip.hipEventCreate())
    begin(stream)
    ok(hip.hipEventRecord(event, stream))
    assert code(hip.hipStreamWaitEvent(0, event, 0)) == E.hipErrorStreamCaptureImplicit
    assert code(hip.hipStreamEndCapture(stream)) == E.hipErrorStreamCaptureInvalidated


def test_wrong_arguments_leave_the_capture_alive(stream, memory, kernel):
    x = upload(np.zeros(64, np.float32))
    begin(stream)
    assert launch(kernel("add_value"), [x, 64, 1.0], block=0, stream=stream) != E.hipSuccess
    result = hip.hipMemsetD32Async(int(x) + 256, 5, 1, stream)
    assert code(result) == E.hipErrorInvalidValue
    assert launch(kernel("add_value"), [x, 64, 1.0], stream=stream) == E.hipSuccess
    graph = end(stream)
    assert len(all_nodes(raw.hipGraphGetNodes, graph)) == 1


def test_destroying_a_capturing_stream_drops_its_capture(stream, memory):
    begin(stream)
    ok(hip.hipStreamDestroy(stream))
    ok(hip.hipFree(ok(hip.hipMalloc(64))))  # no capture is open


def test_allocations_in_a_capture_belong_to_its_graph(stream):
    before = used_bytes()
    begin(stream)
    pointer = ok(hip.hipMallocAsync(64, stream))
    ok(hip.hipMemsetD32Async(pointer, 3, 16, stream))
    out = np.zeros(16, np.uint32)
    ok(hip.hipMemcpyAsync(out, pointer, 64, K.hipMemcpyDeviceToHost, stream))
    ok(hip.hipFreeAsync(pointer, stream))
    graph = end(stream)
    executable = ok(hip.hipGraphInstantiateWithFlags(graph, 0))
    for _ in range(2):
        out[:] = 0
        ok(hip.hipGraphLaunch(executable, stream))
        ok(hip.hipStreamSynchronize(stream))
        assert (out == 3).all()
    ok(hip.hipGraphExecDestroy(executable))
    ok(hip.hipGraphDestroy(graph))
    assert used_bytes() == before


def test_external_events_become_nodes(stream, memory):
    event = ok(hip.hipEventCreate())
    begin(stream)
    ok(hip.hipMemsetD32Async(memory, 1, 16, stream))
    ok(hip.hipEventRecordWithFlags(event, stream, 1))
    graph = end(stream)
    types = [ok(hip.hipGraphNodeGetType(n)) for n in all_nodes(raw.hipGraphGetNodes, graph)]
    assert types[-1] == hip.hipGraphNodeType.hipGraphNodeTypeEventRecord
    replay(graph, stream)
    ok(hip.hipEventSynchronize(event))


def test_capture_into_a_graph_of_the_caller(stream, memory):
    graph = ok(hip.hipGraphCreate(0))
    first = ok(hip.hipGraphAddEmptyNode(graph, None, 0))
    nodes = (ctypes.c_void_p * 1)(int(first))
    assert (
        raw.hipStreamBeginCaptureToGraph(
            void(stream), void(graph), nodes, None, ctypes.c_size_t(1), int(GLOBAL)
        )
        == 0
    )
    ok(hip.hipMemsetD32Async(memory, 8, 16, stream))
    assert int(end(stream)) == int(graph)
    assert len(all_nodes(raw.hipGraphNodeGetDependentNodes, first)) == 1
    replay(graph, stream)
    assert (download(memory, 16, np.uint32) == 8).all()


def test_dependencies_of_a_capture_can_be_set(stream, memory):
    begin(stream)
    ok(hip.hipMemsetD32Async(memory, 1, 16, stream))
    assert raw.hipStreamUpdateCaptureDependencies(void(stream), None, ctypes.c_size_t(0), 1) == 0
    ok(hip.hipMemsetD32Async(memory, 2, 16, stream))
    graph = end(stream)
    assert len(all_nodes(raw.hipGraphGetRootNodes, graph)) == 2


def test_a_launch_of_a_graph_is_captured_as_a_child(stream, memory):
    inner = ok(hip.hipGraphCreate(0))
    params = hip.hipMemsetParams()
    params.dst, params.value, params.elementSize = int(memory), 4, 4
    params.width, params.height = 16, 1
    ok(hip.hipGraphAddMemsetNode(inner, None, 0, params))
    executable = ok(hip.hipGraphInstantiateWithFlags(inner, 0))
    begin(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipMemsetD32Async(memory, 9, 1, stream))
    graph = end(stream)
    ok(hip.hipGraphExecDestroy(executable))
    (first, _) = all_nodes(raw.hipGraphGetNodes, graph)
    assert ok(hip.hipGraphNodeGetType(first)) == hip.hipGraphNodeType.hipGraphNodeTypeGraph
    replay(graph, stream)
    assert download(memory, 3, np.uint32).tolist() == [9, 4, 4]


def test_replays_follow_memory_not_values(kernel, stream):
    x = upload(np.zeros(64, np.float32))
    host = np.zeros(64, np.float32)
    begin(stream)
    ok(hip.hipMemcpyAsync(x, host, 256, K.hipMemcpyHostToDevice, stream))
    assert launch(kernel("add_value"), [x, 64, 1.0], stream=stream) == E.hipSuccess
    graph = end(stream)
    executable = ok(hip.hipGraphInstantiateWithFlags(graph, 0))
    for value in (3, 8, -2):
        host[:] = value
        ok(hip.hipGraphLaunch(executable, stream))
        ok(hip.hipStreamSynchronize(stream))
        assert (download(x, 64) == value + 1).all()
