"""Devices: how many there are, what they say of themselves, which one is current."""

from __future__ import annotations

import ctypes
import threading

import pytest
from hip import hip
from hip_support import DEVICES, E, code, ok, passes, raw, run_python

from mgx_mlir import emulator
from mgx_mlir.errors import UsageError

A = hip.hipDeviceAttribute_t


def test_counts_the_devices_of_the_environment():
    script = "print(ok(hip.hipGetDeviceCount()))"
    assert passes(run_python(script, MGX_EMULATED_DEVICES=",".join(DEVICES))).split() == ["2"]


def test_default_is_one_gfx942():
    script = "print(ok(hip.hipGetDeviceCount()), ok(hip.hipGetDeviceProperties(0)).gcnArchName)"
    assert passes(run_python(script)).split() == ["1", "gfx942:sramecc+:xnack-"]


def test_an_unknown_chip_leaves_no_device_and_says_why():
    result = run_python("print(hip.hipGetDeviceCount()[0].name)", MGX_EMULATED_DEVICES="gfx7")
    assert "hipErrorNoDevice" in passes(result)
    assert "gfx7" in result.stderr and f"known: {' '.join(emulator.CHIPS)}. " in result.stderr


def test_every_chip_can_be_a_device():
    names = ",".join(emulator.CHIPS)
    script = "print([d.chip for d in emulator.devices()], ok(hip.hipGetDeviceCount()))"
    out = passes(run_python(script, MGX_EMULATED_DEVICES=names))
    assert all(name in out for name in names.split(",")) and out.rstrip().endswith("8")


def test_devices_are_added_to_those_that_are_there(image):
    script = f"""
x = upload(np.full(64, 3, np.float32))
module = ok(hip.hipModuleLoadData(open({str(image("gfx942"))!r}, "rb").read()))
other = open({str(image("gfx1100"))!r}, "rb").read()
pinned = ok(hip.hipHostMalloc(256, 0))
added = emulator.add_device("gfx1100")
assert (added, ok(hip.hipGetDeviceCount()), ok(hip.hipGetDevice())) == (1, 2, 0)
assert ok(hip.hipGetDeviceProperties(1)).gcnArchName == "gfx1100"
function = ok(hip.hipModuleGetFunction(module, b"add_value"))
assert launch(function, [x, 64, 1.0], block=64) == E.hipSuccess
assert (download(x, 64) == 4).all()
ok(hip.hipSetDevice(added))
function = ok(hip.hipModuleGetFunction(ok(hip.hipModuleLoadData(other)), b"add_value"))
assert launch(function, [pinned, 64, 2.0], block=64) == E.hipSuccess
ok(hip.hipDeviceSynchronize())
assert [d.chip for d in emulator.devices()] == ["gfx942", "gfx1100"]
"""
    passes(run_python(script, MGX_EMULATED_DEVICES="gfx942", MGX_EMULATOR_STRICT="1"))


def test_an_unknown_chip_is_not_added():
    before = ok(hip.hipGetDeviceCount())
    with pytest.raises(UsageError, match="gfx7"):
        emulator.add_device("gfx7")
    assert ok(hip.hipGetDeviceCount()) == before


def test_devices_are_added_by_many_threads_up_to_a_limit():
    script = """
import threading
found = []
def work():
    try:
        for _ in range(9):
            found.append(emulator.add_device("gfx1100"))
            ok(hip.hipGetDeviceProperties(found[-1]))
    except Exception as error:
        found.append(str(error))
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
ordinals = sorted(f for f in found if isinstance(f, int))
assert ordinals == list(range(1, 64)), ordinals
assert any("room" in f for f in found if isinstance(f, str)), found
"""
    passes(run_python(script))


@pytest.mark.parametrize(
    ("ordinal", "arch", "wave", "major", "minor"),
    [(0, "gfx942:sramecc+:xnack-", 64, 9, 4), (1, "gfx1100", 32, 11, 0)],
)
def test_properties_are_those_of_the_chip(ordinal, arch, wave, major, minor):
    p = ok(hip.hipGetDeviceProperties(ordinal))
    assert (p.gcnArchName, p.warpSize, p.major, p.minor) == (arch, wave, major, minor)
    assert p.maxThreadsPerBlock == 1024 and p.sharedMemPerBlock == 65536
    assert list(p.maxThreadsDim) == [1024, 1024, 1024]
    assert p.totalGlobalMem == ok(hip.hipDeviceTotalMem(ordinal))
    assert p.name == str(ok(hip.hipDeviceGetName(256, ordinal)))


@pytest.mark.parametrize("ordinal", [0, 1])
def test_attributes_agree_with_properties(ordinal):
    p = ok(hip.hipGetDeviceProperties(ordinal))
    pairs = {
        A.hipDeviceAttributeWarpSize: p.warpSize,
        A.hipDeviceAttributeMultiprocessorCount: p.multiProcessorCount,
        A.hipDeviceAttributeClockRate: p.clockRate,
        A.hipDeviceAttributeMemoryClockRate: p.memoryClockRate,
        A.hipDeviceAttributeMemoryBusWidth: p.memoryBusWidth,
        A.hipDeviceAttributeL2CacheSize: p.l2CacheSize,
        A.hipDeviceAttributeComputeCapabilityMajor: p.major,
        A.hipDeviceAttributeComputeCapabilityMinor: p.minor,
        A.hipDeviceAttributeMaxThreadsPerBlock: p.maxThreadsPerBlock,
        A.hipDeviceAttributeMaxSharedMemoryPerBlock: p.sharedMemPerBlock,
        A.hipDeviceAttributeMaxRegistersPerBlock: p.regsPerBlock,
        A.hipDeviceAttributePciBusId: p.pciBusID,
        A.hipDeviceAttributeCooperativeLaunch: p.cooperativeLaunch,
        A.hipDeviceAttributeManagedMemory: p.managedMemory,
        A.hipDeviceAttributeMaxGridDimX: p.maxGridSize[0],
    }
    got = {a: ok(hip.hipDeviceGetAttribute(a, ordinal)) for a in pairs}
    assert got == pairs


def test_every_attribute_of_the_enumeration_answers():
    for attribute in A:
        if "Begin" in attribute.name or "End" in attribute.name:
            continue
        ok(hip.hipDeviceGetAttribute(attribute, 0))


def test_wrong_ordinals_are_invalid_devices():
    for ordinal in (-1, ok(hip.hipGetDeviceCount()), 1 << 30):
        assert code(hip.hipSetDevice(ordinal)) == E.hipErrorInvalidDevice
        assert code(hip.hipDeviceGet(ordinal)) == E.hipErrorInvalidDevice
        assert code(hip.hipGetDeviceProperties(ordinal)) == E.hipErrorInvalidDevice
        assert code(hip.hipDeviceTotalMem(ordinal)) == E.hipErrorInvalidDevice
        assert code(hip.hipDevicePrimaryCtxRetain(ordinal)) == E.hipErrorInvalidDevice
    assert ok(hip.hipGetDevice()) == 0


def test_the_current_device_belongs_to_the_thread():
    ok(hip.hipSetDevice(1))
    seen = []
    thread = threading.Thread(target=lambda: seen.append(ok(hip.hipGetDevice())))
    thread.start()
    thread.join()
    assert seen == [0] and ok(hip.hipGetDevice()) == 1


def test_versions_and_init():
    ok(hip.hipInit(0))
    assert code(hip.hipInit(1)) == E.hipErrorInvalidValue
    assert ok(hip.hipRuntimeGetVersion()) == ok(hip.hipDriverGetVersion()) >= 70000000


def test_null_outputs_are_invalid_values():
    for name in ("hipGetDeviceCount", "hipGetDevice", "hipRuntimeGetVersion"):
        assert getattr(raw, name)(None) == E.hipErrorInvalidValue
    assert raw.hipGetDevicePropertiesR0600(None, 0) == E.hipErrorInvalidValue
    assert raw.hipDeviceGetAttribute(None, 87, 0) == E.hipErrorInvalidValue


def test_device_name_is_cut_to_the_buffer():
    buffer = ctypes.create_string_buffer(b"#" * 16, 16)
    assert raw.hipDeviceGetName(buffer, 4, 0) == 0
    assert buffer.raw[:4] == b"AMD\0" and buffer.raw[4:5] == b"#"


def test_pci_bus_ids_lead_back_to_their_device():
    for ordinal in (0, 1):
        text = ctypes.create_string_buffer(32)
        assert raw.hipDeviceGetPCIBusId(text, 32, ordinal) == 0
        found = ctypes.c_int(-1)
        assert raw.hipDeviceGetByPCIBusId(ctypes.byref(found), text) == 0
        assert found.value == ordinal
    assert raw.hipDeviceGetByPCIBusId(ctypes.byref(found), b"0001:00:00.0") != 0


def test_contexts_stand_for_their_devices():
    first = ok(hip.hipDevicePrimaryCtxRetain(0))
    second = ok(hip.hipDevicePrimaryCtxRetain(1))
    ok(hip.hipCtxSetCurrent(second))
    assert ok(hip.hipGetDevice()) == 1
    assert int(ok(hip.hipCtxGetCurrent())) == int(second) != int(first)
    ok(hip.hipCtxPushCurrent(first))
    assert ok(hip.hipCtxGetDevice()) == 0
    ok(hip.hipCtxPopCurrent())
    assert ok(hip.hipCtxGetDevice()) == 1
    assert code(hip.hipCtxSetCurrent(0xBAD0)) == E.hipErrorInvalidContext
    assert raw.hipCtxPopCurrent(None) == E.hipErrorInvalidContext


def test_limits_are_kept_and_reset():
    stack = hip.hipLimit_t.hipLimitStackSize
    before = ok(hip.hipDeviceGetLimit(stack))
    ok(hip.hipDeviceSetLimit(stack, before * 2))
    assert ok(hip.hipDeviceGetLimit(stack)) == before * 2
    ok(hip.hipDeviceReset())
    assert ok(hip.hipDeviceGetLimit(stack)) == before
    assert raw.hipDeviceSetLimit(77, 1) == E.hipErrorUnsupportedLimit


def test_device_flags():
    ok(hip.hipSetDeviceFlags(hip.hipDeviceScheduleYield))
    assert ok(hip.hipGetDeviceFlags()) == hip.hipDeviceScheduleYield
    assert code(hip.hipSetDeviceFlags(0x1000)) == E.hipErrorInvalidValue


def test_peer_access_is_enabled_once_and_disabled_once():
    assert ok(hip.hipDeviceCanAccessPeer(0, 1)) == 1
    assert ok(hip.hipDeviceCanAccessPeer(0, 0)) == 0
    ok(hip.hipDeviceEnablePeerAccess(1, 0))
    assert code(hip.hipDeviceEnablePeerAccess(1, 0)) == E.hipErrorPeerAccessAlreadyEnabled
    ok(hip.hipDeviceDisablePeerAccess(1))
    assert code(hip.hipDeviceDisablePeerAccess(1)) == E.hipErrorPeerAccessNotEnabled
    assert code(hip.hipDeviceEnablePeerAccess(0, 0)) == E.hipErrorInvalidDevice


def test_reset_frees_memory_and_forgets_handles():
    free, total = ok(hip.hipMemGetInfo())
    pointer = ok(hip.hipMalloc(1 << 20))
    stream = ok(hip.hipStreamCreate())
    ok(hip.hipDeviceReset())
    assert ok(hip.hipMemGetInfo()) == (free, total)
    assert code(hip.hipFree(pointer)) == E.hipErrorInvalidValue
    assert code(hip.hipStreamSynchronize(stream)) == E.hipErrorInvalidHandle


def test_an_order_that_there_is_not_is_said():
    done = run_python("from hip import hip; hip.hipGetDeviceCount()", MGX_EMULATOR_ORDER="sideways")
    assert "MGX_EMULATOR_ORDER is 'sideways'; use forward" in done.stderr


@pytest.mark.parametrize("value", ["many", "2x", "-1", "100000"])
def test_a_number_that_there_is_not_is_said(value: str):
    done = run_python(
        "from hip import hip; hip.hipGetDeviceCount()",
        MGX_EMULATOR_THREADS=value, MGX_EMULATOR_BUDGET="0x100",
    )  # fmt: skip
    said = f"MGX_EMULATOR_THREADS is '{value}'; it takes a whole number of at most 1024"
    assert said in done.stderr and "BUDGET" not in done.stderr
