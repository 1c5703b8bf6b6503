"""The runtime beside single kernels: copies, streams, graphs, peers, and a small network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import numpy_helper, parser

from mgx_mlir.compiler import CompileOptions
from mgx_mlir.loader import compile
from mgx_mlir.runtime.hip.device import devices
from mgx_mlir.runtime.hip.library import call, hip_python
from mgx_mlir.runtime.program import Program
from mgx_mlir.settings import Settings
from mgx_mlir.tools.selftest.trial import TOLERANCES, difference

_COPIED = 1 << 20
_RUNS = 4

# A check: what was wrong, or ''; a note that begins with "skipped" where it does not apply.
Check = Callable[[str, Settings], str]


def copies(target: str, settings: Settings) -> str:
    """Bytes to the device, there, and back."""
    sent, back = np.arange(_COPIED, dtype=np.uint8), np.zeros(_COPIED, np.uint8)
    first, second = call("hipMalloc", _COPIED), call("hipMalloc", _COPIED)
    try:
        kinds = hip_python().hipMemcpyKind
        call("hipMemcpy", first, sent, _COPIED, kinds.hipMemcpyHostToDevice)
        call("hipMemcpy", second, first, _COPIED, kinds.hipMemcpyDeviceToDevice)
        call("hipMemcpy", back, second, _COPIED, kinds.hipMemcpyDeviceToHost)
    finally:
        call("hipFree", first)
        call("hipFree", second)
    return "" if (back == sent).all() else f"{int((back != sent).sum())} bytes differ"


def peers(target: str, settings: Settings) -> str:
    """Bytes from the first device to the second one, and back."""
    if len(devices()) < 2:
        return "skipped: there is one device"
    sent, back = np.arange(_COPIED, dtype=np.uint8), np.zeros(_COPIED, np.uint8)
    kinds = hip_python().hipMemcpyKind
    call("hipSetDevice", 1)
    there = call("hipMalloc", _COPIED)
    call("hipSetDevice", 0)
    here = call("hipMalloc", _COPIED)
    try:
        call("hipMemcpy", here, sent, _COPIED, kinds.hipMemcpyHostToDevice)
        call("hipMemcpyPeer", there, 1, here, 0, _COPIED)
        call("hipMemset", here, 0, _COPIED)
        call("hipMemcpyPeer", here, 0, there, 1, _COPIED)
        call("hipMemcpy", back, here, _COPIED, kinds.hipMemcpyDeviceToHost)
    finally:
        call("hipFree", here)
        call("hipFree", there)
    return "" if (back == sent).all() else f"{int((back != sent).sum())} bytes differ"


def network() -> onnx.ModelProto:
    """Two convolutions with a residual sum, attention over the pixels, and a classifier."""
    random = np.random.default_rng(7)
    shapes = {"w1": (16, 3, 3, 3), "w2": (16, 16, 3, 3), "wq": (16, 48), "wc": (16, 10)}
    text = """
        <ir_version: 10, opset_import: ["": 17]> g (float[b, 3, 12, 12] x, float[1] w1, float[1] w2,
            float[1] wq, float[1] wc) => (float[b, 10] y) {
            c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w1) d = Relu(c)
            e = Conv <pads = [1, 1, 1, 1]> (d, w2) f = Add(d, e)
            s = Constant <value_ints = [0, 16, 36]> () g = Reshape(f, s)
            t = Transpose <perm = [0, 2, 1]> (g) p = MatMul(t, wq)
            q, k, v = Split <axis = 2, num_outputs = 3> (p)
            kt = Transpose <perm = [0, 2, 1]> (k) r = MatMul(q, kt) a = Softmax <axis = -1> (r)
            o = MatMul(a, v) m = ReduceMean <axes = [1], keepdims = 0> (o)
            z = MatMul(m, wc) y = Softmax <axis = -1> (z)
        }"""
    made = parser.parse_model(text.replace(", num_outputs = 3", ""))
    for name, shape in shapes.items():
        array = (random.normal(size=shape) / 6).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    kept = [onnx.ValueInfoProto.FromString(made.graph.input[0].SerializeToString())]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    return made


def _inputs() -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(11)
    return [{"x": random.normal(size=(2, 3, 12, 12)).astype(np.float32)} for _ in range(_RUNS)]


def _programs(target: str, settings: Settings, graph: bool) -> tuple[Program, Program]:
    model, options = network(), CompileOptions(input_dims={"x": _inputs()[0]["x"].shape})
    found = compile(model, target, options, settings=settings, graph=graph)
    return found, compile(model, "cpu", options, settings=settings)


def _apart(found: list[dict[str, np.ndarray]], reference: Program) -> str:
    for number, (result, inputs) in enumerate(zip(found, _inputs(), strict=True)):
        wrong = difference(result, reference.run(inputs), TOLERANCES["f32"])
        if wrong:
            return f"run {number}: {wrong}"
    return ""


def launches(target: str, settings: Settings) -> str:
    """A small network, launch by launch."""
    program, reference = _programs(target, settings, graph=False)
    return _apart([program.run(inputs) for inputs in _inputs()], reference)


def graphs(target: str, settings: Settings) -> str:
    """The same by a HIP graph, whose inputs change from run to run."""
    program, reference = _programs(target, settings, graph=True)
    return _apart([program.run(inputs) for inputs in _inputs()], reference)


def streams(target: str, settings: Settings) -> str:
    """The same, with all runs under way at once, each on a stream of its own."""
    program, reference = _programs(target, settings, graph=True)
    pending = [program.run_async(inputs) for inputs in _inputs()]  # type: ignore[attr-defined]
    return _apart([one.result() for one in pending], reference)


CHECKS: dict[str, Check] = {
    "copies": copies,
    "peer copies": peers,
    "a small network": launches,
    "a small network by a graph": graphs,
    "a small network on several streams": streams,
}
