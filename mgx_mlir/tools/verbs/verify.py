"""verify: compare a compiled model with the reference, on random inputs.

The reference is onnxruntime where it is installed and knows the model's operators, else
this project's numpy evaluation of the imported graph.
"""

from __future__ import annotations

import argparse

import numpy as np

from mgx_mlir.tools import options as shared

# Tolerances by the narrowest float type among the outputs.
TOLERANCES = {"float16": (4e-2, 4e-2), "bfloat16": (4e-2, 4e-2)}
DEFAULT_TOLERANCE = (1e-3, 1e-4)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_model(parser, "an .onnx model")
    shared.add_shape_options(parser)
    add = parser.add_argument
    shared.add_target_options(parser, "what to verify")
    add("--input", action="append", default=[], metavar="NAME=FILE", help="an input's .npy file")
    add("--seed", type=int, default=0, metavar="N", help="seed of the random inputs")
    add("--rtol", type=float, metavar="X", help="relative tolerance (default 1e-3, 16 bit 4e-2)")
    add("--atol", type=float, metavar="X", help="absolute tolerance (default 1e-4, 16 bit 4e-2)")
    add("--reference", choices=["auto", "onnxruntime", "numpy"], default="auto")
    shared.add_compile_options(parser)


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.tools.console import progress
    from mgx_mlir.tools.programs import flat_arrays, inputs_of, note_host_nodes, runnable_of
    from mgx_mlir.tools.references import reference_outputs

    shared.expect_model(options)
    with progress("compiling") as tick:
        runnable = runnable_of(options, tick)
        inputs = inputs_of(runnable, options.input, options.seed, shared.sizes(options))
        tick("running the reference", 0, 1)
        name, expected = reference_outputs(options, inputs)
    found, expected = flat_arrays(runnable.run(inputs)), flat_arrays(expected)
    note_host_nodes(runnable)
    print(f"{options.model}: {shared.target_of(options)} against {name}")
    wrong = sum(not _same(key, found.get(key), expected[key], options) for key in expected)
    print("verified" if not wrong else f"{wrong} of {len(expected)} outputs differ")
    return int(bool(wrong))


def _same(
    name: str, found: np.ndarray | None, expected: np.ndarray, options: argparse.Namespace
) -> bool:
    if found is None:
        print(f"  {name}: missing")
        return False
    if expected.dtype.kind == "U":
        same = bool(np.array_equal(found, expected))
        print(f"  {name}: {'ok' if same else 'strings differ'}")
        return same
    return _compare(name, found, expected, options)


def _compare(
    name: str, found: np.ndarray, expected: np.ndarray, options: argparse.Namespace
) -> bool:
    rtol, atol = TOLERANCES.get(found.dtype.name, DEFAULT_TOLERANCE)
    rtol = rtol if options.rtol is None else options.rtol
    atol = atol if options.atol is None else options.atol
    if found.shape != expected.shape:
        print(f"  {name}: shape {found.shape}, expected {expected.shape}")
        return False
    a, b = found.astype(np.float64), expected.astype(np.float64)
    if b.size and not np.isfinite(b).any():
        print(
            f"  {name}: the reference holds no finite number on these inputs; give some by --input"
        )
        return False
    with np.errstate(invalid="ignore"):
        error = np.abs(a - b)
        allowed = atol + rtol * np.abs(b)
        bad = ~((error <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b)))
    finite = np.isfinite(a) & np.isfinite(b)
    worst = float((error[finite] / allowed[finite]).max(initial=0.0))
    scale = float(np.sqrt(np.mean(b[finite] ** 2))) if finite.any() else 0.0
    rms = float(np.sqrt(np.mean(error[finite] ** 2))) / (scale or 1.0) if finite.any() else 0.0
    verdict = "ok" if not bad.any() else f"{int(bad.sum())} of {bad.size} elements differ"
    print(f"  {name}: {verdict}; worst {worst:.3g} of the tolerance, relative rms {rms:.3g}")
    return not bad.any()
