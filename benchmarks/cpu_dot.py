"""f32 matrix products on the host beside numpy's (OpenBLAS), in one run.

    python -m benchmarks.cpu_dot [--sizes 128,256,512,1024] [--threads 1,2]

Prints the milliseconds of both and their ratio; below 1 is faster than numpy. Times are the
best of many alternating runs, because other programs may use the cores meanwhile.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="128,256,512,1024")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure([int(n) for n in options.sizes.split(",")], int(options.threads))
        return
    print(f"{'threads':>7} {'size':>5} {'mgx ms':>8} {'numpy ms':>8} {'ratio':>6} {'GFLOP/s':>8}")
    for threads in options.threads.split(","):
        # OpenBLAS takes its number of threads from the environment, when it is loaded.
        environment = dict(os.environ, OPENBLAS_NUM_THREADS=threads)
        arguments = ["--measure", "--sizes", options.sizes, "--threads", threads]
        command = [sys.executable, "-m", "benchmarks.cpu_dot", *arguments]
        subprocess.run(command, env=environment, check=True)


def measure(sizes: list[int], threads: int) -> None:
    import numpy as np

    for size in sizes:
        program = dot_program(size, threads)
        rng = np.random.default_rng(0)
        inputs = {name: rng.random((size, size), dtype=np.float32) for name in "ab"}
        out = {"c": np.empty((size, size), np.float32)}
        ours, theirs = best(partial(program.run, inputs, out), partial(np.matmul, *inputs.values()))
        np.testing.assert_allclose(out["c"], inputs["a"] @ inputs["b"], rtol=1e-4)
        rate = 2e-9 * size**3 / ours
        print(
            f"{threads:>7} {size:>5} {ours * 1e3:>8.3f} {theirs * 1e3:>8.3f} "
            f"{ours / theirs:>6.2f} {rate:>8.1f}",
            flush=True,
        )


def best(one: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    """The shortest seconds of each, run in turns for about a second."""
    times: tuple[list[float], list[float]] = ([], [])
    until = time.perf_counter() + 1
    while time.perf_counter() < until or len(times[0]) < 5:
        for function, kept in zip((one, other), times, strict=True):
            started = time.perf_counter()
            function()
            kept.append(time.perf_counter() - started)
    return min(times[0]), min(times[1])


def dot_program(size: int, threads: int) -> Any:
    """A program of one product of square matrices."""
    from mlir import ir

    from mgx_mlir.artifact.plan import Buffer, Plan, Step, TensorSpec
    from mgx_mlir.artifact.target import Target
    from mgx_mlir.codegen.cpu.kernel import compile_kernel
    from mgx_mlir.dialects import context
    from mgx_mlir.runtime.program import Program

    type_ = f"tensor<{size}x{size}xf32>"
    with context(), ir.Location.unknown():
        module = ir.Module.parse(
            f"mgx.kernel @dot(%a: {type_}, %b: {type_}) -> {type_} "
            f'attributes {{arch = #mgx.arch<"gfxMIGX">}} {{\n'
            f"%c = mgx.dot %a, %b : {type_}, {type_} -> {type_}\nmgx.return %c : {type_}\n}}"
        )
        code = compile_kernel(next(iter(module.body.operations)), Target.host_cpu())
    specs = [TensorSpec(name, "float32", (size, size)) for name in "abc"]
    bytes_ = 4 * size * size
    buffers = (
        Buffer("input", bytes_, index=0),
        Buffer("input", bytes_, index=1),
        Buffer("output", bytes_, index=0),
    )
    plan = Plan(tuple(specs[:2]), (specs[2],), 0, buffers, (Step(0, (0, 1, 2)),))
    return Program(plan, [code], {}, threads)


if __name__ == "__main__":
    main()
