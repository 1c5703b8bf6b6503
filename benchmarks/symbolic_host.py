"""Operators on the CPU: a program for any sizes over programs for given ones, and onnxruntime.

    python -m benchmarks.symbolic_host [--only TEXT] [--rounds 9] [--most 1.3]

One line of `CASES` is an operator with symbols, and their values. It is compiled in mode
full-dynamic, and for its sizes in the default mode. The programs and onnxruntime, one thread each,
take turns in one process; a figure is the least time of its thread for a run, so that other work on
the machine counts little. With `--most`, the end is 1 where any sizes take more than so many times
the time of given ones.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime

import mgx_mlir
from mgx_mlir.settings import Settings

# Seconds and runs of a turn.
TURN, RUNS = 0.01, 200
_AXIS = "a = Constant <value_ints = [{}]> () y = {} (x, a)"
_MATRIX, _IMAGES = {"m": 1024, "n": 1024}, {"b": 4, "c": 64, "h": 56, "w": 56}
_SAME = ("float[b, c, h, w] x", "float[b, c, h, w] y")
_LINEAR = "bij,bjk->bik"

# The inputs, the result, the nodes, and the values of the symbols.
CASES: dict[str, tuple[str, str, str, Mapping[str, int]]] = {
    **{
        f"{op}, axis {axis}": ("float[m, n] x", f"float[{made}] y", _AXIS.format(axis, op), _MATRIX)
        for op in ("ReduceSum", "ReduceMax", "ReduceMean")
        for axis, made in ((0, "1, n"), (1, "m, 1"))
    },
    **{
        f"{op}, axis {axis}": (
            "float[m, n] x", "float[m, n] y", f"y = {op} <axis = {axis}> (x)", _MATRIX
        )
        for op in ("Softmax", "LogSoftmax")
        for axis in (0, 1)
    },
    "ArgMax": ("float[m, n] x", "int64[m, 1] y", "y = ArgMax <axis = 1> (x)", _MATRIX),
    "transpose": ("float[m, n] x", "float[n, m] y", "y = Transpose <perm = [1, 0]> (x)",
                  {"m": 2048, "n": 2048}),
    "channels last": (_SAME[0], "float[b, h, w, c] y", "y = Transpose <perm = [0, 2, 3, 1]> (x)",
                      _IMAGES),
    "global average": (_SAME[0], "float[b, c, 1, 1] y", "y = GlobalAveragePool (x)", _IMAGES),
    "global average, 7x7": (_SAME[0], "float[b, c, 1, 1] y", "y = GlobalAveragePool (x)",
                            {"b": 8, "c": 1280, "h": 7, "w": 7}),
    "InstanceNorm": ("float[b, 64, h, w] x, float[64] s, float[64] t", "float[b, 64, h, w] y",
                     "y = InstanceNormalization (x, s, t)", {"b": 4, "h": 56, "w": 56}),
    "LayerNorm": ("float[b, s, 768] x, float[768] g", "float[b, s, 768] y",
                  "y = LayerNormalization (x, g)", {"b": 4, "s": 256}),
    "HardSwish, 7x7": (*_SAME, "y = HardSwish (x)", {"b": 8, "c": 480, "h": 7, "w": 7}),
    "bias": ("float[b, c, h, w] x, float[1, c, 1, 1] z", _SAME[1], "y = Add (x, z)", _IMAGES),
    "concat": ("float[b, c] x, float[b, d] z", "float[b, e] y", "y = Concat <axis = 1> (x, z)",
               {"b": 1024, "c": 300, "d": 200}),
    "pad": (_SAME[0], "float[b, c, e, f] y",
            "p = Constant <value_ints = [0, 0, 1, 1, 0, 0, 1, 1]> () y = Pad (x, p)", _IMAGES),
    "repeat": (_SAME[0], "float[b, c, e, f] y",
               's = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> () '
               'y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", '
               'nearest_mode = "floor"> (x, , s)', {"b": 2, "c": 32, "h": 40, "w": 40}),
    "gather": ("float[v, 256] x, int64[s] i", "float[s, 256] y", "y = Gather (x, i)",
               {"v": 1000, "s": 1024}),
    "Einsum": ("float[b, i, j] x, float[b, j, k] z", "float[b, i, k] y",
               f'y = Einsum <equation = "{_LINEAR}"> (x, z)',
               {"b": 4, "i": 128, "j": 128, "k": 128}),
    "CumSum": ("float[m, n] x", "float[m, n] y",
               "a = Constant <value_int = 1> () y = CumSum (x, a)", _MATRIX),
    "TopK": ("float[m, n] x", "float[m, 10] y, int64[m, 10] i",
             "k = Constant <value_ints = [10]> () y, i = TopK (x, k)", {"m": 256, "n": 1000}),
}  # fmt: skip


def given(signature: str, sizes: Mapping[str, int]) -> str:
    """A signature with its symbols' values; a size that follows from them is left open."""

    def shape(match: re.Match[str]) -> str:
        names = [name.strip() for name in match[1].split(",")]
        known = [str(sizes.get(n, "?" if n.isalpha() else n)) for n in names]
        return f"[{', '.join(known)}]"

    return re.sub(r"\[([^\]]*)\]", shape, signature)


def model(inputs: str, results: str, nodes: str) -> onnx.ModelProto:
    text = f'<ir_version: 9, opset_import: ["" : 18]> g ({inputs}) => ({results}) {{ {nodes} }}'
    return onnx.parser.parse_model(text)


def feeds_of(made: onnx.ModelProto, most: int) -> dict[str, np.ndarray]:
    """An array for each input; of integers, indices below `most`."""
    rng = np.random.default_rng(0)
    feeds: dict[str, np.ndarray] = {}
    for value in made.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        floats = dtype.kind == "f"
        numbers = rng.standard_normal(shape) if floats else rng.integers(0, most, shape)
        feeds[value.name] = numbers.astype(dtype)
    return feeds


def runners(name: str) -> dict[str, Callable[[], Any]]:
    """The ways to run a case."""
    inputs, results, nodes, sizes = CASES[name]
    settings = Settings(cache_dir=None, threads=1)
    own = model(given(inputs, sizes), given(results, sizes), nodes)
    symbolic = model(inputs, re.sub(r"\b[ef]\b(?=[,\]])", "?", results), nodes)
    feeds = feeds_of(own, min(sizes.values()))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        own.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    programs = {
        "given": mgx_mlir.compile(own, settings=settings),
        "symbolic": mgx_mlir.compile(symbolic, settings=settings, mode="full-dynamic"),
    }
    ways = {key: (lambda p=program: p.run(feeds)) for key, program in programs.items()}
    return {**ways, "onnxruntime": lambda: session.run(None, feeds)}


def fastest(ways: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The least seconds of a run of each, over turns."""
    best = dict.fromkeys(ways, math.inf)
    for _ in range(rounds):
        for key, run in ways.items():
            start, count = time.thread_time(), 0
            while count < RUNS and time.thread_time() - start < TURN:
                run()
                count += 1
            best[key] = min(best[key], (time.thread_time() - start) / count)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name holds it")
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="turns of each")
    parser.add_argument("--most", type=float, default=math.inf, metavar="RATIO")
    options = parser.parse_args()
    ratios: list[float] = []
    print(f"{'':22}{'given':>9}{'symbolic':>10}{'ratio':>7}{'of onnxruntime':>17}")
    for name in CASES:
        if options.only not in name:
            continue
        best = fastest(runners(name), options.rounds)
        ratios.append(best["symbolic"] / best["given"])
        times = f"{best['given'] * 1e3:9.3f}{best['symbolic'] * 1e3:10.3f}"
        theirs = "".join(f"{best[key] / best['onnxruntime']:8.2f}" for key in ("given", "symbolic"))
        print(f"{name:22}{times}{ratios[-1]:7.2f} {theirs}", flush=True)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean {mean:.2f}, worst {max(ratios):.2f}")
    return int(max(ratios, default=0) > options.most)


if __name__ == "__main__":
    sys.exit(main())
