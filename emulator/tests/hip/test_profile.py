"""Profile mode: counts of kernels, and modelled time in events."""

from __future__ import annotations

import json

from hip_support import passes, run_python

PRELUDE = """
import json
module = ok(hip.hipModuleLoadData(open({image!r}, "rb").read()))
function = ok(hip.hipModuleGetFunction(module, b"add_value"))
x = upload(np.zeros(1 << 16, np.float32))
start, stop = ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
def timed(groups, launches=1):
    ok(hip.hipEventRecord(start, 0))
    for _ in range(launches):
        assert launch(function, [x, 1 << 16, 1.0], grid=groups, block=256) == E.hipSuccess
    ok(hip.hipEventRecord(stop, 0))
    ok(hip.hipEventSynchronize(stop))
    return ok(hip.hipEventElapsedTime(start, stop))
"""


def profiled(image, script, **environment):
    text = PRELUDE.format(image=str(image("gfx942"))) + script
    return passes(run_python(text, **{"MGX_EMULATOR_PROFILE": "1"} | environment))


def test_kernels_are_counted(image):
    script = """
timed(4, launches=3)
print(json.dumps(emulator.profile()))
emulator.reset_profile()
assert emulator.profile()["kernels"] == []
"""
    (kernel,) = json.loads(profiled(image, script).splitlines()[-1])["kernels"]
    assert kernel["name"] == "add_value" and kernel["launches"] == 3
    assert kernel["grid"] == [4, 1, 1] and kernel["block"] == [256, 1, 1]
    assert kernel["total_modelled_ms"] > 0 and kernel["last"]


def test_time_is_the_model_s_and_always_the_same(image):
    first, second = (profiled(image, "print(timed(256), timed(4, 10))") for _ in range(2))
    assert first == second
    assert all(float(part) > 0 for part in first.split())


def test_waiting_for_an_event_takes_over_its_time(image):
    script = """
a, b = ok(hip.hipStreamCreateWithFlags(1)), ok(hip.hipStreamCreateWithFlags(1))
begin, between, last = (ok(hip.hipEventCreate()) for _ in range(3))
ok(hip.hipEventRecord(begin, a))
launch(function, [x, 1 << 16, 1.0], grid=256, block=256, stream=a)
ok(hip.hipEventRecord(between, a))
ok(hip.hipStreamWaitEvent(b, between, 0))
ok(hip.hipEventRecord(last, b))
ok(hip.hipDeviceSynchronize())
first = ok(hip.hipEventElapsedTime(begin, between))
assert first > 0 and first == ok(hip.hipEventElapsedTime(begin, last))
"""
    profiled(image, script)
    profiled(image, script, MGX_EMULATOR_ASYNC="1")


def test_without_the_mode_nothing_is_counted(image):
    script = PRELUDE.format(image=str(image("gfx942"))) + "timed(1)\nprint(emulator.profile())"
    assert passes(run_python(script)).strip().endswith("'kernels': []}")


def test_a_group_that_does_what_others_leave_to_it_is_the_one_that_is_modelled(image):
    script = """
add = ok(hip.hipModuleGetFunction(module, b"add_last"))
counter, parts, total = (upload(np.zeros(n, np.int32)) for n in (1, 64 * 64, 64))
for groups in (1, 64):
    assert launch(add, [counter, parts, total, groups - 1], grid=groups, block=64) == E.hipSuccess
    ok(hip.hipDeviceSynchronize())
    print(emulator.profile()["kernels"][0]["last"]["unit_clocks"])
"""
    found = [
        [float(line) for line in profiled(image, script, **mode).splitlines()[-2:]]
        for mode in ({}, {"MGX_EMULATOR_PROFILE": "sample"}, {"MGX_EMULATOR_THREADS": "1"})
    ]
    assert found[0] == found[1] == found[2]
    one, many = found[0]
    assert many > one + 63 * 500  # it waits for each of the others' parts
