"""Streams with threads of their own: everything again, and what only they show."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hip_support import HERE, passes, run_python

FILES = (
    "memory",
    "copies",
    "pools",
    "streams",
    "launch",
    "graphs",
    "capture",
    "hip_faults",
    "threads",
)


@pytest.mark.parametrize("name", FILES)
def test_the_same_tests_pass(name):
    """In strict mode, which finds no race in programs that have none."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    # Times are the host's, whatever other tests of this process have asked for.
    kept = {k: v for k, v in os.environ.items() if k != "MGX_EMULATOR_PROFILE"}
    result = subprocess.run(
        [*command, str(HERE / f"test_{name}.py")],
        cwd=HERE.parents[2],
        env=kept | {"MGX_EMULATOR_ASYNC": "1", "MGX_EMULATOR_STRICT": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]


def run_async(script):
    return passes(run_python(script, MGX_EMULATOR_ASYNC="1"))


def test_streams_overlap_and_are_asked_for_completion():
    script = """
    import threading
    gate = threading.Event()
    wait = HOST_FN(lambda _: gate.wait(30))
    stream, other = ok(hip.hipStreamCreate()), ok(hip.hipStreamCreateWithFlags(1))
    event = ok(hip.hipEventCreate())
    ok(hip.hipLaunchHostFunc(stream, entry(wait), None))
    ok(hip.hipEventRecord(event, stream))
    assert code(hip.hipStreamQuery(stream)) == E.hipErrorNotReady
    assert code(hip.hipEventQuery(event)) == E.hipErrorNotReady
    assert code(hip.hipEventElapsedTime(event, event)) == E.hipErrorNotReady
    assert code(hip.hipPeekAtLastError()) == E.hipSuccess
    ok(hip.hipStreamSynchronize(other))
    gate.set()
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipStreamQuery(stream))
    ok(hip.hipEventQuery(event))
    """
    run_async(script)


def test_a_wait_takes_the_record_before_it():
    script = """
    stream = ok(hip.hipStreamCreate())
    event = ok(hip.hipEventCreate())
    for _ in range(50):
        ok(hip.hipEventRecord(event, stream))
        ok(hip.hipStreamWaitEvent(stream, event, 0))
        ok(hip.hipEventRecord(event, stream))
    ok(hip.hipStreamSynchronize(stream))
    """
    run_async(script)


def test_graphs_wait_for_events_recorded_before_their_launch():
    script = """
    import time
    stream, other = ok(hip.hipStreamCreateWithFlags(1)), ok(hip.hipStreamCreateWithFlags(1))
    event = ok(hip.hipEventCreate())
    x = ok(hip.hipMalloc(64))
    late = HOST_FN(lambda _: time.sleep(0.1))
    graph = ok(hip.hipGraphCreate(0))
    node = ok(hip.hipGraphAddEventWaitNode(graph, None, 0, event))
    out = np.zeros(16, np.uint32)
    kind = K.hipMemcpyDeviceToHost
    ok(hip.hipGraphAddMemcpyNode1D(graph, handles(node), 1, out, x, 64, kind))
    executable = ok(hip.hipGraphInstantiateWithFlags(graph, 0))
    ok(hip.hipLaunchHostFunc(other, entry(late), None))
    ok(hip.hipMemsetD32Async(x, 9, 16, other))
    ok(hip.hipEventRecord(event, other))
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipEventRecord(event, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert (out == 9).all()
    """
    run_async(script)


def test_values_in_memory_hold_a_stream_until_they_are_written():
    script = """
    a, b = ok(hip.hipStreamCreateWithFlags(1)), ok(hip.hipStreamCreateWithFlags(1))
    flag = ok(hip.hipMalloc(64))
    ok(hip.hipMemset(flag, 0, 64))
    mask = ctypes.c_uint32(0xFFFFFFFF)
    assert raw.hipStreamWaitValue32(void(a), void(flag), ctypes.c_uint32(3), 1, mask) == 0
    assert code(hip.hipStreamQuery(a)) == E.hipErrorNotReady
    assert raw.hipStreamWriteValue32(void(b), void(flag), ctypes.c_uint32(3), 0) == 0
    ok(hip.hipStreamSynchronize(a))
    """
    run_async(script)


def test_memory_is_not_freed_under_running_work():
    script = """
    import time
    late = HOST_FN(lambda _: time.sleep(0.1))
    for _ in range(3):
        stream = ok(hip.hipStreamCreate())
        x = ok(hip.hipMalloc(4096))
        ok(hip.hipLaunchHostFunc(stream, entry(late), None))
        ok(hip.hipMemsetAsync(x, 1, 4096, stream))
        ok(hip.hipFree(x))
        ok(hip.hipStreamSynchronize(stream))
    assert used_bytes() == 0
    """
    run_async(script)


def test_executables_may_change_while_they_run():
    script = """
    import time
    late = HOST_FN(lambda _: time.sleep(0.05))
    stream = ok(hip.hipStreamCreate())
    x = ok(hip.hipMalloc(4))
    def params(value):
        p = hip.hipMemsetParams()
        p.dst, p.value, p.elementSize, p.width, p.height = int(x), value, 4, 1, 1
        return p
    graph = ok(hip.hipGraphCreate(0))
    node = ok(hip.hipGraphAddMemsetNode(graph, None, 0, params(1)))
    executable = ok(hip.hipGraphInstantiateWithFlags(graph, 0))
    out = ok(hip.hipHostMalloc(40, 0))
    for i in range(10):
        ok(hip.hipLaunchHostFunc(stream, entry(late), None))
        ok(hip.hipGraphExecMemsetNodeSetParams(executable, node, params(i)))
        ok(hip.hipGraphLaunch(executable, stream))
        ok(hip.hipMemcpyAsync(int(out) + 4 * i, x, 4, K.hipMemcpyDeviceToHost, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert list((ctypes.c_int * 10).from_address(int(out))) == list(range(10))
    """
    run_async(script)
