"""Two requests of a chain: the first device does both while the second one is held."""

from __future__ import annotations

import ctypes
import threading

import numpy as np

import mgx_mlir
from mgx_mlir.runtime.hip.event import Event
from mgx_mlir.runtime.hip.library import call
from test import chain_models

model = chain_models.layers([32] * 5, "4")
stages = mgx_mlir.compile_stages(model, 2)
chain = mgx_mlir.Chain([mgx_mlir.finalize(s, ["gfx942", "gfx1100"]) for s in stages])
inputs = [np.full((4, 32), n, np.float32) for n in range(2)]
wanted = [mgx_mlir.compile(model, "cpu").run({"x": x})["y"] for x in inputs]
assert np.allclose(chain.run({"x": inputs[0]})["y"], wanted[0], rtol=1e-5)

gate = threading.Event()
hold = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: gate.wait(60) and None)
first, second = chain._stages
call("hipSetDevice", second.ordinal)
call("hipLaunchHostFunc", second.stream, ctypes.cast(hold, ctypes.c_void_p).value, None)
runs = [chain.run_async({"x": x}) for x in inputs]
call("hipSetDevice", first.ordinal)
done = Event(first.stream)
done.wait()  # the first device has done its stage of both requests
call("hipSetDevice", second.ordinal)
assert not Event(second.stream).done() and not gate.is_set()
print("the first device did 2 requests while the second one waited")
gate.set()
for run, want in zip(runs, wanted, strict=True):
    found = run.result()["y"]
    assert np.allclose(found, want, rtol=1e-4, atol=1e-6), np.abs(found - want).max()
