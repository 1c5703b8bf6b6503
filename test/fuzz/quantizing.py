"""Random f32 models, quantized at random, beside f32, onnxruntime and other targets.

    python -m test.fuzz.quantizing [--targets gfx942,...] [--seed N] [--count N] [--mode MODE]

A seed is a graph of test.fuzz.graphs that begins with a product, a precision, a method of
calibration and its samples. The quantized model is to be valid, close to the f32 model, and to
give the same results, within what rounding to few bits may change, in onnxruntime, on each target,
and in f16 or bf16. A model without products to quantize passes. With --mode full-dynamic some of
the inputs' sizes are open, and a model that the compiler or quantization refuses passes.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime

import mgx_mlir
from mgx_mlir import Calibration, Precision, quantize
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import UserError
from mgx_mlir.quantization.histogram import METHODS
from mgx_mlir.quantization.precision import PRODUCTS, ROUNDINGS, WEIGHTS
from mgx_mlir.settings import Settings
from test.fuzz.graphs.check import random_case
from test.fuzz.graphs.graph import F32, Case
from test.quantization import test_quantize as quantized

Arrays = dict[str, np.ndarray]
PRODUCT_KINDS = ("matmul", "gemm", "convolution", "convolution", "transposed_convolution")
# The least SQNR beside f32, dB; and of how many elements: one may be the rest of a cancellation.
LEAST = {"int8": 10, "fp8": 8, "mxfp4": 0, "mxfp6": 8, "mxfp8": 8, "int4": 0, "int2": -6}
COMPARED = 64
# The least SQNR between two ways to the same result, dB. Where one way rounds to the neighbouring
# code, their difference is as large as the quantization error: the least is loss + _MARGIN then.
SAME, NARROW = 60, {"f16": 35, "bf16": 15}
_MARGIN = 4
# Operators whose results jump where their operands are rounded.
STEPS = {"ArgMax", "ArgMin", "Ceil", "Equal", "Floor", "Greater", "Less", "Round", "Sign", "TopK"}


def random_precision(rng: random.Random) -> Precision:
    products = rng.choice(("int8", "int8", *PRODUCTS))
    chosen: dict[str, Any] = {"products": products}
    if not products or rng.random() < 0.3:
        chosen |= {"weights": rng.choice(list(WEIGHTS)), "rounding": rng.choice(ROUNDINGS)}
        chosen["block"] = rng.choice((16, 32, 64, 128))
    if products:
        chosen |= {name: rng.random() < 0.3 for name in ("dynamic", "equalize")}
        chosen |= {name: rng.random() < 0.7 for name in ("asymmetric", "bias_correction")}
        chosen["smooth"] = rng.choice((None, None, None, 0.5))
        if "weights" in chosen:
            chosen["only_weights"] = (rng.choice(("MatMul*", "Gemm*")),)
    return Precision(**chosen)


def random_samples(case: Case, seed: int, count: int) -> list[Arrays]:
    """Samples with the distributions of the case's inputs; integers are those of the case."""
    rng = np.random.default_rng(seed)

    def like(x: np.ndarray) -> np.ndarray:
        return rng.permutation(x.ravel()).reshape(x.shape) if x.dtype == F32 else x

    return [{name: like(x) for name, x in case.feeds().items()} for _ in range(count)]


def decibels(found: np.ndarray, expected: np.ndarray) -> float:
    noise = np.square(found.astype(np.float64) - expected).sum()
    signal = np.square(expected.astype(np.float64)).sum()
    if not noise or not np.isfinite(signal):
        return np.inf
    return float(10 * np.log10(max(signal, 1e-30) / noise)) if np.isfinite(noise) else -np.inf


def by_onnxruntime(model: onnx.ModelProto, feeds: Arrays) -> Arrays:
    """The outputs of onnxruntime without rewrites; none where onnxruntime lacks a kernel."""
    try:
        found: Arrays = quantized.by_onnxruntime(model, feeds, "ORT_DISABLE_ALL")
        return found
    except Exception as error:  # onnxruntime's own, of many kinds
        if "NOT_IMPLEMENTED" in str(error) or "bfloat16" in str(error).lower():
            return {}
        raise


def problems(seed: int, targets: list[str], mode: str) -> list[str]:
    """The faults of the quantized model of a seed, a line each."""
    rng = random.Random(seed)
    case = random_case(seed, first=PRODUCT_KINDS, dtype=F32)
    model = case.model(is_open := mode == "full-dynamic")
    precision, data = random_precision(rng), random_samples(case, seed, rng.choice((1, 2, 8)))
    calibration = Calibration(data, method=rng.choice(("", *METHODS)))
    floats = rng.choice(("f16", "bf16"))
    feeds, settings = data[0], Settings.from_environment()

    def run(source: Any, target: str = "cpu", floats: str = "f32") -> Arrays:
        options = CompileOptions(mode=mode, floats=floats)
        found: Arrays = mgx_mlir.compile(source, target, options, settings=settings).run(feeds)
        return found

    try:
        f32 = run(model)
        made = quantize(model, precision, calibration)
        found = run(made.source)
    except UserError as error:
        return [] if is_open or "nothing is to be quantized" in str(error) else [str(error)]
    proto = made.proto()
    if not is_open:
        onnx.checker.check_model(proto, full_check=True)
    others = {target: (SAME, run(made.source, target)) for target in targets}
    if not STEPS & {node.op_type for node in case.nodes}:
        others[floats] = NARROW[floats], run(made.source, floats=floats)
    if not precision.is_mx:
        others["onnxruntime"] = SAME, by_onnxruntime(proto, feeds)
    wrong = []
    limit = min(LEAST[name] for name in (precision.products, precision.weights) if name)
    for name, expected in f32.items():
        if expected.dtype != F32 or not expected.size:
            continue
        loss = decibels(found[name], expected)
        if loss < limit and expected.size >= COMPARED and expected.any():
            wrong.append(f"{name} has {loss:.1f} dB beside f32")
        for other, (least, results) in others.items():
            if name not in results:
                continue
            same = decibels(results[name], found[name])
            if same < min(least, loss + _MARGIN):
                wrong.append(f"{name} of {other} has {same:.1f} dB beside the host's ({loss:.1f})")
    return [f"{what}; {precision}, {calibration.method}" for what in wrong]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--targets", default="", help="others than the host's CPU, comma-separated")
    add("--seed", type=int, default=0, help="the first seed")
    add("--count", type=int, default=100)
    add("--mode", choices=("default", "full-dynamic"), default="default")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(4)
    failures = 0
    for seed in range(options.seed, options.seed + options.count):
        try:
            found = problems(seed, [t for t in options.targets.split(",") if t], options.mode)
        except Exception as error:
            found = [f"{type(error).__name__}: {str(error)[:1500]}"]
        failures += bool(found)
        for what in found:
            print(f"FAIL seed {seed}: {what}", flush=True)
    print(f"{options.count} seeds: {failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
