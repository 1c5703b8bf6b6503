"""Runs kernels of rows through HIP on one chip; prints what went wrong.

A program of its own, as `emulated_run` is:

    ... python row_run.py gfx942 [emulated | schedules | large] [part of a name, or 1/3]
"""

from __future__ import annotations

import sys

import numpy as np
import row_kernels
from emulated_run import run, selected
from kernel_text import result_dtypes

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import code_object
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.families.rows.generator import rows_program


def main(chip: str, which: str = "emulated", wanted: str = "") -> int:
    failed = 0
    target = Target.get(chip)
    for kernel in selected(getattr(row_kernels, which)(), wanted):
        _, op = kernel.kernel()
        made = rows_program(op, target, kernel.schedule)
        if not isinstance(made, Generated):
            failed += 1
            print(f"{kernel.name} on {chip}: refused: {made}")
            continue
        inputs = kernel.arrays()
        want = kernel.meaning(*inputs)
        dtypes = result_dtypes(op)
        have = [np.full(w.shape, 99).astype(d) for w, d in zip(want, dtypes, strict=True)]
        try:
            run(code_object(made.program, target), inputs, have)
        except RuntimeError as error:
            failed += 1
            print(f"{kernel.name} on {chip}: {made.schedule}: {error}")
            continue
        for number, (w, h) in enumerate(zip(want, have, strict=True)):
            problem = kernel.problem(w, h, inputs)
            if problem:
                failed += 1
                print(f"{kernel.name} on {chip}: {made.schedule}: result {number}: {problem}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
