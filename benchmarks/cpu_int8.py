"""Quantized models on the host beside onnxruntime, in one run.

    python -m benchmarks.cpu_int8 [--models resnet18,mobilenet] [--forms qdq_u8s8_channel]
        [--threads 1] [--runs 20]

The models of test/quantized_models.py, quantized by onnxruntime.quantization. Prints the
milliseconds of both, their ratio, and that of the f32 model; below 1 is faster than onnxruntime.
Times are the best of many alternating runs, because other programs may use the cores meanwhile.
`MGX_CPU=x86-64-v3` measures that level.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import onnxruntime

import mgx_mlir
from mgx_mlir.settings import Settings
from test.onnx_models import random_inputs
from test.quantized_models import FORMS, MODELS, quantized


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(sorted(MODELS)))
    parser.add_argument("--forms", default="qdq_u8s8_channel", help=f"of {', '.join(FORMS)}")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print(f"{'model':10} {'form':22} {'mgx ms':>8} {'ort ms':>8} {'ratio':>6} {'ratio of f32':>13}")
    for name in options.models.split(","):
        source = MODELS[name]()
        inputs = random_inputs(source)
        floats = _times(source, inputs, options.threads, options.runs)
        for form in options.forms.split(","):
            model = quantized(source, form)
            ours, theirs = _times(model, inputs, options.threads, options.runs)
            print(
                f"{name:10} {form:22} {ours * 1e3:>8.2f} {theirs * 1e3:>8.2f} "
                f"{ours / theirs:>6.2f} {floats[0] / floats[1]:>13.2f}",
                flush=True,
            )


def _times(model: Any, inputs: dict[str, Any], threads: int, runs: int) -> tuple[float, float]:
    """The shortest seconds of this compiler's program and of onnxruntime, run in turns."""
    settings = Settings.from_environment()
    program = mgx_mlir.compile(model, target="cpu", settings=replace(settings, threads=threads))
    choices = onnxruntime.SessionOptions()
    choices.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), choices)
    both: tuple[Callable[[], Any], ...] = (
        lambda: program.run(inputs),
        lambda: session.run(None, inputs),
    )
    times: list[list[float]] = [[], []]
    for _ in range(runs):
        for function, kept in zip(both, times, strict=True):
            started = time.perf_counter()
            function()
            kept.append(time.perf_counter() - started)
    return min(times[0]), min(times[1])


if __name__ == "__main__":
    main()
