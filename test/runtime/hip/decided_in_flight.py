"""Runs that wait for decisions of the device block nobody: their inputs come when a stream goes on.

A program of its own, in which streams work beside the host:

    MGX_HIP=emulated MGX_EMULATED_DEVICES=gfx942 MGX_EMULATOR_ASYNC=1 python decided_in_flight.py
"""

from __future__ import annotations

import ctypes
import sys
import threading
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[3]), str(Path(__file__).parents[1])]

import control_flow_models as models  # noqa: E402

import mgx_mlir  # noqa: E402
from mgx_mlir.runtime.hip.event import Event, Stream  # noqa: E402
from mgx_mlir.runtime.hip.library import call  # noqa: E402
from mgx_mlir.runtime.hip.tensor import DeviceTensor  # noqa: E402

nested = mgx_mlir.compile(models.artifact("nested", "gfx942"), "gfx942")
given = [models.inputs("nested", seed) for seed in range(2)]
tensors = [{n: DeviceTensor.from_numpy(a) for n, a in one.items()} for one in given]
gate, stream = threading.Event(), Stream()
hold = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: gate.wait(60) and None)
call("hipLaunchHostFunc", stream.handle, ctypes.cast(hold, ctypes.c_void_p).value, None)
for one in tensors:
    for tensor in one.values():
        tensor.written_by(Event(stream.handle))
handles = [nested.run_async(one) for one in tensors]
assert not any(handle.done() for handle in handles) and not gate.is_set()
gate.set()
for handle, one in zip(handles, given, strict=True):
    models.check("nested", handle.result(), one)
    assert handle.done()
print("nobody was blocked")
