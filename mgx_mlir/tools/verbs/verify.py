"""verify: compare a compiled model with the reference, on random inputs.

The reference is onnxruntime where it is installed and knows the model's operators, without and
with its optimisations, else this project's numpy evaluation of the imported graph. Where
elements differ, the reference runs again with inputs nudged by some roundings (and without
saturation to 16 bits): elements at which it differs from itself by as much do not count.

exit code: 0: verified; 1: some outputs differ, or the model is refused; 2: wrong usage
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from mgx_mlir.text import name_text
from mgx_mlir.tools import options as shared

if TYPE_CHECKING:
    from mgx_mlir.tools.comparing import Verdict
    from mgx_mlir.tools.references import Reference


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_model(parser, "an .onnx model")
    shared.add_shape_options(parser)
    add = parser.add_argument
    shared.add_target_options(parser, "what to verify")
    shared.add_input_options(parser)
    add(
        "--rtol",
        type=_tolerance,
        metavar="X",
        help="relative tolerance (default 1e-3, 16 bit 4e-2)",
    )
    add(
        "--atol",
        type=_tolerance,
        metavar="X",
        help="absolute tolerance (default 1e-4, 16 bit 4e-2)",
    )
    add("--reference", choices=["auto", "onnxruntime", "numpy"], default="auto")
    shared.add_json(parser)
    shared.add_compile_options(parser)


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no tolerance; it takes a number from 0")
    return value


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.tools.console import progress
    from mgx_mlir.tools.programs import flat_arrays, inputs_of, note_host_nodes, runnable_of
    from mgx_mlir.tools.references import reference_of

    shared.expect_model(options, "run {} runs an artifact")
    with progress("compiling") as tick:
        runnable = runnable_of(options, tick)
        inputs = inputs_of(runnable, options.input, options.seed, shared.sizes(options))
        tick("running the reference", 0, 1)
        reference = reference_of(options, inputs)
    found = flat_arrays(runnable.run(inputs))
    note_host_nodes(runnable)
    verdicts = _verdicts(found, reference, options)
    if any(verdict.differs for verdict in verdicts.values()):
        reference.add_variants()
        verdicts = _verdicts(found, reference, options)
    wrong = sum(not verdict.ok for verdict in verdicts.values())
    if options.json:
        print(json.dumps(_record(options, reference.name, verdicts), indent=2))
        return int(bool(wrong))
    print(f"{options.model}: {shared.target_of(options)} against {reference.name}")
    for name, verdict in verdicts.items():
        print(f"  {name_text(name)}: {verdict.text}")
    excused = sum(verdict.ok and verdict.differs for verdict in verdicts.values())
    if wrong:
        print(f"{wrong} of {len(verdicts)} outputs differ")
    elif excused:
        print(f"verified; where {excused} outputs differ, {reference.name} differs from itself")
    else:
        print("verified")
    return int(bool(wrong))


def _record(
    options: argparse.Namespace, reference: str, verdicts: Mapping[str, Verdict]
) -> dict[str, Any]:
    return {
        "model": str(options.model),
        "target": shared.target_of(options),
        "reference": reference,
        "verified": all(verdict.ok for verdict in verdicts.values()),
        "outputs": {name: {**asdict(v), "ok": v.ok} for name, v in verdicts.items()},
    }


def _chosen(given: float | None, options: argparse.Namespace) -> float | None:
    """The tolerance asked for; that of 16-bit floats where the program computes in them."""
    from mgx_mlir.tools.comparing import NARROW_TOLERANCE

    return NARROW_TOLERANCE if given is None and options.floats != "f32" else given


def _verdicts(
    found: Mapping[str, np.ndarray], reference: Reference, options: argparse.Namespace
) -> dict[str, Verdict]:
    """The verdict on each output of the reference."""
    from mgx_mlir.tools.comparing import compare
    from mgx_mlir.tools.programs import flat_arrays

    variants = {name: flat_arrays(outputs) for name, outputs in reference.variants.items()}
    first, *_ = variants.values()
    return {
        key: compare(
            found.get(key),
            {name: arrays[key] for name, arrays in variants.items() if key in arrays},
            _chosen(options.rtol, options),
            _chosen(options.atol, options),
        )
        for key in first
    }
