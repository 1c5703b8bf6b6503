"""Work on several streams, in order or not. Run by test_stream_races.py in strict mode.

A scenario is a function; each runs on a device without memory and streams. A scenario whose name
begins with `race_` has to be reported, no other must be.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hip import hip
from hip_support import HOST_FN, Arguments, E, K, code, entry, handles, kernel_params, launch, ok

from mgx_mlir import emulator

NON_BLOCKING = 1
SIZE = 1024


class Scene:
    """Two streams that nothing orders, a buffer of floats, and the test kernels."""

    def __init__(self, image: bytes) -> None:
        self.module = ok(hip.hipModuleLoadData(image))
        self.a, self.b = (ok(hip.hipStreamCreateWithFlags(NON_BLOCKING)) for _ in range(2))
        self.x, self.y = ok(hip.hipMalloc(4 * SIZE)), ok(hip.hipMalloc(4 * SIZE))
        ok(hip.hipMemset(self.x, 0, 4 * SIZE))
        ok(hip.hipMemset(self.y, 0, 4 * SIZE))
        ok(hip.hipDeviceSynchronize())
        self.kept: list[Any] = []

    def function(self, name: str) -> Any:
        return ok(hip.hipModuleGetFunction(self.module, name.encode()))

    def add(self, stream: Any, buffer: Any = None, first: int = 0, count: int = 64) -> None:
        """x[first .. first + count] += 1."""
        address = int(buffer or self.x) + 4 * first
        blocks = (count + 63) // 64
        name = self.function("add_value")
        values = [ctypes.c_void_p(address), count, 1.0]
        assert launch(name, values, blocks, stream=stream) == E.hipSuccess

    def axpy(self, stream: Any, count: int = 64) -> None:
        """y += 2 x."""
        name = self.function("axpy")
        assert launch(name, [self.y, self.x, 2.0, count], stream=stream) == E.hipSuccess

    def count(self, stream: Any) -> None:
        """Atomic additions to x[0]."""
        assert launch(self.function("count"), [self.x], stream=stream) == E.hipSuccess

    def event(self, stream: Any) -> Any:
        made = ok(hip.hipEventCreate())
        ok(hip.hipEventRecord(made, stream))
        return made

    def node(self, graph: Any, *before: Any, first: int = 0) -> Any:
        """A kernel node that adds to 64 elements of x."""
        arguments = Arguments(ctypes.c_void_p(int(self.x) + 4 * first), 64, 1.0)
        self.kept.append(arguments)
        parameters = kernel_params(self.function("add_value"), arguments)
        needed = (handles(*before), len(before)) if before else (None, 0)
        return ok(hip.hipGraphAddKernelNode(graph, *needed, parameters))


def race_kernels(s: Scene) -> None:
    s.add(s.a)
    s.add(s.b)


def race_reader(s: Scene) -> None:
    s.axpy(s.a)
    s.add(s.b)


def race_scalar_reader(s: Scene) -> None:
    assert launch(s.function("scaled"), [s.y, s.x], stream=s.a) == E.hipSuccess
    s.add(s.b, count=1)


def race_one_byte(s: Scene) -> None:
    s.add(s.a, first=0, count=64)
    ok(hip.hipMemsetAsync(int(s.x) + 255, 1, 1, s.b))


def race_copy(s: Scene) -> None:
    s.add(s.a)
    ok(hip.hipMemcpyAsync(s.y, s.x, 256, K.hipMemcpyDeviceToDevice, s.b))


def race_copy_of_rows(s: Scene) -> None:
    s.add(s.a, first=128)  # in the third of rows of 64 elements
    kind = K.hipMemcpyDeviceToDevice
    ok(hip.hipMemcpy2DAsync(s.y, 256, s.x, 256, 8, 4, kind, s.b))


def race_host_read(s: Scene) -> None:
    s.add(s.a)
    found = np.empty(64, np.float32)
    ok(hip.hipMemcpy(found, s.x, found.nbytes, K.hipMemcpyDeviceToHost))


def race_unfinished_upload(s: Scene) -> None:
    """From pageable memory: the call may return before the device has the bytes."""
    ok(hip.hipMemcpy(s.x, np.ones(64, np.float32), 256, K.hipMemcpyHostToDevice))
    s.add(s.a)


def race_event_before(s: Scene) -> None:
    event = s.event(s.a)
    s.add(s.a)
    ok(hip.hipStreamWaitEvent(s.b, event, 0))
    s.add(s.b)


def race_event_nobody_waits_for(s: Scene) -> None:
    s.add(s.a)
    s.event(s.a)
    s.add(s.b)


def race_atomic_and_read(s: Scene) -> None:
    s.count(s.a)
    s.axpy(s.b)


def race_null_stream(s: Scene) -> None:
    """Streams that do not block are not ordered with the null stream."""
    s.add(s.a)
    s.add(None)


def race_free(s: Scene) -> None:
    """With threads of their own, the free may also win."""
    x = ok(hip.hipMallocAsync(256, s.a))
    s.add(s.a, x)
    s.axpy(s.b)
    ok(hip.hipFreeAsync(x, s.b))


def race_branches(s: Scene) -> None:
    graph = ok(hip.hipGraphCreate(0))
    root = ok(hip.hipGraphAddEmptyNode(graph, None, 0))
    s.node(graph, root)
    s.node(graph, root)
    ok(hip.hipGraphLaunch(ok(hip.hipGraphInstantiateWithFlags(graph, 0)), s.a))


def race_roots(s: Scene) -> None:
    graph = ok(hip.hipGraphCreate(0))
    first = s.node(graph)
    s.node(graph, first)
    s.node(graph, first=32)
    ok(hip.hipGraphLaunch(ok(hip.hipGraphInstantiateWithFlags(graph, 0)), s.a))


def race_graph_and_stream(s: Scene) -> None:
    graph = ok(hip.hipGraphCreate(0))
    s.node(graph)
    ok(hip.hipGraphLaunch(ok(hip.hipGraphInstantiateWithFlags(graph, 0)), s.a))
    s.add(s.b)


def race_event_of_another_branch(s: Scene) -> None:
    """The wait node orders its branch only."""
    s.add(s.b)
    event = s.event(s.b)
    graph = ok(hip.hipGraphCreate(0))
    ok(hip.hipGraphAddEventWaitNode(graph, None, 0, event))
    s.node(graph)
    ok(hip.hipGraphLaunch(ok(hip.hipGraphInstantiateWithFlags(graph, 0)), s.a))


def one_stream(s: Scene) -> None:
    for _ in range(3):
        s.add(s.a)
        s.axpy(s.a)


def readers(s: Scene) -> None:
    s.axpy(s.a)
    ok(hip.hipMemcpyAsync(int(s.y) + 512, s.x, 256, K.hipMemcpyDeviceToDevice, s.b))


def neighbours(s: Scene) -> None:
    s.add(s.a, first=0)
    s.add(s.b, first=64)
    ok(hip.hipMemsetAsync(int(s.x) + 512, 1, 1, s.a))
    ok(hip.hipMemsetAsync(int(s.x) + 513, 1, 1, s.b))


def atomics(s: Scene) -> None:
    for stream in (s.a, s.b, s.a):
        s.count(stream)


def events(s: Scene) -> None:
    for _ in range(3):
        s.add(s.a)
        ok(hip.hipStreamWaitEvent(s.b, s.event(s.a), 0))
        s.axpy(s.b)
        ok(hip.hipStreamWaitEvent(s.a, s.event(s.b), 0))


def by_way_of_a_third(s: Scene) -> None:
    c = ok(hip.hipStreamCreateWithFlags(NON_BLOCKING))
    s.add(s.a)
    ok(hip.hipStreamWaitEvent(c, s.event(s.a), 0))
    ok(hip.hipStreamWaitEvent(s.b, s.event(c), 0))
    s.add(s.b)


def null_stream(s: Scene) -> None:
    blocking = ok(hip.hipStreamCreate())
    for stream in (blocking, None, blocking):
        s.add(stream)


def host_waits(s: Scene) -> None:
    s.add(s.a)
    ok(hip.hipStreamSynchronize(s.a))
    s.add(s.b)
    event = s.event(s.b)
    ok(hip.hipEventSynchronize(event))
    s.add(s.a)
    event = s.event(s.a)
    while code(hip.hipEventQuery(event)) != E.hipSuccess:
        pass
    s.add(s.b)
    ok(hip.hipDeviceSynchronize())
    s.add(s.a)
    found = np.empty(64, np.float32)
    ok(hip.hipMemcpyAsync(found, s.x, found.nbytes, K.hipMemcpyDeviceToHost, s.a))
    s.add(s.b)


def host_functions(s: Scene) -> None:
    """Whoever is told by a host function comes after what was before it."""
    told: list[int] = []
    function = HOST_FN(lambda _: told.append(1))
    s.kept.append(function)
    s.add(s.a)
    ok(hip.hipLaunchHostFunc(s.a, entry(function), None))
    while not told:
        pass
    s.add(s.b)


def values_in_memory(s: Scene) -> None:
    flag = ok(hip.hipMalloc(4))
    ok(hip.hipMemset(flag, 0, 4))
    ok(hip.hipDeviceSynchronize())
    s.add(s.a)
    ok(hip.hipStreamWriteValue32(s.a, flag, 1, 0))
    ok(hip.hipStreamWaitValue32(s.b, flag, 1, 0, 0xFFFFFFFF))
    s.add(s.b)


def upload(s: Scene) -> None:
    ok(hip.hipMemcpy(s.x, np.ones(64, np.float32), 256, K.hipMemcpyHostToDevice))
    ok(hip.hipStreamSynchronize(None))
    s.add(s.a)


def memory_of_others(s: Scene) -> None:
    """Freed memory is nobody's: its next owner is not raced with."""
    for stream in (s.a, s.b):
        x = ok(hip.hipMalloc(4 * SIZE))
        s.add(stream, x)
        ok(hip.hipFree(x))
        x = ok(hip.hipMallocAsync(4 * SIZE, stream))
        s.add(stream, x)
        ok(hip.hipFreeAsync(x, stream))


def graph_edges(s: Scene) -> None:
    """Branches of their own memory, a join, several launches, and another stream behind."""
    graph = ok(hip.hipGraphCreate(0))
    first = s.node(graph)
    left, right = s.node(graph, first, first=0), s.node(graph, first, first=64)
    join = ok(hip.hipGraphAddEmptyNode(graph, handles(left, right), 2))
    s.node(graph, join, first=32)
    made = ok(hip.hipGraphInstantiateWithFlags(graph, 0))
    for stream in (s.a, s.a, s.b):  # runs of one executable take turns
        ok(hip.hipGraphLaunch(made, stream))
    s.add(s.b)
    ok(hip.hipStreamSynchronize(s.b))
    s.add(s.a)


def event_in_graph(s: Scene) -> None:
    s.add(s.b)
    event = s.event(s.b)
    graph = ok(hip.hipGraphCreate(0))
    wait = ok(hip.hipGraphAddEventWaitNode(graph, None, 0, event))
    last = s.node(graph, wait)
    done = ok(hip.hipEventCreate())
    ok(hip.hipGraphAddEventRecordNode(graph, handles(last), 1, done))
    ok(hip.hipGraphLaunch(ok(hip.hipGraphInstantiateWithFlags(graph, 0)), s.a))
    if "async" not in sys.argv:
        ok(hip.hipStreamWaitEvent(s.b, done, 0))
        s.add(s.b)


def captured(s: Scene) -> None:
    ok(hip.hipStreamBeginCapture(s.a, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    s.add(s.a)
    ok(hip.hipStreamWaitEvent(s.b, s.event(s.a), 0))
    s.add(s.b, first=0)
    s.add(s.a, first=64)
    ok(hip.hipStreamWaitEvent(s.a, s.event(s.b), 0))
    s.add(s.a)
    made = ok(hip.hipGraphInstantiateWithFlags(ok(hip.hipStreamEndCapture(s.a)), 0))
    ok(hip.hipGraphLaunch(made, s.b))


def many_streams(s: Scene) -> None:
    """Streams come and go, and the host waits for each."""
    for _ in range(50):
        stream = ok(hip.hipStreamCreateWithFlags(NON_BLOCKING))
        s.add(stream)
        ok(hip.hipStreamSynchronize(stream))
        ok(hip.hipStreamDestroy(stream))


def streams_that_are_gone(s: Scene) -> None:
    """The host and the null stream wait for their work all the same."""
    for flags, wait in ((NON_BLOCKING, hip.hipDeviceSynchronize), (0, lambda: s.add(None))):
        stream = ok(hip.hipStreamCreateWithFlags(flags))
        s.add(stream)
        ok(hip.hipStreamDestroy(stream))
        wait()
    ok(hip.hipStreamSynchronize(None))
    s.add(s.a)


def race_streams_that_are_gone(s: Scene) -> None:
    """Nobody waits for the first before the second is made."""
    for _ in range(2):
        stream = ok(hip.hipStreamCreateWithFlags(NON_BLOCKING))
        s.add(stream)
        ok(hip.hipStreamDestroy(stream))


def scenarios() -> dict[str, Callable[[Scene], None]]:
    here = sys.modules[__name__].__dict__.values()
    return {f.__name__: f for f in here if getattr(f, "__annotations__", {}).get("s") == "Scene"}


def main(image: str) -> None:
    data = Path(image).read_bytes()
    for name, scenario in scenarios().items():
        emulator.reset_device(0)
        scene = Scene(data)
        try:
            scenario(scene)
            end = code(hip.hipDeviceSynchronize())
        except AssertionError:
            end = E.hipErrorLaunchFailure
        report = emulator.last_fault() if end != E.hipSuccess else ""
        print(f"{name}: {report}")


if __name__ == "__main__":
    main(sys.argv[1])
