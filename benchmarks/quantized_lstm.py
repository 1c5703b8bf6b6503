"""DynamicQuantizeLSTM on the CPU beside onnxruntime, one thread each, process time.

    MGX_THREADS=1 python -m benchmarks.quantized_lstm [--target x86-64-v3]

Rows: the sizes of the layer, the time of a program for given sizes and of one for any batch, as
ratios to onnxruntime's, least of many runs; lower is faster.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir

# Steps, batch, width of the input, hidden size.
LAYERS = ((20, 1, 128, 256), (40, 3, 64, 256), (100, 1, 256, 512), (30, 4, 96, 128))


def layer(steps: int, batch: int | str, width: int, hidden: int) -> onnx.ModelProto:
    """One layer with random weights, whose batch may be open."""
    rng, columns = np.random.default_rng(0), 4 * hidden
    constants = {
        "w": rng.integers(-90, 90, (1, width, columns)).astype(np.int8),
        "r": rng.integers(-90, 90, (1, hidden, columns)).astype(np.int8),
        "b": rng.standard_normal((1, 2 * columns)).astype(np.float32) * 0.1,
        "scale": np.array([0.002], np.float32),
        "zero": np.array([0], np.int8),
    }
    parameters = ["scale", "zero", "scale", "zero"]
    names = ["x", "w", "r", "b", "", "", "", "", *parameters]
    graph = helper.make_graph(
        [
            helper.make_node(
                "DynamicQuantizeLSTM", names, ["y"], domain="com.microsoft", hidden_size=hidden
            )
        ],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, batch, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=9)


def least(run: Callable[[], object], times: int = 60) -> float:
    """Seconds of processor time of the fastest of some runs."""
    found = []
    for _ in range(times):
        begin = time.process_time()
        run()
        found.append(time.process_time() - begin)
    return min(found)


def main() -> None:
    import onnxruntime

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cpu", help="a level of the CPU")
    target = parser.parse_args().target
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    print(f"{'steps, batch, width, hidden':28} {'given':>6} {'any':>6}   of onnxruntime's time")
    for sizes in LAYERS:
        steps, _, width, hidden = sizes
        fed = {"x": np.random.default_rng(1).standard_normal(sizes[:3]).astype(np.float32)}
        given = layer(*sizes)
        session = onnxruntime.InferenceSession(given.SerializeToString(), options)
        static = mgx_mlir.compile(given, target=target)
        model = layer(steps, "batch", width, hidden)
        dynamic = mgx_mlir.compile(
            mgx_mlir.compile_to_bytecode(model, mode="full-dynamic"), target=target
        )
        base = least(lambda session=session, fed=fed: session.run(None, fed))
        ratios = [least(lambda p=p, fed=fed: p.run(fed)) / base for p in (static, dynamic)]
        print(f"{', '.join(map(str, sizes)):28} {ratios[0]:6.2f} {ratios[1]:6.2f}", flush=True)


if __name__ == "__main__":
    main()
