"""Host time that a program for any sizes takes for sizes that it has not met.

    python -m benchmarks.new_sizes [--chip gfx942] [--layers 2,8]

A decoder as optimum exports it, with weights of small width, is compiled once in mode full-dynamic.
Then it is bound to one length after another, without a run. Prints the steps of the bound
plan, and the least and the median process time of a binding, in milliseconds. On a GPU the
graph is made by the second run, and is not part of it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

import mgx_mlir
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import CompilerError
from mgx_mlir.runtime.sized import SizedProgram
from mgx_mlir.settings import Settings
from test import decoder_models
from test.dynamic_models import inputs_of

# Lengths of the past that are bound, one after another.
LENGTHS = range(40, 60)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chip", default="cpu")
    parser.add_argument("--layers", default="2,8", help="numbers of layers")
    options = parser.parse_args()
    if options.chip != "cpu":
        os.environ["MGX_EMULATED_DEVICES"] = options.chip
    settings = Settings(jobs=1, hip="emulated")
    print(f"{'layers':>6} {'steps':>8} {'least ms':>9} {'median ms':>9}")
    for layers in map(int, options.layers.split(",")):
        decoder_models.LAYERS = layers
        model = decoder_models.llama()
        any_sizes = CompileOptions(mode="full-dynamic")
        program = mgx_mlir.compile(model, options.chip, any_sizes, settings=settings)
        if not isinstance(program, SizedProgram):
            raise CompilerError("the decoder has no program for any sizes")
        times = []
        for past in LENGTHS:
            sizes = {"batch_size": 1, "sequence_length": 1, "past_sequence_length": past,
                     "total_sequence_length": past + 1}  # fmt: skip
            inputs = inputs_of(model, sizes)
            started = time.process_time()
            bound = program.program(inputs)
            times.append(1e3 * (time.process_time() - started))
        least, median, steps = min(times), statistics.median(times), len(bound.plan.steps)
        print(f"{layers:6} {steps:8} {least:9.2f} {median:9.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
