"""Many threads on one library."""

from __future__ import annotations

import threading

import numpy as np
from hip import hip
from hip_support import CAPTURE, E, K, code, download, launch, ok, used_bytes

THREADS = 8


def in_threads(function):
    """Runs function(i) in all threads; the first failure is raised."""
    failures = []

    def guarded(i):
        try:
            function(i)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_allocations_and_copies(chip):
    device = ok(hip.hipGetDevice())

    def work(i):
        ok(hip.hipSetDevice(device))
        for round_ in range(40):
            array = np.full(500 + 37 * i, 100 * i + round_, np.int32)
            pointer = ok(hip.hipMalloc(array.nbytes))
            ok(hip.hipMemcpy(pointer, array, array.nbytes, K.hipMemcpyHostToDevice))
            assert (download(pointer, array.shape, np.int32) == array).all()
            ok(hip.hipFree(pointer))

    in_threads(work)
    assert used_bytes() == 0


def test_streams_of_their_own(kernel):
    function = kernel("add_value")
    device = ok(hip.hipGetDevice())

    def work(i):
        ok(hip.hipSetDevice(device))
        stream = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
        x = ok(hip.hipMallocAsync(256, stream))
        ok(hip.hipMemsetAsync(x, 0, 256, stream))
        for _ in range(10):
            assert launch(function, [x, 64, float(i)], stream=stream) == E.hipSuccess
        ok(hip.hipStreamSynchronize(stream))
        assert (download(x, 64) == 10 * i).all()
        ok(hip.hipFreeAsync(x, stream))
        ok(hip.hipStreamDestroy(stream))

    in_threads(work)


def test_one_stream_shared_by_all(kernel, stream):
    function = kernel("add_value")
    device = ok(hip.hipGetDevice())
    x = ok(hip.hipMalloc(256))
    ok(hip.hipMemset(x, 0, 256))

    def work(i):
        ok(hip.hipSetDevice(device))
        for _ in range(10):
            assert launch(function, [x, 64, 1.0], stream=stream) == E.hipSuccess

    in_threads(work)
    ok(hip.hipStreamSynchronize(stream))
    assert (download(x, 64) == 10 * THREADS).all()


def test_captures_of_their_own():
    def work(i):
        stream = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
        x = ok(hip.hipMallocAsync(64, stream))
        for round_ in range(10):
            ok(hip.hipStreamBeginCapture(stream, CAPTURE.hipStreamCaptureModeThreadLocal))
            ok(hip.hipMemsetD32Async(x, 100 * i + round_, 16, stream))
            graph = ok(hip.hipStreamEndCapture(stream))
            executable = ok(hip.hipGraphInstantiateWithFlags(graph, 0))
            ok(hip.hipGraphLaunch(executable, stream))
            out = np.zeros(16, np.int32)
            ok(hip.hipMemcpyAsync(out, x, 64, K.hipMemcpyDeviceToHost, stream))
            ok(hip.hipStreamSynchronize(stream))
            assert (out == 100 * i + round_).all()
            ok(hip.hipGraphExecDestroy(executable))
            ok(hip.hipGraphDestroy(graph))

    in_threads(work)


def test_one_executable_launched_by_all(kernel):
    from hip_support import Arguments, kernel_params

    device = ok(hip.hipGetDevice())
    x = ok(hip.hipMalloc(256))
    ok(hip.hipMemset(x, 0, 256))
    ok(hip.hipDeviceSynchronize())  # the streams below do not wait for the null stream
    arguments = Arguments(x, 64, 1.0)
    graph = ok(hip.hipGraphCreate(0))
    params = kernel_params(kernel("add_value"), arguments)
    ok(hip.hipGraphAddKernelNode(graph, None, 0, params))
    executable = ok(hip.hipGraphInstantiateWithFlags(graph, 0))

    def work(i):
        ok(hip.hipSetDevice(device))
        stream = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
        for _ in range(10):
            ok(hip.hipGraphLaunch(executable, stream))
        ok(hip.hipStreamSynchronize(stream))

    in_threads(work)
    ok(hip.hipDeviceSynchronize())
    assert (download(x, 64) == 10 * THREADS).all()


def test_loading_and_unloading_modules(chip, image):
    device = ok(hip.hipGetDevice())
    data = image(chip).read_bytes()

    def work(i):
        ok(hip.hipSetDevice(device))
        for _ in range(3):
            module = ok(hip.hipModuleLoadData(data))
            function = ok(hip.hipModuleGetFunction(module, b"nothing"))
            assert launch(function) == E.hipSuccess
            ok(hip.hipModuleUnload(module))

    in_threads(work)
    assert used_bytes() == 0


def test_handles_used_while_they_are_destroyed():
    for _ in range(20):
        stream, event = ok(hip.hipStreamCreate()), ok(hip.hipEventCreate())
        allowed = (E.hipSuccess, E.hipErrorInvalidHandle)

        def work(i, stream=stream, event=event, allowed=allowed):
            if i == 0:
                ok(hip.hipStreamDestroy(stream))
                ok(hip.hipEventDestroy(event))
                return
            for _ in range(5):
                assert code(hip.hipEventRecord(event, stream)) in allowed
                assert code(hip.hipStreamWaitEvent(stream, event, 0)) in allowed
                assert code(hip.hipStreamSynchronize(stream)) in allowed

        in_threads(work)
