"""Error codes, the last error, wild handles, and functions that are not there."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
from hip import hip
from hip_support import E, code, ok, raw, void


def test_last_error_is_kept_until_it_is_read():
    assert code(hip.hipSetDevice(99)) == E.hipErrorInvalidDevice
    ok(hip.hipGetDevice())
    assert code(hip.hipPeekAtLastError()) == E.hipErrorInvalidDevice
    assert code(hip.hipGetLastError()) == E.hipErrorInvalidDevice
    assert code(hip.hipGetLastError()) == E.hipSuccess


def test_last_error_belongs_to_the_thread():
    hip.hipSetDevice(99)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(code(hip.hipPeekAtLastError())))
    thread.start()
    thread.join()
    assert seen == [E.hipSuccess]
    assert code(hip.hipGetLastError()) == E.hipErrorInvalidDevice


def test_the_last_call_s_result_is_forgotten_by_the_next():
    hip.hipSetDevice(99)
    assert code(hip.hipExtGetLastError()) == E.hipErrorInvalidDevice
    ok(hip.hipGetDevice())
    assert code(hip.hipExtGetLastError()) == E.hipSuccess
    hip.hipGetLastError()


def test_every_code_has_its_name_and_a_text():
    aliases = {2: "OutOfMemory", 3: "NotInitialized", 205: "MapFailed", 400: "InvalidHandle"}
    for error in E:
        if error.name == "hipErrorTbd":
            continue
        name = str(ok(hip.hipDrvGetErrorName(error)))
        assert name == error.name or aliases[int(error)] in name
        assert len(str(ok(hip.hipDrvGetErrorString(error)))) > 3


def test_unknown_codes_have_the_text_of_unknown_errors():
    raw.hipGetErrorName.restype = raw.hipGetErrorString.restype = __import__("ctypes").c_char_p
    assert raw.hipGetErrorName(12345) == b"hipErrorUnknown"
    assert raw.hipGetErrorString(12345) == b"unknown error"
    assert raw.hipDrvGetErrorName(12345, void(0)) == E.hipErrorInvalidValue


def test_every_function_of_hip_python_exists():
    listed = Path(__file__).parents[2] / "hip" / "symbols.inc"
    names = re.findall(r"MGX_SYMBOL\((\w+)\)", listed.read_text())
    assert len(names) == 534
    assert [name for name in names if not hip.has_symbol(name)] == []


def test_functions_that_are_not_there_say_so():
    assert code(hip.hipProfilerStart()) == E.hipErrorNotSupported
    assert code(hip.hipGetLastError()) == E.hipErrorNotSupported
    assert raw.hipMemAddressReserve(None, 0, 0, None, 0) == E.hipErrorNotSupported
    assert raw.hipLinkCreate(0, None, None, None) == E.hipErrorNotSupported


@pytest.mark.parametrize("handle", [3, 0xDEADBEEF, 0x7FFFFFFFFFF0, (1 << 63) - 16])
def test_wild_handles_are_refused(handle):
    for name in ("hipStreamSynchronize", "hipStreamQuery", "hipStreamDestroy"):
        assert getattr(raw, name)(void(handle)) == E.hipErrorInvalidHandle
    for name in ("hipEventSynchronize", "hipEventQuery", "hipEventDestroy"):
        assert getattr(raw, name)(void(handle)) == E.hipErrorInvalidHandle
    assert raw.hipModuleUnload(void(handle)) == E.hipErrorInvalidHandle
    assert raw.hipModuleGetFunction(void(0), void(handle), b"f") != 0
    for name in ("hipGraphDestroy", "hipGraphExecDestroy", "hipGraphDestroyNode"):
        assert getattr(raw, name)(void(handle)) == E.hipErrorInvalidValue
    assert raw.hipGraphLaunch(void(handle), None) == E.hipErrorInvalidValue
    assert raw.hipMemPoolTrimTo(void(handle), 0) == E.hipErrorInvalidValue


def test_freed_handles_are_refused_even_after_new_ones():
    stream = ok(hip.hipStreamCreate())
    event = ok(hip.hipEventCreate())
    graph = ok(hip.hipGraphCreate(0))
    ok(hip.hipStreamDestroy(stream))
    ok(hip.hipEventDestroy(event))
    ok(hip.hipGraphDestroy(graph))
    others = [ok(hip.hipStreamCreate()), ok(hip.hipEventCreate()), ok(hip.hipGraphCreate(0))]
    assert code(hip.hipStreamSynchronize(stream)) == E.hipErrorInvalidHandle
    assert code(hip.hipEventQuery(event)) == E.hipErrorInvalidHandle
    assert code(hip.hipGraphDestroy(graph)) == E.hipErrorInvalidValue
    assert len({int(o) for o in others} & {int(stream), int(event), int(graph)}) == 0


def test_a_handle_of_another_kind_is_refused():
    event = ok(hip.hipEventCreate())
    assert raw.hipStreamSynchronize(void(event)) == E.hipErrorInvalidHandle
    assert raw.hipModuleUnload(void(event)) == E.hipErrorInvalidHandle


def test_functions_are_found_by_name():
    import ctypes

    found, status = ctypes.c_void_p(), ctypes.c_int(-1)
    for name in (b"hipMalloc", b"hipGetDeviceProperties"):
        assert (
            raw.hipGetProcAddress(
                name, ctypes.byref(found), 70000000, ctypes.c_uint64(0), ctypes.byref(status)
            )
            == 0
        )
        assert found.value and status.value == 0
    assert (
        raw.hipGetProcAddress(
            b"malloc", ctypes.byref(found), 70000000, ctypes.c_uint64(0), ctypes.byref(status)
        )
        == E.hipErrorNotFound
    )
    assert status.value == 1
