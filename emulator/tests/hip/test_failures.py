"""Failures on request: the n-th call fails, and nothing leaks."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hip import hip
from hip_support import E, K, code, ok, passes, run_python, used_bytes

from mgx_mlir import emulator
from mgx_mlir.errors import UsageError


def test_the_named_call_fails_once():
    emulator.set_failures("hipMalloc:2")
    codes = [code(hip.hipMalloc(64)) for _ in range(3)]
    assert codes == [E.hipSuccess, E.hipErrorOutOfMemory, E.hipSuccess]
    assert code(hip.hipGetLastError()) == E.hipErrorOutOfMemory
    assert emulator.call_count("hipMalloc") == 3


def test_any_counts_all_calls():
    emulator.set_failures("any:3")
    assert code(hip.hipGetDevice()) == E.hipSuccess
    assert code(hip.hipMalloc(64)) == E.hipSuccess
    assert code(hip.hipGetDevice()) == E.hipErrorUnknown
    assert code(hip.hipGetDevice()) == E.hipSuccess
    assert emulator.call_count() == 4


def test_several_failures_with_codes():
    emulator.set_failures("hipGetDevice:1:719,hipMalloc:1")
    assert code(hip.hipGetDevice()) == E.hipErrorLaunchFailure
    assert code(hip.hipMalloc(64)) == E.hipErrorOutOfMemory


def test_a_failing_free_frees_nevertheless():
    pointer = ok(hip.hipMalloc(64))
    stream = ok(hip.hipStreamCreate())
    emulator.set_failures("hipFree:1,hipStreamDestroy:1")
    assert code(hip.hipFree(pointer)) == E.hipErrorUnknown
    assert code(hip.hipStreamDestroy(stream)) == E.hipErrorUnknown
    assert used_bytes() == 0
    assert code(hip.hipFree(pointer)) == E.hipErrorInvalidValue
    assert code(hip.hipStreamSynchronize(stream)) == E.hipErrorInvalidHandle


@pytest.mark.parametrize("spec", ["hipMalloc", "hipMalloc:0", ":3", "hipMalloc:x", "any:1:2:3"])
def test_what_is_not_understood_is_refused(spec):
    with pytest.raises(UsageError, match="name:call"):
        emulator.set_failures(spec)


def test_the_environment_sets_failures_too():
    script = "print([hip.hipMalloc(64)[0].name for _ in range(3)])"
    out = passes(run_python(script, MGX_EMULATOR_FAIL="hipMalloc:3"))
    assert out.strip() == "['hipSuccess', 'hipSuccess', 'hipErrorOutOfMemory']"
    result = run_python("ok(hip.hipInit(0))", MGX_EMULATOR_FAIL="nonsense")
    passes(result)
    assert "MGX_EMULATOR_FAIL" in result.stderr


def careful_run():
    """A small program that gives back what it took, whichever call fails."""
    size = 256
    host = np.arange(64, dtype=np.float32)
    owned = []
    try:
        pointer = ok(hip.hipMalloc(size))
        owned.append((hip.hipFree, pointer))
        stream = ok(hip.hipStreamCreate())
        owned.append((hip.hipStreamDestroy, stream))
        ok(hip.hipMemcpyHtoDAsync(pointer, host, size, stream))
        graph = ok(hip.hipGraphCreate(0))
        owned.append((hip.hipGraphDestroy, graph))
        kind = K.hipMemcpyDeviceToHost
        out = np.zeros(64, np.float32)
        ok(hip.hipGraphAddMemcpyNode1D(graph, None, 0, out, pointer, size, kind))
        executable = ok(hip.hipGraphInstantiateWithFlags(graph, 0))
        owned.append((hip.hipGraphExecDestroy, executable))
        ok(hip.hipGraphLaunch(executable, stream))
        ok(hip.hipStreamSynchronize(stream))
        return bool((out == host).all())
    except AssertionError:
        return None
    finally:
        for destroy, what in reversed(owned):
            destroy(what)


def test_each_call_fails_in_turn_without_a_leak():
    emulator.set_failures("")
    assert careful_run() is True
    calls = emulator.call_count()
    assert calls >= 10
    for n in range(1, calls + 1):
        emulator.set_failures(f"any:{n}")
        assert careful_run() is not False
        emulator.set_failures("")
        assert used_bytes() == 0, n
        assert careful_run() is True, n


def test_injection_counts_calls_of_all_threads():
    import threading

    emulator.set_failures("")
    value = ctypes.c_int()

    def work():
        from hip_support import raw

        for _ in range(100):
            raw.hipGetDevice(ctypes.byref(value))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert emulator.call_count() == 400
