"""Operators on the CPU: a program for any sizes over one for given sizes, and over onnxruntime.

    python -m benchmarks.symbolic_cpu [--only TEXT] [--most 1.3]

A case is a line of `CASES`: the signature of a model with symbols, its nodes, and the sizes that it
runs with. Times are the least that the process took for a run, on one thread; the sides take turns.
With `--most`, the exit status is 1 where a ratio to given sizes is larger.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import onnxruntime
from onnx import numpy_helper, parser

import mgx_mlir
from mgx_mlir.settings import Settings

# Turns of the sides, and the seconds of each.
TURNS, SECONDS = 8, 0.1
_PRODUCT = "float[b, m, k] x, float[b, k, n] w"
_IMAGE = "float[n, 64, h, w] x"
_RELU = "y = Relu(c)"
# The inputs, the weights with their shapes, the nodes, and the sizes of the symbols.
CASES: dict[str, tuple[str, dict[str, Sequence[int]], str, dict[str, int]]] = {
    "product": (_PRODUCT, {}, "y = MatMul(x, w)", {"b": 1, "m": 512, "k": 512, "n": 512}),
    "products": (_PRODUCT, {}, "y = MatMul(x, w)", {"b": 16, "m": 128, "k": 64, "n": 128}),
    "product of a row": (_PRODUCT, {}, "y = MatMul(x, w)", {"b": 1, "m": 1, "k": 1024, "n": 1024}),
    "product of columns": (
        "float[b, m, k] x, float[b, n, k] w", {},
        "v = Transpose <perm = [0, 2, 1]> (w) y = MatMul(x, v)",
        {"b": 1, "m": 128, "k": 768, "n": 128},
    ),
    "einsum": (
        "float[b, s, 8, 64] x, float[b, t, 8, 64] w", {},
        'y = Einsum <equation = "bqhd,bkhd->bhqk"> (x, w)', {"b": 1, "s": 128, "t": 128},
    ),
    "convolution": (
        _IMAGE, {"f": (64, 64, 3, 3)}, f"c = Conv <pads = [1, 1, 1, 1]> (x, f) {_RELU}",
        {"n": 1, "h": 56, "w": 56},
    ),
    "convolution, step 2": (
        _IMAGE, {"f": (128, 64, 3, 3)},
        f"c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, f) {_RELU}",
        {"n": 1, "h": 56, "w": 56},
    ),
    "a filter for each channel": (
        _IMAGE, {"f": (64, 1, 3, 3)}, f"c = Conv <pads = [1, 1, 1, 1], group = 64> (x, f) {_RELU}",
        {"n": 1, "h": 56, "w": 56},
    ),
    "transposed convolution, 2x2": (
        _IMAGE, {"f": (64, 24, 2, 2)}, f"c = ConvTranspose <strides = [2, 2]> (x, f) {_RELU}",
        {"n": 1, "h": 80, "w": 80},
    ),
    "transposed convolution, 3x3": (
        _IMAGE, {"f": (64, 24, 3, 3)}, f"c = ConvTranspose <strides = [2, 2]> (x, f) {_RELU}",
        {"n": 1, "h": 40, "w": 40},
    ),
    "convolution behind a slice": (
        _IMAGE, {"f": (64, 64, 3, 3)},
        "s = Constant <value_ints = [0]> () e = Constant <value_ints = [1000000000]> () "
        f"v = Slice(x, s, e) c = Conv <pads = [1, 1, 1, 1]> (v, f) {_RELU}",
        {"n": 2, "h": 28, "w": 28},
    ),
    "pooling": (
        _IMAGE, {}, "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (x)",
        {"n": 1, "h": 56, "w": 56},
    ),
}  # fmt: skip


def least(sides: Sequence[Callable[[], object]]) -> list[float]:
    """The least seconds of the process for a run of each side."""
    times = [math.inf] * len(sides)
    for _ in range(TURNS):
        for number, run in enumerate(sides):
            end = time.perf_counter() + SECONDS
            while time.perf_counter() < end:
                started = time.process_time()
                run()
                times[number] = min(times[number], time.process_time() - started)
    return times


def measured(name: str) -> list[float]:
    """Seconds of the program for any sizes, of that for given ones, and of onnxruntime."""
    signature, weights, nodes, sizes = CASES[name]
    rng = np.random.default_rng(0)
    head = f'<ir_version: 9, opset_import: ["": 17]> g ({signature}) => (float[] y)'
    model = parser.parse_model(f"{head} {{ {nodes} }}")
    for weight, shape in weights.items():
        array = (rng.standard_normal(shape) * 0.1).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, weight))
    inputs = {
        own: rng.standard_normal([sizes.get(n) or int(n) for n in dims.split(", ")]).astype("f4")
        for dims, own in re.findall(r"float\[([^]]*)\] (\w+)", signature)
    }
    settings = Settings(threads=1)
    any_sizes = mgx_mlir.compile(model, "cpu", mode="full-dynamic", settings=settings)
    given = mgx_mlir.compile(model, "cpu", dim_params=sizes, settings=settings)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return least(
        [
            lambda: any_sizes.run(inputs),
            lambda: given.run(inputs),
            lambda: session.run(None, inputs),
        ]
    )


def main() -> int:
    command = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    command.add_argument("--only", default="", metavar="TEXT", help="cases whose name holds it")
    command.add_argument("--most", type=float, default=math.inf, metavar="RATIO")
    options = command.parse_args()
    worst = 0.0
    print(f"{'case':28} microseconds (any, given, onnxruntime)   any/given  any/onnxruntime")
    for name in CASES:
        if options.only in name:
            own, given, other = (1e6 * seconds for seconds in measured(name))
            worst = max(worst, own / given)
            ratios = f"{own / given:9.2f} {own / other:16.2f}"
            print(f"{name:28} {own:12.1f} {given:12.1f} {other:12.1f}  {ratios}", flush=True)
    print(f"worst {worst:.2f}")
    return int(worst > options.most)


if __name__ == "__main__":
    sys.exit(main())
