"""The first seconds of a server: threads that ask for batches of different sizes at once.

    python -m benchmarks.first_seconds [--seconds 10] [--threads 8] [--no-background]

Each row is `mgx_mlir.Model` or onnxruntime with as many intra-op threads: runs in a second, and the
median, the 99th percentile and the worst time of a run in milliseconds. The first run, which
compiles, or loads, is made before. In the background programs are compiled for the sizes that come
often.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir.settings import Settings

SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
Run = Callable[[np.ndarray], object]


def perceptron() -> onnx.ModelProto:
    """Three products of width 512."""
    rng = np.random.default_rng(0)
    nodes, held, name = [], [], "x"
    for layer, (inner, outer) in enumerate(((256, 512), (512, 512), (512, 10))):
        weight = rng.normal(0, inner**-0.5, (inner, outer)).astype(np.float32)
        held.append(numpy_helper.from_array(weight, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [name, f"w{layer}"], [f"p{layer}"]))
        name = f"p{layer}"
        if layer < 2:
            nodes.append(helper.make_node("Relu", [name], [f"r{layer}"]))
            name = f"r{layer}"
    return _model(nodes, held, name, ["batch", 256])


def convolutional() -> onnx.ModelProto:
    """Four convolutions of 32 channels, a pooling and a product."""
    rng = np.random.default_rng(0)
    nodes, held, name, channels = [], [], "x", 3
    for layer in range(4):
        weight = rng.normal(0, 0.1, (32, channels, 3, 3)).astype(np.float32)
        held.append(numpy_helper.from_array(weight, f"w{layer}"))
        pads = {"pads": [1, 1, 1, 1], "strides": [1 + layer % 2] * 2}
        nodes.append(helper.make_node("Conv", [name, f"w{layer}"], [f"c{layer}"], **pads))
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"]))
        name, channels = f"r{layer}", 32
    held.append(numpy_helper.from_array(rng.normal(0, 0.2, (32, 10)).astype(np.float32), "w"))
    nodes.append(helper.make_node("GlobalAveragePool", [name], ["pool"]))
    nodes.append(helper.make_node("Flatten", ["pool"], ["flat"]))
    nodes.append(helper.make_node("MatMul", ["flat", "w"], ["y"]))
    return _model(nodes, held, "y", ["batch", 3, 32, 32])


def _model(
    nodes: list[onnx.NodeProto], held: list[onnx.TensorProto], result: str, shape: list[str | int]
) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def measured(run: Run, shape: tuple[int, ...], threads: int, seconds: float) -> list[float]:
    """The times of all runs in seconds, of threads that ask for one size after another."""
    times: list[list[float]] = [[] for _ in range(threads)]
    end = time.perf_counter() + seconds

    def ask(number: int) -> None:
        rng = np.random.default_rng(number)
        inputs = [rng.normal(size=(n, *shape)).astype(np.float32) for n in SIZES]
        while (begin := time.perf_counter()) < end:
            run(inputs[rng.integers(len(SIZES))])
            times[number].append(time.perf_counter() - begin)

    all_threads = [threading.Thread(target=ask, args=(number,)) for number in range(threads)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    return sorted(one for some in times for one in some)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--no-background", action="store_true")
    options = parser.parse_args()
    for name, model, shape in (
        ("perceptron", perceptron(), (256,)),
        ("convolutional network", convolutional(), (3, 32, 32)),
    ):
        for runtime in ("onnxruntime", "mgx-mlir"):
            with tempfile.TemporaryDirectory() as folder:
                run, end = _runner(runtime, model, Path(folder), not options.no_background)
                run(np.zeros((1, *shape), np.float32))
                times = measured(run, shape, options.threads, options.seconds)
                end()
            rate = len(times) / options.seconds
            middle, late = times[len(times) // 2], times[len(times) * 99 // 100]
            row = f"{name:22} {runtime:12} {rate:9.0f} runs/s"
            print(row, *(f"{t * 1e3:8.2f}" for t in (middle, late, times[-1])), flush=True)


def _runner(
    runtime: str, model: onnx.ModelProto, cache: Path, background: bool
) -> tuple[Run, Callable[[], None]]:
    """The runtime's function of a batch, and one that ends its work."""
    settings = replace(Settings.from_environment(), cache_dir=cache)
    if runtime == "onnxruntime":
        session_options = onnxruntime.SessionOptions()
        session_options.intra_op_num_threads = settings.threads
        data = model.SerializeToString()
        session = onnxruntime.InferenceSession(data, session_options)
        return lambda x: session.run(None, {"x": x}), lambda: None
    found = mgx_mlir.Model(model, settings=settings, warm=3 if background else None)

    def end() -> None:
        found.wait()
        print(f"{found.compiled} programs")

    return lambda x: found.run({"x": x}), end


if __name__ == "__main__":
    main()
